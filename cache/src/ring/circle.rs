//! A circle of 32-bit hashes with points on it. Each point belongs to a server.

use super::hashes::KeyHash;
use super::{Placement, Servers};

/// A key belongs to the first point at or after its hash.
pub(super) struct Circle<H> {
    hashes: Vec<u32>,
    /// The first owner is repeated after the last one.
    owners: Vec<u16>,
    servers: usize,
    hash: H,
    moves_on: bool,
}

impl<H: KeyHash> Circle<H> {
    /// `points`: hashes, each with the index of its server. `hash`: the hash function for keys. The keys of a failed
    /// server go to the next point of another server.
    pub(super) fn new(mut points: Vec<(u32, u16)>, servers: usize, hash: H) -> Self {
        points.sort_unstable();
        let (hashes, mut owners): (_, Vec<u16>) = points.into_iter().unzip();
        owners.extend(owners.first().copied());
        Self { hashes, owners, servers, hash, moves_on: true }
    }

    /// The same circle, but the keys of a failed server go nowhere.
    pub(super) fn staying(self) -> Self {
        Self { moves_on: false, ..self }
    }

    /// The first point at or after the key's hash, or the end of the list.
    fn first_point(&self, key: &[u8]) -> usize {
        let hash = self.hash.of(key);
        self.hashes.partition_point(|point| *point < hash)
    }
}

impl<H: KeyHash> Placement for Circle<H> {
    #[inline]
    fn server(&self, key: &[u8]) -> usize {
        usize::from(self.owners[self.first_point(key)])
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        let first = self.first_point(key);
        let mut seen = vec![false; self.servers];
        let owners = self.owners[first..].iter().chain(&self.owners[..first]).map(|owner| usize::from(*owner));
        let servers = owners.filter(move |server| !std::mem::replace(&mut seen[*server], true));
        Box::new(servers.take(if self.moves_on { self.servers } else { 1 }))
    }
}
