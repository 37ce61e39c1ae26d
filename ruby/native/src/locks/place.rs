//! Where locks are kept: together for all threads, or separately for the fibers of each scheduler.

use std::sync::Arc;
use std::time::Duration;

use magnus::{Error, Ruby, Value};
use pinyon_locks::{owners, LockOperation, Setup, Station, ThreadLocks};

use super::answers::{answer, raised};
use super::listening::notes;
use crate::events::Listener;
use crate::fibers::{owner_of_this_fiber, Drivers, LockConnections, LockMachine, Scheduler};
use crate::host::RubyHost;

pub(super) type Grant = pinyon_locks::Grant<Listener>;

/// The client of a server, or of one hash tag.
pub(super) struct Keeping {
    threads: ThreadLocks<Listener>,
    fibers: Drivers<LockMachine>,
}

/// The keeper of a caller's locks. Its threads or fibers use it as their own; others may use it as well.
pub(super) enum Place {
    Threads(Arc<Station<Listener>>),
    Fibers(Arc<LockConnections>),
}

/// A caller that wants a lock.
pub(super) struct Caller {
    pub(super) place: Place,
    pub(super) owner: u64,
}

impl Keeping {
    pub(super) fn new(settings: Setup) -> Self {
        let fibers = Drivers::of_locks(settings.clone(), notes().clone());
        Self { threads: ThreadLocks::new(settings, notes().clone()), fibers }
    }

    pub(super) fn settings(&self) -> &Setup {
        self.threads.settings()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.threads.is_closed()
    }

    /// The calling fiber if it has a scheduler, else the calling thread.
    pub(super) fn caller(&self, ruby: &Ruby) -> Result<Caller, Error> {
        self.threads.check_open().map_err(|failure| raised(ruby, failure))?;
        let Some(scheduler) = Scheduler::current(ruby)? else {
            let station = self.threads.station().map_err(|failure| raised(ruby, failure))?;
            return Ok(Caller { place: Place::Threads(station), owner: owners::this_thread() });
        };
        let place = Place::Fibers(self.fibers.connections(ruby, scheduler)?);
        Ok(Caller { place, owner: owner_of_this_fiber(ruby)? })
    }

    pub(super) fn close(&self) {
        self.threads.close();
        self.fibers.close();
    }
}

impl Place {
    pub(super) fn run(&self, ruby: &Ruby, operation: LockOperation<Listener>) -> Result<Value, Error> {
        let outcome = match self {
            Self::Threads(station) => station.run(&RubyHost, operation)?,
            Self::Fibers(connections) => connections.run(ruby, operation)?,
        };
        answer(ruby, outcome)
    }

    /// How long a lock remains held without renewal. `None` if it is not held.
    pub(super) fn remaining(&self, ruby: &Ruby, grant: &Arc<Grant>) -> Result<Option<Duration>, Error> {
        match self {
            Self::Threads(station) => Ok(station.remaining(grant)),
            Self::Fibers(connections) => connections.remaining(ruby, grant),
        }
    }

    /// Releases a lock without waiting for the answer, because its caller does not have it.
    pub(super) fn cancel(&self, grant: &Arc<Grant>) {
        match self {
            Self::Threads(station) => station.cancel(grant),
            // It fails in a forked child only, which does not hold the lock.
            Self::Fibers(connections) => drop(connections.cancel(grant)),
        }
    }

    /// Gives up a lock that no caller can release any more.
    pub(super) fn forsake(&self, grant: &Arc<Grant>) {
        if !grant.forsake() {
            return;
        }
        match self {
            Self::Threads(station) => station.forsake(grant),
            Self::Fibers(connections) => connections.forsake(grant),
        }
    }
}
