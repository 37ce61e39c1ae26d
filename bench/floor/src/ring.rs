//! Maps keys to servers by libmemcached's weighted ketama with equal weights, so that every server gets the same keys
//! from the floor as from Pinyon.

use md5::{Digest, Md5};

const HASHES_PER_SERVER: usize = 40;
const POINTS_PER_HASH: usize = 4;
const DEFAULT_PORT: &str = ":11211";

/// Points in ascending order, each with its server's number.
pub struct Ring(Vec<(u32, usize)>);

impl Ring {
    /// Returns the ring of these `host:port` names.
    pub fn new(servers: &[String]) -> Ring {
        let mut points = Vec::with_capacity(servers.len() * HASHES_PER_SERVER * POINTS_PER_HASH);
        for (number, server) in servers.iter().enumerate() {
            let name = server.strip_suffix(DEFAULT_PORT).unwrap_or(server);
            for index in 0..HASHES_PER_SERVER {
                let digest = Md5::digest(format!("{name}-{index}"));
                points.extend((0..POINTS_PER_HASH).map(|part| (part_of(&digest, part), number)));
            }
        }
        points.sort_unstable();
        Ring(points)
    }

    /// Returns the number of the server that has the key.
    pub fn server_of(&self, key: &[u8]) -> usize {
        let hash = part_of(&Md5::digest(key), 0);
        let at = self.0.partition_point(|&(point, _)| point < hash);
        self.0[at % self.0.len()].1
    }
}

fn part_of(digest: &[u8], part: usize) -> u32 {
    let start = part * 4;
    u32::from_le_bytes([digest[start], digest[start + 1], digest[start + 2], digest[start + 3]])
}
