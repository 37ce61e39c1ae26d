//! The machine of one caller that wants the values of many keys: it leads a [`GetOrSet`] for each key, and carries out
//! together the steps that they take.
//!
//! Its caller asks for all keys at once, makes at once what it won, and stores that at once. Only then does it wait: a
//! caller that leads some keys and follows others has ended the flights of the first ones before it waits for the others.
//! So two callers whose keys overlap never wait for each other. What it wins after a wait it makes in another call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{FlightKey, Flights, GetOrSet, LeaseTypes, Made, Refusal, Step, StepOutcome, Terms};
use crate::operations::{ReadTags, Request, Win};
use pinyon_net::invalid::InvalidArgument;

/// The next step for the host, with the [`ManyOutcome`] to report. Keys are indexes of those that the caller gave.
pub enum ManyStep<H: LeaseTypes> {
    /// Send the requests for leases together: [`ManyOutcome::Each`] of [`StepOutcome::Found`] or [`StepOutcome::Failed`].
    Ask(Vec<(usize, Request)>),
    /// Call the user's function with these keys: [`ManyOutcome::Each`] of [`StepOutcome::Value`], or of
    /// [`StepOutcome::Nothing`] for a key that it left out; or [`ManyOutcome::All`] of [`StepOutcome::Failed`].
    Make(Vec<usize>),
    /// Store the [values](GetOrSetMany::value) together: [`ManyOutcome::Each`] of [`StepOutcome::Stored`] or
    /// [`StepOutcome::Failed`].
    Store(Vec<Storing>),
    /// Send the requests together: [`ManyOutcome::Each`] of [`StepOutcome::Done`] or [`StepOutcome::Failed`].
    GiveBack(Vec<(usize, Request)>),
    /// As [`Step::Share`], for this key: [`ManyOutcome::All`].
    Share(usize),
    /// As [`Step::Copy`], for this key: [`ManyOutcome::All`].
    Copy(usize, H::Shared),
    /// Make a signal for each of these keys, keep it, and register it with [`GetOrSetMany::follow`]:
    /// [`ManyOutcome::All`] of [`StepOutcome::Done`].
    Listen(Vec<usize>),
    /// Wait until the signal of this key wakes this caller, for at most this time: [`ManyOutcome::All`] of
    /// [`StepOutcome::Done`].
    Follow(usize, Duration),
    /// Wait for this time: [`ManyOutcome::All`] of [`StepOutcome::Done`].
    Pause(Duration),
    /// The end: what became of each different key, in the order in which they were given.
    End(Vec<(usize, Ended<H>)>),
    /// The end: raise the error of the maker.
    Raise(H::Error),
    /// The end: the maker asks for what it is to make.
    Refuse(usize, Refusal),
}

/// A value to store if the item still has this token. `ttl`: in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storing {
    pub key: usize,
    pub cas: u64,
    pub ttl: i64,
}

/// Stands for the value of a key that the maker left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut;

/// The outcome of a [`ManyStep`].
pub enum ManyOutcome<H: LeaseTypes> {
    /// One outcome for each key of the step, in its order.
    Each(Vec<StepOutcome<H, LeftOut>>),
    /// The outcome of the step as a whole. A failure is one of each of its keys.
    All(StepOutcome<H, LeftOut>),
}

/// What became of a key.
pub enum Ended<H: LeaseTypes> {
    Value(H::Value),
    /// The maker left it out.
    Nothing,
    Failed(H::Error),
    Refused(Refusal),
}

/// One caller's way to the values of many keys. If it is dropped before the end, its followers continue by themselves.
pub struct GetOrSetMany<H: LeaseTypes> {
    ways: Vec<Way<H>>,
    /// Keys that were given again, each with the index of the first.
    repeated: Vec<(usize, usize)>,
    due: Due<H>,
    /// The ways whose steps are under way.
    under_way: Vec<usize>,
    is_making: bool,
    raised: Option<Fatal<H>>,
}

