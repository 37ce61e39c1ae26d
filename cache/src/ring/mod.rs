//! Maps keys to servers, by libmemcached's rule or exactly as another client does.
//!
//! A [`Rule`] is chosen by name, and makes a [`Ring`] from the servers in use. Each family of rules has a file: points
//! on a circle ([`libmemcached`], [`dalli`], [`cache_memcached_fast`], [`meta_memcache`]), buckets in a row
//! ([`buckets`]), and scores ([`pymemcache`], [`emcache`]).
//!
//! A rule also says where keys go, in turn, as servers fail; [`health`](crate::health) knows whether they have failed.
//! A ring looks at the key without its namespace. Rules that also hash the namespace receive it once, when they are
//! made. Dalli's ring looks at the key that its key rule has shortened.
//!
//! The tests compare every rule with its own client (`docs/rings.md`), and write the vectors.

mod buckets;
mod cache_memcached_fast;
mod circle;
mod dalli;
mod emcache;
mod hashes;
mod libmemcached;
mod meta_memcache;
mod pymemcache;
mod rule;
mod scores;

#[cfg(test)]
mod tests;

pub use rule::Rule;

use self::circle::Circle;
use self::hashes::Md5;
use pinyon_net::address::{Endpoint, ServerSpec};

/// The servers that hold a key as those before them fail, by index. The key's own is first. A server may occur
/// repeatedly.
type Servers<'a> = Box<dyn Iterator<Item = usize> + 'a>;

/// Maps keys to server indexes, as one client does.
trait Placement: Send + Sync {
    fn server(&self, key: &[u8]) -> usize;
    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a>;
}

/// A rule applied to servers.
pub struct Ring(Applied);

enum Applied {
    /// The default rule, on the path of most operations. The compiler can inline its calls.
    Ketama(Circle<Md5>),
    Named(Box<dyn Placement>),
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    fn new(placement: impl Placement + 'static) -> Self {
        Self(Applied::Named(Box::new(placement)))
    }

    /// The index of the server that holds `key`.
    #[inline]
    pub fn server(&self, key: &[u8]) -> usize {
        match &self.0 {
            Applied::Ketama(circle) => circle.server(key),
            Applied::Named(placement) => placement.server(key),
        }
    }

    /// The servers that hold `key` as those before them fail: its own first, then those that the rule's client would
    /// try, until it gives up. A server may occur repeatedly.
    pub fn servers_from<'a>(&'a self, key: &'a [u8]) -> Box<dyn Iterator<Item = usize> + 'a> {
        match &self.0 {
            Applied::Ketama(circle) => circle.servers_from(key),
            Applied::Named(placement) => placement.servers_from(key),
        }
    }

    /// The same ring for keys after a namespace.
    fn behind(self, namespace: &[u8]) -> Self {
        match namespace {
            [] => self,
            _ => Self::new(Behind { namespace: namespace.to_vec(), ring: self }),
        }
    }
}

/// A server in the notation of several clients: `host:port` without brackets, or the path.
fn plain_name(server: &ServerSpec) -> String {
    match &server.endpoint {
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        Endpoint::Unix(path) => path.display().to_string(),
    }
}

/// A ring that hashes the namespace together with the key.
struct Behind {
    namespace: Vec<u8>,
    ring: Ring,
}

impl Placement for Behind {
    fn server(&self, key: &[u8]) -> usize {
        self.ring.server(&[&self.namespace, key].concat())
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> Servers<'a> {
        let servers: Vec<usize> = self.ring.servers_from(&[&self.namespace, key].concat()).collect();
        Box::new(servers.into_iter())
    }
}
