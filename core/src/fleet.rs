//! The servers: which one holds a key now, how they are doing, and their connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::address::ServerSpec;
use crate::error::{Error, Kind};
use crate::events::{Event, EventKind, Events};
use crate::fork::PerProcess;
use crate::health::{Health, Verdict};
use crate::login::Login;
use crate::network::System;
use crate::pool::Pool;
use crate::ring::Ring;
use crate::session::{Limits, Session};
use crate::tls::{ServerTls, Tls, TlsError};

/// How a fleet behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long an operation may take, all in all.
    pub timeout: Duration,
    /// How long making one connection may take.
    pub connect_timeout: Duration,
    /// How many connections each server gets at most.
    pub max_connections: usize,
    pub limits: Limits,
    /// The longest ttl of items in the gutter, in seconds: at most 30 days.
    pub gutter_ttl: i32,
    /// Whether anybody asks for [`Fleet::take_events`].
    pub events: bool,
    /// From when on a command that succeeds is slow.
    pub slow_after: Option<Duration>,
}

/// What it takes to be let in by the servers.
#[derive(Debug, Default)]
pub struct Access {
    pub tls: Option<Arc<Tls>>,
    pub login: Option<Login>,
}

/// All servers of a client.
#[derive(Debug)]
pub struct Fleet {
    /// Those of the ring, then those of the gutter.
    servers: Vec<Server>,
    ring: Ring,
    /// How many are of the ring.
    in_ring: usize,
    gutter: Option<Ring>,
    options: Options,
    login: Option<Login>,
    pools: PerProcess<Vec<Arc<Pool>>>,
    events: Option<Events>,
}

/// One server of a fleet.
#[derive(Debug)]
pub struct Server {
    pub spec: ServerSpec,
    pub name: Arc<str>,
    pub health: Health,
    tls: Option<ServerTls>,
}

/// The server that an operation goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub server: usize,
    /// The server is down, and this operation is the one that tries it.
    pub probe: bool,
}

impl Choice {
    /// A server that is asked whatever its state.
    pub fn regardless(server: usize) -> Self {
        Self { server, probe: false }
    }
}

