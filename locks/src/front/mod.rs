//! What front ends drive: locks that are grants, on one server or on several. Each grant knows why it was lost.
//!
//! Each server is a [`Member`](crate::client::Member). A single one answers callers itself. If there are several, a
//! [`Quorum`](crate::quorum::Quorum) counts what they answer.
//!
//! Threads share one client by a [`station`](super::station). An event loop drives its own, like any [`Driven`]
//! machine.
//!
//! Front ends do not see attempts. They pass operations and receive typed outcomes; a failure has a kind and a text.
//! The host and the registry of held locks share each grant. If a host wants to report a loss, it leaves a listener
//! with the grant, and the core returns the listener in a note. The core calls no host. In a forked child the parent's
//! grants are not held, and the front says so to every question.

mod driven;
mod ends;
mod giving_up;
mod members;
mod permits;
mod proceeding;
mod refusing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};

pub use giving_up::GiveUp;

use crate::call::{Call, Mode, Name, Names, ScriptAnswer};
use crate::client::{Client, Now, Outcome, Platform, Report, Setup, Voting};
use crate::failure::LockFailure;
use crate::grant::{Grant, Registry};
use crate::identity::new_client;
use crate::machine::{LockRequest, MachineFailure};
use crate::notes::{Note, Notes};
use crate::observed::{Counts, LockEvent};
use crate::quorum::{Votes, Waiter};
use crate::rate::{RateAnswer, RateQuestion};
use crate::status::{Asked, StatusAnswer, StatusQuestion};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::System;

/// The shortest time for which a parked lock tries to take its names again.
const RELOCK_AT_LEAST: Duration = Duration::from_secs(1);

/// An operation on locks. It ends with the outcome that it names, or with [`LockOutcome::Failed`].
#[derive(Debug)]
pub enum LockOperation<L> {
    /// Acquires all names or none: [`LockOutcome::Held`]. If the request does not wait and they are taken,
    /// [`LockOutcome::Busy`].
    Acquire { grant: Arc<Grant<L>>, request: LockRequest },
    /// Releases a lock: [`LockOutcome::Released`]. `early`: even if its names were to stay locked for longer.
    Release { grant: Arc<Grant<L>>, early: bool },
    /// Releases all locks, whoever has acquired them, and waits for the answers, for at most `wait`:
    /// [`LockOutcome::ReleasedAll`].
    ReleaseAll { wait: Option<Duration> },
    /// Hands a lock over to whoever adopts it within `ttl`, or within its own: [`LockOutcome::HandedOver`].
    HandOver { grant: Arc<Grant<L>>, ttl: Option<Duration> },
    /// Extends the lock to `ttl` from now: [`LockOutcome::Extended`].
    Extend { grant: Arc<Grant<L>>, ttl: Duration },
    /// Gives the lock this mode of names that it has in the other one, to read or to write; of all, if none are given.
    /// Waits for others that read what it is to write, for at most `wait`: [`LockOutcome::Held`].
    Change { grant: Arc<Grant<L>>, names: Vec<Name>, mode: Mode, wait: Duration },
    /// Releases the names until the lock is notified, for at most `wait`. Then acquires them again, within `relock` or
    /// one second, whichever is longer: [`LockOutcome::Held`].
    Park { grant: Arc<Grant<L>>, wait: Option<Duration>, relock: Duration },
    /// Notifies `most` of the locks parked on the same names, or all if 0: [`LockOutcome::Notified`].
    Notify { grant: Arc<Grant<L>>, most: u32 },
    /// Asks for the state of names: [`LockOutcome::Status`].
    Inspect { asked: Asked, question: StatusQuestion },
    /// Takes the names away from their holders. With `token`, only from the holder of that token:
    /// [`LockOutcome::ForceReleased`].
    ForceRelease { names: Names, token: Option<u64> },
    /// Takes permits of a rate, or not: [`LockOutcome::Rated`]. If it waits, it ends when the permits may be used.
    Rate { question: RateQuestion },
    /// Sends a command on the same connection, unless it would disturb other users there: [`LockOutcome::Value`].
    Execute { command: Command },
}

