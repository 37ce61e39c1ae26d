//! The points of Cache::Memcached::Fast, as they are since its version 0.14, where its `ketama_points` are the 150 that it
//! recommends.

use super::circle::Circle;
use super::hashes::crc32;
use super::Ring;
use crate::address::{Endpoint, ServerSpec};

const POINTS: u32 = 150;

pub(super) fn ketama(servers: &[ServerSpec]) -> Ring {
    let mut points = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let seed = seed(server);
        let mut point = 0;
        for _ in 0..POINTS * server.weight {
            point = continued(seed, point);
            points.push((point, index as u16));
        }
    }
    Ring::new(Circle::new(points, servers.len(), crc32 as fn(&[u8]) -> u32).staying())
}

fn seed(server: &ServerSpec) -> u32 {
    let (host, port) = match &server.endpoint {
        Endpoint::Tcp { host, port } => (host.clone(), port.to_string()),
        Endpoint::Unix(path) => (path.display().to_string(), String::new()),
    };
    crc32(format!("{host}\0{port}").as_bytes())
}

/// Each point is made of the one before.
fn continued(seed: u32, point: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&point.to_le_bytes());
    hasher.finalize()
}
