//! `get_or_set`: carries out the core's steps for one caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::dialect::Plain;
use pinyon_cache::lease::{FlightKey, Flights, GetOrSet, LeaseTypes, Signal, Step, StepOutcome, Terms};
use pinyon_cache::operations::{Answer, Compared, Request};
use pinyon_net::error::kinds::ErrorKind;

use crate::cache::{Block, Cache, Calls};
use crate::raised::Raised;

/// How often a caller of this host checks whether it was woken. A host with threads or coroutines would wait instead.
const LOOK: Duration = Duration::from_millis(5);

/// The types of this host. Its values are immutable, so all callers can share them.
pub enum Callers {}

impl LeaseTypes for Callers {
    type Value = Plain;
    type Shared = Plain;
    type Error = Raised;
    type Signal = Woken;
}

/// The values that are being made, of one cache.
pub type Makings = Arc<Flights<Callers>>;

#[derive(Clone, Default)]
pub struct Woken(Arc<AtomicBool>);

impl Signal for Woken {
    fn wake(self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One caller of `get_or_set`. In a host with coroutines, it would be one.
pub struct Caller {
    key: String,
    machine: GetOrSet<Callers>,
    state: State,
}

enum State {
    Begins,
    /// Until the value is passed to [`Caller::made`].
    Makes,
    /// Until it is woken, or until this time.
    Follows(Woken, Instant),
    Goes(StepOutcome<Callers>),
}

/// The state of a caller.
#[derive(Debug, PartialEq)]
pub enum Course {
    /// It must make the value.
    Makes,
    /// Another caller of this process is making it.
    Follows,
    Over(Result<Plain, Raised>),
}

impl Caller {
    /// `number`: unique among the current callers.
    pub fn new(makings: &Makings, cache: &Cache, key: &str, terms: Terms, number: usize) -> Self {
        // All callers of this host can wake each other.
        let flight_key = FlightKey { scope: 0, key: key.as_bytes().into(), policy: cache.policy };
        let machine = GetOrSet::new(makings.clone(), flight_key, number, terms, number as u64, Instant::now());
        Self { key: key.to_owned(), machine, state: State::Begins }
    }

    /// Continues until it is over, or until something else must happen first.
    pub fn go_on(&mut self, cache: &mut Cache) -> Course {
        let mut step = match std::mem::replace(&mut self.state, State::Makes) {
            State::Begins => self.machine.begin(Instant::now()),
            State::Makes => return Course::Makes,
            State::Follows(woken, until) if !woken.0.load(Ordering::Acquire) && Instant::now() < until => {
                self.state = State::Follows(woken, until);
                return Course::Follows;
            }
            State::Follows(..) => self.machine.next(StepOutcome::Done, Instant::now()),
            State::Goes(outcome) => {
                let step = self.machine.next(outcome, Instant::now());
                if let Some(error) = self.machine.suppressed() {
                    cache.kept_stale(&self.key, &error.message);
                }
                step
            }
        };
        loop {
            let outcome = match step {
                Step::Make => return Course::Makes,
                Step::Follow(patience) => {
                    let woken = Woken::default();
                    if self.machine.follow(woken.clone()) {
                        self.state = State::Follows(woken, Instant::now() + patience);
                        return Course::Follows;
                    }
                    Ok(StepOutcome::Done)
                }
                Step::Return(value) => return Course::Over(Ok(value)),
                Step::Raise(error) => return Course::Over(Err(error)),
                Step::Refuse(refusal) => {
                    let raised = Raised { kind: refusal.kind(), message: refusal.message(&self.key) };
                    return Course::Over(Err(raised));
                }
                step => self.carry_out(cache, step),
            };
            step = self.machine.next(outcome.unwrap_or_else(failed), Instant::now());
        }
    }

    /// Takes the made value, or the failure to make it.
    pub fn made(&mut self, made: Result<Plain, Raised>) {
        self.state = State::Goes(made.map_or_else(failed, StepOutcome::Value));
    }

    /// Gives up. Another caller may make the value at once.
    pub fn leave(mut self, cache: &mut Cache) -> Result<(), Raised> {
        match self.machine.leave() {
            Some(win) => cache.give_back(&self.key, win).map(drop),
            None => Ok(()),
        }
    }

    fn carry_out(&self, cache: &mut Cache, step: Step<Callers>) -> Result<StepOutcome<Callers>, Raised> {
        let value = self.machine.value();
        Ok(match (step, value) {
            (Step::Ask(request), _) => StepOutcome::Found(found(cache, &self.key, request)?),
            (Step::Store { cas, ttl }, Some(value)) => {
                let stored = cache.compare_and_set(&self.key, value, cas, ttl)?;
                StepOutcome::Stored(stored == Compared::Stored)
            }
            (Step::GiveBack(request), _) => {
                cache.ask(&self.key, request, Block::Nothing)?;
                StepOutcome::Done
            }
            (Step::Pause(pause), _) => {
                cache.rest(pause);
                StepOutcome::Done
            }
            (Step::Share, Some(value)) => StepOutcome::Shared(value.clone()),
            (Step::Copy(shared), _) => StepOutcome::Value(shared),
            _ => unreachable!("these are not carried out on a cache, or there is a value"),
        })
    }
}

/// One caller, from beginning to end.
pub fn get_or_set(
    makings: &Makings,
    cache: &mut Cache,
    key: &str,
    terms: Terms,
    number: usize,
    mut make: impl FnMut() -> Result<Plain, Raised>,
) -> Result<Plain, Raised> {
    let mut caller = Caller::new(makings, cache, key, terms, number);
    loop {
        match caller.go_on(cache) {
            Course::Makes => caller.made(make()),
            Course::Follows => cache.rest(LOOK),
            Course::Over(outcome) => return outcome,
        }
    }
}

fn found(cache: &mut Cache, key: &str, request: Request) -> Result<pinyon_cache::operations::Found<Plain>, Raised> {
    match cache.ask(key, request, Block::Nothing)? {
        Answer::Lease(found) => Ok(*found),
        other => unreachable!("a lease comes to {other:?}"),
    }
}

fn failed(error: Raised) -> StepOutcome<Callers> {
    let is_outage = ErrorKind::is_outage(error.kind);
    StepOutcome::Failed { error, is_outage }
}
