//! The servers: which one holds a key now, their health, and their connections.

mod evidence;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::events::{Event, EventKind, Events};
use crate::health::{Health, Verdict};
use crate::metrics::{Metrics, ServerMetrics};
use crate::near::Near;
use crate::pool::Pool;
use crate::ring::{Ring, Rule};
use crate::session::{Clearing, Generations, Limits, Manner, Protocol, Session};
use crate::tags::KnownTags;
use pinyon_net::address::ServerSpec;
use pinyon_net::credentials::LoginBy;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::fork::PerProcess;
use pinyon_net::network::{Keepalive, System};
use pinyon_net::tls::{Renewed, ServerTls, Tls, TlsError};

/// How long the index of a removed server stays reserved, in addition to two timeouts. Everything that refers to the
/// server is over by then.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The options of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct FleetOptions {
    /// The total time of an operation.
    pub timeout: Duration,
    /// The time for one connection attempt.
    pub connect_timeout: Duration,
    /// The most connections to each server.
    pub max_connections: usize,
    pub limits: Limits,
    /// Which commands to send.
    pub protocol: Protocol,
    pub keepalive: Keepalive,
    /// The longest ttl of items in the gutter, in seconds; at most 30 days.
    pub gutter_ttl: i32,
    /// Whether anything takes the events ([`Fleet::take_events`]).
    pub events: bool,
    /// The duration from which a successful command counts as slow.
    pub slow_after: Option<Duration>,
}

/// What connections need besides addresses and options: credentials, the namespace whose generation is asked for, and the
/// hot keys that they write.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub tls: Option<Arc<Tls>>,
    pub login: Option<LoginBy>,
    /// The namespace, if it can be cleared.
    pub clearing: Option<Arc<Clearing>>,
    /// The client's hot keys, if it keeps them in memory.
    pub near: Option<Arc<Near>>,
    /// What is known of tags, if values can have some.
    pub tags: Option<Arc<KnownTags>>,
}

/// All servers of a client. A fleet does not change: when servers come or go, a new fleet replaces it (`with_servers`).
/// Operations end with the fleet that they began with.
#[derive(Debug)]
pub struct Fleet {
    /// The servers of the ring and of the gutter, and removed ones that operations may still refer to. Each keeps its
    /// index.
    servers: Vec<Arc<Server>>,
    members: Members,
    gutter: Option<Arc<Members>>,
    /// The rule that maps keys to members.
    rule: Rule,
    /// Removed servers, and when they were removed.
    retired: Vec<(usize, Instant)>,
    options: FleetOptions,
    access: Arc<Access>,
    /// The access's.
    near: Option<Arc<Near>>,
    pools: PerProcess<Vec<Arc<Pool>>>,
    events: Option<Arc<Events>>,
    /// Whether a server was marked down since the last question.
    shaken: Arc<AtomicBool>,
}

/// Servers that share keys.
#[derive(Debug)]
struct Members {
    ring: Ring,
    /// Their indexes, in the ring's order.
    servers: Vec<usize>,
}

impl Members {
    fn new(rule: &Rule, specs: &[ServerSpec], servers: Vec<usize>) -> Self {
        Self { ring: rule.ring(specs), servers }
    }

    fn server(&self, key: &[u8]) -> Option<usize> {
        match self.servers.len() {
            0 => None,
            1 => Some(self.servers[0]),
            _ => Some(self.servers[self.ring.server(key)]),
        }
    }

    fn servers_from<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        self.ring.servers_from(key).map(|position| self.servers[position])
    }
}

/// One server of a fleet.
#[derive(Debug)]
pub struct Server {
    pub spec: ServerSpec,
    pub name: Arc<str>,
    pub health: Health,
    manner: Arc<Manner>,
    tls: Option<ServerTls>,
}

impl Server {
    fn new(spec: ServerSpec, access: &Access, manner: Manner) -> Result<Self, TlsError> {
        let tls = access.tls.as_ref().map(|tls| tls.of_server(&spec)).transpose()?;
        Ok(Self { name: spec.name().into(), spec, health: Health::default(), manner: manner.into(), tls })
    }

    /// What this process knows of the namespace there, if it is clearable.
    pub(crate) fn generations(&self) -> Option<&Arc<Generations>> {
        self.manner.generations()
    }

    /// What its sessions have in common.
    #[cfg(test)]
    pub(crate) fn manner(&self) -> &Arc<Manner> {
        &self.manner
    }
}

/// The server chosen for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub server: usize,
    /// Whether the server is down and this operation probes it.
    pub probe: bool,
}

