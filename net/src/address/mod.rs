//! Addresses of servers: as users write them, and as sockets take them.
//!
//! This room reads server lists, `MEMCACHE_SERVERS` and Redis URLs. No message shows a URL's password, or anything
//! that may be a part of it.

mod percent;
mod redis_parameters;
mod redis_servers;
mod redis_url;
mod servers;
mod weight;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

pub use redis_parameters::TlsParameters;
pub use redis_servers::RedisServers;
pub use redis_url::RedisUrl;
pub use redis_url::SentinelService;
pub use servers::{gutter_servers, parse_servers, usual_servers};
pub use servers::{ServerSpec, DEFAULT_PORT, DEFAULT_SERVER};
pub use weight::Weight;

use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// An address to connect to. A host name resolves to one or more of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Endpoint {
    /// The addresses, or the name and port to resolve. `localhost` is this machine; no resolver is asked (RFC 6761,
    /// 6.3).
    pub fn addresses(&self) -> Result<Vec<Address>, (&str, u16)> {
        let (host, port) = match self {
            Endpoint::Unix(path) => return Ok(vec![Address::Unix(path.clone())]),
            Endpoint::Tcp { host, port } => (host, *port),
        };
        let tcp = |ip: IpAddr| Address::Tcp(SocketAddr::new(ip, port));
        match host.parse() {
            Ok(ip) => Ok(vec![tcp(ip)]),
            Err(_) if host.eq_ignore_ascii_case("localhost") => {
                Ok(vec![tcp(Ipv4Addr::LOCALHOST.into()), tcp(Ipv6Addr::LOCALHOST.into())])
            }
            Err(_) => Err((host, port)),
        }
    }
}

/// A server list or URL that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerListError(String);

impl std::fmt::Display for ServerListError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerListError {}

impl From<ServerListError> for InvalidArgument {
    fn from(error: ServerListError) -> Self {
        Self::new(ErrorKind::InvalidServers, error.to_string())
    }
}
