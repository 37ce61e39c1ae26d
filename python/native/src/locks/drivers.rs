//! What carries out operations on locks: a station for all threads, or a driver for each event loop.

use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::{owners, Front, GiveUp, LockFinished, LockOperation, Mode, Setup};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use super::answers::{answer, raised};
use super::owners::number_of;
use super::telling::{self, tell, Listener};
use crate::concurrency::{Concurrency, SharedConnections};
use crate::driver::{driver, EventLoop, LoopDriver, Machine};
use crate::errors::{exception, ErrorKind};
use crate::host::PythonHost;
use crate::loops::{Caller, Loops};
use crate::waiter::{Unsettled, Waiter};

pub(crate) type Grant = pinyon_locks::Grant<Listener>;
pub(crate) type Operation = LockOperation<Listener>;
/// All drivers of a server, or of one hash tag there.
pub(crate) type Drivers = pinyon_locks::Drivers<Listener, OfLoops>;
/// What a lock's holder has, in the core.
pub(crate) type Held = pinyon_locks::Held<Listener, OnLoop, Arc<Drivers>>;
/// A caller's driver.
pub(crate) type Driver = pinyon_locks::Driver<Listener, OnLoop>;

/// The drivers of event loops.
pub(crate) struct OfLoops {
    shared: SharedConnections<LocksDriver>,
    report: Py<PyAny>,
}

/// The driver of one event loop, and those of its client in other loops.
pub(crate) struct OnLoop {
    driver: Py<LocksDriver>,
    loops: Arc<Loops<LocksDriver>>,
}

pub(super) fn new(py: Python<'_>, settings: Setup, concurrency: Arc<Concurrency>, report: Py<PyAny>) -> Drivers {
    let (of_loops, report_in_loops) = (settings.clone(), report.clone_ref(py));
    let connect = move |host: &Bound<'_, PyAny>| {
        let front = Front::new(of_loops.clone());
        let soon = host.getattr(intern!(host.py(), "report"))?.unbind();
        let telling = Telling { report: report_in_loops.clone_ref(host.py()), soon };
        Ok(LocksDriver(EventLoop::new(host, front, telling)?))
    };
    let loops = OfLoops { shared: SharedConnections::new(concurrency, connect), report };
    Drivers::with_loops(settings, telling::notes().clone(), loops)
}

/// The drivers of a hash tag.
pub(super) fn tagged(py: Python<'_>, main: &Drivers, tag: &[u8]) -> Drivers {
    let OfLoops { shared, report } = main.loops();
    new(py, main.settings().tagged(tag), shared.concurrency().clone(), report.clone_ref(py))
}

/// The driver of the calling thread or coroutine.
pub(super) fn of_caller(py: Python<'_>, drivers: &Drivers) -> PyResult<Driver> {
    let of_loop = |of: &OfLoops| match of.shared.get(py)? {
        Some(loops) => Ok(Some(OnLoop { driver: loops.caller(py)?.driver.unbind(), loops: loops.clone() })),
        None => telling::start(py, &of.report).map(|()| None),
    };
    drivers.of_caller(of_loop, |failure| raised(py, failure))
}

/// Calls `report` with a warning about these locks.
pub(super) fn warn(py: Python<'_>, drivers: &Drivers, line: &str) -> PyResult<()> {
    tell(py, drivers.warning(line), drivers.loops().report.bind(py), None)
}

/// The same driver, for whoever ends a wait.
pub(super) fn again(py: Python<'_>, driver: &Driver) -> Driver {
    match driver {
        Driver::Threads(station) => Driver::Threads(station.clone()),
        Driver::Loop(OnLoop { driver, loops }) => {
            Driver::Loop(OnLoop { driver: driver.clone_ref(py), loops: loops.clone() })
        }
    }
}

pub(super) fn close(py: Python<'_>, drivers: &Drivers) -> PyResult<()> {
    drivers.close();
    let Some(loops) = drivers.loops().shared.known() else { return Ok(()) };
    loops.drivers(py).into_iter().try_for_each(|driver| driver.get().event_loop().shut(py))
}

/// Carries out an operation. Returns its result, or what a coroutine must await.
pub(super) fn run<'py>(py: Python<'py>, driver: &Driver, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
    match driver {
        Driver::Threads(station) => {
            let outcome = station.run(&PythonHost(py), operation)?;
            answer(py, outcome).map(|value| value.into_bound(py))
        }
        Driver::Loop(on_loop) => on_loop.run(py, operation),
    }
}

/// Begins to release what the caller's event loop holds. Returns what coroutines await; nothing for threads.
pub(super) fn release_all_of_loop<'py>(
    py: Python<'py>,
    drivers: &Drivers,
    wait: Option<Duration>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match of_caller(py, drivers)? {
        Driver::Threads(_) => Ok(None),
        Driver::Loop(on_loop) => on_loop.run(py, Operation::ReleaseAll { wait }).map(Some),
    }
}

impl OfLoops {
    /// See [`SharedConnections::driver_class`].
    pub(super) fn driver_class<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.shared.driver_class(py)
    }

    /// The number of the calling thread, greenlet or task.
    pub(super) fn owner(&self, py: Python<'_>) -> PyResult<u64> {
        match self.shared.get(py)? {
            None => Ok(owners::this_thread()),
            Some(loops) => number_of(&loops.owner(py)?),
        }
    }
}