impl Choice {
    /// A server to ask in any state.
    pub fn regardless(server: usize) -> Self {
        Self { server, probe: false }
    }
}

impl Fleet {
    /// `gutter`: the servers that replace servers that are down; without any, others of the ring do. `specs` may be
    /// empty while the servers are unknown. The gutter uses the default rule.
    pub(crate) fn new(
        specs: Vec<ServerSpec>,
        gutter: Vec<ServerSpec>,
        rule: Rule,
        options: FleetOptions,
        access: Access,
    ) -> Result<Self, TlsError> {
        let members = Members::new(&rule, &specs, (0..specs.len()).collect());
        let of_gutter = (specs.len()..specs.len() + gutter.len()).collect();
        let of_gutter = (!gutter.is_empty()).then(|| Arc::new(Members::new(&Rule::default(), &gutter, of_gutter)));
        let events: Option<Arc<Events>> = options.events.then(Arc::default);
        let manner = || {
            Manner::new(options.protocol, events.clone())
                .clearing(access.clearing.as_ref())
                .keeping(access.near.as_ref())
        };
        let server = |spec| Server::new(spec, &access, manner()).map(Arc::new);
        let servers = specs.into_iter().chain(gutter).map(server).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            members,
            gutter: of_gutter,
            rule,
            retired: Vec::new(),
            pools: PerProcess::new(Self::make_pools(servers.len(), options)),
            servers,
            options,
            near: access.near.clone(),
            access: Arc::new(access),
            events,
            shaken: Arc::default(),
        })
    }

    /// What this client knows of tags, if its values can have some.
    pub fn tags(&self) -> Option<&Arc<KnownTags>> {
        self.access.tags.as_ref()
    }

    /// The same fleet with these servers in its ring. Servers that stay keep their index, health and connections.
    /// Connections of removed servers close as they become idle.
    pub(crate) fn with_servers(&self, specs: Vec<ServerSpec>, now: Instant) -> Result<Self, TlsError> {
        let (mut servers, mut pools) = (self.servers.clone(), self.pools().to_vec());
        let free_since = |since: Instant| now.saturating_duration_since(since) > REMEMBERED + 2 * self.options.timeout;
        let mut free = self.retired.iter().filter(|(_, since)| free_since(*since)).map(|(index, _)| *index);
        let mut members = Vec::with_capacity(specs.len());
        for spec in &specs {
            let stays = self.members.servers.iter().find(|index| self.servers[**index].spec == *spec);
            let index = stays.copied().or_else(|| free.next()).unwrap_or(servers.len());
            if stays.is_none() {
                let manner = Manner::new(self.options.protocol, self.events.clone())
                    .clearing(self.access.clearing.as_ref())
                    .keeping(self.access.near.as_ref());
                put(&mut servers, index, Arc::new(Server::new(spec.clone(), &self.access, manner)?));
                put(&mut pools, index, Self::make_pool(self.options));
            }
            members.push(index);
        }
        let leaves = |index: &&usize| !members.contains(index);
        let retired = self.members.servers.iter().filter(leaves).map(|index| (*index, now));
        let earlier = self.retired.iter().filter(|(index, _)| leaves(&index));
        let retired: Vec<_> = retired.chain(earlier.copied()).collect();
        retired.iter().for_each(|(index, _)| pools[*index].close());
        Ok(Self {
            members: Members::new(&self.rule, &specs, members),
            gutter: self.gutter.clone(),
            rule: self.rule.clone(),
            retired,
            servers,
            pools: PerProcess::new(pools),
            options: self.options,
            access: self.access.clone(),
            near: self.near.clone(),
            events: self.events.clone(),
            shaken: self.shaken.clone(),
        })
    }

    pub fn options(&self) -> &FleetOptions {
        &self.options
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The client's hot keys, if it keeps them in memory.
    #[inline]
    pub(crate) fn near(&self) -> Option<&Arc<Near>> {
        self.near.as_ref()
    }

    /// All servers by index, including removed ones.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The indexes of the servers in use: the ring's, then the gutter's.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.servers.iter().chain(self.gutter.iter().flat_map(|gutter| &gutter.servers)).copied()
    }

    /// Whether a server was removed.
    pub(crate) fn has_left(&self, server: usize) -> bool {
        self.retired.iter().any(|(index, _)| *index == server)
    }

    /// Whether the servers are known.
    pub fn is_known(&self) -> bool {
        !self.members.servers.is_empty()
    }

    /// Whether the ring has a single server, which no other server can replace.
    pub(crate) fn has_one_server(&self) -> bool {
        self.members.servers.len() == 1 && self.gutter.is_none()
    }

    /// The specifications of the ring's servers.
    pub(crate) fn ring_specs(&self) -> impl Iterator<Item = &ServerSpec> {
        self.members.servers.iter().map(|index| &self.servers[*index].spec)
    }

    /// Their names, separated by commas.
    pub(crate) fn ring_names(&self) -> String {
        self.ring_specs().map(ServerSpec::name).collect::<Vec<_>>().join(",")
    }

    /// Chooses the server for `key` now. With `failover`, chooses another server if the key's own is down. The error
    /// says that it is marked down and that no server replaces it.
    pub(crate) fn choose(&self, key: &[u8], failover: bool, now: Instant) -> Result<Choice, Error> {
        let Some(first) = self.members.server(key) else { return Err(Error::no_servers(&"".into())) };
        if self.servers[first].health.is_up() {
            return Ok(Choice { server: first, probe: false });
        }
        self.choose_other(key, first, failover, now)
    }

    #[cold]
    fn choose_other(&self, key: &[u8], first: usize, failover: bool, now: Instant) -> Result<Choice, Error> {
        let others = self.others(key, failover);
        std::iter::once(first).chain(others).find_map(|server| self.usable(server, now)).ok_or_else(|| self.down(first))
    }

    /// The servers that replace a key's own server while it is down, in order.
    fn others<'a>(&'a self, key: &'a [u8], failover: bool) -> Box<dyn Iterator<Item = usize> + 'a> {
        match &self.gutter {
            _ if !failover => Box::new(std::iter::empty()),
            Some(gutter) => Box::new(gutter.servers_from(key)),
            None => Box::new(self.members.servers_from(key).skip(1)),
        }
    }

    /// The servers that hold `key` as those before them fail, its own first, each once. Their present state does not
    /// matter.
    pub fn candidates(&self, key: &[u8], failover: bool) -> Vec<usize> {
        let Some(first) = self.members.server(key) else { return Vec::new() };
        let mut servers = vec![first];
        for server in self.others(key, failover) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        servers
    }

    /// The names of these servers.
    pub fn names(&self, servers: impl IntoIterator<Item = usize>) -> Vec<String> {
        servers.into_iter().map(|server| self.servers[server].name.to_string()).collect()
    }

    fn usable(&self, server: usize, now: Instant) -> Option<Choice> {
        match self.servers[server].health.verdict(now, self.options.timeout) {
            Verdict::Up => Some(Choice { server, probe: false }),
            Verdict::Probe => Some(Choice { server, probe: true }),
            Verdict::Down => None,
        }
    }

    /// Whether the server belongs to the gutter.
    pub fn is_gutter(&self, server: usize) -> bool {
        self.gutter.as_ref().is_some_and(|gutter| gutter.servers.contains(&server))
    }

    /// The longest ttl allowed on a server, if it is limited.
    pub(crate) fn longest_ttl(&self, server: usize) -> Option<i32> {
        self.is_gutter(server).then_some(self.options.gutter_ttl)
    }

    /// Refuses an operation for a server that was marked down meanwhile, unless it is the probe.
    pub(crate) fn check_up(&self, choice: Choice) -> Result<(), Error> {
        match choice.probe || self.servers[choice.server].health.is_up() {
            true => Ok(()),
            false => Err(self.down(choice.server)),
        }
    }

    /// The error that says that a server is marked down, and why.
    fn down(&self, server: usize) -> Error {
        let server = &self.servers[server];
        let why = server.health.last_error().map_or_else(String::new, |error| format!(": {}", error.message));
        Error::new(Kind::Down, &server.name, format!("the server is marked down and not tried now{why}"))
    }

    /// Whether a server was marked down since the last call. Another server may have taken its place.
    pub(crate) fn was_shaken(&self) -> bool {
        self.shaken.load(Ordering::Relaxed) && self.shaken.swap(false, Ordering::Relaxed)
    }

    /// Records that a failed command is tried again.
    pub(crate) fn retrying(&self, error: &Error, command: &'static str) {
        self.metrics_of(error).into_iter().for_each(|metrics| metrics.retried(command));
        self.note(EventKind::Retry, &error.server, command, Some(error), None);
    }

    /// Counts a command that failed before any session had it.
    #[cold]
    pub(crate) fn unsubmitted(&self, error: &Error, command: &'static str) {
        self.metrics_of(error).into_iter().for_each(|metrics| metrics.failed(error, command));
    }

    /// Notes why the host cannot read a stored value, which it takes for missing.
    #[cold]
    pub(crate) fn unreadable(&self, server: &str, command: &'static str, reason: &str) {
        let Some(events) = &self.events else { return };
        events.note_unreadable(Error::new(Kind::Unreadable, &server.into(), reason).of(command, Sent::Yes));
    }

    /// Counts and tells that a value could not be made, and that its old value stays in use.
    #[cold]
    pub(crate) fn kept_stale(&self, key: &[u8], failover: bool, reason: &str) {
        let candidates = self.candidates(key, failover);
        let is_up = |server: &&usize| self.servers[**server].health.is_up();
        let Some(server) = candidates.iter().find(is_up).or(candidates.first()) else { return };
        self.pool(*server).metrics.kept();
        let name = &self.servers[*server].name;
        let error = Error::new(Kind::Maker, name, reason).of("lease", Sent::Yes);
        self.note(EventKind::Stale, name, "lease", Some(&error), None);
    }

    /// The counters of the server that an error names, if any.
    fn metrics_of(&self, error: &Error) -> Option<&Metrics> {
        let server = self.members().find(|index| self.servers[*index].name == error.server)?;
        Some(&self.pool(server).metrics)
    }

    /// The counters of this process for each server in use.
    pub fn metrics(&self) -> impl Iterator<Item = ServerMetrics> + '_ {
        self.members().map(|index| {
            let (server, pool) = (&self.servers[index], self.pool(index));
            let (_, idle) = pool.open_and_idle();
            let (is_up, is_gutter) = (server.health.is_up(), self.is_gutter(index));
            ServerMetrics { server: server.name.clone(), is_up, is_gutter, idle, traffic: pool.metrics.traffic() }
        })
    }

    /// Whether [`Self::took`] needs the duration of commands.
    pub(crate) fn measures(&self) -> bool {
        self.options.slow_after.is_some()
    }

    /// Records how long a successful command took.
    #[cold]
    pub(crate) fn took(&self, server: usize, command: &'static str, duration: Duration) {
        if self.options.slow_after.is_some_and(|limit| duration >= limit) {
            self.note(EventKind::Slow, &self.servers[server].name, command, None, Some(duration));
        }
    }

    /// Whether [`Self::take_events`] has something to tell.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.are_there())
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.as_ref().map_or_else(Vec::new, |events| events.take())
    }

    pub(crate) fn note(
        &self,
        kind: EventKind,
        server: &Arc<str>,
        command: &'static str,
        error: Option<&Error>,
        duration: Option<Duration>,
    ) {
        let Some(events) = &self.events else { return };
        let server = server.clone();
        events.note(Event { kind, server, command, error: error.cloned(), duration });
    }

    /// This process's pool of connections to a server.
    pub fn pool(&self, server: usize) -> &Arc<Pool> {
        &self.pools()[server]
    }

    /// Closes idle connections now, and the others when they are returned.
    pub fn close(&self) {
        self.pools().iter().for_each(|pool| pool.close());
    }

    /// Reads the files of TLS again if they have changed, before a connection is made.
    pub(crate) fn renew_certificates(&self, server: usize) {
        let Some(renewed) = self.servers[server].tls.as_ref().and_then(ServerTls::renew) else { return };
        let name = &self.servers[server].name;
        match renewed {
            Renewed::Read => self.note(EventKind::Certificates, name, "", None, None),
            Renewed::Kept(why) => {
                let error = Error::new(Kind::Usage, name, why.to_string());
                self.note(EventKind::StaleCertificates, name, "", Some(&error), None);
            }
        }
    }

    /// A session for a server, not connected yet.
    pub(crate) fn session(&self, server: usize) -> Box<Session> {
        let Server { name, tls, manner, .. } = &*self.servers[server];
        let session = Session::new(name.clone(), System { keepalive: self.options.keepalive }, self.options.limits)
            .in_manner(manner.clone());
        let meter = self.pool(server).metrics.meter(self.options.timeout);
        Box::new(session.with_access(tls.clone(), self.access.login.clone()).metered(meter))
    }

    fn pools(&self) -> &[Arc<Pool>] {
        self.pools.get(|parents| {
            parents.iter().for_each(|pool| pool.try_drop_idle());
            Self::make_pools(self.servers.len(), self.options)
        })
    }

    fn make_pools(servers: usize, options: FleetOptions) -> Vec<Arc<Pool>> {
        (0..servers).map(|_| Self::make_pool(options)).collect()
    }

    fn make_pool(options: FleetOptions) -> Arc<Pool> {
        Arc::new(Pool::new(options.max_connections))
    }
}

/// Replaces the item at this index, or appends it.
fn put<T>(items: &mut Vec<T>, index: usize, item: T) {
    match items.get_mut(index) {
        Some(place) => *place = item,
        None => items.push(item),
    }
}
