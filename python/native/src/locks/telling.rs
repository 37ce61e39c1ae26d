//! Tells Python about lost locks, and about events of the servers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pinyon_locks::{Note, Notes};
use pinyon_net::fork;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::classes::Registered;
use crate::errors::{exception, ErrorKind};
use crate::events::python;

/// A callback of `on_lost`, and the lock to call it with. It does not keep the lock alive: a lock that nothing refers
/// to is not renewed.
pub(crate) struct Listener {
    held: Py<PyWeakrefReference>,
    callback: Py<PyAny>,
}

impl Listener {
    pub(super) fn new(held: &Bound<'_, PyAny>, callback: Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { held: PyWeakrefReference::new(held)?.unbind(), callback: callback.unbind() })
    }

    /// Refuses a callback that cannot be called, or would have to be awaited: nothing does.
    pub(super) fn check(callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = callback.py();
        let wrong = |message: &str| Err(exception(py, ErrorKind::UsageError, message));
        if !callback.is_callable() {
            let class = callback.get_type().name()?;
            return wrong(&format!("on_lost must be a function, which is called with what was held, not {class}"));
        }
        if py.import("inspect")?.call_method1("iscoroutinefunction", (callback,))?.is_truthy()? {
            return wrong("on_lost is called and not awaited: make it an ordinary function, which may start a task");
        }
        Ok(())
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.held)?;
        visit.call(&self.callback)
    }

    fn tell(&self, py: Python<'_>) {
        let Some(held) = self.held.bind(py).upgrade() else { return };
        if let Err(raised) = self.callback.call1(py, (held,)) {
            raised.write_unraisable(py, Some(self.callback.bind(py)));
        }
    }
}

/// Calls `report(source, event, soon)` with events. `soon(callable, event)` calls a callable in the event loop.
pub(super) fn tell(
    py: Python<'_>,
    note: Note<Listener>,
    report: &Bound<'_, PyAny>,
    soon: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    match note {
        Note::Lost { listener, .. } => listener.tell(py),
        Note::Event { source, event } => drop(report.call1((source, python(py, event.report())?, soon))?),
    }
    Ok(())
}

/// The notes for the threads of the process.
pub(super) fn notes() -> &'static Arc<Notes<Listener>> {
    static NOTES: OnceLock<Arc<Notes<Listener>>> = OnceLock::new();
    NOTES.get_or_init(|| Notes::new(true).into())
}

/// Starts this process's thread for notes, unless it is running.
pub(super) fn start(py: Python<'_>, report: &Py<PyAny>) -> PyResult<()> {
    static STARTED_BY: AtomicU64 = AtomicU64::new(u64::MAX);
    let process = fork::generation();
    if STARTED_BY.load(Ordering::Relaxed) == process || STARTED_BY.swap(process, Ordering::Relaxed) == process {
        return Ok(());
    }
    let start = || Registered::known()?.start_telling.call1(py, (report,));
    start().map(drop).inspect_err(|_| STARTED_BY.store(u64::MAX, Ordering::Relaxed))
}

/// Delivers notes until `stop_telling` is called. It sleeps in the core without the GIL.
#[pyfunction]
pub(crate) fn tell_threads(py: Python<'_>, report: &Bound<'_, PyAny>) {
    while let Some(note) = py.detach(|| notes().wait()) {
        if let Err(raised) = tell(py, note, report, None) {
            raised.write_unraisable(py, Some(report));
        }
    }
}

#[pyfunction]
pub(crate) fn stop_telling() {
    notes().close();
}
