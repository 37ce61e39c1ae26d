//! Makers that run beside callers of `fetch`, and may go on behind them: in a fiber of the caller's scheduler, or where the
//! executor's threads are.
//!
//! As long as the caller waits, its machine is its own; then it is the maker's. Only the holder of the VM lock changes the
//! stage.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use magnus::block::Proc;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{gc, method, Error, Exception, Module, RClass, Ruby, Value};
use pinyon_cache::blocking::give_back_late;
use pinyon_cache::lease::{Step, StepOutcome};
use pinyon_cache::operations::{Request, SentKey, Win};

use super::callers::{Follower, Here, Rooted, Types};
use super::fetching::{failed, value, Fetching};
use super::Cache;
use crate::errors::{kind_of, own};
use crate::keys::KeyBytes;

/// For how long a maker whose caller waits for nothing lets its caller go first.
const ASIDE: Duration = Duration::from_nanos(1);

pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("step_aside", method!(Fetching::step_aside, 0))?;
    class.define_method("made", method!(Fetching::made, 1))?;
    class.define_method("failed", method!(Fetching::maker_failed, 1))?;
    class.define_method("ended", method!(Fetching::ended, 0))
}

/// The maker that runs beside a caller, if there is one.
#[derive(Default)]
pub(super) struct Beside(Mutex<State>);

#[derive(Default)]
struct State {
    stage: Stage,
    made: Option<Made>,
    /// Wakes the caller.
    bell: Option<Follower>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Stage {
    /// The caller waits for its maker, or there is no such maker; or it has what the maker came to, or wants nothing.
    #[default]
    Callers,
    Awaited,
    /// The caller has left with the old value.
    Left,
    /// The maker has gone on since, or has ended.
    Over,
}

/// How a caller's wait for its maker has ended.
pub(super) enum Waited {
    Made(Result<StepOutcome<Types>, Error>),
    /// The caller returns this old value, and the maker goes on.
    Leaves(Value),
}

/// What the user's block has come to.
type Made = Result<Opaque<Value>, Opaque<Exception>>;

impl Beside {
    /// Never locked while Ruby runs or allocates: the garbage collector takes it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mark(&self, marker: &gc::Marker) {
        match self.state().made {
            Some(Ok(made)) => marker.mark(made),
            Some(Err(error)) => marker.mark(error),
            None => {}
        }
    }

    /// Whether the machine is the caller's, who goes away. What its maker comes to is not wanted any more.
    pub(super) fn is_callers(&self) -> bool {
        let mut state = self.state();
        if state.stage == Stage::Awaited {
            (state.stage, state.bell) = (Stage::Callers, None);
        }
        state.stage == Stage::Callers
    }

    /// Takes what the maker has come to. Nothing: the caller leaves without.
    fn take(&self) -> Option<Made> {
        let mut state = self.state();
        if state.stage == Stage::Awaited {
            (state.stage, state.bell) = (Stage::Left, None);
        }
        state.made.take()
    }

    /// Passes it on to the caller. Returns whether the caller has left, so that the maker goes on itself.
    fn offer(&self, made: Made) -> bool {
        let mut state = self.state();
        match state.stage {
            Stage::Awaited => {
                state.stage = Stage::Callers;
                state.made = Some(made);
                state.ring();
                false
            }
            Stage::Left => {
                state.stage = Stage::Over;
                true
            }
            Stage::Callers | Stage::Over => false,
        }
    }

    /// Takes note that nothing carries the maker on. Returns whether its caller has left.
    fn end(&self) -> bool {
        let mut state = self.state();
        match state.stage {
            Stage::Awaited => {
                // Without an outcome its caller gets the old value, and gives the lease back.
                state.stage = Stage::Callers;
                state.ring();
                false
            }
            Stage::Left => {
                state.stage = Stage::Over;
                true
            }
            Stage::Callers | Stage::Over => false,
        }
    }
}

impl State {
    fn ring(&mut self) {
        if let Some(bell) = self.bell.take() {
            pinyon_cache::lease::Signal::wake(bell);
        }
    }
}

