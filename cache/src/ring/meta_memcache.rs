//! meta-memcache: uhashring's circle of 128-bit hashes.

use md5::{Digest, Md5};

use super::{Placement, Servers};
use pinyon_net::address::ServerSpec;

const POINTS: u32 = 160;

/// A key belongs to the first point after its hash.
pub(super) struct MetaRing {
    points: Vec<(u128, u16)>,
}

impl MetaRing {
    pub(super) fn new(servers: &[ServerSpec]) -> Self {
        let point = |(index, server): (usize, &ServerSpec)| {
            let name = server.name();
            (0..POINTS).map(move |point| (hash(format!("{name}-{point}").as_bytes()), index as u16))
        };
        let mut points: Vec<_> = servers.iter().enumerate().flat_map(point).collect();
        points.sort_unstable();
        Self { points }
    }
}

impl Placement for MetaRing {
    fn server(&self, key: &[u8]) -> usize {
        let hash = hash(key);
        let point = self.points.partition_point(|(point, _)| *point <= hash);
        usize::from(self.points[point % self.points.len()].1)
    }

    /// The client marks a failed server down, and its keys go nowhere.
    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        Box::new(std::iter::once(self.server(key)))
    }
}

fn hash(bytes: &[u8]) -> u128 {
    u128::from_be_bytes(Md5::digest(bytes).into())
}
