//! The settings of a client of locks, and what a client is made of.

use std::sync::Arc;
use std::time::Duration;

use crate::call::Names;
use crate::client::{QuorumSetup, SentinelSetup, Setup, Slots, Voting};
use crate::handler::HandlerKind;
use crate::identity;
use crate::keys::LockKeys;
use crate::machine::{Fairness, LockOptions, LockRequest, Rare, Renewal};
use crate::redis::{Protocol, SessionSettings};
use crate::remark;
use crate::ticket::Ticket;
use pinyon_net::address::{RedisServers as Servers, RedisUrl, TlsParameters};
use pinyon_net::credentials::{Credentials, Password, Supplied};
use pinyon_net::invalid::{choose, InvalidArgument};
use pinyon_net::settings;
use pinyon_net::settings::{keepalive, seconds, seconds_from, waiting_time, TlsChoice, UrlText};
use pinyon_net::tls::{Tls, TlsSettings};
use pinyon_net::words::words;

/// A waiting client sends a command in each heartbeat.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(10);

/// More replicas than any server has.
const MOST_REPLICAS: u32 = 1000;

settings! {
    /// The settings of a client of locks. Times are in seconds.
    pub struct LockSettings elsewhere super::elsewhere::NAMES {
        /// The server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` with TLS,
        /// `unix:///path[?db=database]`, `redis+cluster://host,host,host`, or
        /// `redis+sentinel://host,host,host/service[/database]`. Several URLs, 3 to 9 and an odd number, are independent
        /// servers; a majority of them holds each lock.
        url: UrlText = UrlText("redis://127.0.0.1:6379/0".into()),
        /// What this program is called, such as `"web2:worker"`, for people who look who holds a lock: up to 64 bytes.
        /// Without it they see the host.
        label: Option<String> = None,
        /// A prefix for the names of locks. Only locks with the same namespace exclude each other.
        namespace: Vec<u8> = b"pinyon".into(),
        /// What all keys and channels begin with, for a user whom the server's ACL limits to such: `"tenant:"` for
        /// `~tenant:*`. The namespace follows.
        prefix: Vec<u8> = Vec::new(),
        /// What decides on which node of a cluster a lock is kept. `"namespace"`: all locks of a namespace are on one
        /// node. `"names"`: locks with the same `{tag}` in their names are on one node.
        hash_tags: String = "namespace".into(),
        /// How long a lock outlives a holder that has died, in seconds. While the holder lives, the lock is renewed.
        ttl: f64 = 10.0,
        /// The longest ttl that any client of these servers gives a lock, in seconds; without it, `ttl`. Only for several
        /// servers. One that was started a shorter time ago may have forgotten locks, and has no vote. 0 lets servers
        /// vote at once, for tests, whose servers have no locks to forget.
        longest_ttl: Option<f64> = None,
        /// How long to wait for a lock, in seconds. 0 does not wait, infinity waits without a limit.
        timeout: f64 = 10.0,
        /// Whether a holder may acquire again what it holds.
        reentrant: bool = false,
        /// How the server keeps locks: `"script"` by functions on the server, `"pure"` by plain commands, `"auto"` by
        /// the first of them that the server permits. Clients with different handlers can share locks.
        handler: String = "auto".into(),
        /// Who is next: `"fifo"`, first come, first served, for each name; or `"throughput"`, whoever finds all its
        /// names free. Without it, `"fifo"`; with several servers, `"throughput"`.
        fairness: Option<String> = None,
        /// How many replicas must have a lock before it counts as acquired. Too few of them in time are a failure, and
        /// the lock is released.
        replicas: i64 = 0,
        /// The user name, instead of the one in the URL; or a function that returns it, or both, and how long they last.
        /// It is called before each connection, and again before they end.
        username: Option<Supplied<String>> = None,
        /// The password, instead of the one in the URL; or a function that returns it, or both, and how long they last.
        password: Option<Supplied<Password>> = None,
        /// The version of Redis' protocol: 3, or 2 for servers and proxies that fail with 3. Without it, 3, or 2 if the
        /// server refuses 3.
        protocol: Option<i64> = None,
        /// How often a waiting client tells the server that it is alive, in seconds.
        heartbeat: f64 = 5.0,
        /// How long the server may take to answer a command, in seconds.
        command_timeout: f64 = 2.0,
        /// How long a connection attempt may take, in seconds.
        connect_timeout: f64 = 1.0,
        /// How long a connection may be silent, in seconds, before the system asks whether the server is still there.
        /// Firewalls forget silent connections after some minutes. 0 never asks.
        keepalive: f64 = 60.0,
        /// The time between two such questions, in seconds, while none is answered.
        keepalive_interval: f64 = 15.0,
        /// How many such questions may remain unanswered before the connection counts as lost.
        keepalive_probes: i64 = 4,
        /// `true` to speak TLS, like `rediss://`, or a `Tls` with more settings. Without it, the URL decides.
        tls: Option<TlsChoice> = None,
        /// The user name for the Sentinels, if they have users; or a function, as `username`.
        sentinel_username: Option<Supplied<String>> = None,
        /// The password for the Sentinels, or a function, as `password`. The user and the password in the URL are for the
        /// servers.
        sentinel_password: Option<Supplied<Password>> = None,
        /// Whether to speak TLS with the Sentinels, as `tls`. Without it, `tls` decides for them, too.
        sentinel_tls: Option<TlsChoice> = None,
    }
}