#[derive(Debug)]
pub enum LockOutcome {
    /// `notified`: whether a parked lock was notified.
    Held {
        notified: bool,
    },
    /// The names are taken, and the request does not wait.
    Busy,
    /// `held`: whether it was held until now.
    Released {
        held: bool,
    },
    /// How many locks were released while held.
    ReleasedAll {
        released: usize,
    },
    /// The text by which another process adopts it.
    HandedOver {
        ticket: String,
    },
    /// Whether it is still held.
    Extended {
        held: bool,
    },
    /// The number of notified locks.
    Notified {
        moved: u32,
    },
    Status(StatusAnswer),
    /// The number of names taken away.
    ForceReleased {
        released: usize,
    },
    Rated(RateAnswer),
    Value(Value),
    /// Boxed, because it is rare and much larger than the others.
    Failed(Box<LockFailure>),
}

/// A lock that a caller waits for.
#[derive(Debug)]
pub struct AwaitedLock<L> {
    pub grant: Arc<Grant<L>>,
    /// What a caller gives up that stops waiting.
    pub gives_up: GiveUp,
}

/// The outcome of an operation, or a note about something that happened by itself.
#[derive(Debug)]
pub enum LockFinished<W, L> {
    /// `unheard`: listeners of a lock that can no longer be lost. A host drops them where its own code may run.
    Done {
        waiter: W,
        outcome: LockOutcome,
        unheard: Vec<L>,
    },
    Note(Note<L>),
}

/// The servers and the locks held there. `W` identifies a waiting thread or coroutine to the host; `L` is a listener.
pub struct Front<W, L, P: Platform = System> {
    /// Nearly always one.
    members: Vec<members::Asked<W, L, P>>,
    /// What the members say, if their votes are counted.
    votes: Option<Box<Votes<Pending<W, L>>>>,
    closed: bool,
    registry: Registry<L>,
    /// Outcomes that needed no answer from the client, and the notes of one loss.
    finished: VecDeque<LockFinished<W, L>>,
    early: permits::Early<W>,
    /// Callers that wait for the release of all locks.
    endings: ends::Endings<W>,
    /// Where notes are left, if they are not handed out.
    notes: Option<Arc<Notes<L>>>,
    /// The time of the last call.
    now: Instant,
    /// When the last operation began.
    begun: Now,
    counts: Arc<Counts>,
}

/// A waiter, and what it waits for. One of several releases for the same waiter has none.
struct Pending<W, L> {
    waiter: Option<W>,
    about: About<L>,
}

enum About<L> {
    /// An acquisition, and when it began.
    Acquire(Arc<Grant<L>>, Instant),
    Lock(Arc<Grant<L>>),
    Release(Arc<Grant<L>>),
    /// One of the locks of this ending.
    Ending(u64),
    HandOver(Arc<Grant<L>>),
    Change(Arc<Grant<L>>),
    Status(Box<(Asked, StatusQuestion)>),
    Rate(Box<RateQuestion>),
    Other,
}

impl<W, L> Front<W, L> {
    pub fn new(settings: Setup) -> Self {
        let client = new_client(settings.options.label.as_deref());
        Self::on(System { keepalive: settings.keepalive }, settings, client)
    }

    /// Like [`Self::new`]. It leaves its notes instead of handing them out, for hosts that take them in a thread.
    pub fn with_notes(settings: Setup, notes: Arc<Notes<L>>) -> Self {
        Self { notes: Some(notes), ..Self::new(settings) }
    }
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// Like [`Self::new`], with another network and other clocks. `client`: a name that no other client of any process
    /// ever has.
    fn on(platform: P, settings: Setup, client: Arc<str>) -> Self {
        let counts = settings.options.observed.counts().clone();
        let member = |setup: &Setup| Client::on(platform.clone(), setup.clone(), client.clone());
        let (members, votes) = match settings.voting.clone() {
            Voting::Alone | Voting::Member { .. } => (vec![Client::on(platform, settings, client)], None),
            Voting::Quorum(quorum) => {
                let members: Vec<_> = quorum.members.iter().map(member).collect();
                let votes = Votes::new(members.len(), settings, quorum.longest_ttl, client.clone());
                (members, Some(votes.into()))
            }
        };
        let (registry, finished, begun) = (Registry::default(), VecDeque::new(), members[0].now());
        let now = begun.instant;
        let (early, endings) = (permits::Early::default(), ends::Endings::default());
        Self { members, votes, closed: false, registry, finished, early, endings, notes: None, now, begun, counts }
    }