impl Fetching {
    /// Has the maker run beside the caller, who waits for at most this time.
    pub(super) fn made_beside(
        ruby: &Ruby,
        this: Obj<Self>,
        client: Value,
        make: Proc,
        time: Duration,
    ) -> Result<Waited, Error> {
        let (here, cache) = (Here::current(ruby)?, ruby.get_inner(this.cache));
        let (bell, waits) = (here.follower(&cache.callers), !time.is_zero());
        {
            let mut state = this.beside.state();
            state.stage = if waits { Stage::Awaited } else { Stage::Left };
            state.bell = waits.then(|| bell.clone());
        }
        // Kept here: as soon as the caller has left, the maker may replace it.
        let old = this.value(ruby);
        if !waits {
            this.leave_behind();
        }
        let begun = client.funcall::<_, _, Value>(
            "begin_behind",
            (this, make, here.scheduler_object(ruby), ruby.get_inner(this.executor), !waits),
        );
        if let Err(raised) = begun {
            this.beside.state().stage = Stage::Callers;
            return Err(raised);
        }
        if !waits {
            return Ok(Waited::Leaves(old));
        }
        bell.wait(ruby, time)?;
        let made = match this.beside.take() {
            Some(Ok(made)) => this.noted(ruby, ruby.get_inner(made)).map(value),
            Some(Err(error)) => Err(ruby.get_inner(error).into()),
            None => {
                this.leave_behind();
                return Ok(Waited::Leaves(old));
            }
        };
        Ok(Waited::Made(made))
    }

    fn leave_behind(&self) {
        match self.machine().next(StepOutcome::Late, Instant::now()) {
            Step::ReturnOld => {}
            _ => unreachable!("a caller leaves while its value is made"),
        }
    }

    /// Lets the caller go first.
    fn step_aside(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        let here = Here::current(ruby)?;
        here.follower(&ruby.get_inner(this.cache).callers).wait(ruby, ASIDE)
    }

    /// Takes what the block returned.
    fn made(ruby: &Ruby, this: &Self, made: Value) -> Result<(), Error> {
        if !this.beside.offer(Ok(made.into())) {
            return ruby.get_inner(this.cache).callers.unblock(ruby);
        }
        let outcome = match this.noted(ruby, made) {
            Ok(made) => value(made),
            Err(raised) => failed(ruby, raised, false)?,
        };
        this.go_on(ruby, outcome)
    }

    /// Takes what the block raised.
    fn maker_failed(ruby: &Ruby, this: &Self, error: Exception) -> Result<(), Error> {
        if !this.beside.offer(Err(error.into())) {
            return ruby.get_inner(this.cache).callers.unblock(ruby);
        }
        let is_outage = own(ruby, &error.into())?.is_some_and(|exception| kind_of(exception).is_outage());
        this.go_on(ruby, StepOutcome::Failed { error: Rooted::new(error).into(), is_outage })
    }

    /// Takes note that the maker has ended, perhaps without having come to anything.
    fn ended(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        if this.beside.end() {
            return this.give_back_late(ruby);
        }
        ruby.get_inner(this.cache).callers.unblock(ruby)
    }

    /// Carries out the rest for a caller that has left.
    fn go_on(&self, ruby: &Ruby, outcome: StepOutcome<Types>) -> Result<(), Error> {
        let gone_on = self.carry_on(ruby, outcome);
        if gone_on.is_err() {
            self.give_back_late(ruby)?;
        }
        gone_on
    }

    fn carry_on(&self, ruby: &Ruby, mut outcome: StepOutcome<Types>) -> Result<(), Error> {
        let (cache, key) = (ruby.get_inner(self.cache), ruby.get_inner(self.key));
        loop {
            let step = self.machine().next(outcome, Instant::now());
            self.tell_kept(ruby, &cache, key)?;
            let done = match step {
                Step::Store { cas, ttl } => self.store(ruby, Some(cas), ttl),
                Step::GiveBack(Request::GiveBack(win)) if cache.is_closed() => {
                    self.give_back_without_waiting(ruby, win)?;
                    Ok(StepOutcome::Done)
                }
                Step::GiveBack(request) => cache.ask(ruby, key, request).map(|_| StepOutcome::Done),
                Step::Return(_) | Step::Raise(_) | Step::Refuse(_) => return Ok(()),
                _ => unreachable!("behind its caller, a maker stores its value or gives its lease back"),
            };
            outcome = match done {
                Ok(outcome) => outcome,
                Err(raised) => failed(ruby, raised, true)?,
            };
        }
    }

    /// Gives back the lease that the machine still has.
    fn give_back_late(&self, ruby: &Ruby) -> Result<(), Error> {
        let left = self.machine().leave();
        left.map_or(Ok(()), |win| self.give_back_without_waiting(ruby, win))
    }

    fn give_back_without_waiting(&self, ruby: &Ruby, win: Win) -> Result<(), Error> {
        let cache: Obj<Cache> = ruby.get_inner(self.cache);
        let (key, mut scratch) = (KeyBytes::of(ruby, ruby.get_inner(self.key))?, Vec::new());
        let sent = key.sent(ruby, &cache.keys, &mut scratch)?;
        give_back_late(&cache.directory, sent.owned(), win, cache.policy);
        Ok(())
    }
}
