//! What locks ask of one server. Whoever counts the votes of several asks each of them the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::Command;

use super::link::About;
use super::{Awaited, Client, Outcome, Platform, Report, Standing};
use crate::call::{Attempt, Call, Mode, Name, Names};
use crate::claim::Claim;
use crate::machine::{LockRequest, MachineFailure, Moment, NotHeld, Renewal};
use pinyon_net::error::{Error, Kind};

/// The time, by both clocks that clients use.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    pub moment: Moment,
}

/// One server: a client of it, or in tests a machine. Its locks have numbers of their own. Each operation ends with the
/// outcome that it names, or with [`Outcome::Failed`].
pub trait Member {
    /// For whom it does something.
    type Waiter;

    /// Takes a lock: [`Outcome::Granted`]. `claim`: its place in the order of a quorum's servers. Returns the number of
    /// the attempt, if one was begun.
    fn lock(&mut self, request: LockRequest, claim: Option<Claim>, waiter: Self::Waiter, now: Now) -> Option<u64>;

    /// Releases it: [`Outcome::Released`].
    fn release(&mut self, number: u64, waiter: Self::Waiter, now: Now);

    /// Holds it for `ttl` from now: [`Outcome::Extended`].
    fn extend(&mut self, number: u64, ttl: Duration, waiter: Self::Waiter, now: Now);

    /// Raises the counter of its server to `floor`, and holds it for its ttl from now: [`Outcome::Extended`].
    fn raise(&mut self, number: u64, floor: u64, waiter: Self::Waiter, now: Now);

    /// Asks something that concerns no lock of this client: [`Outcome::Answered`].
    fn ask(&mut self, call: Call, waiter: Self::Waiter, now: Now);

    /// Gives up a lock, granted or not. No report follows.
    fn cancel(&mut self, number: u64, now: Now);

    /// Forsakes a lock that no caller can release any more.
    fn forsake(&mut self, number: u64);

    /// Sets how a lock is renewed from now on.
    fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Now);

    /// How long a granted lock still counts as held.
    fn held(&self, number: u64, now: Now) -> Option<Duration>;

    /// The next report. Take reports after every call.
    fn next_report(&mut self) -> Option<Report<Self::Waiter>>;

    /// The next lock that an attempt which comes before it waits for. Take it after the reports.
    fn next_contested(&mut self) -> Option<u64>;

    /// What the connected server has told about itself. `None` if there is none, or it was not asked.
    fn standing(&self) -> Option<&Standing>;

    /// Why there is no connection, if one was tried for.
    fn trouble(&self) -> Option<&Error>;

    /// The server's name for messages.
    fn name(&self) -> &Arc<str>;
}

impl<W, P: Platform> Member for Client<W, P> {
    type Waiter = W;

    #[inline]
    fn lock(&mut self, request: LockRequest, claim: Option<Claim>, waiter: W, now: Now) -> Option<u64> {
        let begun = match claim {
            // An owner that waits for replicas neither holds its lock yet, nor may it wait for itself.
            None if self.is_held_back(&request) => Err(match request.wait {
                Some(_) => MachineFailure::AlreadyHeld,
                None => MachineFailure::Busy,
            }),
            None => match self.known_away(&request, now) {
                Some(error) => Err(MachineFailure::from(error)),
                None => self.machine.lock(request, now.moment),
            },
            Some(claim) => self.machine.claim(request, claim, now.moment),
        };
        match begun {
            Ok(number) => {
                self.started(number, Awaited::Grant, waiter, now);
                Some(number)
            }
            Err(failure) => {
                self.refuse(waiter, Outcome::Failed(failure));
                None
            }
        }
    }

    #[inline]
    fn release(&mut self, number: u64, waiter: W, now: Now) {
        match self.machine.release(number, now.moment) {
            Ok(()) => self.started(number, Awaited::Release, waiter, now),
            Err(NotHeld) => self.refuse(waiter, Outcome::Released { held: false }),
        }
    }

    fn extend(&mut self, number: u64, ttl: Duration, waiter: W, now: Now) {
        match self.machine.extend(number, ttl, now.moment) {
            Ok(()) => self.started(number, Awaited::Extension, waiter, now),
            Err(NotHeld) => self.refuse(waiter, Outcome::Extended { held: false }),
        }
    }

    fn raise(&mut self, number: u64, floor: u64, waiter: W, now: Now) {
        match self.machine.raise(number, floor, now.moment) {
            Ok(()) => self.started(number, Awaited::Extension, waiter, now),
            Err(NotHeld) => self.refuse(waiter, Outcome::Extended { held: false }),
        }
    }

    fn ask(&mut self, call: Call, waiter: W, now: Now) {
        let question = self.machine.question(call, now.moment);
        self.started(question, Awaited::Answer, waiter, now);
    }

    fn cancel(&mut self, number: u64, now: Now) {
        self.waiting.remove(&(number, Awaited::Grant));
        self.forget_grant(number);
        self.machine.cancel(number, now.moment);
        self.begun(now.instant);
    }

    fn forsake(&mut self, number: u64) {
        self.machine.forsake(number);
    }

    fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Now) {
        self.machine.set_renewal(number, renewal, now.moment);
    }

    fn held(&self, number: u64, now: Now) -> Option<Duration> {
        self.machine.held(number, now.moment).map(|(_, remaining)| remaining)
    }

    #[inline]
    fn next_report(&mut self) -> Option<Report<W>> {
        self.finished.pop_front()
    }

    fn next_contested(&mut self) -> Option<u64> {
        self.contested.pop()
    }

    fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    fn trouble(&self) -> Option<&Error> {
        self.machine.trouble()
    }

    fn name(&self) -> &Arc<str> {
        &self.settings.server
    }
}

/// What only a server can do that holds locks alone.
impl<W, P: Platform> Client<W, P> {
    /// Releases the names of a lock until it is notified, for at most `wait`, then takes them again, within `relock`:
    /// [`Outcome::Granted`].
    pub fn park(&mut self, number: u64, wait: Option<Duration>, relock: Duration, waiter: W, now: Now) {
        let parked = match self.has_conditions() {
            Ok(()) => self.machine.park(number, wait, relock, now.moment).map_err(|NotHeld| MachineFailure::NotHeld),
            Err(error) => Err(MachineFailure::from(error)),
        };
        match parked {
            Ok(()) => self.started(number, Awaited::Grant, waiter, now),
            Err(failure) => self.refuse(waiter, Outcome::Failed(failure)),
        }
    }

    /// Gives a lock this mode of names that it has in the other one: [`Outcome::Granted`].
    pub fn change(&mut self, number: u64, names: &[Name], mode: Mode, wait: Duration, waiter: W, now: Now) {
        if self.is_confirming(number) {
            return self.refuse(waiter, Outcome::Failed(MachineFailure::Changing));
        }
        match self.machine.change(number, names, mode, wait, now.moment) {
            Ok(()) => self.started(number, Awaited::Grant, waiter, now),
            Err(failure) => self.refuse(waiter, Outcome::Failed(failure)),
        }
    }

    /// Lets a lock keep the modes that it has, because the caller of its change has gone. No report follows.
    pub fn stop_changing(&mut self, number: u64, now: Now) {
        self.waiting.remove(&(number, Awaited::Grant));
        self.machine.stop_changing(number, now.moment);
        self.begun(now.instant);
    }

    /// The names of a held lock, in their modes.
    pub fn names(&self, number: u64) -> Option<Names> {
        self.machine.names(number)
    }

    /// Whether its names stay locked for a least time.
    pub fn has_least(&self, number: u64) -> bool {
        self.machine.has_least(number)
    }

    /// Notifies `most` of the waiters parked on a lock's names, or all if 0: [`Outcome::Answered`].
    pub fn notify(&mut self, number: u64, most: u32, waiter: W, now: Now) {
        let names = self.has_conditions().map_err(MachineFailure::from);
        let asked = names.and_then(|()| self.machine.names(number).ok_or(MachineFailure::NotHeld)).map(|names| {
            let call = Call::Notify { attempt: self.machine.attempt(number), names, most };
            self.machine.question(call, now.moment)
        });
        match asked {
            Ok(question) => self.started(question, Awaited::Answer, waiter, now),
            Err(failure) => self.refuse(waiter, Outcome::Failed(failure)),
        }
    }

    /// Sends any command on the same connection: [`Outcome::Value`], or the server's error.
    pub fn execute(&mut self, command: Command, deadline: Instant, waiter: W, now: Instant) {
        self.link.push(command, About::Command(waiter), deadline);
        self.begun(now);
    }

    /// Releases a lock as [`Member::release`] does, however many times its owner has acquired it. The caller waits for at
    /// most `wait`.
    pub fn release_wholly(&mut self, number: u64, wait: Duration, waiter: W, now: Now) {
        match self.machine.release_wholly(number, wait, now.moment) {
            Ok(()) => self.started(number, Awaited::Release, waiter, now),
            Err(NotHeld) => self.refuse(waiter, Outcome::Released { held: false }),
        }
    }

    /// Gives up a lock that is waited for: whoever waits gets [`MachineFailure::Busy`].
    pub fn stop_waiting(&mut self, number: u64, now: Now) {
        if let Some(waiter) = self.take_waiter(number, Awaited::Grant) {
            self.cancel(number, now);
            self.refuse(waiter, Outcome::Failed(MachineFailure::Busy));
        }
    }

    /// Lets a lock end with its release, although it was to last longer.
    pub fn end_early(&mut self, number: u64) {
        self.machine.end_early(number);
    }

    pub fn ttl(&self, number: u64) -> Duration {
        self.machine.ttl(number)
    }

    /// Forgets a lock that is handed over, as [`Machine::hand_over`](crate::machine::Machine::hand_over) does.
    pub fn hand_over(&mut self, number: u64, now: Now) -> Option<(Attempt, Names, Duration)> {
        let handed_over = self.machine.hand_over(number, now.moment);
        self.begun(now.instant);
        handed_over
    }

    fn has_conditions(&self) -> Result<(), Error> {
        let message = "conditions need scripts on the server: set handler to \"script\"";
        let without = || Error::new(Kind::Unsupported, &self.settings.server, message);
        (!self.link.handler.is_plain()).then_some(()).ok_or_else(without)
    }

    /// Lets a waiter wait for what was begun.
    #[inline]
    fn started(&mut self, number: u64, awaited: Awaited, waiter: W, now: Now) {
        self.wait_for((number, awaited), waiter);
        self.begun(now.instant);
    }

    #[cold]
    fn refuse(&mut self, waiter: W, outcome: Outcome) {
        self.finish(waiter, outcome);
        self.end_turn();
    }
}
