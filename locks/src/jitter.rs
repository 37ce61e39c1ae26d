//! Numbers that keep clients from doing the same at the same time.

use pinyon_net::random;

/// A sequence of its own for each client.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    /// One that no other process has.
    pub(super) fn new() -> Self {
        let random = random::bytes().expect("the kernel has random bytes for pauses");
        Self(u64::from_ne_bytes(random) | 1)
    }

    pub(super) fn of(client: &str) -> Self {
        let hashed = client
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(hashed | 1)
    }

    /// The next number below `most`.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
