//! What carries out operations on locks: a station for all threads, or connections for the fibers of each scheduler.

use std::sync::Arc;

use magnus::{Error, Ruby, Value};
use pinyon_locks::{owners, LockOperation, Setup};

use super::answers::{answer, raised};
use super::listening::notes;
use crate::events::Listener;
use crate::fibers::{self, owner_of_this_fiber, LockConnections, LockMachine, Scheduler};
use crate::host::RubyHost;

/// All drivers of a server, or of one hash tag there.
pub(super) type Drivers = pinyon_locks::Drivers<Listener, fibers::Drivers<LockMachine>>;
/// A caller's driver. Its threads or fibers use it as their own; others may use it as well.
pub(super) type Driver = pinyon_locks::Driver<Listener, Arc<LockConnections>>;

/// A caller that wants a lock.
pub(super) struct Caller {
    pub(super) driver: Driver,
    pub(super) owner: u64,
}

pub(super) fn new(settings: Setup) -> Drivers {
    let fibers = fibers::Drivers::of_locks(settings.clone(), notes().clone());
    Drivers::with_loops(settings, notes().clone(), fibers)
}

/// The calling fiber if it has a scheduler, else the calling thread.
pub(super) fn caller(ruby: &Ruby, drivers: &Drivers) -> Result<Caller, Error> {
    let of_loop = |fibers: &fibers::Drivers<LockMachine>| {
        Scheduler::current(ruby)?.map(|scheduler| fibers.connections(ruby, scheduler)).transpose()
    };
    let driver = drivers.of_caller(of_loop, |failure| raised(ruby, failure))?;
    let owner = match driver {
        Driver::Threads(_) => owners::this_thread(),
        Driver::Loop(_) => owner_of_this_fiber(ruby)?,
    };
    Ok(Caller { driver, owner })
}

pub(super) fn close(drivers: &Drivers) {
    drivers.close();
    drivers.loops().close();
}

/// Carries out an operation, and waits for it.
pub(super) fn run(ruby: &Ruby, driver: &Driver, operation: LockOperation<Listener>) -> Result<Value, Error> {
    let outcome = match driver {
        Driver::Threads(station) => station.run(&RubyHost, operation)?,
        Driver::Loop(connections) => connections.run(ruby, operation)?,
    };
    answer(ruby, outcome)
}