/// The parts of a client of locks.
#[derive(Debug)]
pub struct LockParts {
    pub setup: Setup,
    pub usual: UsualLock,
    /// Whether the names' own hash tags choose the node, rather than the namespace.
    pub names_have_tags: bool,
}

/// The default settings of a client's locks. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub struct UsualLock {
    pub ttl: f64,
    pub timeout: f64,
    pub reentrant: bool,
}

/// One lock's settings. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub struct LockTerms<'t> {
    pub ttl: f64,
    /// The time to wait for it.
    pub timeout: f64,
    /// Whether to renew it until it is released, or for `max_hold`.
    pub renew: bool,
    pub max_hold: Option<f64>,
    pub reentrant: bool,
    /// How long the names stay locked from then on, even if the holder releases them earlier.
    pub at_least: Option<f64>,
    pub on_failure: OnFailure,
    /// What its holder says about it, for people.
    pub note: Option<&'t str>,
}

/// What becomes of a caller whose lock fails because the servers are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It has an error.
    #[default]
    Raise,
    /// It goes on without the lock, for work that may run twice.
    Proceed,
}

impl OnFailure {
    /// What this word means in the front ends.
    pub fn named(word: &str) -> Result<Self, InvalidArgument> {
        choose("on_failure", word, &[("raise", Self::Raise), ("proceed", Self::Proceed)])
    }
}

impl LockTerms<'_> {
    /// The request, checked once. Each acquisition sets its owner; one that does not wait also clears `wait`.
    #[inline]
    pub fn request(&self, names: Names) -> Result<LockRequest, InvalidArgument> {
        let ttl = lock_ttl(self.ttl)?;
        let wait = Some(waiting_time("timeout", self.timeout)?);
        let renewal = match self.max_hold {
            _ if !self.renew => Renewal::Never,
            None => Renewal::Always,
            Some(longest) => Renewal::For(seconds("max_hold", longest)?),
        };
        let at_least = self.at_least.map(|time| seconds("at_least", time)).transpose()?.unwrap_or_default();
        if !at_least.is_zero() && names.are_shared() {
            let message = "at_least is possible for names to write, and not for names to read and for permits";
            return Err(InvalidArgument::usage(message.to_owned()));
        }
        let lasts = match renewal {
            Renewal::Never => Some(("ttl, and it is not renewed", ttl)),
            Renewal::For(longest) => Some(("max_hold", longest)),
            Renewal::Always => None,
        };
        if let Some((what, _)) = lasts.filter(|(_, lasts)| at_least > *lasts) {
            let message = format!("at_least is longer than the lock's {what}: it would end before");
            return Err(InvalidArgument::usage(message));
        }
        Ok(LockRequest {
            names,
            owner: 0,
            ttl,
            wait,
            renewal,
            reentrant: self.reentrant,
            rare: Rare {
                at_least,
                adopts: None,
                proceeds: self.on_failure == OnFailure::Proceed,
                remark: self.remark()?,
            }
            .boxed(),
        })
    }

    /// The request for a lock that was handed over, from a client with this setup. What is said about waiting is the time
    /// for the server to answer, and `at_least` is as the ticket says.
    pub fn adopting(&self, ticket: &Ticket, setup: &Setup) -> Result<LockRequest, InvalidArgument> {
        ticket.check_prefix(setup.keys.prefix())?;
        let terms = Self { reentrant: false, at_least: None, on_failure: OnFailure::Raise, ..*self };
        let request = terms.request(ticket.names.clone())?;
        let remark = self.remark()?.or_else(|| ticket.note.clone());
        let rare = Rare { at_least: ticket.rest, adopts: Some(ticket.holder()), remark, ..Rare::default() };
        Ok(LockRequest { rare: rare.boxed(), ..request })
    }

    fn remark(&self) -> Result<Option<Arc<str>>, InvalidArgument> {
        self.note.map_or(Ok(None), remark::checked)
    }
}

