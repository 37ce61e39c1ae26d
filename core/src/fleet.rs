//! The servers: which one holds a key now, how they are doing, and their connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::address::ServerSpec;
use crate::error::{Error, Kind};
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
    /// Whether the keys of a server that is down go to the next one of the ring, or fail at once.
    pub failover: bool,
    /// How many connections each server gets at most.
    pub max_connections: usize,
    pub limits: Limits,
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
    servers: Vec<Server>,
    ring: Ring,
    options: Options,
    login: Option<Login>,
    pools: PerProcess<Vec<Arc<Pool>>>,
}

/// One server of a fleet.
#[derive(Debug)]
pub struct Server {
    pub spec: ServerSpec,
    pub name: Arc<str>,
    pub health: Health,
    tls: Option<ServerTls>,
}

impl Fleet {
    pub fn new(specs: Vec<ServerSpec>, options: Options, access: Access) -> Result<Self, TlsError> {
        let Access { tls, login } = access;
        let ring = Ring::ketama_weighted(&specs);
        let server = |spec: ServerSpec| {
            let tls = tls.as_ref().map(|tls| tls.of_server(&spec.endpoint)).transpose()?;
            Ok(Server { name: spec.name().into(), spec, health: Health::default(), tls })
        };
        let servers: Vec<Server> = specs.into_iter().map(server).collect::<Result<_, _>>()?;
        let pools = PerProcess::new(Self::make_pools(servers.len(), options));
        Ok(Self { servers, ring, options, login, pools })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server to ask for `key` now. An error says that it is marked down, with nobody to take its place.
    pub fn choose(&self, key: &[u8], now: Instant) -> Result<usize, Error> {
        let first = match self.servers.len() {
            1 => 0,
            _ => self.ring.server(key),
        };
        if self.servers[first].health.verdict(now) != Verdict::Down {
            return Ok(first);
        }
        self.choose_other(key, first, now)
    }

    #[cold]
    fn choose_other(&self, key: &[u8], first: usize, now: Instant) -> Result<usize, Error> {
        if self.options.failover && self.servers.len() > 1 {
            let usable = |server: &usize| self.servers[*server].health.verdict(now) != Verdict::Down;
            if let Some(server) = self.ring.servers_from(key).skip(1).find(usable) {
                return Ok(server);
            }
        }
        Err(self.down_error(first))
    }

    /// Says that a server is marked down, and why.
    pub fn down_error(&self, server: usize) -> Error {
        let server = &self.servers[server];
        let why = server.health.last_error().map_or_else(String::new, |error| format!(": {}", error.message));
        Error::new(Kind::Down, &server.name, format!("the server is marked down and not tried now{why}"))
    }

    /// Keeps the server's record up to date after an operation or a connect failed.
    pub fn failed(&self, server: usize, error: &Error) {
        if error.blames_server() {
            self.servers[server].health.failed(error, Instant::now());
        }
        if error.kind == Kind::Closed {
            self.pool(server).drop_idle();
        }
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