    /// Begins an operation. Its outcome comes as [`LockFinished::Done`].
    pub fn begin(&mut self, operation: LockOperation<L>, waiter: W, now: Instant) {
        if let Some(outcome) = self.outcome_at_once(&operation) {
            self.finished.push_back(LockFinished::Done { waiter, outcome, unheard: Vec::new() });
            return self.end_turn();
        }
        let now = self.members[0].at(now);
        self.begun = now;
        let pending = |about| Pending { waiter: Some(waiter), about };
        match operation {
            LockOperation::Acquire { grant, request } => {
                let waiter = pending(About::Acquire(grant.clone(), now.instant));
                if let Some(number) = self.lock(request, waiter, now) {
                    grant.begun(number);
                }
            }
            LockOperation::Release { grant, early } => {
                if early {
                    self.end_early(grant.number());
                }
                // From now on it cannot be lost, and its holder has nothing more to release.
                self.registry.remove(&grant);
                self.release(grant.number(), pending(About::Release(grant)), now);
            }
            LockOperation::ReleaseAll { wait } => self.release_all(wait, pending(About::Other), now),
            LockOperation::HandOver { grant, ttl } => {
                let (number, ttl) = (grant.number(), ttl.unwrap_or_else(|| self.ttl(grant.number())));
                self.extend(number, ttl, pending(About::HandOver(grant)), now);
            }
            LockOperation::Extend { grant, ttl } => {
                self.extend(grant.number(), ttl, pending(About::Lock(grant)), now);
            }
            LockOperation::Change { grant, names, mode, wait } => {
                let number = grant.number();
                let (server, waiter) = (&mut self.members[0], Waiter::Caller(pending(About::Change(grant))));
                server.change(number, &names, mode, wait, waiter, now);
            }
            LockOperation::Park { grant, wait, relock } => {
                let (number, relock) = (grant.number(), relock.max(RELOCK_AT_LEAST));
                let (server, waiter) = (&mut self.members[0], Waiter::Caller(pending(About::Lock(grant))));
                server.park(number, wait, relock, waiter, now);
            }
            LockOperation::Notify { grant, most } => {
                let number = grant.number();
                let (server, waiter) = (&mut self.members[0], Waiter::Caller(pending(About::Lock(grant))));
                server.notify(number, most, waiter, now);
            }
            LockOperation::Inspect { asked, question } => {
                let remarks = question == StatusQuestion::Each;
                let call = Call::Inspect { names: asked.names().clone(), remarks };
                self.ask(call, pending(About::Status((asked, question).into())), now);
            }
            LockOperation::ForceRelease { names, token } => {
                self.ask(Call::ForceRelease { names, token }, pending(About::Other), now);
            }
            LockOperation::Rate { question } => {
                self.ask(question.call(), pending(About::Rate(question.into())), now);
            }
            LockOperation::Execute { command } => {
                let deadline = now.instant + self.settings().options.patience;
                self.members[0].execute(command, deadline, Waiter::Caller(pending(About::Other)), now.instant);
            }
        }
    }

    /// Gives up a lock that no caller can release any more. It is not renewed, and ends with its ttl.
    pub fn forsake(&mut self, grant: &Arc<Grant<L>>) {
        if grant.forsake() && self.registry.remove(grant) {
            self.forsake_hold(grant.number());
        }
    }

