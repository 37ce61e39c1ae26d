//! The machine of one caller: its next step after each answer, and what it tells its followers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::flights::{Flight, FlightKey, Flights, Part, Progress, Told};
use super::patience::Patience;
use super::steps::{Refusal, Step, StepOutcome};
use super::{LeaseTypes, Made, Terms};
use crate::operations::{Finding, Win, RENEWALS};
use crate::operations::{Found, FoundTags, ReadTags, Request};
use pinyon_net::fork::generation;
use pinyon_net::invalid::InvalidArgument;

/// One caller's way to a value. If it is dropped before the end, its followers continue by themselves.
pub struct GetOrSet<H: LeaseTypes, N = Infallible> {
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
    /// Whether a value that is made without a lease takes the place of whatever is stored.
    is_anew: bool,
    value: Option<H::Value>,
    /// What stands for the value, if its maker has left it out.
    nothing: Option<N>,
    error: Option<H::Error>,
    /// The error of a maker in whose place the old value is returned.
    suppressed: Option<H::Error>,
    /// Whether its caller has the old value and is done.
    is_behind: bool,
    /// Any number.
    chance: u64,
    /// The ttl of the item with the value that is made; `None` if it is not to be stored.
    ttl: Option<i64>,
    /// The token of the value that was found.
    cas: Option<u64>,
    /// What the value is stored with.
    tags: FoundTags,
    /// The token of a value that this caller cannot read, for its next question.
    unreadable: Option<u64>,
    /// How often this caller could not read the value.
    failures_to_read: u32,
}

/// The step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Asking,
    ReadingTags,
    Pausing,
    Following,
    Making,
    SharingStale,
    SharingLast,
    Storing,
    KeepingStale,
    GivingBack,
    Copying,
    Over,
}