/// The way to the value of one key.
struct Way<H: LeaseTypes> {
    /// The key's index.
    key: usize,
    machine: GetOrSet<H, LeftOut>,
    /// Whether its maker failed.
    is_unmade: bool,
    ended: Option<Ended<H>>,
}

enum Fatal<H: LeaseTypes> {
    Raise(H::Error),
    Refuse(usize, Refusal),
}

/// The steps that the ways take next, by their positions.
struct Due<H: LeaseTypes> {
    shares: Vec<usize>,
    copies: Vec<(usize, H::Shared)>,
    listens: Vec<usize>,
    asks: Vec<(usize, Request)>,
    makes: Vec<usize>,
    stores: Vec<(usize, u64, i64)>,
    given_back: Vec<(usize, Request)>,
    follows: Vec<(usize, Duration)>,
    pauses: Vec<(usize, Duration)>,
}

impl<H: LeaseTypes> Default for Due<H> {
    fn default() -> Self {
        Self {
            shares: Vec::new(),
            copies: Vec::new(),
            listens: Vec::new(),
            asks: Vec::new(),
            makes: Vec::new(),
            stores: Vec::new(),
            given_back: Vec::new(),
            follows: Vec::new(),
            pauses: Vec::new(),
        }
    }
}

impl<H: LeaseTypes> GetOrSetMany<H> {
    /// `keys`: a flight for each key, in the caller's order. `caller`, `chance`: as for [`GetOrSet::new`].
    pub fn new(
        flights: &Arc<Flights<H>>,
        keys: impl IntoIterator<Item = FlightKey>,
        caller: usize,
        terms: Terms,
        chance: u64,
        now: Instant,
    ) -> Self {
        let (mut ways, mut repeated, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for (key, flight_key) in keys.into_iter().enumerate() {
            if let Some(first) = known.get(&flight_key) {
                repeated.push((key, *first));
                continue;
            }
            known.insert(flight_key.clone(), key);
            let chance = chance.wrapping_add((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let machine = GetOrSet::new(flights.clone(), flight_key, caller, terms, chance, now);
            ways.push(Way { key, machine, is_unmade: false, ended: None });
        }
        let (due, under_way) = (Due::default(), Vec::new());
        Self { ways, repeated, due, under_way, is_making: false, raised: None }
    }

    /// The first step.
    pub fn begin(&mut self, now: Instant) -> ManyStep<H> {
        for at in 0..self.ways.len() {
            let step = self.ways[at].machine.begin(now);
            self.take(at, step);
        }
        self.step(now)
    }

    /// The step that follows this outcome.
    pub fn next(&mut self, outcome: ManyOutcome<H>, now: Instant) -> ManyStep<H> {
        let under_way = std::mem::take(&mut self.under_way);
        let is_making = std::mem::take(&mut self.is_making);
        match outcome {
            ManyOutcome::Each(outcomes) => {
                debug_assert_eq!(outcomes.len(), under_way.len(), "each key has an outcome");
                under_way.into_iter().zip(outcomes).for_each(|(at, outcome)| self.tell(at, outcome, now));
            }
            ManyOutcome::All(StepOutcome::Failed { error, is_outage }) => {
                for at in under_way {
                    self.ways[at].is_unmade = is_making;
                    self.tell(at, StepOutcome::Failed { error: error.clone(), is_outage }, now);
                }
            }
            ManyOutcome::All(StepOutcome::Done) => {
                under_way.into_iter().for_each(|at| self.tell(at, StepOutcome::Done, now));
            }
            ManyOutcome::All(outcome) => {
                if let [at] = under_way[..] {
                    self.tell(at, outcome, now);
                }
            }
        }
        self.step(now)
    }

    /// The step that follows [`ManyStep::End`] for a caller that reads values only then, and cannot read those of these keys.
    /// The next end is theirs alone.
    pub fn unreadable(&mut self, keys: &[usize], now: Instant) -> ManyStep<H> {
        let positions: Vec<usize> = keys.iter().filter_map(|key| self.position(*key)).collect();
        for at in positions {
            let step = self.ways[at].machine.unreadable(now);
            self.take(at, step);
        }
        self.step(now)
    }

    /// Registers the signal of a key of [`ManyStep::Listen`]. It may never wake: what it waits for may be over.
    pub fn follow(&self, key: usize, signal: H::Signal) {
        if let Some(way) = self.way(key) {
            way.machine.follow(signal);
        }
    }

    /// The tags to store the value of a key with: see [`GetOrSet::tags`].
    pub fn tags(&self, key: usize) -> Option<&ReadTags> {
        self.way(key)?.machine.tags()
    }

    /// The value of a key, to store or to share.
    pub fn value(&self, key: usize) -> Option<&H::Value> {
        self.way(key)?.machine.value()
    }

    /// As [`GetOrSet::made_with`], for one of the keys of [`ManyStep::Make`].
    pub fn made_with(&mut self, key: usize, made: Made) -> Result<(), InvalidArgument> {
        match self.position(key) {
            Some(at) => self.ways[at].machine.made_with(made),
            None => Ok(()),
        }
    }

    /// As [`GetOrSet::suppressed`]: the keys whose old values stay although their maker failed, with its error.
    pub fn suppressed(&mut self) -> Vec<(usize, H::Error)> {
        let kept = |way: &mut Way<H>| way.machine.suppressed().map(|error| (way.key, error));
        self.ways.iter_mut().filter_map(kept).collect()
    }

    /// Keys that were given again, each with the index of the first.
    pub fn repeated(&self) -> &[(usize, usize)] {
        &self.repeated
    }

    /// Ends a caller that was cancelled or killed. Returns the leases that the host should give back, if possible.
    pub fn leave(&mut self) -> Vec<(usize, Win)> {
        let left = |way: &mut Way<H>| way.machine.leave().map(|win| (way.key, win));
        self.ways.iter_mut().filter_map(left).collect()
    }

    fn position(&self, key: usize) -> Option<usize> {
        self.ways.binary_search_by_key(&key, |way| way.key).ok()
    }

    fn way(&self, key: usize) -> Option<&Way<H>> {
        self.position(key).map(|at| &self.ways[at])
    }

    fn tell(&mut self, at: usize, outcome: StepOutcome<H, LeftOut>, now: Instant) {
        let step = self.ways[at].machine.next(outcome, now);
        self.take(at, step);
    }

    /// Takes note of what a way does next.
    fn take(&mut self, at: usize, step: Step<H, LeftOut>) {
        let (due, way) = (&mut self.due, &mut self.ways[at]);
        match step {
            Step::Ask(request) => due.asks.push((at, request)),
            Step::Pause(pause) => due.pauses.push((at, pause)),
            Step::Follow(patience) => {
                due.listens.push(at);
                due.follows.push((at, patience));
            }
            Step::Make => due.makes.push(at),
            Step::MakeWithin(_) | Step::ReturnOld => unreachable!("the terms of many keys have no soft timeout"),
            Step::Set { .. } | Step::ReadTags(_) => unreachable!("no way makes its value anew"),
            Step::Share => due.shares.push(at),
            Step::Store { cas, ttl } => due.stores.push((at, cas, ttl)),
            Step::GiveBack(request) => due.given_back.push((at, request)),
            Step::Copy(shared) => due.copies.push((at, shared)),
            Step::Return(value) => way.ended = Some(Ended::Value(value)),
            Step::Nothing(LeftOut) => way.ended = Some(Ended::Nothing),
            Step::Raise(error) if way.is_unmade => drop(self.raised.get_or_insert(Fatal::Raise(error))),
            Step::Raise(error) => way.ended = Some(Ended::Failed(error)),
            Step::Refuse(Refusal::Recursion) => {
                self.raised.get_or_insert(Fatal::Refuse(way.key, Refusal::Recursion));
            }
            Step::Refuse(refusal) => way.ended = Some(Ended::Refused(refusal)),
        }
    }

    /// The next step of all ways: first what they can do at once, and what others wait for; last of all, to wait.
    fn step(&mut self, now: Instant) -> ManyStep<H> {
        if let Some(at) = self.due.shares.pop() {
            self.under_way.push(at);
            return ManyStep::Share(self.ways[at].key);
        }
        if let Some((at, shared)) = self.due.copies.pop() {
            self.under_way.push(at);
            return ManyStep::Copy(self.ways[at].key, shared);
        }
        if let Some(Fatal::Refuse(key, refusal)) = &self.raised {
            let refused = ManyStep::Refuse(*key, *refusal);
            self.forget_what_is_due();
            return refused;
        }
        if !self.due.listens.is_empty() {
            let listens = std::mem::take(&mut self.due.listens);
            return ManyStep::Listen(listens.into_iter().map(|at| self.ways[at].key).collect());
        }
        if !self.due.asks.is_empty() {
            let asks = sorted(std::mem::take(&mut self.due.asks), |(at, _)| *at);
            self.under_way.extend(asks.iter().map(|(at, _)| *at));
            return ManyStep::Ask(self.keyed(asks));
        }
        if !self.due.makes.is_empty() {
            self.under_way = sorted(std::mem::take(&mut self.due.makes), |at| *at);
            self.is_making = true;
            return ManyStep::Make(self.under_way.iter().map(|at| self.ways[*at].key).collect());
        }
        if !self.due.stores.is_empty() {
            let stores = std::mem::take(&mut self.due.stores);
            self.under_way.extend(stores.iter().map(|(at, ..)| *at));
            let storing = |(at, cas, ttl): (usize, u64, i64)| Storing { key: self.ways[at].key, cas, ttl };
            return ManyStep::Store(stores.into_iter().map(storing).collect());
        }
        if !self.due.given_back.is_empty() {
            let given_back = std::mem::take(&mut self.due.given_back);
            self.under_way.extend(given_back.iter().map(|(at, _)| *at));
            return ManyStep::GiveBack(self.keyed(given_back));
        }
        match self.raised.take() {
            Some(Fatal::Raise(error)) => {
                self.forget_what_is_due();
                ManyStep::Raise(error)
            }
            Some(Fatal::Refuse(..)) | None => self.wait(now),
        }
    }

    /// Waits for other callers. Those of this process wake this one; those of others are asked about after a pause.
    fn wait(&mut self, now: Instant) -> ManyStep<H> {
        let ways = &self.ways;
        let (waiting, answered): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.due.follows).into_iter().partition(|(at, _)| ways[*at].machine.still_follows(now));
        self.due.follows = waiting;
        if !answered.is_empty() {
            answered.into_iter().for_each(|(at, _)| self.tell(at, StepOutcome::Done, now));
            return self.step(now);
        }
        let pause = self.due.pauses.first().map(|(_, pause)| *pause);
        let Some((first, _)) = self.due.follows.first() else {
            let Some(pause) = pause else { return self.end() };
            self.under_way = std::mem::take(&mut self.due.pauses).into_iter().map(|(at, _)| at).collect();
            return ManyStep::Pause(pause);
        };
        let followed = &self.ways[*first];
        let patience = followed.machine.left(now);
        // It goes on to ask about the others: the callers that it follows may wait for what it asks about.
        if pause.is_some() {
            self.under_way = std::mem::take(&mut self.due.pauses).into_iter().map(|(at, _)| at).collect();
        }
        ManyStep::Follow(followed.key, pause.map_or(patience, |pause| pause.min(patience)))
    }

    fn end(&mut self) -> ManyStep<H> {
        let ended = |way: &mut Way<H>| way.ended.take().map(|ended| (way.key, ended));
        ManyStep::End(self.ways.iter_mut().filter_map(ended).collect())
    }

    /// What the host asks of [`Self::leave`] is all that is left to do.
    fn forget_what_is_due(&mut self) {
        self.due = Due::default();
    }

    fn keyed(&self, requests: Vec<(usize, Request)>) -> Vec<(usize, Request)> {
        requests.into_iter().map(|(at, request)| (self.ways[at].key, request)).collect()
    }
}

fn sorted<T>(mut these: Vec<T>, position: impl FnMut(&T) -> usize) -> Vec<T> {
    these.sort_by_key(position);
    these
}
