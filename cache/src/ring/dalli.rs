//! Dalli: SHA-1 for points, CRC-32 for keys.

use sha1::{Digest, Sha1};

use super::hashes::crc32;
use super::{plain_name, Placement, Servers};
use pinyon_net::address::ServerSpec;

const POINTS: u64 = 160;
const TRIES: usize = 20;

/// A key belongs to the last point at or before its hash.
pub(super) struct Dalli {
    points: Vec<(u32, u16)>,
}

impl Dalli {
    pub(super) fn new(servers: &[ServerSpec]) -> Self {
        let total: u64 = servers.iter().map(|server| u64::from(server.weight.whole())).sum();
        let mut points = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let name = plain_name(server);
            for point in 0..servers.len() as u64 * POINTS * u64::from(server.weight.whole()) / total {
                let digest = Sha1::digest(format!("{name}:{point}"));
                points.push((u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]), index as u16));
            }
        }
        points.sort_unstable();
        Self { points }
    }

    fn owner(&self, hash: u32) -> usize {
        let after = self.points.partition_point(|(point, _)| *point <= hash);
        let point = after.checked_sub(1).unwrap_or(self.points.len() - 1);
        usize::from(self.points[point].1)
    }
}

impl Placement for Dalli {
    fn server(&self, key: &[u8]) -> usize {
        self.owner(crc32(key))
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        let rehash = |attempt: usize| crc32(&[attempt.to_string().as_bytes(), key].concat());
        let hashes = std::iter::once(crc32(key)).chain((0..TRIES - 1).map(rehash));
        Box::new(hashes.map(|hash| self.owner(hash)))
    }
}
