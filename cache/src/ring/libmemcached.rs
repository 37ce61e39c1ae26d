//! The distributions of libmemcached and of clients that follow it.

use super::circle::Circle;
use super::hashes::{md5_words, Md5};
use super::{Placement, Ring, Servers};
use pinyon_net::address::{Endpoint, ServerSpec, DEFAULT_PORT};

const POINTS: u32 = 100;
const WEIGHTED_POINTS: f32 = 160.0;
const POINTS_PER_DIGEST: f32 = 4.0;

/// `ketama_weighted`: MD5 for points and keys.
pub(super) fn weighted(servers: &[ServerSpec]) -> Circle<Md5> {
    Circle::new(weighted_points(servers, point_name), servers.len(), Md5)
}

/// `ketama`: one hash for points and keys. If any weight exceeds 1, the points, but not the keys, are those of
/// `ketama_weighted`.
pub(super) fn ketama(servers: &[ServerSpec], hash: fn(&[u8]) -> u32) -> Ring {
    let points = match servers.iter().any(|server| server.weight.whole() > 1) {
        true => weighted_points(servers, point_name),
        false => even_points(servers, hash),
    };
    Ring::new(Circle::new(points, servers.len(), hash))
}

/// `ketama_weighted` with spymemcached's points.
pub(super) fn spy(servers: &[ServerSpec]) -> Ring {
    Ring::new(Circle::new(weighted_points(servers, spy_name), servers.len(), Md5))
}

fn even_points(servers: &[ServerSpec], hash: fn(&[u8]) -> u32) -> Vec<(u32, u16)> {
    let point = |(index, server): (usize, &ServerSpec)| {
        let name = point_name(server);
        (0..POINTS).map(move |point| (hash(format!("{name}-{point}").as_bytes()), index as u16))
    };
    servers.iter().enumerate().flat_map(point).collect()
}

fn weighted_points(servers: &[ServerSpec], name: fn(&ServerSpec) -> String) -> Vec<(u32, u16)> {
    let total: u32 = servers.iter().map(|server| server.weight.whole()).sum();
    let mut points = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let name = name(server);
        for digest in 0..digests(server.weight.whole(), total, servers.len()) {
            points.extend(md5_words(format!("{name}-{digest}").as_bytes()).map(|word| (word, index as u16)));
        }
    }
    points
}

/// Shares of points are computed in 32-bit floating point, so 25 equal servers have 156 points each, not 160.
fn digests(weight: u32, total: u32, servers: usize) -> u32 {
    let share = weight as f32 / total as f32;
    let exact = share * WEIGHTED_POINTS / POINTS_PER_DIGEST * servers as f32;
    (f64::from(exact) + 1e-10) as f32 as u32
}

/// memcached's default port is omitted. A Unix socket counts as port 0.
fn point_name(server: &ServerSpec) -> String {
    match &server.endpoint {
        Endpoint::Tcp { host, port: DEFAULT_PORT } => host.clone(),
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        Endpoint::Unix(path) => format!("{}:0", path.display()),
    }
}

fn spy_name(server: &ServerSpec) -> String {
    match &server.endpoint {
        Endpoint::Tcp { host, port } => format!("/{host}:{port}"),
        Endpoint::Unix(path) => format!("/{}:0", path.display()),
    }
}

/// `modula`: the hash modulo the number of servers, regardless of weights and of servers that are down.
pub(super) struct Modula {
    pub(super) servers: usize,
    pub(super) hash: fn(&[u8]) -> u32,
}

impl Placement for Modula {
    fn server(&self, key: &[u8]) -> usize {
        (self.hash)(key) as usize % self.servers
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        Box::new(std::iter::once(self.server(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_computed_in_single_precision() {
        assert_eq!(digests(1, 25, 25) * 4, 156);
        assert_eq!([digests(1, 6, 3) * 4, digests(2, 6, 3) * 4, digests(3, 6, 3) * 4], [80, 160, 240]);
    }
}
