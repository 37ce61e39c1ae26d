//! pymemcache's `HashClient`: the server with the highest score has the key.

use std::cmp::Reverse;

use super::scores::{ascending, least};
use super::{plain_name, Placement, Servers};
use pinyon_net::address::ServerSpec;

pub(super) struct PymemcacheRing {
    /// The prefix that each server adds to a key, highest first: among equal scores, the greater name wins.
    names: Vec<(Vec<u8>, usize)>,
}

impl PymemcacheRing {
    pub(super) fn new(servers: &[ServerSpec]) -> Self {
        let mut named: Vec<(String, usize)> = servers.iter().map(plain_name).zip(0..).collect();
        named.sort_by(|(one, _), (other, _)| other.cmp(one));
        Self { names: named.into_iter().map(|(name, server)| (low_bytes(&format!("{name}-")), server)).collect() }
    }

    fn scores(&self, key: &[u8]) -> impl Iterator<Item = (Reverse<u32>, usize)> + '_ {
        let mut text = Vec::new();
        let key = std::str::from_utf8(key).map_or_else(|_| key.to_vec(), low_bytes);
        self.names.iter().map(move |(name, server)| {
            text.clear();
            text.extend_from_slice(name);
            text.extend_from_slice(&key);
            (Reverse(murmur3_32(&text)), *server)
        })
    }
}

impl Placement for PymemcacheRing {
    fn server(&self, key: &[u8]) -> usize {
        least(self.scores(key))
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        ascending(self.scores(key))
    }
}

/// pymemcache hashes only the low byte of each character.
fn low_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| character as u8).collect()
}

/// MurmurHash3, 32 bits, seed 0.
fn murmur3_32(bytes: &[u8]) -> u32 {
    let scramble = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = bytes.split_at(bytes.len() & !3);
    let body = words.chunks_exact(4).fold(0_u32, |hash, word| {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        (hash ^ scramble(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let tail = rest.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    let hash = body ^ scramble(tail) ^ bytes.len() as u32;
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