impl<H: LeaseTypes, N> GetOrSet<H, N> {
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
        let patience = Patience::new(terms.wait(), chance, now);
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
            is_anew: false,
            value: None,
            nothing: None,
            error: None,
            suppressed: None,
            is_behind: false,
            chance,
            ttl: None,
            cas: None,
            tags: FoundTags::NONE,
            unreadable: None,
            failures_to_read: 0,
        }
    }

    /// The first step.
    pub fn begin(&mut self, now: Instant) -> Step<H, N> {
        self.is_anew = false;
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

    /// The first step of a caller that makes a value now, whatever is stored, and stores it in its place. It neither follows
    /// others nor leads them: they get what is stored meanwhile. A maker that has a lease already cannot store its value
    /// afterwards.
    pub fn begin_anew(&mut self) -> Step<H, N> {
        (self.is_anew, self.winner) = (true, generation());
        self.make()
    }

    /// The same for a value with tags, which are read before it is made.
    pub fn begin_tagged_anew(&mut self) -> Step<H, N> {
        (self.is_anew, self.winner) = (true, generation());
        let (lease, recache) = (self.terms.lease(), self.terms.recache());
        self.step(At::ReadingTags, Step::ReadTags(Request::Lease { lease, recache }))
    }

    /// The step that follows [`Step::Return`] for a caller that reads values only then, and cannot read this one.
    pub fn unreadable(&mut self, now: Instant) -> Step<H, N> {
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

    /// Whether the caller that this one follows has neither answered nor ended, and this one still waits.
    pub(super) fn still_follows(&self, now: Instant) -> bool {
        let is_under_way = |flight: &Arc<Flight<H>>| matches!(flight.progress(), Progress::UnderWay);
        self.follows.as_ref().is_some_and(is_under_way) && !self.patience.left(now).is_zero()
    }

    /// The remaining time to wait.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.patience.left(now)
    }

    /// What the maker says about storing the value, before [`StepOutcome::Value`]. If it makes no sense, the maker has
    /// failed: report the error instead of the value. Terms without a ttl need it for each value.
    pub fn made_with(&mut self, made: Made) -> Result<(), InvalidArgument> {
        self.ttl = self.terms.ttl_of_made(made, self.chance)?;
        Ok(())
    }

    /// The error of a maker that failed and in whose place the old value is returned, or was returned before, once: from the
    /// step on that follows the failure. Behind its caller, also why a value that was made cannot be stored. The host
    /// passes it to [`Directory::kept_stale`](crate::directory::Directory::kept_stale).
    pub fn suppressed(&mut self) -> Option<H::Error> {
        self.suppressed.take()
    }

    /// The value to store or to share.
    pub fn value(&self) -> Option<&H::Value> {
        self.value.as_ref()
    }

    /// The tags to store the value with ([`Step::Store`]): those of the caller as they were before the value was made, or
    /// those of the old value.
    pub fn tags(&self) -> Option<&ReadTags> {
        match self.at {
            At::KeepingStale => self.tags.of_value.as_ref(),
            _ => self.tags.given.as_ref(),
        }
    }

    /// The step that follows this outcome.
    pub fn next(&mut self, outcome: StepOutcome<H, N>, now: Instant) -> Step<H, N> {
        match (self.at, outcome) {
            (At::Asking, StepOutcome::Found(found)) => self.found(found, now),
            (At::ReadingTags, StepOutcome::Found(found)) => self.make_with_tags(found.tags),
            (At::Pausing, StepOutcome::Done) => self.ask(),
            (At::Following, StepOutcome::Done) => self.followed(now),
            (At::SharingStale, StepOutcome::Shared(shared)) => self.tell_and_make(Ok(shared)),
            (At::SharingStale, StepOutcome::Failed { error, .. }) => self.tell_and_make(Err(error)),
            (At::Making, StepOutcome::Value(value)) => self.made(value),
            (At::Making, StepOutcome::Late) => self.return_old(),
            (At::Making, StepOutcome::Nothing(nothing)) => self.made_nothing(nothing),
            (At::Making, StepOutcome::Failed { error, .. }) => self.maker_failed(error),
            (At::Storing, StepOutcome::Failed { error, is_outage: false }) => self.give_back(error),
            // A server that fails cannot take the lease back either.
            (At::Storing, StepOutcome::Failed { error, is_outage: true }) => self.fail(error),
            // The server may have refused the value. Others must not wait for it.
            (At::Storing, StepOutcome::Stored(false)) if self.flight_key.policy.miss => self.return_lease(),
            (At::Storing, _) => self.finish(),
            // The old value is there, whatever came of storing it again.
            (At::KeepingStale, StepOutcome::Failed { is_outage: false, .. }) => self.return_lease(),
            (At::KeepingStale, StepOutcome::Stored(false)) if self.flight_key.policy.miss => self.return_lease(),
            (At::KeepingStale, _) => self.finish(),
            (At::GivingBack, _) => self.finish(),
            (At::SharingLast, StepOutcome::Shared(shared)) => self.tell_and_return(Ok(shared)),
            (At::SharingLast, StepOutcome::Failed { error, .. }) => self.tell_and_return(Err(error)),
            (At::Copying, StepOutcome::Value(value)) => Step::Return(value),
            (
                At::Asking | At::ReadingTags | At::Pausing | At::Following | At::Copying,
                StepOutcome::Failed { error, .. },
            ) => self.fail(error),
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

    fn ask(&mut self) -> Step<H, N> {
        self.at = At::Asking;
        let (lease, recache) = (self.terms.lease(), self.terms.recache());
        Step::Ask(match self.unreadable.take() {
            Some(cas) => Request::Renew { lease, recache, cas },
            None => Request::Lease { lease, recache },
        })
    }

    /// Has a value made anew that this caller cannot read.
    fn renew(&mut self, cas: u64, now: Instant) -> Step<H, N> {
        self.failures_to_read += 1;
        if self.failures_to_read > RENEWALS {
            (self.win, self.winner) = (Some(Win { cas, keep: true }), generation());
            return self.make();
        }
        self.unreadable = Some(cas);
        match self.leads {
            Some(_) => self.ask(),
            None => self.begin(now),
        }
    }

    fn found(&mut self, found: Found<H::Value>, now: Instant) -> Step<H, N> {
        (self.cas, self.tags) = (found.cas, found.tags.clone());
        match found {
            // It may be the value that this caller cannot read. Another caller makes a new one.
            Found { finding: Finding::Stale, .. } if self.failures_to_read > 0 => self.pause(now),
            Found { finding: Finding::Hit | Finding::Stale, value: Some(value), .. } => {
                self.value = Some(value);
                self.finish()
            }
            Found { finding: Finding::Unreadable, cas: Some(cas), .. } => self.renew(cas, now),
            Found { finding: Finding::Unreadable, cas: None, .. } => self.make(),
            Found { finding: Finding::Won(win), value, .. } => {
                (self.win, self.winner) = (win, generation());
                self.value = value;
                match self.value {
                    Some(_) => self.step(At::SharingStale, Step::Share),
                    None => self.make(),
                }
            }
            _ => self.pause(now),
        }
    }

    fn pause(&mut self, now: Instant) -> Step<H, N> {
        match self.patience.pause(now) {
            Some(pause) => self.step(At::Pausing, Step::Pause(pause)),
            None => self.refuse(),
        }
    }

    fn followed(&mut self, now: Instant) -> Step<H, N> {
        match self.follows.take().map(|flight| flight.progress()) {
            Some(Progress::Told(told)) => self.told(told),
            Some(Progress::UnderWay) => self.refuse(),
            Some(Progress::Over) | None => self.begin(now),
        }
    }

    fn told(&mut self, told: Told<H>) -> Step<H, N> {
        match told {
            Ok(shared) => self.step(At::Copying, Step::Copy(shared)),
            Err(error) => self.step(At::Over, Step::Raise(error)),
        }
    }

    fn make(&mut self) -> Step<H, N> {
        self.ttl = self.terms.ttl_of_item(self.chance);
        let soft_timeout = self.terms.soft_timeout().filter(|_| self.has_old());
        self.step(At::Making, soft_timeout.map_or(Step::Make, Step::MakeWithin))
    }

    /// Without the tags, as the policy may forgive, the value is not stored.
    fn make_with_tags(&mut self, tags: FoundTags) -> Step<H, N> {
        self.is_anew = tags.given.is_some();
        self.tags = tags;
        self.make()
    }

    /// Goes on behind the caller. Whoever asks from now on leads a flight of its own.
    fn return_old(&mut self) -> Step<H, N> {
        self.end();
        self.is_behind = true;
        self.step(At::Making, Step::ReturnOld)
    }

    /// Whether there is an old value. One that this caller cannot read is none.
    fn has_old(&self) -> bool {
        self.value.is_some() && self.failures_to_read == 0
    }

    fn made(&mut self, value: H::Value) -> Step<H, N> {
        self.value = Some(value);
        let Some(ttl) = self.ttl else { return self.return_lease() };
        self.store(At::Storing, ttl)
    }

    /// Lets another caller make the value. An old one is not returned in its place.
    fn made_nothing(&mut self, nothing: N) -> Step<H, N> {
        (self.value, self.nothing) = (None, Some(nothing));
        self.return_lease()
    }

    /// Stores the value under the caller's token, if it has one, or in place of whatever is stored.
    fn store(&mut self, at: At, ttl: i64) -> Step<H, N> {
        self.win = self.own_win();
        match self.win {
            Some(Win { cas, .. }) => self.step(at, Step::Store { cas, ttl }),
            None if self.is_anew && self.winner == generation() => self.step(at, Step::Set { ttl }),
            None => self.finish(),
        }
    }

    /// Keeps the old value, if there is one and the terms say so.
    fn maker_failed(&mut self, error: H::Error) -> Step<H, N> {
        match self.terms.ttl_of_kept().filter(|_| self.has_old()) {
            Some(ttl) => {
                self.suppressed = Some(error);
                match self.tags.are_lost {
                    true => self.return_lease(),
                    false => self.store(At::KeepingStale, ttl),
                }
            }
            None => self.give_back(error),
        }
    }

    fn give_back(&mut self, error: H::Error) -> Step<H, N> {
        self.note(error);
        self.return_lease()
    }

    fn return_lease(&mut self) -> Step<H, N> {
        self.win = self.own_win();
        // It is kept: the caller may be interrupted before it has sent the request.
        match self.win {
            Some(win) => self.step(At::GivingBack, Step::GiveBack(Request::GiveBack(win))),
            None => self.finish(),
        }
    }

    fn fail(&mut self, error: H::Error) -> Step<H, N> {
        self.note(error);
        self.finish()
    }

    /// Keeps an error for the caller. If that has the old value already, the error is told in another way.
    fn note(&mut self, error: H::Error) {
        match self.is_behind {
            true => self.suppressed = Some(error),
            false => self.error = Some(error),
        }
    }

    /// Passes the answer, possibly an error, to the followers, and ends.
    fn finish(&mut self) -> Step<H, N> {
        self.win = None;
        match self.error.take() {
            Some(error) => {
                self.tell(Err(error.clone()));
                self.end();
                Step::Raise(error)
            }
            None if self.value.is_some() && self.has_followers() => self.step(At::SharingLast, Step::Share),
            None => self.return_value(),
        }
    }

    /// Ends a caller that has waited long enough. Its followers have waiting times of their own.
    fn refuse(&mut self) -> Step<H, N> {
        self.end();
        Step::Refuse(Refusal::StillBeingMade)
    }

    fn return_value(&mut self) -> Step<H, N> {
        self.end();
        match (self.value.take(), self.nothing.take()) {
            (Some(value), _) => Step::Return(value),
            (None, Some(nothing)) => Step::Nothing(nothing),
            (None, None) => unreachable!("without a value there is an error, or it was left out"),
        }
    }

    fn tell_and_make(&mut self, told: Told<H>) -> Step<H, N> {
        self.tell(told);
        self.make()
    }

    fn tell_and_return(&mut self, told: Told<H>) -> Step<H, N> {
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

    fn step(&mut self, at: At, step: Step<H, N>) -> Step<H, N> {
        self.at = at;
        step
    }
}

impl<H: LeaseTypes, N> Drop for GetOrSet<H, N> {
    fn drop(&mut self) {
        self.end();
    }
}
