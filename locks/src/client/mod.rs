//! A client's locks on one server: the machine, the handler that speaks for it, and its connection, driven by a host.
//!
//! The host represents each caller by a waiter. It passes the waiter in with the wish, and gets it back with the
//! outcome. Everything that begins in one turn leaves in one send.

mod connecting;
mod driven;
mod greeting;
mod lane;
mod link;
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
use pinyon_proto::resp::{Command, Value};

use crate::call::{Call, ScriptAnswer};
use crate::claim::Claim;
use crate::failure::Unreleased;
use crate::handler::{Handler, HandlerKind};
use crate::keys::LockKeys;
use crate::loss::Loss;
use crate::machine::{
    Fairness, LockOptions, LockRequest, Machine, MachineEvent, MachineFailure, Moment, NotHeld, Renewal,
};
use crate::observed::LockEvent;
use crate::redis;
pub use driven::InTime;
use link::{About, Link};
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

/// What a caller wants. An attempt that was begun is referred to by its number.
#[derive(Debug)]
pub enum Wish {
    /// Takes a lock: [`Outcome::Granted`].
    Lock(LockRequest),
    /// Takes a lock with its place in the order of a quorum's servers: [`Outcome::Granted`].
    Claim { request: LockRequest, claim: Claim },
    /// Releases it: [`Outcome::Released`].
    Release { number: u64 },
    /// Holds it for `ttl` from now: [`Outcome::Extended`].
    Extend { number: u64, ttl: Duration },
    /// Raises the counter of its server to `floor`, and holds it for its ttl from now: [`Outcome::Extended`].
    Raise { number: u64, floor: u64 },
    /// Releases its names until it is notified, for at most `wait`, then takes them again, within `relock`:
    /// [`Outcome::Granted`].
    Park { number: u64, wait: Option<Duration>, relock: Duration },
    /// Notifies `most` of the waiters parked on its names, or all if 0: [`Outcome::Answered`].
    Notify { number: u64, most: u32 },
    /// Asks something that concerns no lock of this client: [`Outcome::Answered`].
    Ask(Call),
    /// Sends any command on the same connection: [`Outcome::Value`], or the server's error.
    Execute { command: Command, deadline: Instant },
}

impl Wish {
    /// Its outcome on a closed client: nothing is held any more.
    pub(crate) fn outcome_if_closed(&self, closed: Error) -> Outcome {
        match self {
            Self::Release { .. } => Outcome::Released { held: false },
            Self::Extend { .. } | Self::Raise { .. } => Outcome::Extended { held: false },
            Self::Park { .. } | Self::Notify { .. } => Outcome::Failed(MachineFailure::NotHeld),
            Self::Lock(_) | Self::Claim { .. } | Self::Ask(_) | Self::Execute { .. } => {
                Outcome::Failed(MachineFailure::Server(closed))
            }
        }
    }
}

/// The outcome of a wish.
#[derive(Debug)]
pub enum Outcome {
    Granted { number: u64, token: u64, notified: bool },
    Failed(MachineFailure),
    Released { held: bool },
    Extended { held: bool },
    Answered(ScriptAnswer),
    Value(Value),
}

#[derive(Debug)]
pub enum Report<W> {
    Done {
        waiter: W,
        outcome: Outcome,
    },
    /// A lock was lost, though its holder did not release it. This report answers no wish.
    Lost {
        number: u64,
        loss: Loss,
    },
    /// What happened to the servers.
    Event(Box<LockEvent>),
    /// Something else that the operators of the program should know.
    Warning(String),
}

