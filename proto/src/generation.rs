//! Generations: the part of a stored key that changes when its namespace is cleared.
//!
//! A key of a clearable namespace is stored as namespace, generation, and the user's key. The present generation is the value
//! of an item of its own in the namespace. To clear the namespace is to replace it: no key of the old generation is asked for
//! any more. A generation begins with the time in milliseconds and ends with chance, so none ever comes back.

use crate::KeyRules;

/// The length of a generation in a key and in its item, in bytes.
pub const GENERATION_LENGTH: usize = 11;

/// Stands in a key until the session that sends the key writes a generation there.
pub const NO_GENERATION: &[u8; GENERATION_LENGTH] = b"!!!!!!!!!!!";

/// The item with the generation, behind the namespace. No key with a generation begins so.
const ITEM: &[u8] = b"!generation";

/// How many bits of a generation are chance. The others are milliseconds.
const CHANCE: u32 = 22;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The generation of a namespace on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// A new one, for a namespace that had `before`. `milliseconds`: the time since 1970.
    pub fn new(milliseconds: u64, chance: u64, before: Option<Self>) -> Self {
        let later = before.map_or(0, |before| (before.0 >> CHANCE) + 1);
        Self(milliseconds.max(later) << CHANCE | chance & ((1 << CHANCE) - 1))
    }

    /// As it stands in keys and in its item.
    pub fn text(self) -> [u8; GENERATION_LENGTH] {
        std::array::from_fn(|index| {
            let above = 6 * (GENERATION_LENGTH - 1 - index);
            DIGITS[(self.0 >> above) as usize & 63]
        })
    }

    /// `None` if something else is stored there.
    pub fn read(text: &[u8]) -> Option<Self> {
        if text.len() != GENERATION_LENGTH {
            return None;
        }
        let number = text.iter().try_fold(0_u128, |number, byte| {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            Some(number << 6 | digit as u128)
        });
        number?.try_into().ok().map(Self)
    }

    /// Writes it into a key, or into the keys of a line, which single spaces separate. `namespace`: theirs.
    pub fn write_into(self, line: &mut [u8], namespace: &[u8]) {
        let text = self.text();
        let mut start = 0;
        while start < line.len() {
            let word = &mut line[start..];
            let length = memchr::memchr(b' ', word).unwrap_or(word.len());
            let place = namespace.len();
            if word[..length].starts_with(namespace) && word[place..length].starts_with(NO_GENERATION) {
                word[place..place + GENERATION_LENGTH].copy_from_slice(&text);
            }
            start += length + 1;
        }
    }
}

impl KeyRules {
    /// The key of the item with the generation of a clearable namespace.
    pub fn generation_key(namespace: &[u8]) -> Vec<u8> {
        [namespace, ITEM].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_new_generation_is_later_than_the_one_before_whatever_the_clock_says() {
        let first = Generation::new(1_700_000_000_000, 5, None);
        let second = Generation::new(1_600_000_000_000, 5, Some(first));
        assert!(second.0 > first.0);
        assert_eq!(Generation::new(1_800_000_000_000, u64::MAX, Some(second)).0 >> CHANCE, 1_800_000_000_000);
    }

    #[test]
    fn what_is_no_generation_is_not_read() {
        let text = Generation::new(1_700_000_000_000, 5, None).text();
        for other in [&text[1..], b"", b"!!!!!!!!!!!", b"1234567890 ", &[&text[..], b"A"].concat(), b"___________"] {
            assert_eq!(Generation::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn only_keys_of_the_namespace_get_a_generation() {
        let generation = Generation::new(1_700_000_000_000, 5, None);
        let text = String::from_utf8(generation.text().to_vec()).unwrap();
        let mut line = *b"get n:!!!!!!!!!!!a m:!!!!!!!!!!!b n:!!!!!!!!!!!!c n:!generation";
        generation.write_into(&mut line, b"n:");
        let expected = format!("get n:{text}a m:!!!!!!!!!!!b n:{text}!c n:!generation");
        assert_eq!(std::str::from_utf8(&line).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn a_generation_is_read_as_it_was_written(milliseconds in 0_u64..1 << 42, chance in any::<u64>()) {
            let generation = Generation::new(milliseconds, chance, None);
            prop_assert_eq!(Generation::read(&generation.text()), Some(generation));
            prop_assert!(!generation.text().contains(&b'!'));
        }
    }
}
