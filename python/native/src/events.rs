//! Reports events of the servers to the program.

use pinyon_cache::directory::Directory;
use pinyon_net::events::Report;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::classes::Class;
use crate::errors::from_core;

/// The callable for events, if any.
pub(crate) struct Watcher(Option<Py<PyAny>>);

impl Watcher {
    pub(crate) fn new(on_event: Option<Py<PyAny>>) -> Self {
        Self(on_event)
    }

    /// Whether there are events for it.
    pub(crate) fn is_awaiting(&self, directory: &Directory) -> bool {
        self.0.is_some() && directory.has_events()
    }

    /// Calls it with each event. An exception is reported and otherwise ignored, except for an interrupt, which is
    /// raised.
    #[inline]
    pub(crate) fn tell(&self, py: Python<'_>, directory: &Directory) -> PyResult<()> {
        match &self.0 {
            Some(on_event) if directory.has_events() => tell(on_event.bind(py), directory),
            _ => Ok(()),
        }
    }

    /// Passes each event to `report(on_event, event)`.
    pub(crate) fn tell_by(&self, report: &Bound<'_, PyAny>, directory: &Directory) -> PyResult<()> {
        let Some(on_event) = &self.0 else { return Ok(()) };
        let py = report.py();
        directory
            .take_events()
            .iter()
            .try_for_each(|event| report.call1((on_event, python(py, event.report())?)).map(drop))
    }
}

#[cold]
fn tell(on_event: &Bound<'_, PyAny>, directory: &Directory) -> PyResult<()> {
    let py = on_event.py();
    for event in directory.take_events() {
        match on_event.call1((python(py, event.report())?,)) {
            Ok(_) => {}
            Err(raised) if raised.is_instance_of::<PyException>(py) => raised.write_unraisable(py, Some(on_event)),
            Err(interrupt) => return Err(interrupt),
        }
    }
    Ok(())
}

/// A `pinyon.events.Event`.
pub(crate) fn python<'py>(py: Python<'py>, report: Report<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Report { kind, level, server, command, error, duration, line, previous } = report;
    let error = error.map(|error| from_core(py, error).into_value(py));
    let duration = duration.map(|duration| duration.as_secs_f64());
    let fields = (kind, server, command, error, duration, level.as_str(), line, previous);
    Class::Event.of(py)?.call1(fields)
}
