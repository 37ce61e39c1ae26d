//! The callers of `fetch`: what they share and raise, and how they wait for each other.
//!
//! The garbage collector may end a caller whose fiber is never resumed. So what a caller does at its end calls no Ruby:
//! fibers that it wakes are left to the next caller that can unblock them.
//!
//! A caller is an object of Ruby's, so that the garbage collector can end it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use magnus::rb_sys::AsRawValue;
use magnus::value::{BoxValue, Opaque, ReprValue};
use magnus::{Error, Exception, Module, Ruby, Value};
use pinyon_cache::lease::{Flights, LeaseTypes, Signal};
use pinyon_cache::operations::Bytes;

use crate::fibers::{current_fiber, Flag, Scheduler};
use crate::host::unlocked_until;

/// How long a fiber whose time is over waits for a wake-up that is under way.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// The callers of a client and its views.
#[derive(Default)]
pub(crate) struct Callers {
    pub(super) flights: Arc<Flights<Types>>,
    /// Fibers that can continue and must be unblocked.
    woken: Arc<Mutex<Vec<Arc<Parked>>>>,
}

impl Callers {
    /// Unblocks the fibers that were woken, all of them, even if one cannot be unblocked.
    pub(crate) fn unblock(&self, ruby: &Ruby) -> Result<(), Error> {
        let woken = std::mem::take(&mut *lock(&self.woken));
        let mut unblocked = Ok(());
        for parked in woken {
            unblocked = unblocked.and(parked.unblock(ruby));
        }
        unblocked
    }
}

/// The types of the machine.
pub(crate) enum Types {}

impl LeaseTypes for Types {
    /// The `Fetching` that has it marks it.
    type Value = Opaque<Value>;
    /// Strings can be changed, so each follower makes an object of its own.
    type Shared = Arc<Bytes>;
    type Error = Arc<Rooted<Exception>>;
    type Signal = Follower;
}

/// An object that Rust's heap refers to.
pub(crate) struct Rooted<T: ReprValue>(BoxValue<T>);

// SAFETY: only the holder of the VM lock makes, reads and drops it.
unsafe impl<T: ReprValue> Send for Rooted<T> {}
// SAFETY: threads that share it take the VM lock before they read it.
unsafe impl<T: ReprValue> Sync for Rooted<T> {}

impl<T: ReprValue> Rooted<T> {
    pub(super) fn new(object: T) -> Self {
        Self(BoxValue::new(object))
    }

    pub(super) fn object(&self, _ruby: &Ruby) -> T {
        *self.0
    }
}

/// Where a caller runs. Callers with the same scope can wake each other.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(super) scope: Value,
    pub(super) caller: Value,
    scheduler: Option<Scheduler>,
}

impl Here {
    pub(crate) fn current(ruby: &Ruby) -> Result<Self, Error> {
        let scheduler = Scheduler::current(ruby)?;
        Ok(match scheduler {
            Some(on) => Self { scope: on.object(), caller: current_fiber(ruby), scheduler },
            None => {
                let ractor = ruby.class_object().const_get::<_, Value>("Ractor")?.funcall("current", ())?;
                Self { scope: ractor, caller: ruby.thread_current().as_value(), scheduler }
            }
        })
    }

    pub(super) fn scope_number(&self) -> usize {
        self.scope.as_raw() as usize
    }

    pub(super) fn caller_number(&self) -> usize {
        self.caller.as_raw() as usize
    }

    pub(super) fn scheduler_object(&self, ruby: &Ruby) -> Value {
        self.scheduler.map_or_else(|| ruby.qnil().as_value(), |scheduler| scheduler.object())
    }

    /// A follower that waits here.
    pub(crate) fn follower(&self, callers: &Callers) -> Follower {
        match self.scheduler {
            None => Follower::Thread(Arc::default()),
            Some(scheduler) => Follower::Fiber {
                parked: Parked {
                    scheduler: Rooted::new(scheduler.object()),
                    fiber: Rooted::new(self.caller),
                    is_rung: Flag::default(),
                    is_parked: Flag::default(),
                    is_unblocked: Flag::default(),
                }
                .into(),
                woken: callers.woken.clone(),
            },
        }
    }
}

/// A caller that waits for another one.
#[derive(Clone)]
pub(crate) enum Follower {
    Thread(Arc<Bell>),
    Fiber { parked: Arc<Parked>, woken: Arc<Mutex<Vec<Arc<Parked>>>> },
}

impl Signal for Follower {
    fn wake(self) {
        match self {
            Self::Thread(bell) => bell.ring(),
            Self::Fiber { parked, woken } => {
                parked.is_rung.set(true);
                lock(&woken).push(parked);
            }
        }
    }
}

impl Follower {
    /// Waits until it is woken, for at most this time.
    pub(crate) fn wait(&self, ruby: &Ruby, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        match self {
            Self::Thread(bell) => {
                while !unlocked_until(ruby, || bell.wait(until), || bell.interrupt())? {}
                Ok(())
            }
            Self::Fiber { parked, .. } => parked.wait(ruby, until),
        }
    }
}

/// Ends the wait of a thread.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Default)]
struct BellState {
    is_rung: bool,
    is_interrupted: bool,
}

impl Bell {
    fn ring(&self) {
        lock(&self.state).is_rung = true;
        self.changed.notify_one();
    }

    fn interrupt(&self) {
        lock(&self.state).is_interrupted = true;
        self.changed.notify_one();
    }

    /// Returns whether the wait is over. If not, it was interrupted.
    fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waits = |state: &mut BellState| !state.is_rung && !state.is_interrupted;
        let waited = self.changed.wait_timeout_while(lock(&self.state), left, waits);
        let (mut state, passed) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_interrupted = false;
        state.is_rung || passed.timed_out()
    }
}

/// A fiber that its scheduler has parked.
pub(crate) struct Parked {
    scheduler: Rooted<Value>,
    fiber: Rooted<Value>,
    is_rung: Flag,
    is_parked: Flag,
    /// Whether the scheduler was told to let it continue, and has not done so yet.
    is_unblocked: Flag,
}

impl Parked {
    fn unblock(&self, ruby: &Ruby) -> Result<(), Error> {
        if !self.is_parked.get() || self.is_unblocked.get() {
            return Ok(());
        }
        self.is_unblocked.set(true);
        let scheduler = Scheduler::of_object(self.scheduler.object(ruby));
        scheduler.unblock(ruby.qnil().as_value(), self.fiber.object(ruby))
    }

    fn wait(&self, ruby: &Ruby, until: Instant) -> Result<(), Error> {
        let scheduler = Scheduler::of_object(self.scheduler.object(ruby));
        while !self.is_rung.get() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.is_parked.set(true);
            let parked = scheduler.block_within(ruby, left);
            self.is_parked.set(false);
            if self.is_unblocked.get() && !matches!(parked, Ok(true)) {
                // A wake-up that is under way would end the fiber's next wait, whatever it is for.
                let _ = scheduler.block_within(ruby, UNDER_WAY);
            }
            self.is_unblocked.set(false);
            parked?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
