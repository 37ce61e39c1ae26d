//! Hash functions that several rings share.

use md5::Digest;

/// A rule's hash function for keys.
pub(super) trait KeyHash: Send + Sync {
    fn of(&self, key: &[u8]) -> u32;
}

impl KeyHash for fn(&[u8]) -> u32 {
    fn of(&self, key: &[u8]) -> u32 {
        self(key)
    }
}

/// [`md5`] as a type, so that the compiler can inline it.
pub(super) struct Md5;

impl KeyHash for Md5 {
    #[inline]
    fn of(&self, key: &[u8]) -> u32 {
        md5(key)
    }
}

/// Jenkins's one-at-a-time as libmemcached computes it on x86. C's `char` is signed there: bytes from 0x80 on are
/// negative.
pub(super) fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mixed = bytes.iter().fold(0_u32, |hash, byte| {
        let hash = hash.wrapping_add(*byte as i8 as u32);
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    let mixed = mixed.wrapping_add(mixed << 3);
    let mixed = mixed ^ (mixed >> 11);
    mixed.wrapping_add(mixed << 15)
}

/// The MD5 as four little-endian numbers.
pub(super) fn md5_words(bytes: &[u8]) -> [u32; 4] {
    let digest = md5::Md5::digest(bytes);
    std::array::from_fn(|word| {
        u32::from_le_bytes([digest[4 * word], digest[4 * word + 1], digest[4 * word + 2], digest[4 * word + 3]])
    })
}

/// The first of them. Not inlined, so that a client with one server, which hashes nothing, does not set up a stack for
/// it.
#[inline(never)]
pub(super) fn md5(bytes: &[u8]) -> u32 {
    let digest = md5::Md5::digest(bytes);
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC of the first clients: only fifteen of its bits.
pub(super) fn short_crc32(bytes: &[u8]) -> u32 {
    (crc32(bytes) >> 16) & 0x7fff
}
