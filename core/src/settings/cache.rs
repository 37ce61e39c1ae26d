//! The settings of a client of caches, and what a client is made of.

use pinyon_proto::{KeyRule, KeyRules};

use super::checks::{choose, positive, seconds, up_to};
use super::table::settings;
use super::{CompressionChoice, Policy, ServerTexts, TlsChoice};
use crate::address::{gutter_servers, parse_servers, usual_servers, Endpoint, ServerSpec};
use crate::dialect::{Dialect, Packing};
use crate::directory::Directory;
use crate::discovery::{DiscoverySettings, Source};
use crate::error::kinds::ErrorKind;
use crate::fleet::{Access, Fleet, FleetOptions};
use crate::invalid::InvalidArgument;
use crate::login::{Login, Password};
use crate::ring::Rule;
use crate::session::{Limits, Protocol};
use crate::ttl;

/// Unless `max_decompressed_size` is set, a decompressed value may be so many times larger than `max_value_size`.
const DECOMPRESSED: usize = 16;

settings! {
    /// The settings of a client of caches. Times are in seconds, sizes in bytes.
    pub struct CacheSettings beside ["serializer", "on_event"] {
        /// The servers; if not set, those in the environment, or else the one on this machine.
        servers: Option<ServerTexts> = None,
        /// The prefix of every key.
        namespace: Option<Vec<u8>> = None,
        /// The rule that assigns keys to servers, by its name.
        ring: String = "ketama".into(),
        /// The total time of an operation.
        timeout: f64 = 1.0,
        /// The part of that time for one connection attempt.
        connect_timeout: f64 = 0.5,
        /// Whether the keys of a server that is down go to another server.
        failover: bool = true,
        /// The result of an operation that no server carried out: "raise" or "miss".
        on_failure: String = "raise".into(),
        /// Servers that replace servers that are down.
        gutter: Option<ServerTexts> = None,
        /// The longest ttl of items in the gutter.
        gutter_ttl: f64 = 10.0,
        /// How to discover the servers, unless `servers` lists them: "config" or "dns".
        discovery: Option<String> = None,
        /// How often to look for servers.
        discovery_interval: f64 = 60.0,
        /// The duration from which a command counts as slow.
        slow_after: Option<f64> = None,
        /// The most connections that threads make to each server.
        max_connections: i64 = 64,
        /// The number of connections from each event loop to each server.
        connections: i64 = 1,
        /// Whether to send keys that memcached does not take as base64 or as a digest.
        encode_keys: bool = false,
        /// The client whose rule applies to keys that memcached does not take; if not set, see `encode_keys`.
        key_rule: Option<String> = None,
        /// The largest stored value, for writing and reading.
        max_value_size: i64 = 1024 * 1024,
        /// The largest value after decompression.
        max_decompressed_size: Option<i64> = None,
        /// Whether and how large values are compressed: true, false, an algorithm's name or a `Compression`.
        compression: Option<CompressionChoice> = None,
        /// The client whose conventions apply to stored values.
        dialect: String = "pinyon".into(),
        /// The commands to send: "auto", "meta" or "classic".
        protocol: String = "auto".into(),
        /// The most requests in flight on a connection.
        max_in_flight: i64 = 4096,
        /// The most unsent bytes that a connection keeps.
        max_unsent: i64 = 64 * 1024,
        /// Whether to use TLS, and how.
        tls: Option<TlsChoice> = None,
        /// For servers that require a login.
        username: Option<String> = None,
        /// For servers that require a login.
        password: Option<Password> = None,
    }
}

/// The parts of a client of caches.
pub struct CacheParts {
    pub directory: Directory,
    pub keys: KeyRules,
    /// Whether the ring distinguishes keys of bytes from keys of text. It hashes the former in Python's notation
    /// (`b'key'`): see [`BorrowedKey::asked_about`](crate::operations::BorrowedKey::asked_about).
    pub quotes_bytes: bool,
    pub policy: Policy,
    /// The number of connections from each event loop to each server.
    pub connections: usize,
    /// The dialect of values, and their compression.
    pub packing: Packing,
}

