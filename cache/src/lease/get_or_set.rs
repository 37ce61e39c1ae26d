//! The machine of one caller: its next step after each answer, and what it tells its followers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::flights::{Flight, FlightKey, Flights, Part, Progress, Told};
use super::patience::Patience;
use super::{LeaseTypes, Terms};
use crate::operations::{Finding, Win, RENEWALS};
use crate::operations::{Found, Request};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::fork::generation;

/// The next step for the host, with the [`StepOutcome`] to report. Every step may fail: [`StepOutcome::Failed`].
pub enum Step<H: LeaseTypes> {
    /// Send the request for a lease ([`Request::Lease`] or [`Request::Renew`]): [`StepOutcome::Found`].
    Ask(Request),
    /// Wait for this time: [`StepOutcome::Done`].
    Pause(Duration),
    /// Make a signal and register it with [`GetOrSet::follow`]. If that returns true, wait until the signal wakes this
    /// caller, for at most this time: [`StepOutcome::Done`].
    Follow(Duration),
    /// Call the user's function that makes the value: [`StepOutcome::Value`].
    Make,
    /// Turn [`GetOrSet::value`] into something that followers make their own values from: [`StepOutcome::Shared`].
    Share,
    /// Store [`GetOrSet::value`] with a ttl in seconds, if the item still has this token: [`StepOutcome::Stored`].
    Store { cas: u64, ttl: i64 },
    /// Send the request that lets others make the value: [`StepOutcome::Done`].
    GiveBack(Request),
    /// Make a value from what the leader shared: [`StepOutcome::Value`].
    Copy(H::Shared),
    /// The end: return this value.
    Return(H::Value),
    /// The end: raise this error.
    Raise(H::Error),
    /// The end: there is no value, for a reason of the core's.
    Refuse(Refusal),
}

/// The outcome of a [`Step`].
pub enum StepOutcome<H: LeaseTypes> {
    Found(Found<H::Value>),
    Value(H::Value),
    Shared(H::Shared),
    Done,
    /// Whether the value was stored. Another caller may have changed the item, or the policy reports failures so.
    Stored(bool),
    /// `is_outage`: [`ErrorKind::is_outage`] of the error's kind.
    Failed {
        error: H::Error,
        is_outage: bool,
    },
}

/// Why the core refuses to return a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another caller is still making it, and this caller's time to wait is up.
    StillBeingMade,
    /// The caller would wait for itself.
    Recursion,
}

impl Refusal {
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::StillBeingMade => ErrorKind::LeaseTimeout,
            Self::Recursion => ErrorKind::UsageError,
        }
    }

    /// `key`: in the notation of the host's language.
    pub fn message(self, key: &str) -> String {
        match self {
            Self::StillBeingMade => {
                format!("the value of {key} is still being made by another caller; to wait for it longer, raise wait")
            }
            Self::Recursion => {
                format!("what makes the value of {key} asks for this value, and would wait for itself")
            }
        }
    }
}

/// One caller's way to a value. If it is dropped before the end, its followers continue by themselves.
pub struct GetOrSet<H: LeaseTypes> {
    flights: Arc<Flights<H>>,
    flight_key: FlightKey,
    caller: usize,
    terms: Terms,
    patience: Patience,
    at: At,
    pub(super) leads: Option<Arc<Flight<H>>>,
    follows: Option<Arc<Flight<H>>>,
    win: Option<Win>,
    /// The process that has won.
    winner: u64,
    value: Option<H::Value>,
    error: Option<H::Error>,
    /// The token of the value that was found.
    cas: Option<u64>,
    /// The token of a value that this caller cannot read, for its next question.
    unreadable: Option<u64>,
    /// How often this caller could not read the value.
    failures_to_read: u32,
}

/// The step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Asking,
    Pausing,
    Following,
    Making,
    SharingStale,
    SharingLast,
    Storing,
    GivingBack,
    Copying,
    Over,
}

impl<H: LeaseTypes> GetOrSet<H> {
    /// `caller`: a number that no other caller of this flight has now. `chance`: any number; callers with different
    /// numbers do not ask the server in step.
    pub fn new(
        flights: Arc<Flights<H>>,
        flight_key: FlightKey,
        caller: usize,
        terms: Terms,
        chance: u64,
        now: Instant,
    ) -> Self {
        let patience = Patience::new(terms.wait, chance, now);
        Self {
            flights,
            flight_key,
            caller,
            terms,
            patience,
            at: At::Over,
            leads: None,
            follows: None,
            win: None,
            winner: 0,
            value: None,
            error: None,
            cas: None,
            unreadable: None,
            failures_to_read: 0,
        }
    }