impl LockSettings {
    /// Checks all settings.
    pub fn build(&self) -> Result<LockParts, InvalidArgument> {
        let servers = Servers::parse(&self.url.0)?;
        let url = servers.first.clone();
        let keys = LockKeys::prefixed(&self.prefix, &self.namespace);
        let keys = keys.map_err(|error| InvalidArgument::usage(error.to_string()))?;
        let setup = Setup {
            server: url.servers().into(),
            other_nodes: url.other_nodes.clone(),
            slots: Slots::default(),
            sentinels: self.sentinels(&url)?,
            login: self.login(&url)?,
            keys,
            handler: self.handler()?,
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            keepalive: keepalive(self.keepalive, self.keepalive_interval, self.keepalive_probes)?,
            voting: Voting::Alone,
            replicas: self.replicas()?,
            options: LockOptions {
                fairness: self.fairness(servers.others.is_empty())?,
                heartbeat: seconds_from(SHORTEST_HEARTBEAT, "heartbeat", self.heartbeat)?,
                patience: seconds("command_timeout", self.command_timeout)?,
                label: self.label.as_deref().map(identity::label).transpose()?,
                ..LockOptions::default()
            },
            endpoint: url.endpoint,
        };
        let setup = self.with_others(setup, &servers)?;
        lock_ttl(self.ttl)?;
        waiting_time("timeout", self.timeout)?;
        let usual = UsualLock { ttl: self.ttl, timeout: self.timeout, reentrant: self.reentrant };
        let tagged = choose("hash_tags", &self.hash_tags, &[("namespace", false), ("names", true)])?;
        Ok(LockParts { setup, usual, names_have_tags: tagged })
    }

    fn login(&self, url: &RedisUrl) -> Result<SessionSettings, InvalidArgument> {
        if url.tls && matches!(self.tls, Some(TlsChoice::Off)) {
            let message = "rediss:// is Redis with TLS, but tls is false: write redis://, or leave out tls";
            return Err(InvalidArgument::usage(message));
        }
        let tls = self.tls_of(url)?.map(|tls| tls.of_endpoint(&url.endpoint)).transpose()?;
        let user = self.username.clone().or_else(|| url.username.clone().map(Supplied::Fixed));
        let password = self.password.clone().or_else(|| url.password.clone().map(Supplied::Fixed));
        let login = self.logging_in(user, password)?;
        let protocol = login.protocol.or(protocol_of(url.protocol)?);
        Ok(SessionSettings { database: url.database, tls, protocol, ..login })
    }

    fn logging_in(
        &self,
        user: Option<Supplied<String>>,
        password: Option<Supplied<Password>>,
    ) -> Result<SessionSettings, InvalidArgument> {
        let patience = seconds("connect_timeout", self.connect_timeout)?;
        let patience = patience.max(seconds("command_timeout", self.command_timeout)?);
        let (credentials, (user, password)) = match Credentials::new(user, password, patience) {
            Ok(credentials) => (Some(credentials), (None, None)),
            Err(fixed) => (None, fixed),
        };
        let protocol = protocol_of(self.protocol)?;
        Ok(SessionSettings { user, password, credentials, protocol, ..SessionSettings::default() })
    }

    fn tls_choice(&self, url: &RedisUrl) -> TlsChoice {
        self.tls.clone().unwrap_or(if url.tls { TlsChoice::Usual } else { TlsChoice::Off })
    }

    /// TLS with the server, by the settings, or by the URL's parameters without them.
    fn tls_of(&self, url: &RedisUrl) -> Result<Option<Arc<Tls>>, InvalidArgument> {
        let given = &url.tls_parameters;
        if !url.tls || self.tls.is_some() || *given == TlsParameters::default() {
            return Ok(self.tls_choice(url).tls()?);
        }
        if given.unverified {
            let words = words();
            return Err(InvalidArgument::usage(format!(
                "the server's URL has ssl_cert_reqs=none, which accepts any server: set tls to {} with \
                 accept_any_certificate_which_is_dangerous, or leave it out",
                words.tls
            )));
        }
        let TlsParameters { ca, certificate, key, .. } = given.clone();
        Ok(Some(Tls::new(&TlsSettings { ca, certificate, key, ..TlsSettings::default() })?.into()))
    }