impl CacheSettings {
    /// Checks all settings. `events`: whether the front end takes the fleet's events.
    pub fn build(&self, events: bool) -> Result<CacheParts, InvalidArgument> {
        let servers = self.servers()?;
        let gutter = match &self.gutter {
            Some(gutter) => gutter_servers(gutter.texts(), &servers)?,
            None => Vec::new(),
        };
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let keys = KeyRules::new(namespace, self.key_rule()?)
            .map_err(|error| InvalidArgument::new(ErrorKind::InvalidKey, error.to_string()))?;
        let rule = Rule::named(&self.ring, namespace)?;
        rule.check(&servers)?;
        Rule::default().check(&gutter)?;
        let quotes_bytes = rule.quotes_bytes();
        let options = self.options(events)?;
        let policy = Policy::new(self.failover, &self.on_failure)?;
        let tls = self.tls.as_ref().map(TlsChoice::tls).transpose()?.flatten();
        let access = Access { tls, login: self.login()? };
        let directory = match self.discovery(&servers)? {
            None => Directory::fixed(Fleet::new(servers, gutter, rule, options, access)?),
            Some(discovery) => {
                Directory::discovering(Fleet::new(Vec::new(), gutter, rule, options, access)?, discovery)
            }
        };
        Ok(CacheParts {
            directory,
            keys,
            quotes_bytes,
            policy,
            connections: positive("connections", self.connections)?,
            packing: self.packing(options.limits.value)?,
        })
    }

    fn servers(&self) -> Result<Vec<ServerSpec>, InvalidArgument> {
        let servers = match &self.servers {
            Some(servers) => parse_servers(servers.texts()),
            None => usual_servers(),
        };
        Ok(servers?)
    }

    fn options(&self, events: bool) -> Result<FleetOptions, InvalidArgument> {
        Ok(FleetOptions {
            timeout: seconds("timeout", self.timeout)?,
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            max_connections: positive("max_connections", self.max_connections)?,
            limits: Limits {
                exchanges: up_to("max_in_flight", self.max_in_flight, Limits::MOST_EXCHANGES)?,
                unsent: positive("max_unsent", self.max_unsent)?,
                value: positive("max_value_size", self.max_value_size)?,
            },
            protocol: choose("protocol", &self.protocol, &Protocol::NAMES)?,
            gutter_ttl: ttl::limited("gutter_ttl", ttl::whole_seconds(self.gutter_ttl)?)?,
            events,
            slow_after: self.slow_after.map(|after| seconds("slow_after", after)).transpose()?,
        })
    }

    fn discovery(&self, servers: &[ServerSpec]) -> Result<Option<DiscoverySettings>, InvalidArgument> {
        let interval = seconds("discovery_interval", self.discovery_interval)?;
        let Some(discovery) = &self.discovery else { return Ok(None) };
        let source = choose("discovery", discovery, &[("config", Source::ClusterConfig), ("dns", Source::Names)])?;
        if let Some(path) = servers.iter().find(|server| matches!(server.endpoint, Endpoint::Unix(_))) {
            let path = path.name();
            return Err(InvalidArgument::usage(format!(
                "{path} is a path, and no servers can be discovered there: give hosts for discovery, not paths"
            )));
        }
        if let Some(endpoint) = servers.iter().find(|server| source == Source::ClusterConfig && server.weight != 1) {
            return Err(InvalidArgument::usage(format!(
                "the configuration endpoint {} has a weight, but holds no keys: leave out the :{}",
                endpoint.name(),
                endpoint.weight
            )));
        }
        let timeout = seconds("timeout", self.timeout)?;
        Ok(Some(DiscoverySettings { source, given: servers.to_vec(), interval, timeout }))
    }

    fn login(&self) -> Result<Option<Login>, InvalidArgument> {
        match (&self.username, &self.password) {
            (None, None) => Ok(None),
            (Some(username), Some(password)) => {
                Login::new(username, password.clone()).map(Some).map_err(InvalidArgument::usage)
            }
            _ => Err(InvalidArgument::usage("username and password go together: give both")),
        }
    }

    fn key_rule(&self) -> Result<KeyRule, InvalidArgument> {
        let Some(name) = &self.key_rule else { return Ok(self.encode_keys.into()) };
        let rules: Vec<_> = KeyRule::names().filter_map(|name| KeyRule::named(name).map(|rule| (name, rule))).collect();
        match choose("key_rule", name, &rules)? {
            rule if self.encode_keys && rule != KeyRule::Encoded => {
                let message = format!("encode_keys and key_rule {name:?} are two rules for keys: leave out one");
                Err(InvalidArgument::usage(message))
            }
            rule => Ok(rule),
        }
    }

    fn packing(&self, max_value_size: usize) -> Result<Packing, InvalidArgument> {
        let limit = match self.max_decompressed_size {
            Some(size) => positive("max_decompressed_size", size)?,
            None => max_value_size.saturating_mul(DECOMPRESSED),
        };
        let compression = self.compression.as_ref().and_then(CompressionChoice::settings);
        Ok(Packing::new(Dialect::named(&self.dialect)?, compression.as_deref(), limit)?)
    }
}
