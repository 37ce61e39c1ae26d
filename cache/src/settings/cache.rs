//! The settings of a client of caches, and what a client is made of.

use std::sync::Arc;
use std::time::Duration;

use pinyon_proto::{KeyRule, KeyRules};

use pinyon_net::settings;
use pinyon_net::settings::{keepalive, positive, seconds, up_to, ServerTexts, TlsChoice};

use super::{CompressionChoice, NearChoice};
use crate::dialect::{Dialect, Packing};
use crate::directory::Directory;
use crate::discovery::{DiscoverySettings, Source};
use crate::fleet::{Access, Fleet, FleetOptions};
use crate::near::Near;
use crate::operations::Policy;
use crate::ring::Rule;
use crate::session::{Clearing, Limits, Protocol};
use crate::tags::KnownTags;
use crate::ttl::{self, DefaultTtl};
use pinyon_net::address::{gutter_servers, parse_servers, usual_servers, Endpoint, ServerSpec};
use pinyon_net::credentials::{Credentials, Login, LoginBy, Password, Supplied};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::{choose, InvalidArgument};

/// Unless `max_decompressed_size` is set, a decompressed value may be so many times larger than `max_value_size`.
const DECOMPRESSED: usize = 16;

settings! {
    /// The settings of a client of caches. Times are in seconds, sizes in bytes.
    pub struct CacheSettings beside ["serializer", "on_event"] elsewhere super::elsewhere::NAMES {
        /// The servers: `"host[:port[:weight]]"`, `"[v6]:port"` or `"/unix/path"`; several as a list, or separated by
        /// commas. Without it, the environment variable `MEMCACHE_SERVERS`, or else `127.0.0.1:11211`.
        servers: Option<ServerTexts> = None,
        /// A prefix for every key, which gets nothing in between: end it with a separator, such as `shop:`.
        namespace: Option<Vec<u8>> = None,
        /// Whether the namespace can be cleared, by `clear_namespace`. All clients that share the namespace must agree.
        clearable: bool = false,
        /// How long other processes may use a namespace after it was cleared, and values after one of their tags was
        /// invalidated, in seconds. 0 asks before every command, in the same send, and for the tags of each value.
        generation_ttl: f64 = 1.0,
        /// The rule that assigns keys to servers: `"ketama"`, or the name of the client whose rule it is, such as
        /// `"dalli"`. The page "Rings" lists all of them.
        ring: String = "ketama".into(),
        /// How long an operation may take, in seconds, including connecting and retries.
        timeout: f64 = 1.0,
        /// How much of `timeout` a connection attempt may take, in seconds.
        connect_timeout: f64 = 0.5,
        /// The ttl, in seconds, of values that are stored without one. 0 never expires.
        default_ttl: f64 = 0.0,
        /// Whether the keys of a server that is down go to another server, or fail at once.
        failover: bool = true,
        /// Whether an operation raises an error (`"raise"`), or returns what an empty cache would (`"miss"`), when no
        /// server could carry it out, or when its value is too large or the server is full.
        on_failure: String = "raise".into(),
        /// What reading does with a stored value that cannot be read: `"raise"` an error, or treat it as missing
        /// (`"miss"`). `get_or_set` and leases have such a value made anew in either case.
        on_unreadable: String = "raise".into(),
        /// Servers that take the keys of servers that are down, written like `servers`. Without it, the next server of
        /// the ring takes them.
        gutter: Option<ServerTexts> = None,
        /// The longest ttl of items in the gutter, in seconds, up to 30 days. Longer ttls are cut to it.
        gutter_ttl: f64 = 10.0,
        /// How to discover the servers, if `servers` does not list them. `"config"`: `servers` are configuration
        /// endpoints, as in ElastiCache and Memorystore. `"dns"`: `servers` are names, and each of their addresses is a
        /// server.
        discovery: Option<String> = None,
        /// How often to look for added and removed servers, in seconds.
        discovery_interval: f64 = 60.0,
        /// The duration, in seconds, from which a command counts as slow and causes an event. Without it, no command
        /// does.
        slow_after: Option<f64> = None,
        /// How many connections threads make to each server at most. Further threads wait for a free one.
        max_connections: i64 = 64,
        /// The number of connections from each event loop to each server.
        connections: i64 = 1,
        /// Whether to send keys with spaces or control characters as base64, and long keys as a digest. Otherwise such
        /// keys are refused.
        encode_keys: bool = false,
        /// The client whose rule is used for keys that memcached does not accept, to share a cache with it. Without it,
        /// `encode_keys` decides.
        key_rule: Option<String> = None,
        /// The largest value that is stored or read, in bytes, after compression.
        max_value_size: i64 = 1024 * 1024,
        /// The largest value that is read, in bytes, after decompression. Without it, 16 times `max_value_size`.
        max_decompressed_size: Option<i64> = None,
        /// How to compress large values: `true` as the dialect does, an algorithm, or a `Compression` with more
        /// settings. Compressed values are read in any case.
        compression: Option<CompressionChoice> = None,
        /// Whether to keep keys that are read often in this process's memory, for all threads and event loops of the client:
        /// `true`, or a `Near` with more settings. Another process's write of such a key may go unnoticed for so long.
        near: Option<NearChoice> = None,
        /// The client whose format of stored values is used, to share a cache with it.
        dialect: String = "pinyon".into(),
        /// Which commands are sent. `"auto"`: meta commands if the server takes them, or else classic text. `"meta"`: meta
        /// commands. `"classic"`: classic text, for proxies that do not even answer `version`.
        protocol: String = "auto".into(),
        /// How many requests a connection has in flight at most. Further requests wait.
        max_in_flight: i64 = 4096,
        /// How many bytes of unsent requests a connection holds. Further requests wait.
        max_unsent: i64 = 64 * 1024,
        /// How long a connection may be silent, in seconds, before the system asks whether the server is still there.
        /// Firewalls forget silent connections after some minutes. 0 never asks.
        keepalive: f64 = 60.0,
        /// The time between two such questions, in seconds, while none is answered.
        keepalive_interval: f64 = 15.0,
        /// How many such questions may remain unanswered before the connection counts as lost.
        keepalive_probes: i64 = 4,
        /// `true` to speak TLS and to trust the certificates that the system trusts, or a `Tls` with more settings.
        tls: Option<TlsChoice> = None,
        /// The user name, for servers that require a login (memcached's option `-Y`); or a function that returns it, or
        /// both. It is called before each connection.
        username: Option<Supplied<String>> = None,
        /// The password that belongs to `username`, or a function that returns it, or both.
        password: Option<Supplied<Password>> = None,
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
    /// The ttl of values that are stored without one.
    pub default_ttl: DefaultTtl,
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
        let options = self.options(events)?;
        let near =
            self.near.as_ref().and_then(NearChoice::settings).map(|near| near.limits(options.timeout)).transpose()?;
        let near = near.map(|limits| Arc::new(Near::new(limits)));
        let (keys, clearing) = self.clearing(keys, near.as_ref())?;
        let has_tags = Dialect::named(&self.dialect)? == Dialect::Pinyon;
        let tags = has_tags.then_some(KnownTags::new(keys.clone(), self.generation_ttl()?).into());
        let rule = Rule::named(&self.ring, namespace)?;
        rule.check(&servers)?;
        Rule::default().check(&gutter)?;
        let quotes_bytes = rule.quotes_bytes();
        let policy = Policy::new(self.failover, &self.on_failure, &self.on_unreadable)?;
        let tls = self.tls.as_ref().map(TlsChoice::tls).transpose()?.flatten();
        let access = Access { tls, login: self.login(options.timeout)?, clearing, near, tags };
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
            default_ttl: DefaultTtl::new(self.default_ttl)?,
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
            keepalive: keepalive(self.keepalive, self.keepalive_interval, self.keepalive_probes)?,
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

    fn login(&self, timeout: Duration) -> Result<Option<LoginBy>, InvalidArgument> {
        match Credentials::new(self.username.clone(), self.password.clone(), timeout) {
            Ok(asked) => Ok(Some(LoginBy::Asking(asked))),
            Err((None, None)) => Ok(None),
            Err((Some(username), Some(password))) => {
                Login::new(&username, password).map(|login| Some(LoginBy::Fixed(login))).map_err(InvalidArgument::usage)
            }
            Err(_) => Err(InvalidArgument::usage("username and password go together: give both")),
        }
    }

    fn generation_ttl(&self) -> Result<Duration, InvalidArgument> {
        match self.generation_ttl {
            0.0 => Ok(Duration::ZERO),
            ttl => seconds("generation_ttl", ttl),
        }
    }

    /// The rules for keys, and the namespace if it can be cleared.
    fn clearing(
        &self,
        keys: KeyRules,
        near: Option<&Arc<Near>>,
    ) -> Result<(KeyRules, Option<Arc<Clearing>>), InvalidArgument> {
        let ttl = self.generation_ttl()?;
        if !self.clearable {
            return Ok((keys, None));
        }
        if keys.namespace().is_empty() {
            return Err(InvalidArgument::usage(
                "clearable needs a namespace: set namespace to a prefix, such as \"shop:\"",
            ));
        }
        if !matches!(keys.rule(), KeyRule::Refused | KeyRule::Encoded) {
            return Err(InvalidArgument::usage(
                "clearable and key_rule do not go together: the other client does not know the generation in the keys",
            ));
        }
        let clearing = Clearing::new(keys.namespace(), ttl).keeping(near);
        let keys = keys.clearable().map_err(|error| InvalidArgument::new(ErrorKind::InvalidKey, error.to_string()))?;
        Ok((keys, Some(clearing.into())))
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