    /// The first step.
    pub fn begin(&mut self, now: Instant) -> Step<H> {
        match self.flights.join(&self.flight_key, self.caller) {
            Part::Recurs => Step::Refuse(Refusal::Recursion),
            Part::Leads(flight) => {
                self.leads = Some(flight);
                self.ask()
            }
            Part::Follows(flight) => match flight.progress() {
                // What was told may be the value that this caller cannot read.
                Progress::Told(_) if self.failures_to_read > 0 => self.ask(),
                Progress::Told(told) => self.told(told),
                _ if self.failures_to_read > RENEWALS => self.ask(),
                _ => {
                    self.follows = Some(flight);
                    self.step(At::Following, Step::Follow(self.patience.left(now)))
                }
            },
        }
    }

    /// The step that follows [`Step::Return`] for a caller that reads values only then, and cannot read this one.
    pub fn unreadable(&mut self, now: Instant) -> Step<H> {
        match self.cas.take() {
            Some(cas) => self.renew(cas, now),
            None => {
                self.failures_to_read += 1;
                self.begin(now)
            }
        }
    }

    /// Registers the signal of a [`Step::Follow`]. Returns whether the caller must wait for it.
    pub fn follow(&self, signal: H::Signal) -> bool {
        self.follows.as_ref().is_some_and(|flight| flight.follow(signal))
    }

    /// The value to store or to share.
    pub fn value(&self) -> Option<&H::Value> {
        self.value.as_ref()
    }

    /// The step that follows this outcome.
    pub fn next(&mut self, outcome: StepOutcome<H>, now: Instant) -> Step<H> {
        match (self.at, outcome) {
            (At::Asking, StepOutcome::Found(found)) => self.found(found, now),
            (At::Pausing, StepOutcome::Done) => self.ask(),
            (At::Following, StepOutcome::Done) => self.followed(now),
            (At::SharingStale, StepOutcome::Shared(shared)) => self.tell_and_make(Ok(shared)),
            (At::SharingStale, StepOutcome::Failed { error, .. }) => self.tell_and_make(Err(error)),
            (At::Making, StepOutcome::Value(value)) => self.made(value),
            (At::Making, StepOutcome::Failed { error, .. }) => self.give_back(error),
            (At::Storing, StepOutcome::Failed { error, is_outage: false }) => self.give_back(error),
            // A server that fails cannot take the lease back either.
            (At::Storing, StepOutcome::Failed { error, is_outage: true }) => self.fail(error),
            // The server may have refused the value. Others must not wait for it.
            (At::Storing, StepOutcome::Stored(false)) if self.flight_key.policy.miss => self.return_lease(),
            (At::Storing, _) => self.finish(),
            (At::GivingBack, _) => self.finish(),
            (At::SharingLast, StepOutcome::Shared(shared)) => self.tell_and_return(Ok(shared)),
            (At::SharingLast, StepOutcome::Failed { error, .. }) => self.tell_and_return(Err(error)),
            (At::Copying, StepOutcome::Value(value)) => Step::Return(value),
            (At::Asking | At::Pausing | At::Following | At::Copying, StepOutcome::Failed { error, .. }) => {
                self.fail(error)
            }
            (at, _) => unreachable!("this is not the outcome of {at:?}"),
        }
    }

    /// Ends a caller that was cancelled or killed. Its followers continue by themselves. Returns the lease that the
    /// host should give back, if possible.
    pub fn leave(&mut self) -> Option<Win> {
        self.end();
        self.own_win()
    }

    /// The win, unless this is a child that was forked while the value was made: its parent still makes it.
    fn own_win(&mut self) -> Option<Win> {
        self.win.take().filter(|_| self.winner == generation())
    }

    fn ask(&mut self) -> Step<H> {
        self.at = At::Asking;
        let Terms { lease, recache, .. } = self.terms;
        Step::Ask(match self.unreadable.take() {
            Some(cas) => Request::Renew { lease, recache, cas },
            None => Request::Lease { lease, recache },
        })
    }

    /// Has a value made anew that this caller cannot read.
    fn renew(&mut self, cas: u64, now: Instant) -> Step<H> {
        self.failures_to_read += 1;
        if self.failures_to_read > RENEWALS {
            (self.win, self.winner) = (Some(Win { cas, keep: true }), generation());
            return self.step(At::Making, Step::Make);
        }
        self.unreadable = Some(cas);
        match self.leads {
            Some(_) => self.ask(),
            None => self.begin(now),
        }
    }

