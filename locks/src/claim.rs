//! The place of an attempt in the one order that all servers of a quorum share.
//!
//! It stands in the attempt's number, so a server knows it of waiters and of holders alike: sixteen hexadecimal digits,
//! of which the first says the class, thirteen the rank, and the last two differ each time that a server is asked.
//! Attempts on one server have shorter numbers, and no place.

const ASKS: u32 = 8;
const RANK: u32 = 52;

/// The highest rank, which is behind all others.
pub const LAST_RANK: u64 = (1 << RANK) - 1;

/// What an attempt claims on every server: its names, once it is first in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whether its owner holds other locks. Then it comes before those that hold none.
    pub nested: bool,
    pub rank: u64,
    /// Counts how often it has asked.
    pub asked: u8,
}

impl Claim {
    /// The attempt's number.
    pub fn number(self) -> u64 {
        let class = if self.nested { 1 } else { 2 };
        class << (RANK + ASKS) | self.rank.min(LAST_RANK) << ASKS | u64::from(self.asked)
    }
}

/// The place of the attempt with this number: lower ones come first. `None` if it has no place.
pub fn place_of(number: u64) -> Option<u64> {
    matches!(number >> (RANK + ASKS), 1 | 2).then_some(number >> ASKS)
}

/// The rank of the attempt with this number.
pub fn rank_of(number: u64) -> Option<u64> {
    place_of(number).map(|place| place & LAST_RANK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(nested: bool, rank: u64, asked: u8) -> u64 {
        place_of(Claim { nested, rank, asked }.number()).expect("claims have places")
    }

    #[test]
    fn nested_claims_come_first_and_then_lower_ranks() {
        assert!(place(true, LAST_RANK, 0) < place(false, 1, 0));
        assert!(place(false, 6, 9) < place(false, 7, 0));
        assert_eq!(place(false, 7, 0), place(false, 7, 255));
        assert_eq!(place(false, u64::MAX, 0), place(false, LAST_RANK, 0));
        assert_eq!(format!("{:x}", Claim { nested: true, rank: 0x2a, asked: 3 }.number()), "1000000000002a03");
    }

    #[test]
    fn other_attempts_have_no_place() {
        assert_eq!([0, 1, 1 << 40, u64::MAX].map(place_of), [None; 4]);
    }
}