impl Fleet {
    /// `gutter`: the servers that take the keys of those that are down; without any, the others of the ring do.
    pub fn new(
        specs: Vec<ServerSpec>,
        gutter: Vec<ServerSpec>,
        options: Options,
        access: Access,
    ) -> Result<Self, TlsError> {
        let Access { tls, login } = access;
        let ring = Ring::ketama_weighted(&specs);
        let in_ring = specs.len();
        let gutter_ring = (!gutter.is_empty()).then(|| Ring::ketama_weighted(&gutter));
        let server = |spec: ServerSpec| {
            let tls = tls.as_ref().map(|tls| tls.of_server(&spec.endpoint)).transpose()?;
            Ok(Server { name: spec.name().into(), spec, health: Health::default(), tls })
        };
        let servers: Vec<Server> = specs.into_iter().chain(gutter).map(server).collect::<Result<_, _>>()?;
        let pools = PerProcess::new(Self::make_pools(servers.len(), options));
        let events = options.events.then(Events::default);
        Ok(Self { servers, ring, in_ring, gutter: gutter_ring, options, login, pools, events })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server to ask for `key` now; with `failover` another one where its own is down. An error says that it is
    /// marked down, with nobody to take its place.
    pub fn choose(&self, key: &[u8], failover: bool, now: Instant) -> Result<Choice, Error> {
        let first = match self.servers.len() {
            1 => 0,
            _ => self.ring.server(key),
        };
        if self.servers[first].health.is_up() {
            return Ok(Choice { server: first, probe: false });
        }
        self.choose_other(key, first, failover, now)
    }

    #[cold]
    fn choose_other(&self, key: &[u8], first: usize, failover: bool, now: Instant) -> Result<Choice, Error> {
        let others: Box<dyn Iterator<Item = usize>> = match &self.gutter {
            _ if !failover => Box::new(std::iter::empty()),
            Some(gutter) => Box::new(gutter.servers_from(key).map(|server| self.in_ring + server)),
            None => Box::new(self.ring.servers_from(key).skip(1)),
        };
        std::iter::once(first).chain(others).find_map(|server| self.usable(server, now)).ok_or_else(|| self.down(first))
    }

    fn usable(&self, server: usize, now: Instant) -> Option<Choice> {
        match self.servers[server].health.verdict(now, self.options.timeout) {
            Verdict::Up => Some(Choice { server, probe: false }),
            Verdict::Probe => Some(Choice { server, probe: true }),
            Verdict::Down => None,
        }
    }

    /// Whether a server takes the keys of others only.
    pub fn is_gutter(&self, server: usize) -> bool {
        server >= self.in_ring
    }

    /// The longest ttl that items may have on a server, if there is a limit.
    pub fn longest_ttl(&self, server: usize) -> Option<i32> {
        self.is_gutter(server).then_some(self.options.gutter_ttl)
    }

    /// Refuses who is not to try a server that has been marked down meanwhile.
    pub(crate) fn check_up(&self, choice: Choice) -> Result<(), Error> {
        match choice.probe || self.servers[choice.server].health.is_up() {
            true => Ok(()),
            false => Err(self.down(choice.server)),
        }
    }

    /// Says that a server is marked down, and why.
    fn down(&self, server: usize) -> Error {
        let server = &self.servers[server];
        let why = server.health.last_error().map_or_else(String::new, |error| format!(": {}", error.message));
        Error::new(Kind::Down, &server.name, format!("the server is marked down and not tried now{why}"))
    }

    /// Keeps the server's record up to date after it has answered.
    pub fn succeeded(&self, choice: Choice) {
        if !self.servers[choice.server].health.is_spotless() {
            self.mended(choice);
        }
    }

    #[cold]
    fn mended(&self, choice: Choice) {
        if let Some(down) = self.servers[choice.server].health.succeeded(choice.probe, Instant::now()) {
            self.note(EventKind::Up, &self.servers[choice.server].name, "", None, Some(down));
        }
    }

    /// Keeps the server's record up to date after an operation or a connect failed. The connections of one that is
    /// marked down are not trusted any more.
    pub fn failed(&self, choice: Choice, error: &Error) {
        if matches!(error.kind, Kind::Server | Kind::TooLarge | Kind::Unsupported) {
            return self.succeeded(choice);
        }
        let server = choice.server;
        let marked_down =
            error.blames_server() && self.servers[server].health.failed(error, choice.probe, Instant::now());
        if marked_down {
            self.note(EventKind::Down, &self.servers[server].name, "", Some(error), None);
        }
        if marked_down || error.kind == Kind::Closed {
            self.pool(server).drop_idle();
        }
    }

    /// A command that failed is tried again.
    pub fn retrying(&self, error: &Error, command: &'static str) {
        self.note(EventKind::Retry, &error.server, command, Some(error), None);
    }

    /// Whether [`Self::took`] is to be told how long commands take.
    pub fn measures(&self) -> bool {
        self.options.slow_after.is_some()
    }

    /// A command has succeeded after so long.
    #[cold]
    pub fn took(&self, server: usize, command: &'static str, duration: Duration) {
        if self.options.slow_after.is_some_and(|limit| duration >= limit) {
            self.note(EventKind::Slow, &self.servers[server].name, command, None, Some(duration));
        }
    }

    /// What has happened since it was asked last.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.as_ref().map_or_else(Vec::new, Events::take)
    }