    /// How long a lock remains held without renewal. `None` if it is not held.
    pub fn remaining(&self, grant: &Arc<Grant<L>>) -> Option<Duration> {
        if grant.is_inherited() || !grant.is_held() {
            return None;
        }
        self.held(grant.number())
    }

    pub fn settings(&self) -> &Setup {
        self.votes.as_ref().map_or_else(|| self.members[0].settings(), |votes| votes.settings())
    }

    /// The next outcome or note. Take them after every call.
    pub(super) fn next_finished(&mut self) -> Option<LockFinished<W, L>> {
        loop {
            if let Some(finished) = self.finished.pop_front() {
                return Some(finished);
            }
            match self.next_report()? {
                Report::Done {
                    waiter: Waiter::Caller(Pending { waiter: Some(waiter), about: About::Rate(question) }),
                    outcome: Outcome::Answered(ScriptAnswer::Rated { taken, ahead }),
                } => match self.rated(waiter, &question, taken, ahead) {
                    Some(finished) => return Some(finished),
                    None => continue,
                },
                Report::Done { waiter: Waiter::Caller(Pending { waiter: Some(waiter), about }), outcome } => {
                    return Some(self.done(waiter, about, outcome));
                }
                Report::Done { waiter: Waiter::Caller(Pending { about, .. }), outcome } => {
                    let ended = self.one_ended(&about, &outcome);
                    self.finished.extend(ended);
                }
                Report::Done { waiter: Waiter::Quorum(_), .. } => {}
                Report::Lost { number, loss } => {
                    self.counts.lost(loss);
                    self.proceed_after(number, loss);
                    let listeners = self.registry.lose(number, loss).into_iter();
                    let note = |listener| LockFinished::Note(Note::Lost { listener, loss });
                    self.finished.extend(listeners.map(note));
                }
                Report::Event(event) => return Some(self.event(event)),
                Report::Warning(text) => {
                    let event = LockEvent::warning(&self.settings().server, text);
                    return Some(self.event(event.into()));
                }
            }
        }
    }

    fn event(&self, event: Box<LockEvent>) -> LockFinished<W, L> {
        LockFinished::Note(Note::Event { source: self.settings().options.observed.source(), event })
    }

