//! Buckets in a row. The number per server is its weight. Used by python-memcached and Cache::Memcached.

use super::hashes::short_crc32;
use super::{Placement, Servers};
use pinyon_net::address::ServerSpec;

/// How a client finds the next bucket after a failed server.
#[derive(Clone, Copy)]
pub(super) enum Rehash {
    /// python-memcached hashes the last hash and the number of the try, written as digits.
    Digits,
    /// Cache::Memcached adds the hash of the number of the try and the key.
    Sum,
}

impl Rehash {
    /// The number of buckets to try.
    fn tries(self) -> usize {
        match self {
            Rehash::Digits => 10,
            Rehash::Sum => 20,
        }
    }

    /// The hash that follows that of the given try, counted from 0.
    fn next(self, hash: u32, attempt: usize, key: &[u8]) -> u32 {
        match self {
            Rehash::Digits => short_crc32(format!("{hash}{attempt}").as_bytes()),
            Rehash::Sum => hash + short_crc32(&[(attempt + 1).to_string().as_bytes(), key].concat()),
        }
    }
}

pub(super) struct Buckets {
    owners: Vec<u16>,
    rehash: Rehash,
}

impl Buckets {
    pub(super) fn new(servers: &[ServerSpec], rehash: Rehash) -> Self {
        let bucket = |(index, server): (usize, &ServerSpec)| vec![index as u16; server.weight.whole() as usize];
        Self { owners: servers.iter().enumerate().flat_map(bucket).collect(), rehash }
    }

    fn owner(&self, hash: u32) -> usize {
        usize::from(self.owners[hash as usize % self.owners.len()])
    }
}

impl Placement for Buckets {
    fn server(&self, key: &[u8]) -> usize {
        self.owner(short_crc32(key))
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        let mut hash = short_crc32(key);
        let owner = move |attempt| {
            let owner = self.owner(hash);
            hash = self.rehash.next(hash, attempt, key);
            owner
        };
        Box::new((0..self.rehash.tries()).map(owner))
    }
}
