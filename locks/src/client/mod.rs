//! A client's locks on one server: the machine, the handler that speaks for it, and its connection, driven by a host.
//!
//! Each operation has a waiter, which comes back with the outcome. Everything that begins in one turn leaves in one
//! send.

mod connecting;
mod driven;
mod greeting;
mod lane;
mod link;
mod member;
mod nodes;
mod platform;
mod replicas;
mod reporting;
mod sentinels;
mod slots;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use crate::handler::{Handler, HandlerKind};
use crate::keys::LockKeys;
use crate::loss::Loss;
pub use crate::machine::Outcome;
use crate::machine::{Awaited, Fairness, LockOptions, Machine, MachineEvent, MachineFailure};
use crate::observed::LockEvent;
use crate::redis;
pub use driven::InTime;
use link::Link;
pub use member::{Member, Now};
use nodes::Nodes;
use pinyon_net::address::Endpoint;
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::{Keepalive, System};
pub use platform::Platform;
use replicas::Replicas;
pub use sentinels::SentinelSetup;
use sentinels::Sentinels;
pub use slots::Slots;
pub use standing::{QuorumSetup, Standing, Voting};

/// The parts of a client.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server. With Sentinels, they say which it is.
    pub endpoint: Endpoint,
    pub sentinels: Option<SentinelSetup>,
    /// Other nodes of the cluster to ask, in turn, when one cannot be reached.
    pub other_nodes: Vec<Endpoint>,
    /// What is known of the cluster.
    pub slots: Slots,
    /// The server's name for messages.
    pub server: Arc<str>,
    /// The user to log in as, and the database.
    pub login: redis::SessionSettings,
    pub keys: LockKeys,
    pub handler: HandlerKind,
    pub connect_timeout: Duration,
    /// When the system asks whether silent connections are still there.
    pub keepalive: Keepalive,
    /// How many replicas must have a lock before it counts.
    pub replicas: u32,
    pub options: LockOptions,
    /// Whether its locks are held by this server alone.
    pub voting: Voting,
}

impl Setup {
    /// The setup for the client of one hash tag.
    pub fn tagged(&self, tag: &[u8]) -> Self {
        Self { keys: self.keys.tagged(tag), ..self.clone() }
    }

    fn session<P: Platform>(&self, platform: &P) -> redis::RespSession<P> {
        redis::RespSession::new(self.server.clone(), platform.clone(), self.login.clone())
    }

    fn handler(&self) -> Handler {
        // The servers of a quorum keep one order. Without it, attempts could wait for each other.
        let is_alone = !matches!(self.voting, Voting::Member { .. });
        let throughput = self.options.fairness == Fairness::Throughput && is_alone;
        Handler::new(self.handler, self.keys.clone(), self.options.waiter_ttl(), throughput)
    }
}

#[derive(Debug)]
pub enum Report<W> {
    Done {
        waiter: W,
        outcome: Outcome,
    },
    /// A lock was lost, though its holder did not release it. This report answers no operation.
    Lost {
        number: u64,
        loss: Loss,
    },
    /// What happened to the servers.
    Event(Box<LockEvent>),
    /// Something else that the operators of the program should know.
    Warning(String),
}

/// The waiters for the same thing, in order. Nearly always there is one.
struct Waiters<W> {
    first: W,
    others: Vec<W>,
}

pub struct Client<W, P: Platform = System> {
    platform: P,
    settings: Setup,
    /// The server with the keys. In a cluster and with Sentinels, it may differ from the one in the settings.
    endpoint: Endpoint,
    /// The nodes of the cluster. A single server counts as the only one.
    nodes: Nodes,
    /// Who names the server, if the settings do not.
    sentinels: Option<Box<Sentinels<P>>>,
    /// What waits for replicas, if they are wanted.
    replicas: Option<Box<Replicas<P>>>,
    machine: Machine,
    /// What the connected server has told, if it is a member of a quorum.
    standing: Option<Standing>,
    link: Link<W, P>,
    waiting: HashMap<(u64, Awaited), Waiters<W>>,
    finished: VecDeque<Report<W>>,
    /// Locks that an attempt which comes before them waits for, if the server is one of a quorum.
    contested: Vec<u64>,
    actions: VecDeque<Action>,
    turn_is_due: bool,
    /// Whether the warning about the server's eviction policy was reported.
    warned_of_policy: bool,
    closed: bool,
}