    /// Notes the time, so that what happens now is measured.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    fn done(&mut self, waiter: W, about: About<L>, outcome: Outcome) -> LockFinished<W, L> {
        let mut unheard = Vec::new();
        let outcome = match (outcome, &about) {
            (Outcome::Granted { number, token, notified, .. }, About::Acquire(grant, begun)) => {
                self.counts.acquired(self.now.saturating_duration_since(*begun));
                self.granted(grant, number, token);
                LockOutcome::Held { notified }
            }
            (Outcome::Granted { number, token, notified, .. }, About::Lock(grant) | About::Change(grant)) => {
                self.granted(grant, number, token);
                LockOutcome::Held { notified }
            }
            (Outcome::Released { held }, About::Release(grant)) => {
                self.counts.released.add(u64::from(held));
                unheard = grant.take_listeners();
                LockOutcome::Released { held }
            }
            (Outcome::Extended { held }, About::HandOver(grant)) => {
                let handed_over = held.then(|| self.hand_over(grant)).flatten();
                let (outcome, listeners) =
                    handed_over.unwrap_or_else(|| (LockOutcome::failed(grant.not_held()), Vec::new()));
                unheard = listeners;
                outcome
            }
            (Outcome::Extended { held }, _) => LockOutcome::Extended { held },
            (Outcome::Failed(MachineFailure::Busy), _) => {
                self.counts.busy.add(1);
                LockOutcome::Busy
            }
            (Outcome::Failed(MachineFailure::Server(error)), about) if about.proceeds(&error) => {
                self.proceed(about, *error)
            }
            (Outcome::Failed(failure), About::Release(grant)) => {
                let (names, number) = (grant.names(), grant.number());
                let unreleased = self.unreleased(number);
                let failure = LockFailure::unreleased(failure, names, &self.settings().server, unreleased);
                self.counts.failed(failure.kind);
                LockOutcome::failed(failure)
            }
            (Outcome::Failed(MachineFailure::NotHeld), About::Acquire(grant, _)) => {
                let failure = LockFailure::not_adopted(grant.names());
                self.counts.failed(failure.kind);
                LockOutcome::failed(failure)
            }
            (Outcome::Failed(failure), About::Change(grant)) => {
                let failure = match failure {
                    MachineFailure::NotHeld => grant.not_held(),
                    failure => LockFailure::unchanged(failure, grant.names(), &self.settings().server),
                };
                self.counts.failed(failure.kind);
                LockOutcome::failed(failure)
            }
            (Outcome::Failed(failure), about) => {
                let names = match about {
                    About::Acquire(grant, _) | About::Lock(grant) | About::HandOver(grant) => Some(grant.names()),
                    _ => None,
                };
                let failure = LockFailure::of(failure, names, &self.settings().server);
                self.counts.failed(failure.kind);
                LockOutcome::failed(failure)
            }
            (Outcome::Answered(ScriptAnswer::Notified { moved }), _) => LockOutcome::Notified { moved },
            (Outcome::Answered(ScriptAnswer::ForceReleased { released }), _) => LockOutcome::ForceReleased { released },
            (Outcome::Answered(ScriptAnswer::Inspected(names)), About::Status(status)) => {
                let (asked, question) = &**status;
                LockOutcome::Status(asked.answer(*question, &names))
            }
            (Outcome::Value(value), _) => LockOutcome::Value(value),
            (Outcome::Granted { .. } | Outcome::Released { .. } | Outcome::Answered(_), _) => {
                let message = "the server's answer does not fit the request";
                let error = Error::new(Kind::Protocol, &self.settings().server, message);
                LockOutcome::failed(error.of("", Sent::Yes).into())
            }
        };
        LockFinished::Done { waiter, outcome, unheard }
    }

    fn granted(&mut self, grant: &Arc<Grant<L>>, number: u64, token: u64) {
        self.registry.add(grant, number, token);
        if grant.is_forsaken() {
            self.registry.remove(grant);
            self.forsake_hold(number);
        }
    }
}

impl LockOutcome {
    pub(super) fn failed(failure: LockFailure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl<L> LockOperation<L> {
    /// The lock that a caller waits for and may give up.
    pub fn awaited(&self) -> Option<AwaitedLock<L>> {
        match self {
            Self::Acquire { grant, .. } | Self::Park { grant, .. } => {
                Some(AwaitedLock { grant: grant.clone(), gives_up: GiveUp::Lock })
            }
            Self::Change { grant, .. } => Some(AwaitedLock { grant: grant.clone(), gives_up: GiveUp::Change }),
            _ => None,
        }
    }

    /// The lock of an operation that needs it held.
    fn held(&self) -> Option<&Arc<Grant<L>>> {
        match self {
            Self::Release { grant, .. }
            | Self::Extend { grant, .. }
            | Self::HandOver { grant, .. }
            | Self::Change { grant, .. }
            | Self::Park { grant, .. }
            | Self::Notify { grant, .. } => Some(grant),
            Self::Acquire { .. }
            | Self::ReleaseAll { .. }
            | Self::Inspect { .. }
            | Self::ForceRelease { .. }
            | Self::Rate { .. }
            | Self::Execute { .. } => None,
        }
    }

    /// The outcome for a lock that a forked child inherited. The child does not hold it, so it neither releases nor
    /// renews it.
    pub fn outcome_if_inherited(&self) -> Option<LockOutcome> {
        self.held().filter(|grant| grant.is_inherited()).and_then(|_| self.outcome_if_not_held())
    }

    fn outcome_if_not_held(&self) -> Option<LockOutcome> {
        match self {
            Self::Release { .. } => Some(LockOutcome::Released { held: false }),
            Self::Extend { .. } => Some(LockOutcome::Extended { held: false }),
            _ => self.held().map(|grant| LockOutcome::failed(grant.not_held())),
        }
    }
}

#[cfg(test)]
mod tests;
