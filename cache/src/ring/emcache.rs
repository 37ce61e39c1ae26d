//! emcache: the server with the highest score has the key. Scores are only about a byte wide, so ties are frequent, and
//! a hash of the server decides them.

use std::cmp::Reverse;

use super::scores::{ascending, least};
use super::{Placement, Servers};
use pinyon_net::address::{Endpoint, ServerSpec};

pub(super) struct EmcacheRing {
    /// The suffix that each server adds to a key, with the score of its name.
    names: Vec<(Vec<u8>, u32)>,
}

impl EmcacheRing {
    pub(super) fn new(servers: &[ServerSpec]) -> Self {
        let names = servers.iter().map(name);
        Self { names: names.map(|name| (name.clone(), score(&name))).collect() }
    }

    fn scores<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = ((Reverse<u32>, Reverse<u32>), usize)> + 'a {
        let score = move |(name, own): &(Vec<u8>, u32)| (Reverse(score(&[key, name].concat())), Reverse(*own));
        self.names.iter().map(score).zip(0..)
    }
}

impl Placement for EmcacheRing {
    fn server(&self, key: &[u8]) -> usize {
        least(self.scores(key))
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        ascending(self.scores(key))
    }
}

fn name(server: &ServerSpec) -> Vec<u8> {
    match &server.endpoint {
        Endpoint::Tcp { host, port } => format!("{host}{port}").into_bytes(),
        Endpoint::Unix(path) => path.display().to_string().into_bytes(),
    }
}

/// emcache intends the lowest four bytes of a MurmurHash3 (x64, 128 bits, seed 0). It combines them as signed `char`s
/// with masks that keep only the sign of all but the lowest.
fn score(bytes: &[u8]) -> u32 {
    let low = murmur3_x64(bytes).to_le_bytes();
    (0..4).fold(0, |score, byte| score | (low[byte] as i8 as u32 & (u32::MAX << (8 * byte))))
}

/// The first half of the hash.
fn murmur3_x64(bytes: &[u8]) -> u64 {
    const ONE: u64 = 0x87c3_7b91_1142_53d5;
    const TWO: u64 = 0x4cf5_ad43_2745_937f;
    let first = |word: u64| word.wrapping_mul(ONE).rotate_left(31).wrapping_mul(TWO);
    let second = |word: u64| word.wrapping_mul(TWO).rotate_left(33).wrapping_mul(ONE);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let blocks = bytes.chunks_exact(16);
    let rest = blocks.remainder();
    for block in blocks {
        h1 ^= first(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= second(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    h1 ^= first(word(low)) ^ bytes.len() as u64;
    h2 ^= second(word(high)) ^ bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finished(h1).wrapping_add(finished(h2))
}

fn finished(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