impl<W> Client<W> {
    /// `client`: a name that no other client of any process ever has.
    pub fn new(settings: Setup, client: Arc<str>) -> Self {
        Self::on(System { keepalive: settings.keepalive }, settings, client)
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Like [`Client::new`], with another network and other clocks.
    pub fn on(platform: P, settings: Setup, client: Arc<str>) -> Self {
        Self {
            nodes: Nodes::new(&settings, &client),
            machine: Machine::new(client, settings.options.clone()),
            link: Link::new(settings.handler(), [settings.session(&platform), settings.session(&platform)]),
            endpoint: settings.endpoint.clone(),
            sentinels: settings.sentinels.as_ref().map(|setup| Box::new(Sentinels::new(setup, &platform))),
            standing: None,
            replicas: Replicas::new(&settings, &platform),
            platform,
            settings,
            waiting: HashMap::default(),
            finished: VecDeque::new(),
            contested: Vec::new(),
            actions: VecDeque::new(),
            turn_is_due: false,
            warned_of_policy: false,
            closed: false,
        }
    }

    /// Drops one of several acquisitions of a lock: its owner can no longer release it, but the others can.
    pub fn drop_hold(&mut self, number: u64) {
        self.machine.drop_hold(number);
    }

    /// For how long a lock lasts at most whose release has failed.
    pub(crate) fn lasts(&self, number: u64) -> Option<Duration> {
        self.machine.lasts(number, self.platform.boot_time())
    }

    /// This instant, by both clocks.
    pub(crate) fn at(&self, instant: Instant) -> Now {
        Now { instant, moment: self.platform.boot_time() }
    }

    pub(crate) fn now(&self) -> Now {
        self.at(self.platform.now())
    }

    pub fn settings(&self) -> &Setup {
        &self.settings
    }

    /// Whether nothing is held, wanted or under way.
    pub fn is_idle(&self) -> bool {
        self.machine.is_idle() && self.is_quiet()
    }

    /// Whether nothing is under way. Held locks may still need renewal, by [`Driven::deadline`].
    pub fn is_quiet(&self) -> bool {
        self.link.is_quiet() && self.replicas.as_ref().is_none_or(|replicas| replicas.is_quiet())
    }

    fn finish(&mut self, waiter: W, mut outcome: Outcome) {
        if let Outcome::Failed(MachineFailure::Server(error)) = &mut outcome {
            if error.server.is_empty() {
                // The machine does not know the server.
                error.server = self.settings.server.clone();
            }
        }
        self.finished.push_back(Report::Done { waiter, outcome });
    }

    /// Schedules a send for the end of the turn, since the caller may be in the middle of the host's own work.
    #[inline]
    fn begun(&mut self, now: Instant) {
        self.take_events();
        if self.link.is_down() {
            self.connect_if_wanted(now);
        }
        self.end_turn();
    }

    pub(crate) fn end_turn(&mut self) {
        if !std::mem::replace(&mut self.turn_is_due, true) {
            self.actions.push_back(Action::EndTurn);
        }
    }

    /// Passes the machine's events to their waiters.
    fn take_events(&mut self) {
        while let Some(event) = self.machine.next_event() {
            match event {
                MachineEvent::Done { outcome: Outcome::Granted { number, token, notified, again }, .. }
                    if self.replicas.is_some() && self.hold_back(number, token, notified, again) => {}
                MachineEvent::Done { number, awaited, outcome } => {
                    if let Some(waiter) = self.take_waiter(number, awaited) {
                        self.finish(waiter, outcome);
                    }
                }
                MachineEvent::Lost { number, .. } if self.lost_too_early(number) => {}
                MachineEvent::Lost { number, loss } => self.finished.push_back(Report::Lost { number, loss }),
                MachineEvent::Contested { number } => self.contested.push(number),
                MachineEvent::RenewalRefused { error } => {
                    let event = LockEvent::renewals(&self.settings.server, &error);
                    self.report(event);
                }
            }
        }
    }

    #[inline]
    fn wait_for(&mut self, what: (u64, Awaited), waiter: W) {
        match self.waiting.entry(what) {
            Entry::Occupied(waiters) => waiters.into_mut().others.push(waiter),
            Entry::Vacant(nobody) => drop(nobody.insert(Waiters { first: waiter, others: Vec::new() })),
        }
    }

    fn take_waiter(&mut self, number: u64, awaited: Awaited) -> Option<W> {
        let Entry::Occupied(mut waiters) = self.waiting.entry((number, awaited)) else { return None };
        if waiters.get().others.is_empty() {
            return Some(waiters.remove().first);
        }
        let Waiters { first, others } = waiters.get_mut();
        Some(std::mem::replace(first, others.remove(0)))
    }

    fn is_closed_error(&self) -> Error {
        Error::new(Kind::Closed, &self.settings.server, "the client was closed")
    }
}
