//! Candidates for the leadership of a name. The core decides what they do; `Pinyon::Locks::Leader` does it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use magnus::value::ReprValue;
use magnus::{function, method, Error, IntoValue, Module, Object, RModule, Ruby, Symbol, TryConvert, Value};
use pinyon_cache::lease::Signal;
use pinyon_locks::{Candidate as InCore, LeaderReport, LeaderReportKind, LeaderStep};

use super::client::name_bytes;
use crate::cache::callers::{Callers, Follower, Here};
use crate::define_class;
use crate::errors::{exception, ErrorKind};
use crate::fibers::Scheduler;
use crate::ttl::seconds;

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<Candidate>(ruby, native, "Candidate")?;
    class.define_singleton_method("new", function!(Candidate::new, 1))?;
    class.define_method("next", method!(Candidate::next, 2))?;
    class.define_method("resign", method!(Candidate::resign, 0))?;
    class.define_method("stop", method!(Candidate::stop, 0))?;
    class.define_method("stopping?", method!(Candidate::is_stopping, 0))?;
    class.define_method("token", method!(Candidate::token, 0))?;
    class.define_method("state", method!(Candidate::state, 0))?;
    class.define_method("changes", method!(Candidate::changes, 0))?;
    class.define_method("changed", method!(Candidate::changed, 0))?;
    class.define_method("wait", method!(Candidate::wait, 2))?;
    native.define_singleton_method("scheduler", function!(scheduler, 0))
}

/// The scheduler of the calling fiber, or what stands for it in a reactor of EventMachine.
fn scheduler(ruby: &Ruby) -> Result<Option<Value>, Error> {
    Ok(Scheduler::current(ruby)?.map(Scheduler::object))
}

/// One candidate, from its start to its end, and those that wait for a change of it.
#[magnus::wrap(class = "Pinyon::Native::Candidate", free_immediately)]
pub(crate) struct Candidate {
    candidate: InCore,
    waiting: Mutex<Waiting>,
    callers: Callers,
}

/// Not locked while Ruby runs.
#[derive(Default)]
struct Waiting {
    /// How many changes there were.
    changes: u64,
    followers: Vec<(u64, Follower)>,
    next: u64,
}

impl Candidate {
    fn new(ruby: &Ruby, name: Value) -> Result<Self, Error> {
        let candidate = InCore::new(&name_bytes(ruby, name)?);
        Ok(Self { candidate, waiting: Mutex::default(), callers: Callers::default() })
    }

    /// The next step and its argument. `report`: what became of the last one; `about`: its token, or why.
    fn next(ruby: &Ruby, this: &Self, report: Symbol, about: Value) -> Result<(Symbol, Value), Error> {
        let word = report.name()?;
        let Some(kind) = LeaderReportKind::named(&word) else {
            let message = format!("a candidate does not understand the report {word}");
            return Err(exception(ruby, ErrorKind::UsageError, &message));
        };
        let report = LeaderReport::of(kind, || u64::try_convert(about), || String::try_convert(about))?;
        let step = this.candidate.next(report, Instant::now());
        let about = match &step {
            LeaderStep::Elected { token } | LeaderStep::Lost { token } => token.into_value_with(ruby),
            LeaderStep::Lead { look_in: time } | LeaderStep::Pause { time } => time.as_secs_f64().into_value_with(ruby),
            LeaderStep::Warn { line } => line.as_str().into_value_with(ruby),
            LeaderStep::Ask | LeaderStep::Release | LeaderStep::Over => ruby.qnil().as_value(),
        };
        Ok((ruby.to_symbol(step.kind().word()), about))
    }

    /// Returns whether it led.
    fn resign(&self) -> bool {
        self.candidate.resign()
    }

    fn stop(&self) {
        self.candidate.stop();
    }

    fn is_stopping(&self) -> bool {
        self.candidate.is_stopping()
    }

    fn token(&self) -> Option<u64> {
        self.candidate.token()
    }

    fn state(ruby: &Ruby, this: &Self) -> Symbol {
        ruby.to_symbol(this.candidate.state().word())
    }

    /// How many changes there were. Whoever waits for the next one asks before it looks.
    fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Wakes all that wait for a change.
    fn changed(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        let mut waiting = this.lock();
        waiting.changes += 1;
        let followers = std::mem::take(&mut waiting.followers);
        drop(waiting);
        followers.into_iter().for_each(|(_, follower)| follower.wake());
        this.callers.unblock(ruby)
    }

    /// Waits until there were more than `changes`, for at most this time.
    fn wait(ruby: &Ruby, this: &Self, changes: u64, time: Value) -> Result<(), Error> {
        let (time, follower) = (seconds(ruby, time)?, Here::current(ruby)?.follower(&this.callers));
        let mut waiting = this.lock();
        if waiting.changes != changes {
            return Ok(());
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.followers.push((number, follower.clone()));
        drop(waiting);
        let waited = follower.wait(ruby, std::time::Duration::from_secs_f64(time.clamp(0.0, 1e9)));
        let mut waiting = this.lock();
        let left = waiting.followers.iter().position(|(other, _)| *other == number);
        let left = left.map(|at| waiting.followers.swap_remove(at));
        drop(waiting);
        drop(left);
        waited
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