    fn note(
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

    /// Closes the connections that are at rest, and the others when they come back.
    pub fn close(&self) {
        self.pools().iter().for_each(|pool| pool.close());
    }

    /// A session for a server, not yet connected.
    pub fn session(&self, server: usize) -> Box<Session> {
        let Server { name, tls, .. } = &self.servers[server];
        let session = Session::new(name.clone(), System, self.options.limits);
        Box::new(session.with_access(tls.clone(), self.login.clone()))
    }

    fn pools(&self) -> &[Arc<Pool>] {
        self.pools.get(|parents| {
            parents.iter().for_each(|pool| pool.try_drop_idle());
            Self::make_pools(self.servers.len(), self.options)
        })
    }

    fn make_pools(servers: usize, options: Options) -> Vec<Arc<Pool>> {
        (0..servers).map(|_| Arc::new(Pool::new(options.max_connections))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_servers;

    const SECOND: Duration = Duration::from_secs(1);

    fn fleet(gutter: &[&str]) -> Fleet {
        let options = Options {
            timeout: SECOND,
            connect_timeout: SECOND,
            max_connections: 1,
            limits: Limits::default(),
            gutter_ttl: 10,
            events: true,
            slow_after: Some(SECOND),
        };
        let gutter = if gutter.is_empty() { Vec::new() } else { parse_servers(gutter.iter().copied()).unwrap() };
        Fleet::new(parse_servers(["a,b,c"]).unwrap(), gutter, options, Access::default()).unwrap()
    }

    fn fail(fleet: &Fleet, choice: Choice) {
        fleet.failed(choice, &Error::unanswered(&fleet.servers()[choice.server].name));
    }

    fn kinds(fleet: &Fleet) -> Vec<EventKind> {
        fleet.take_events().iter().map(|event| event.kind).collect()
    }

    #[test]
    fn the_keys_of_a_server_that_is_down_go_to_the_next_or_nowhere() {
        let fleet = fleet(&[]);
        let first = fleet.choose(b"key", true, Instant::now()).unwrap();
        fail(&fleet, first);
        let now = Instant::now();
        let next = fleet.choose(b"key", true, now).unwrap();
        assert_ne!(next.server, first.server);
        assert_eq!(fleet.choose(b"key", false, now).unwrap_err().kind, Kind::Down);
        fail(&fleet, next);
        let last = fleet.choose(b"key", true, Instant::now()).unwrap();
        fail(&fleet, last);
        assert_eq!(fleet.choose(b"key", true, Instant::now()).unwrap_err().server, fleet.servers()[first.server].name);
    }

    #[test]
    fn the_gutter_takes_them_where_there_is_one_and_keeps_nothing_long() {
        let fleet = fleet(&["g", "h"]);
        let first = fleet.choose(b"key", true, Instant::now()).unwrap();
        assert_eq!(fleet.longest_ttl(first.server), None);
        fail(&fleet, first);
        let gutter = fleet.choose(b"key", true, Instant::now()).unwrap();
        assert!(["g:11211", "h:11211"].contains(&&*fleet.servers()[gutter.server].name));
        assert_eq!(fleet.longest_ttl(gutter.server), Some(10));
        fail(&fleet, gutter);
        let other = fleet.choose(b"key", true, Instant::now()).unwrap();
        assert!(fleet.is_gutter(other.server) && other != gutter);
        fail(&fleet, other);
        assert!(fleet.choose(b"key", true, Instant::now()).is_err());
    }

    #[test]
    fn the_probe_is_answered_and_told() {
        let fleet = fleet(&[]);
        let first = fleet.choose(b"key", false, Instant::now()).unwrap();
        fail(&fleet, first);
        let later = Instant::now() + SECOND;
        let probe = fleet.choose(b"key", false, later).unwrap();
        assert_eq!(probe, Choice { probe: true, ..first });
        assert!(fleet.choose(b"key", false, later).is_err());
        fleet.succeeded(first);
        assert!(fleet.choose(b"key", false, later).is_err());
        fleet.succeeded(probe);
        assert_eq!(fleet.choose(b"key", false, later).unwrap(), first);
        assert_eq!(kinds(&fleet), [EventKind::Down, EventKind::Up]);
    }

    #[test]
    fn an_error_of_the_servers_own_is_an_answer() {
        let fleet = fleet(&[]);
        let first = fleet.choose(b"key", false, Instant::now()).unwrap();
        fail(&fleet, first);
        let probe = fleet.choose(b"key", false, Instant::now() + SECOND).unwrap();
        fleet.failed(probe, &Error::new(Kind::Server, &"a".into(), "out of memory"));
        assert!(fleet.servers()[first.server].health.is_up());
    }

    #[test]
    fn what_takes_long_is_told() {
        let fleet = fleet(&[]);
        fleet.took(0, "get", SECOND / 2);
        fleet.took(0, "get", SECOND);
        assert_eq!(kinds(&fleet), [EventKind::Slow]);
    }

    #[test]
    fn events_that_nobody_takes_are_bounded() {
        let fleet = fleet(&[]);
        (0..10_000).for_each(|_| fleet.took(0, "get", SECOND));
        assert_eq!(fleet.take_events().len(), 4096);
    }
}