    fn found(&mut self, found: Found<H::Value>, now: Instant) -> Step<H> {
        self.cas = found.cas;
        match found {
            // It may be the value that this caller cannot read. Another caller makes a new one.
            Found { finding: Finding::Stale, .. } if self.failures_to_read > 0 => self.pause(now),
            Found { finding: Finding::Hit | Finding::Stale, value: Some(value), .. } => {
                self.value = Some(value);
                self.finish()
            }
            Found { finding: Finding::Unreadable, cas: Some(cas), .. } => self.renew(cas, now),
            Found { finding: Finding::Unreadable, cas: None, .. } => self.step(At::Making, Step::Make),
            Found { finding: Finding::Won(win), value, .. } => {
                (self.win, self.winner) = (win, generation());
                self.value = value;
                match self.value {
                    Some(_) => self.step(At::SharingStale, Step::Share),
                    None => self.step(At::Making, Step::Make),
                }
            }
            _ => self.pause(now),
        }
    }

    fn pause(&mut self, now: Instant) -> Step<H> {
        match self.patience.pause(now) {
            Some(pause) => self.step(At::Pausing, Step::Pause(pause)),
            None => self.refuse(),
        }
    }

    fn followed(&mut self, now: Instant) -> Step<H> {
        match self.follows.take().map(|flight| flight.progress()) {
            Some(Progress::Told(told)) => self.told(told),
            Some(Progress::UnderWay) => self.refuse(),
            Some(Progress::Over) | None => self.begin(now),
        }
    }

    fn told(&mut self, told: Told<H>) -> Step<H> {
        match told {
            Ok(shared) => self.step(At::Copying, Step::Copy(shared)),
            Err(error) => self.step(At::Over, Step::Raise(error)),
        }
    }

    fn made(&mut self, value: H::Value) -> Step<H> {
        self.value = Some(value);
        self.win = self.own_win();
        match self.win {
            Some(Win { cas, .. }) => self.step(At::Storing, Step::Store { cas, ttl: self.terms.ttl }),
            None => self.finish(),
        }
    }

    fn give_back(&mut self, error: H::Error) -> Step<H> {
        self.error = Some(error);
        self.return_lease()
    }

    fn return_lease(&mut self) -> Step<H> {
        self.win = self.own_win();
        // It is kept: the caller may be interrupted before it has sent the request.
        match self.win {
            Some(win) => self.step(At::GivingBack, Step::GiveBack(Request::GiveBack(win))),
            None => self.finish(),
        }
    }

    fn fail(&mut self, error: H::Error) -> Step<H> {
        self.error = Some(error);
        self.finish()
    }

    /// Passes the answer, possibly an error, to the followers, and ends.
    fn finish(&mut self) -> Step<H> {
        self.win = None;
        match self.error.take() {
            Some(error) => {
                self.tell(Err(error.clone()));
                self.end();
                Step::Raise(error)
            }
            None if self.has_followers() => self.step(At::SharingLast, Step::Share),
            None => self.return_value(),
        }
    }

    /// Ends a caller that has waited long enough. Its followers have waiting times of their own.
    fn refuse(&mut self) -> Step<H> {
        self.end();
        Step::Refuse(Refusal::StillBeingMade)
    }

    fn return_value(&mut self) -> Step<H> {
        self.end();
        match self.value.take() {
            Some(value) => Step::Return(value),
            None => unreachable!("a caller that succeeds has a value"),
        }
    }

    fn tell_and_make(&mut self, told: Told<H>) -> Step<H> {
        self.tell(told);
        self.step(At::Making, Step::Make)
    }

    fn tell_and_return(&mut self, told: Told<H>) -> Step<H> {
        self.tell(told);
        self.return_value()
    }

    fn tell(&self, told: Told<H>) {
        if let Some(flight) = &self.leads {
            flight.tell(told);
        }
    }

    fn has_followers(&self) -> bool {
        self.leads.as_ref().is_some_and(|flight| flight.followers() > 0)
    }

    fn end(&mut self) {
        self.at = At::Over;
        self.follows = None;
        if let Some(flight) = self.leads.take() {
            self.flights.end(&self.flight_key, &flight);
        }
    }

    fn step(&mut self, at: At, step: Step<H>) -> Step<H> {
        self.at = at;
        step
    }
}

impl<H: LeaseTypes> Drop for GetOrSet<H> {
    fn drop(&mut self) {
        self.end();
    }
}
