//! Cache::Memcached::Fast since its version 0.14. Its weights may have decimals.

use super::circle::Circle;
use super::hashes::{crc32, short_crc32};
use super::{Placement, Ring, Servers};
use pinyon_net::address::{Endpoint, ServerSpec};

/// With `ketama_points`: the number of points for a server of weight 1.
pub(super) fn ketama(servers: &[ServerSpec], ketama_points: u16) -> Ring {
    let mut points = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let seed = seed(server);
        let mut point = 0;
        for _ in 0..points_of(server, ketama_points) {
            point = continued(seed, point);
            points.push((point, index as u16));
        }
    }
    Ring::new(Circle::new(points, servers.len(), crc32 as fn(&[u8]) -> u32).staying())
}

/// The number of points of a server; 0 if its weight is too low for one.
pub(super) fn points_of(server: &ServerSpec, ketama_points: u16) -> u32 {
    (f64::from(ketama_points) * server.weight.number() + 0.5) as u32
}

fn seed(server: &ServerSpec) -> u32 {
    let (host, port) = match &server.endpoint {
        Endpoint::Tcp { host, port } => (host.clone(), port.to_string()),
        Endpoint::Unix(path) => (path.display().to_string(), String::new()),
    };
    crc32(format!("{host}\0{port}").as_bytes())
}

/// Each point is derived from the one before.
fn continued(seed: u32, point: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&point.to_le_bytes());
    hasher.finalize()
}

/// Without `ketama_points`: each server has an interval of the 32-bit numbers, in proportion to its weight. With whole
/// weights, keys go to the same servers as with the buckets of Cache::Memcached.
pub(super) struct Stretches {
    /// The last number of each server's interval.
    ends: Vec<u32>,
    total: f64,
}

impl Stretches {
    /// Each server takes its share from the servers before it, and the rest is rounded down. The order of these
    /// computations affects the result.
    pub(super) fn new(servers: &[ServerSpec]) -> Self {
        let (mut ends, mut total) = (Vec::<u32>::new(), 0.0);
        for server in servers {
            let weight = server.weight.number();
            total += weight;
            let share = weight / total;
            ends.iter_mut().for_each(|end| *end = (f64::from(*end) - f64::from(*end) * share) as u32);
            ends.push(u32::MAX);
        }
        Self { ends, total }
    }
}

impl Placement for Stretches {
    fn server(&self, key: &[u8]) -> usize {
        if self.ends.len() == 1 {
            return 0;
        }
        // Below a total of 0.5, the client itself divides by zero.
        let buckets = ((self.total + 0.5) as u32).max(1);
        let bucket = short_crc32(key) % buckets;
        let begin = (f64::from(bucket) / self.total * f64::from(u32::MAX) + 0.5) as u32;
        let server = self.ends.partition_point(|end| *end < begin.wrapping_add(1));
        server % self.ends.len()
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        Box::new(std::iter::once(self.server(key)))
    }
}
