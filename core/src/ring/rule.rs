//! The rules, by name.

use super::buckets::{Buckets, Rehash};
use super::dalli::Dalli;
use super::hashes::{md5, one_at_a_time};
use super::libmemcached::Modula;
use super::meta_memcache::MetaRing;
use super::{cache_memcached_fast, emcache, libmemcached, pymemcache, Applied, Ring};
use crate::address::ServerSpec;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
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
    CacheMemcachedFastKetama,
}

const NAMES: [(&str, Kind); 14] = [
    ("ketama", Kind::Ketama),
    ("libmemcached-modula", Kind::LibmemcachedModula),
    ("libmemcached-ketama", Kind::LibmemcachedKetama),
    ("libmemcached-ketama-md5", Kind::LibmemcachedKetamaMd5),
    ("libmemcached-spy", Kind::LibmemcachedSpy),
    ("libmc", Kind::Libmc),
    ("pymemcache", Kind::Pymemcache),
    ("python-memcached", Kind::PythonMemcached),
    ("meta-memcache", Kind::MetaMemcache),
    ("emcache", Kind::Emcache),
    ("dalli", Kind::Dalli),
    ("cache-memcached", Kind::CacheMemcached),
    ("cache-memcached-fast", Kind::CacheMemcachedFast),
    ("cache-memcached-fast-ketama", Kind::CacheMemcachedFastKetama),
];

/// By which client's rule keys are given to servers. The default is libmemcached's weighted ketama.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    kind: Kind,
    namespace: Vec<u8>,
}

/// A rule that there is not, or that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingError(String);

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RingError {}

impl Rule {
    /// The rule of this name, for keys behind a namespace: some clients hash it with the key. The error lists the names.
    pub fn named(name: &str, namespace: &[u8]) -> Result<Self, RingError> {
        match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => Ok(Self { kind: *kind, namespace: namespace.to_vec() }),
            None => {
                let names: Vec<_> = Self::names().map(|name| format!("{name:?}")).collect();
                Err(RingError(format!("ring is one of {}; not {name:?}", names.join(", "))))
            }
        }
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Refuses servers with weights where the rule has none.
    pub fn check(&self, servers: &[ServerSpec]) -> Result<(), RingError> {
        match servers.iter().find(|server| server.weight > 1) {
            Some(server) if !self.has_weights() => Err(RingError(format!(
                "the ring {:?} has no weights: leave out the {} of \"{}\"",
                self.name(),
                server.weight,
                server.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether it tells keys of bytes from those of text: then the former are given to the ring as Python writes them
    /// (`b'key'`).
    pub fn quotes_bytes(&self) -> bool {
        self.kind == Kind::Pymemcache
    }

    /// The rule applied to servers, which [`Self::check`] has let pass.
    pub fn ring(&self, servers: &[ServerSpec]) -> Ring {
        match self.kind {
            Kind::Ketama => Ring(Applied::Ketama(libmemcached::weighted(servers))),
            Kind::LibmemcachedModula => Ring::new(Modula { servers: servers.len(), hash: one_at_a_time }),
            Kind::LibmemcachedKetama => libmemcached::ketama(servers, one_at_a_time),
            Kind::LibmemcachedKetamaMd5 => libmemcached::ketama(servers, md5),
            Kind::Libmc => libmemcached::ketama(servers, md5).behind(&self.namespace),
            Kind::LibmemcachedSpy => libmemcached::spy(servers),
            Kind::Pymemcache => Ring::new(pymemcache::Rendezvous::new(servers)),
            Kind::PythonMemcached => Ring::new(Buckets::new(servers, Rehash::Digits)),
            Kind::MetaMemcache => Ring::new(MetaRing::new(servers)),
            Kind::Emcache => Ring::new(emcache::Rendezvous::new(servers)),
            Kind::Dalli => Ring::new(Dalli::new(servers)).behind(&self.namespace),
            Kind::CacheMemcached => Ring::new(Buckets::new(servers, Rehash::Sum)),
            Kind::CacheMemcachedFast => Ring::new(Buckets::new(servers, Rehash::Never)),
            Kind::CacheMemcachedFastKetama => cache_memcached_fast::ketama(servers),
        }
    }

    fn has_weights(&self) -> bool {
        !matches!(self.kind, Kind::Libmc | Kind::Pymemcache | Kind::MetaMemcache | Kind::Emcache)
    }

    fn name(&self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name)
    }
}
