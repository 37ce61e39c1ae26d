//! Where the locks of one server or one hash tag are kept: together for all threads, or separately for each event loop.

use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::{owners, Front, LockFinished, LockMetrics, LockOperation, Setup, Station, ThreadLocks};
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

/// The client of a server, or of one hash tag.
pub(crate) struct Keeping {
    threads: ThreadLocks<Listener>,
    loops: SharedConnections<LocksDriver>,
    report: Py<PyAny>,
}

/// The keeper of the caller's locks: a station for threads, or a driver for an event loop.
pub(crate) enum Place {
    Threads(Arc<Station<Listener>>),
    Loop { driver: Py<LocksDriver>, loops: Arc<Loops<LocksDriver>> },
}

impl Keeping {
    pub(super) fn new(py: Python<'_>, settings: Setup, concurrency: Arc<Concurrency>, report: Py<PyAny>) -> Self {
        let (of_loops, report_in_loops) = (settings.clone(), report.clone_ref(py));
        let connect = move |host: &Bound<'_, PyAny>| {
            let front = Front::new(of_loops.clone());
            let soon = host.getattr(intern!(host.py(), "report"))?.unbind();
            let telling = Telling { report: report_in_loops.clone_ref(host.py()), soon };
            Ok(LocksDriver(EventLoop::new(host, front, telling)?))
        };
        let loops = SharedConnections::new(concurrency, connect);
        Self { threads: ThreadLocks::new(settings, telling::notes().clone()), loops, report }
    }

    /// The client of a hash tag.
    pub(super) fn tagged(&self, py: Python<'_>, tag: &[u8]) -> Self {
        Self::new(py, self.settings().tagged(tag), self.loops.concurrency().clone(), self.report.clone_ref(py))
    }

    /// See [`SharedConnections::driver_class`].
    pub(super) fn driver_class<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.loops.driver_class(py)
    }

    /// The number of the calling thread, greenlet or task.
    pub(super) fn owner(&self, py: Python<'_>) -> PyResult<u64> {
        match self.loops.get(py)? {
            None => Ok(owners::this_thread()),
            Some(loops) => number_of(&loops.owner(py)?),
        }
    }

    pub(super) fn settings(&self) -> &Setup {
        self.threads.settings()
    }

    pub(super) fn metrics(&self) -> LockMetrics {
        self.threads.metrics()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.threads.is_closed()
    }

    pub(super) fn place(&self, py: Python<'_>) -> PyResult<Place> {
        self.threads.check_open().map_err(|failure| raised(py, failure))?;
        if let Some(loops) = self.loops.get(py)? {
            return Ok(Place::Loop { driver: loops.caller(py)?.driver.unbind(), loops: loops.clone() });
        }
        telling::start(py, &self.report)?;
        self.threads.station().map(Place::Threads).map_err(|failure| raised(py, failure))
    }

    pub(super) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.threads.close();
        let Some(loops) = self.loops.known() else { return Ok(()) };
        loops.drivers(py).into_iter().try_for_each(|driver| driver.get().event_loop().shut(py))
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(loops) = self.loops.known() {
            loops.retire();
        }
    }
}

impl Place {
    /// Carries out an operation. Returns its result, or what a coroutine must await.
    pub(super) fn run<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        let (driver, loops) = match self {
            Place::Threads(station) => {
                let outcome = station.run(&PythonHost(py), operation)?;
                return answer(py, outcome).map(|value| value.into_bound(py));
            }
            Place::Loop { driver, loops } => (driver, loops),
        };
        let caller = caller(py, driver, loops)?;
        let event_loop = caller.driver.get().event_loop();
        let (waiter, awaited) = (caller.waiter()?, operation.awaited().cloned());
        let wait = Wait { waiter: waiter.clone_ref(py), method: method_of(&operation) };
        event_loop.begin(py, |front, now| front.begin(operation, wait, now))?;
        let waited = caller.wait(waiter.clone_ref(py));
        if let Some(grant) = awaited.filter(|_| waiter.was_abandoned()) {
            // The reason for the end of the wait is raised, rather than a failure to tell the server.
            if let Err(raised) = self.cancel(py, &grant) {
                raised.write_unraisable(py, None);
            }
        }
        waited
    }

    /// How long a lock remains held; `None` if it is not held.
    pub(super) fn remaining(&self, py: Python<'_>, grant: &Arc<Grant>) -> PyResult<Option<Duration>> {
        match self {
            Place::Threads(station) => Ok(station.remaining(grant)),
            Place::Loop { .. } if grant.is_inherited() => Ok(None),
            Place::Loop { driver, .. } => Ok(driver.get().event_loop().lock(py)?.remaining(grant)),
        }
    }

    /// Releases a lock without waiting for the answer, because its caller is gone.
    pub(super) fn cancel(&self, py: Python<'_>, grant: &Arc<Grant>) -> PyResult<()> {
        drop(grant.take_listeners());
        match self {
            Place::Threads(station) => station.cancel(grant),
            Place::Loop { .. } if grant.is_inherited() => {}
            Place::Loop { driver, .. } => {
                driver.get().event_loop().begin(py, |front, now| front.cancel(grant, now))?;
            }
        }
        Ok(())
    }

    /// Gives up a lock that no caller can release any more.
    pub(super) fn forsake(&self, grant: &Arc<Grant>) {
        if !grant.forsake() {
            return;
        }
        match self {
            Place::Threads(station) => station.forsake(grant),
            Place::Loop { driver, .. } => Python::attach(|py| {
                if let Ok(mut front) = driver.get().event_loop().lock(py) {
                    front.forsake(grant);
                }
            }),
        }
    }
}

/// The method that makes this operation, for warnings if it is not awaited; none if no warning is needed.
fn method_of(operation: &Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Extend { .. } => "Held.extend",
        Operation::Notify { .. } => "Held.notify",
        Operation::ForceRelease { .. } => "Locks.force_release",
        Operation::Execute { .. } => "Locks.execute",
        // Coroutine functions await these, except for a release, which needs no await.
        Operation::Acquire { .. } | Operation::Release { .. } | Operation::Park { .. } | Operation::Inspect { .. } => {
            return None;
        }
    })
}

/// The calling coroutine. It must belong to the loop in which the lock was acquired; in a forked child, any loop will
/// do, as the parent's locks are not held there.
fn caller<'py>(
    py: Python<'py>,
    driver: &Py<LocksDriver>,
    loops: &Loops<LocksDriver>,
) -> PyResult<Caller<'py, LocksDriver>> {
    let caller = loops.caller(py)?;
    match caller.driver.is(driver) || !driver.get().event_loop().machine.is_of_this_process() {
        true => Ok(caller),
        false => {
            Err(exception(py, ErrorKind::UsageError, "this lock was acquired in another event loop: use it there"))
        }
    }
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