impl Drop for OfLoops {
    fn drop(&mut self) {
        if let Some(loops) = self.shared.known() {
            loops.retire();
        }
    }
}

impl OnLoop {
    fn run<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        let caller = self.caller(py)?;
        let event_loop = caller.driver.get().event_loop();
        let (waiter, awaited) = (caller.waiter()?, operation.awaited());
        let wait = Wait { waiter: waiter.clone_ref(py), method: method_of(&operation) };
        event_loop.begin(py, |front, now| front.begin(operation, wait, now))?;
        let waited = caller.wait(waiter.clone_ref(py));
        if let Some(awaited) = awaited.filter(|lock| waiter.was_abandoned() && !lock.grant.is_inherited()) {
            if awaited.gives_up == GiveUp::Lock {
                drop(awaited.grant.take_listeners());
            }
            // The reason for the end of the wait is raised, rather than a failure to tell the server.
            if let Err(raised) = pinyon_locks::LoopDriver::give_up(self, &awaited.grant, awaited.gives_up) {
                raised.write_unraisable(py, None);
            }
        }
        waited
    }

    /// The calling coroutine. It must belong to the loop in which the lock was acquired; in a forked child, any loop
    /// will do, as the parent's locks are not held there.
    fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, LocksDriver>> {
        let caller = self.loops.caller(py)?;
        match caller.driver.is(&self.driver) || !self.driver.get().event_loop().machine.is_of_this_process() {
            true => Ok(caller),
            false => {
                Err(exception(py, ErrorKind::UsageError, "this lock was acquired in another event loop: use it there"))
            }
        }
    }
}

impl pinyon_locks::LoopDriver<Listener> for OnLoop {
    type Error = PyErr;

    fn remaining(&self, grant: &Arc<Grant>) -> PyResult<Option<Duration>> {
        Python::attach(|py| Ok(self.driver.get().event_loop().lock(py)?.remaining(grant)))
    }

    fn give_up(&self, grant: &Arc<Grant>, what: GiveUp) -> PyResult<()> {
        Python::attach(|py| self.driver.get().event_loop().begin(py, |front, now| front.give_up(grant, what, now)))
    }

    fn forsake(&self, grant: &Arc<Grant>) {
        Python::attach(|py| {
            if let Ok(mut front) = self.driver.get().event_loop().lock(py) {
                front.forsake(grant);
            }
        });
    }
}

/// The method that makes this operation, for warnings if it is not awaited; none if no warning is needed.
fn method_of(operation: &Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Extend { .. } => "Held.extend",
        Operation::Change { mode: Mode::Write, .. } => "Held.upgrade",
        Operation::Change { .. } => "Held.downgrade",
        Operation::HandOver { .. } => "Held.hand_over",
        Operation::Notify { .. } => "Held.notify",
        Operation::ForceRelease { .. } => "Locks.force_release",
        Operation::Execute { .. } => "Locks.execute",
        // Coroutine functions await these, except for a release, which needs no await.
        Operation::Acquire { .. }
        | Operation::Release { .. }
        | Operation::ReleaseAll { .. }
        | Operation::Park { .. }
        | Operation::Inspect { .. }
        | Operation::Rate { .. } => return None,
    })
}

driver! {
    /// The locks of one event loop, on a connection of its own.
    LocksDriver of Front<Wait, Listener>
}

/// A coroutine that waits for something about locks.
pub(crate) struct Wait {
    pub(super) waiter: Waiter,
    /// See [`method_of`].
    method: Option<&'static str>,
}

/// How an event loop reports events: see [`tell`].
pub(crate) struct Telling {
    report: Py<PyAny>,
    soon: Py<PyAny>,
}

impl Machine for Front<Wait, Listener> {
    type Context = Telling;

    fn waiter(finished: &LockFinished<Wait, Listener>) -> Option<&Waiter> {
        match finished {
            LockFinished::Done { waiter, .. } => Some(&waiter.waiter),
            LockFinished::Note(_) => None,
        }
    }

    fn method(finished: &LockFinished<Wait, Listener>) -> Option<String> {
        match finished {
            LockFinished::Done { waiter, .. } => waiter.method.map(str::to_owned),
            LockFinished::Note(_) => None,
        }
    }

    fn traverse(telling: &Telling, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&telling.report)?;
        visit.call(&telling.soon)
    }

    fn settle(
        event_loop: &EventLoop<Self>,
        py: Python<'_>,
        finished: Vec<LockFinished<Wait, Listener>>,
    ) -> PyResult<()> {
        for finished in finished {
            match finished {
                LockFinished::Done { waiter: Wait { waiter, .. }, outcome, unheard } => {
                    drop(unheard);
                    event_loop.machine.answered().push(waiter, answer(py, outcome).map_err(Unsettled::raised));
                }
                LockFinished::Note(note) => {
                    let Telling { report, soon } = event_loop.context();
                    tell(py, note, report.bind(py), Some(soon.bind(py)))?;
                }
            }
        }
        Ok(())
    }
}
