//! A thread that does what is due while the host is held up, or while nothing waits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::{Driven, Polled};
use crate::doorbell::{wait_for, LONGEST_SLEEP};
use crate::fork;
use crate::own_thread;
use crate::sync;

/// How often it looks at a machine with nothing due: something may have arrived that no one has read.
const IDLE: Duration = Duration::from_secs(5);

/// It is woken only if something is due so much earlier than planned. A deadline is a little different each time it is
/// read.
const WORTH_WAKING: Duration = Duration::from_millis(1);

/// Has a machine do what is due in time, for hosts whose coroutines may be absent or busy then. Dropping it ends its
/// thread, as does dropping the machine.
///
/// The thread never calls the host. It leaves outcomes with the machine, and rings the machine's bell.
pub struct Keeper(Arc<Plan>);

struct Plan {
    until: sync::Mutex<Until>,
    changed: sync::Condvar,
    generation: u64,
}

#[derive(Clone, Copy)]
enum Until {
    Time(Instant),
    Over,
}

impl Keeper {
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start<M: Driven + Send + 'static>(machine: &Arc<Mutex<Polled<M>>>) -> io::Result<Self>
    where
        M::Finished: Send,
    {
        let descriptor = {
            let polled = lock(machine);
            polled.check_process()?;
            polled.as_fd().try_clone_to_owned()?
        };
        let plan = Arc::new(Plan::new());
        let keeper = Self(plan.clone());
        let machine = Arc::downgrade(machine);
        own_thread::start("pinyon-keeper", move || plan.carry_out(&machine, &descriptor))?;
        Ok(keeper)
    }

    /// Call it whenever the machine's deadline may have changed.
    pub fn plan(&self, due: Option<Instant>) {
        if let Some(due) = due {
            self.0.wake_at(due);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A forked child has no such thread, but the thread may have been using the plan.
        if self.0.generation != fork::generation() {
            return;
        }
        *self.0.lock() = Until::Over;
        self.0.changed.notify_all();
    }
}

impl Plan {
    fn new() -> Self {
        let until = sync::Mutex::new(Until::Time(Instant::now()));
        Self { until, changed: sync::Condvar::new(), generation: fork::generation() }
    }

    fn carry_out<M: Driven>(&self, machine: &Weak<Mutex<Polled<M>>>, descriptor: &OwnedFd) {
        while self.begin() {
            let Some(machine) = machine.upgrade() else { return };
            let was_due = self.tend(&machine);
            drop(machine);
            if was_due {
                // An answer usually follows. It is read at once, because the host may be held up for long.
                let readable = PollFd::new(descriptor, PollFlags::IN);
                wait_for(&mut [readable], Instant::now() + LONGEST_SLEEP);
                continue;
            }
            self.sleep();
        }
    }

    /// Returns whether the machine was due.
    fn tend<M: Driven>(&self, machine: &Mutex<Polled<M>>) -> bool {
        let mut polled = lock(machine);
        let was_due = polled.deadline().is_some_and(|due| due <= Instant::now());
        // If the system refuses to watch a connection, the host's next call fails in the same way.
        let _ = polled.tend();
        if let Some(due) = polled.deadline() {
            self.wake_at(due);
        }
        was_due
    }

    /// Begins to plan anew. Returns whether to go on.
    fn begin(&self) -> bool {
        let mut until = self.lock();
        if let Until::Time(time) = &mut *until {
            *time = Instant::now() + IDLE;
        }
        matches!(*until, Until::Time(_))
    }

    fn wake_at(&self, due: Instant) {
        let mut until = self.lock();
        if matches!(*until, Until::Time(planned) if due + WORTH_WAKING < planned) {
            *until = Until::Time(due);
            self.changed.notify_all();
        }
    }

    fn sleep(&self) {
        let mut until = self.lock();
        while let Until::Time(time) = *until {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            until = self.changed.wait_timeout(until, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> sync::MutexGuard<'_, Until> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<M: Driven>(machine: &Mutex<Polled<M>>) -> MutexGuard<'_, Polled<M>> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "interleavings")]
    mod interleavings;
}