/// The part of an attempt that a waiter awaits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Awaited {
    Grant,
    Release,
    Extension,
    ScriptAnswer,
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

    /// Begins a wish. It ends with the outcome that the wish names, or with [`Outcome::Failed`]. Returns the number of
    /// the attempt, if one was begun.
    pub fn begin(&mut self, wish: Wish, waiter: W, now: Instant) -> Option<u64> {
        if self.closed {
            self.finish(waiter, wish.outcome_if_closed(self.is_closed_error()));
            self.end_turn();
            return None;
        }
        let at = self.platform.boot_time();
        let begun = match wish {
            // An owner that waits for replicas neither holds its lock yet, nor may it wait for itself.
            Wish::Lock(request) if self.is_held_back(&request) => Err(Outcome::Failed(match request.wait {
                Some(_) => MachineFailure::AlreadyHeld,
                None => MachineFailure::Busy,
            })),
            Wish::Lock(request) => {
                self.machine.lock(request, at).map(|number| (number, Awaited::Grant)).map_err(Outcome::Failed)
            }
            Wish::Claim { request, claim } => {
                let begun = self.machine.claim(request, claim, at);
                begun.map(|number| (number, Awaited::Grant)).map_err(Outcome::Failed)
            }
            Wish::Release { number } => {
                let released = self.machine.release(number, at);
                released.map(|()| (number, Awaited::Release)).map_err(|NotHeld| Outcome::Released { held: false })
            }
            Wish::Extend { number, ttl } => {
                let extended = self.machine.extend(number, ttl, at);
                extended.map(|()| (number, Awaited::Extension)).map_err(|NotHeld| Outcome::Extended { held: false })
            }
            Wish::Raise { number, floor } => {
                let raised = self.machine.raise(number, floor, at);
                raised.map(|()| (number, Awaited::Extension)).map_err(|NotHeld| Outcome::Extended { held: false })
            }
            Wish::Park { .. } | Wish::Notify { .. } if self.link.handler.is_plain() => {
                let message = "conditions need scripts on the server: set handler to \"script\"";
                let error = Error::new(Kind::Unsupported, &self.settings.server, message);
                Err(Outcome::Failed(MachineFailure::Server(error)))
            }
            Wish::Park { number, wait, relock } => {
                let parked = self.machine.park(number, wait, relock, at);
                parked.map(|()| (number, Awaited::Grant)).map_err(|NotHeld| Outcome::Failed(MachineFailure::NotHeld))
            }
            Wish::Notify { number, most } => match self.machine.names(number) {
                Some(names) => {
                    let call = Call::Notify { attempt: self.machine.attempt(number), names, most };
                    Ok((self.machine.question(call, at), Awaited::ScriptAnswer))
                }
                None => Err(Outcome::Failed(MachineFailure::NotHeld)),
            },
            Wish::Ask(call) => Ok((self.machine.question(call, at), Awaited::ScriptAnswer)),
            Wish::Execute { command, deadline } => {
                self.link.push(command, About::Command(waiter), deadline);
                self.begun(now);
                return None;
            }
        };
        match begun {
            Ok((number, awaited)) => {
                self.wait_for((number, awaited), waiter);
                self.begun(now);
                Some(number)
            }
            Err(outcome) => {
                self.finish(waiter, outcome);
                self.end_turn();
                None
            }
        }
    }

    /// Cancels an attempt whose caller no longer waits.
    pub fn cancel(&mut self, number: u64, now: Instant) {
        self.waiting.remove(&(number, Awaited::Grant));
        self.forget_grant(number);
        self.machine.cancel(number, self.platform.boot_time());
        self.begun(now);
    }

    /// Forsakes a lock that no caller can release any more.
    pub fn forsake(&mut self, number: u64) {
        self.machine.forsake(number);
    }

    /// Drops one of several acquisitions of a lock: its owner can no longer release it, but the others can.
    pub fn drop_hold(&mut self, number: u64) {
        self.machine.drop_hold(number);
    }

    /// What becomes of a lock whose release failed.
    pub(crate) fn unreleased(&self, number: u64) -> Unreleased {
        match self.closed {
            true => Unreleased::Over,
            false => Unreleased::GoesOn(self.machine.lasts(number, self.platform.boot_time())),
        }
    }

    /// The token of a held lock, and how long the client still considers it held.
    pub fn held(&self, number: u64) -> Option<(u64, Duration)> {
        self.held_at(number, self.platform.boot_time())
    }

    pub(crate) fn held_at(&self, number: u64, at: Moment) -> Option<(u64, Duration)> {
        self.machine.held(number, at)
    }

    /// Sets how a lock is renewed from now on.
    pub(crate) fn set_renewal(&mut self, number: u64, renewal: Renewal, at: Moment) {
        self.machine.set_renewal(number, renewal, at);
    }

    /// The next report. Take reports after every call.
    pub fn next_finished(&mut self) -> Option<Report<W>> {
        self.finished.pop_front()
    }

    /// The next lock that an attempt which comes before it waits for.
    pub(crate) fn next_contested(&mut self) -> Option<u64> {
        self.contested.pop()
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
            let (number, awaited, outcome) = match event {
                MachineEvent::Granted { number, token, notified, again } => {
                    if self.replicas.is_some() && self.hold_back(number, token, notified, again) {
                        continue;
                    }
                    (number, Awaited::Grant, Outcome::Granted { number, token, notified })
                }
                MachineEvent::Failed { number, failure } => (number, Awaited::Grant, Outcome::Failed(failure)),
                MachineEvent::Released { number, held } => (number, Awaited::Release, Outcome::Released { held }),
                MachineEvent::ReleaseFailed { number, error } => {
                    (number, Awaited::Release, Outcome::Failed(MachineFailure::Server(error)))
                }
                MachineEvent::Extended { number, answer: Ok(held) } => {
                    (number, Awaited::Extension, Outcome::Extended { held })
                }
                MachineEvent::Extended { number, answer: Err(error) } => {
                    (number, Awaited::Extension, Outcome::Failed(MachineFailure::Server(error)))
                }
                MachineEvent::Answered { request, answer } => {
                    (request, Awaited::ScriptAnswer, answer.map_or_else(Outcome::Failed, Outcome::Answered))
                }
                MachineEvent::Lost { number, .. } if self.lost_too_early(number) => continue,
                MachineEvent::Lost { number, loss } => {
                    self.finished.push_back(Report::Lost { number, loss });
                    continue;
                }
                MachineEvent::Contested { number } => {
                    self.contested.push(number);
                    continue;
                }
                MachineEvent::RenewalRefused { error } => {
                    let event = LockEvent::renewals(&self.settings.server, &error);
                    self.report(event);
                    continue;
                }
            };
            if let Some(waiter) = self.take_waiter(number, awaited) {
                self.finish(waiter, outcome);
            }
        }
    }

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