    /// The Sentinels to ask for the primary, and how to log in there.
    fn sentinels(&self, url: &RedisUrl) -> Result<Option<SentinelSetup>, InvalidArgument> {
        let Some(service) = url.sentinels.clone() else {
            let given = [
                ("sentinel_username", self.sentinel_username.is_some()),
                ("sentinel_password", self.sentinel_password.is_some()),
                ("sentinel_tls", self.sentinel_tls.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((name, _)) => Err(InvalidArgument::usage(format!(
                    "{name} is for Sentinels, but the URL names none: write redis+sentinel://host,host,host/service"
                ))),
            };
        };
        let choice = self.sentinel_tls.clone().unwrap_or_else(|| self.tls_choice(url));
        let tls = choice.tls()?.map(|tls| tls.of_endpoint(&url.endpoint)).transpose()?;
        let login = self.logging_in(self.sentinel_username.clone(), self.sentinel_password.clone())?;
        let login = SessionSettings { tls, ..login };
        Ok(Some(SentinelSetup { service, login }))
    }

    /// The setup of all servers, if there are several.
    fn with_others(&self, first: Setup, servers: &Servers) -> Result<Setup, InvalidArgument> {
        let longest_ttl = match self.longest_ttl {
            Some(0.0) => Ok(Duration::ZERO),
            given => lock_ttl_of("longest_ttl", given.unwrap_or(self.ttl)),
        };
        if servers.others.is_empty() {
            return match self.longest_ttl {
                None => Ok(first),
                Some(_) => Err(InvalidArgument::usage("longest_ttl is for several servers, but url names one")),
            };
        }
        let longest_ttl = longest_ttl?;
        self.check_quorum(longest_ttl)?;
        let member = |url: &RedisUrl| {
            let (voting, handler) = (Voting::Member { longest_ttl }, HandlerKind::Script);
            let (server, endpoint, login) = (url.servers().into(), url.endpoint.clone(), self.login(url)?);
            Ok(Setup { server, endpoint, login, voting, handler, ..first.clone() })
        };
        let members: Vec<Setup> = servers.all().map(member).collect::<Result<_, InvalidArgument>>()?;
        let names: Vec<&str> = members.iter().map(|member| &*member.server).collect();
        let server = names.join(", ").into();
        let voting = Voting::Quorum(QuorumSetup { members, longest_ttl }.into());
        Ok(Setup { server, voting, handler: HandlerKind::Script, ..first })
    }

    /// Refuses what several servers cannot do together.
    fn check_quorum(&self, longest_ttl: Duration) -> Result<(), InvalidArgument> {
        let refused = |what: &str| {
            Err(InvalidArgument::usage(format!(
                "{what} is not possible with several servers: leave it out, or name one server"
            )))
        };
        if self.handler == "pure" {
            return refused("handler \"pure\"");
        }
        if self.fairness.as_deref() == Some("fifo") {
            return refused("fairness \"fifo\"");
        }
        if self.hash_tags == "names" {
            return refused("hash_tags \"names\"");
        }
        if lock_ttl(self.ttl)? > longest_ttl && !longest_ttl.is_zero() {
            let (ttl, longest) = (self.ttl, longest_ttl.as_secs_f64());
            let message = format!("longest_ttl must be at least ttl, {ttl:?} seconds, not {longest:?}");
            return Err(InvalidArgument::usage(message));
        }
        Ok(())
    }

    fn handler(&self) -> Result<HandlerKind, InvalidArgument> {
        let kinds = [("auto", HandlerKind::Auto), ("script", HandlerKind::Script), ("pure", HandlerKind::Pure)];
        choose("handler", &self.handler, &kinds)
    }

    fn fairness(&self, alone: bool) -> Result<Fairness, InvalidArgument> {
        let chosen = self.fairness.as_deref().unwrap_or(if alone { "fifo" } else { "throughput" });
        choose("fairness", chosen, &[("fifo", Fairness::Fifo), ("throughput", Fairness::Throughput)])
    }

    fn replicas(&self) -> Result<u32, InvalidArgument> {
        let number = u32::try_from(self.replicas).ok().filter(|number| *number <= MOST_REPLICAS);
        number.ok_or_else(|| {
            let (most, given) = (MOST_REPLICAS, self.replicas);
            InvalidArgument::usage(format!("replicas must be a whole number from 0 to {most}, not {given}"))
        })
    }
}

/// The version of the protocol with this number.
fn protocol_of(number: Option<i64>) -> Result<Option<Protocol>, InvalidArgument> {
    match number {
        None => Ok(None),
        Some(2) => Ok(Some(Protocol::Resp2)),
        Some(3) => Ok(Some(Protocol::Resp3)),
        Some(other) => Err(InvalidArgument::usage(format!("protocol must be 2 or 3, not {other}"))),
    }
}

/// A lock's ttl, from seconds. Redis counts in milliseconds.
pub fn lock_ttl(ttl: f64) -> Result<Duration, InvalidArgument> {
    lock_ttl_of("ttl", ttl)
}

fn lock_ttl_of(name: &str, ttl: f64) -> Result<Duration, InvalidArgument> {
    let duration = seconds(name, ttl)?;
    match duration >= Duration::from_millis(1) {
        true => Ok(duration),
        false => Err(InvalidArgument::usage(format!("{name} must be at least a millisecond, not {ttl:?} seconds"))),
    }
}
