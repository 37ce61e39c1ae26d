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

/// How many times larger than `max_value_size` a value may be when it is decompressed, unless `max_decompressed_size`
/// says otherwise.
const DECOMPRESSED: usize = 16;

settings! {
    /// The settings of a client of caches. Times are in seconds, sizes in bytes.
    pub struct CacheSettings beside ["serializer", "on_event"] {
        /// The servers; without any, those of the environment, or the one on this machine.
        servers: Option<ServerTexts> = None,
        /// Put before every key.
        namespace: Option<Vec<u8>> = None,
        /// The rule that assigns keys to servers, by its name.
        ring: String = "ketama".into(),
        /// How long an operation may take, all in all.
        timeout: f64 = 1.0,
        /// How much of that making a connection may take.
        connect_timeout: f64 = 0.5,
        /// The keys of a server that is down go to another server.
        failover: bool = true,
        /// What an operation does that no server carried out: "raise" or "miss".
        on_failure: String = "raise".into(),
        /// Servers that take the keys of those that are down.
        gutter: Option<ServerTexts> = None,
        /// How long items live in the gutter at most.
        gutter_ttl: f64 = 10.0,
        /// How to discover the servers, unless `servers` lists them: "config" or "dns".
        discovery: Option<String> = None,
        /// How often to look for servers.
        discovery_interval: f64 = 60.0,
        /// How long a command may take before it is slow.
        slow_after: Option<f64> = None,
        /// How many connections threads make to each server at most.
        max_connections: i64 = 64,
        /// How many connections each event loop makes to each server.
        connections: i64 = 1,
        /// Send keys that memcached does not take as base64 or as a digest.
        encode_keys: bool = false,
        /// The client by whose rule keys are sent that memcached does not take; without it, as `encode_keys` says.
        key_rule: Option<String> = None,
        /// The largest value stored or read, as it is stored.
        max_value_size: i64 = 1024 * 1024,
        /// The largest value read, once it is decompressed.
        max_decompressed_size: Option<i64> = None,
        /// Whether and how large values are compressed: true, false, an algorithm's name or a `Compression`.
        compression: Option<CompressionChoice> = None,
        /// The client by whose conventions values are stored and read.
        dialect: String = "pinyon".into(),
        /// Which commands are sent: "auto", "meta" or "classic".
        protocol: String = "auto".into(),
        /// How many requests a connection has in flight at most.
        max_in_flight: i64 = 4096,
        /// How many bytes a connection keeps that are submitted and not yet sent.
        max_unsent: i64 = 64 * 1024,
        /// Whether to speak TLS, and how.
        tls: Option<TlsChoice> = None,
        /// For servers that require a login.
        username: Option<String> = None,
        /// For servers that require a login.
        password: Option<Password> = None,
    }
}

/// What a client of caches is made of.
pub struct CacheParts {
    pub directory: Directory,
    pub keys: KeyRules,
    /// The ring tells keys of bytes from those of text: it is asked about the former as Python writes them (`b'key'`).
    /// See [`BorrowedKey::asked_about`](crate::operations::BorrowedKey::asked_about).
    pub quotes_bytes: bool,
    pub policy: Policy,
    /// How many connections each event loop makes to each server.
    pub connections: usize,
    /// The dialect of values, and how they are compressed.
    pub packing: Packing,
}

impl CacheSettings {
    /// Checks all settings. `events`: the front end takes the fleet's events.
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
