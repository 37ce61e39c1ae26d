//! The rules and their names.

use std::mem::discriminant;

use super::buckets::{Buckets, Rehash};
use super::cache_memcached_fast::{self, Stretches};
use super::dalli::Dalli;
use super::hashes::{md5, one_at_a_time};
use super::libmemcached::Modula;
use super::meta_memcache::MetaRing;
use super::{emcache, libmemcached, pymemcache, Applied, Ring};
use pinyon_net::address::ServerSpec;
use pinyon_net::invalid::InvalidArgument;

/// The client with this rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scheme {
    #[default]
    Ketama,
    LibmemcachedModula,
    LibmemcachedKetama,
    LibmemcachedKetamaMd5,
    LibmemcachedSpy,
    Libmc,
    Pymemcache,
    PythonMemcached,
    MetaMemcache,
    Emcache,
    Dalli,
    CacheMemcached,
    CacheMemcachedFast,
    /// With the number of points for a server of weight 1.
    CacheMemcachedFastKetama(u16),
}

/// The value that Cache::Memcached::Fast recommends for `ketama_points`.
const KETAMA_POINTS: u16 = 150;

const NAMES: [(&str, Scheme); 14] = [
    ("ketama", Scheme::Ketama),
    ("libmemcached-modula", Scheme::LibmemcachedModula),
    ("libmemcached-ketama", Scheme::LibmemcachedKetama),
    ("libmemcached-ketama-md5", Scheme::LibmemcachedKetamaMd5),
    ("libmemcached-spy", Scheme::LibmemcachedSpy),
    ("libmc", Scheme::Libmc),
    ("pymemcache", Scheme::Pymemcache),
    ("python-memcached", Scheme::PythonMemcached),
    ("meta-memcache", Scheme::MetaMemcache),
    ("emcache", Scheme::Emcache),
    ("dalli", Scheme::Dalli),
    ("cache-memcached", Scheme::CacheMemcached),
    ("cache-memcached-fast", Scheme::CacheMemcachedFast),
    ("cache-memcached-fast-ketama", Scheme::CacheMemcachedFastKetama(KETAMA_POINTS)),
];

/// The rule that maps keys to servers. The default is libmemcached's weighted ketama.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    scheme: Scheme,
    namespace: Vec<u8>,
}

/// A rule that does not exist or cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingError(String);

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RingError {}

impl From<RingError> for InvalidArgument {
    fn from(error: RingError) -> Self {
        Self::usage(error.to_string())
    }
}

impl Rule {
    /// The rule with this name, for keys after a namespace, which some clients hash too. The name of
    /// Cache::Memcached::Fast's ketama may end with its number of points (`:160`). The error lists the names.
    pub fn named(name: &str, namespace: &[u8]) -> Result<Self, RingError> {
        let (plain, points) = name.split_once(':').map_or((name, None), |(plain, points)| (plain, Some(points)));
        let Some((_, scheme)) = NAMES.iter().find(|(known, _)| *known == plain) else {
            let names: Vec<_> = Self::names().map(|name| format!("{name:?}")).collect();
            return Err(RingError(format!("ring must be one of {}, not {name:?}", names.join(", "))));
        };
        let scheme = match (scheme, points) {
            (scheme, None) => *scheme,
            (Scheme::CacheMemcachedFastKetama(_), Some(points)) => {
                let number = points.parse().ok().filter(|number| *number > 0);
                let malformed =
                    || RingError(format!("the points of the ring {plain:?} must be from 1 to 65535, not {points:?}"));
                Scheme::CacheMemcachedFastKetama(number.ok_or_else(malformed)?)
            }
            (_, Some(points)) => {
                return Err(RingError(format!("the ring {plain:?} has no number of points: leave out \":{points}\"")))
            }
        };
        Ok(Self { scheme, namespace: namespace.to_vec() })
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Refuses servers whose weights the rule does not support.
    pub fn check(&self, servers: &[ServerSpec]) -> Result<(), RingError> {
        servers.iter().try_for_each(|server| match self.why_not(server) {
            Some(why) => Err(RingError(format!("the ring {:?} {why}", self.name()))),
            None => Ok(()),
        })
    }

    fn why_not(&self, server: &ServerSpec) -> Option<String> {
        let (weight, name) = (server.weight, server.name());
        match self.scheme {
            _ if weight == 1 => None,
            Scheme::Libmc | Scheme::Pymemcache | Scheme::MetaMemcache | Scheme::Emcache => {
                Some(format!("has no weights: leave out the {weight} of \"{name}\""))
            }
            Scheme::CacheMemcachedFastKetama(points) if cache_memcached_fast::points_of(server, points) == 0 => {
                Some(format!("gives \"{name}\" no point for its weight of {weight}: raise it, or leave out the server"))
            }
            Scheme::CacheMemcachedFast | Scheme::CacheMemcachedFastKetama(_) => None,
            _ if weight.is_whole() => None,
            _ => Some(format!("has whole weights: round the {weight} of \"{name}\", or multiply all weights")),
        }
    }

    /// Whether it distinguishes keys of bytes from keys of text. The former are then hashed in Python's notation
    /// (`b'key'`).
    pub fn quotes_bytes(&self) -> bool {
        self.scheme == Scheme::Pymemcache
    }

    /// Applies the rule to servers that [`Self::check`] accepts.
    pub fn ring(&self, servers: &[ServerSpec]) -> Ring {
        match self.scheme {
            Scheme::Ketama => Ring(Applied::Ketama(libmemcached::weighted(servers))),
            Scheme::LibmemcachedModula => Ring::new(Modula { servers: servers.len(), hash: one_at_a_time }),
            Scheme::LibmemcachedKetama => libmemcached::ketama(servers, one_at_a_time),
            Scheme::LibmemcachedKetamaMd5 => libmemcached::ketama(servers, md5),
            Scheme::Libmc => libmemcached::ketama(servers, md5).behind(&self.namespace),
            Scheme::LibmemcachedSpy => libmemcached::spy(servers),
            Scheme::Pymemcache => Ring::new(pymemcache::PymemcacheRing::new(servers)),
            Scheme::PythonMemcached => Ring::new(Buckets::new(servers, Rehash::Digits)),
            Scheme::MetaMemcache => Ring::new(MetaRing::new(servers)),
            Scheme::Emcache => Ring::new(emcache::EmcacheRing::new(servers)),
            Scheme::Dalli => Ring::new(Dalli::new(servers)).behind(&self.namespace),
            Scheme::CacheMemcached => Ring::new(Buckets::new(servers, Rehash::Sum)),
            Scheme::CacheMemcachedFast => Ring::new(Stretches::new(servers)),
            Scheme::CacheMemcachedFastKetama(points) => cache_memcached_fast::ketama(servers, points),
        }
    }

    fn name(&self) -> &'static str {
        NAMES.iter().find(|(_, scheme)| discriminant(scheme) == discriminant(&self.scheme)).map_or("", |(name, _)| name)
    }
}
