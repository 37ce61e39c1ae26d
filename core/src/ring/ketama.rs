//! libmemcached's weighted ketama, exact to the last key.

use md5::{Digest, Md5};

use super::Ring;
use crate::address::{Endpoint, ServerSpec, DEFAULT_PORT};

const POINTS_PER_SERVER: f32 = 160.0;
const POINTS_PER_DIGEST: usize = 4;

impl Ring {
    /// The ring of libmemcached's `ketama_weighted` behaviour, with MD5 for points and keys.
    ///
    /// A server's share of points is computed in 32-bit floating point, as libmemcached does it: 25 equal servers
    /// have 156 points each, not 160.
    pub fn ketama_weighted(servers: &[ServerSpec]) -> Self {
        let total: u32 = servers.iter().map(|server| server.weight).sum();
        let mut points = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let name = point_name(server);
            for digest_index in 0..digests(server.weight, total, servers.len()) {
                let digest = Md5::digest(format!("{name}-{digest_index}"));
                for word in digest.chunks_exact(4).take(POINTS_PER_DIGEST) {
                    points.push((u32::from_le_bytes(word.try_into().expect("4 bytes")), index as u16));
                }
            }
        }
        Self::new(points, servers.len(), key_hash)
    }
}

fn digests(weight: u32, total: u32, servers: usize) -> u32 {
    let share = weight as f32 / total as f32;
    let exact = share * POINTS_PER_SERVER / POINTS_PER_DIGEST as f32 * servers as f32;
    (f64::from(exact) + 1e-10) as f32 as u32
}

/// The port is left out when it is memcached's own; a Unix socket counts as port 0.
fn point_name(server: &ServerSpec) -> String {
    match &server.endpoint {
        Endpoint::Tcp { host, port: DEFAULT_PORT } => host.clone(),
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        Endpoint::Unix(path) => format!("{}:0", path.display()),
    }
}

fn key_hash(key: &[u8]) -> u32 {
    let digest = Md5::digest(key);
    u32::from_le_bytes(digest[..4].try_into().expect("4 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_servers;

    #[test]
    fn shares_are_computed_in_single_precision() {
        assert_eq!(digests(1, 25, 25) * 4, 156);
        assert_eq!([digests(1, 6, 3) * 4, digests(2, 6, 3) * 4, digests(3, 6, 3) * 4], [80, 160, 240]);
    }

    #[test]
    fn keys_are_where_libmemcached_puts_them() {
        let vectors: serde_json::Value = serde_json::from_str(include_str!("../../../vectors/rings.json")).unwrap();
        let keys: Vec<Vec<u8>> =
            vectors["keys_hex"].as_array().unwrap().iter().map(|key| unhex(key.as_str().unwrap())).collect();
        for (name, fleet) in vectors["libmemcached_1_1_4"].as_object().unwrap() {
            let ring = Ring::ketama_weighted(&servers(&fleet["servers"]));
            let expected: Vec<usize> = serde_json::from_value(fleet["ketama_weighted"].clone()).unwrap();
            let found: Vec<usize> = keys.iter().map(|key| ring.server(key)).collect();
            assert_eq!(found, expected, "fleet {name}");
        }
    }

    #[test]
    fn a_key_has_every_server_to_fall_back_on_once() {
        let servers = parse_servers(["a,b,c,d:1:3"]).unwrap();
        let ring = Ring::ketama_weighted(&servers);
        for key in 0..100 {
            let mut order: Vec<usize> = ring.servers_from(format!("key{key}").as_bytes()).collect();
            assert_eq!(order[0], ring.server(format!("key{key}").as_bytes()));
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
    }

    fn servers(list: &serde_json::Value) -> Vec<ServerSpec> {
        let texts = list
            .as_array()
            .unwrap()
            .iter()
            .map(|server| format!("{}:{}:{}", server[0].as_str().unwrap(), server[1], server[2]));
        parse_servers(texts.collect::<Vec<_>>().iter().map(String::as_str)).unwrap()
    }

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }
}
