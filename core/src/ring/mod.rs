//! Which server holds a key.

mod ketama;

/// Points on a circle of 32-bit hashes, each owned by a server. A key belongs to the first point at or after its
/// own hash.
#[derive(Clone, Debug)]
pub struct Ring {
    hashes: Vec<u32>,
    owners: Vec<u16>,
    servers: usize,
    hash: fn(&[u8]) -> u32,
}

impl Ring {
    fn new(mut points: Vec<(u32, u16)>, servers: usize, hash: fn(&[u8]) -> u32) -> Self {
        points.sort_unstable();
        let (hashes, owners) = points.into_iter().unzip();
        Self { hashes, owners, servers, hash }
    }

    /// The index of the server that holds `key`.
    pub fn server(&self, key: &[u8]) -> usize {
        usize::from(self.owners[self.first_point(key)])
    }

    /// The servers that would hold `key` as those before them fail: its own first, each once.
    pub fn servers_from(&self, key: &[u8]) -> impl Iterator<Item = usize> + '_ {
        let first = self.first_point(key);
        let mut seen = vec![false; self.servers];
        let owners = self.owners[first..].iter().chain(&self.owners[..first]).map(|owner| usize::from(*owner));
        owners.filter(move |server| !std::mem::replace(&mut seen[*server], true))
    }

    fn first_point(&self, key: &[u8]) -> usize {
        let hash = (self.hash)(key);
        let point = self.hashes.partition_point(|point| *point < hash);
        if point < self.hashes.len() {
            point
        } else {
            0
        }
    }
}
