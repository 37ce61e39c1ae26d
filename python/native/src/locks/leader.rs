//! Candidates for the leadership of a name. The core decides what they do; `pinyon._leader` does it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_locks::{GiveUp, LeaderReport, LeaderReportKind, LeaderStep};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use super::drivers::{self, Driver, Grant, Held};
use super::names::name_bytes;
use crate::errors::{exception, ErrorKind};

/// One candidate, from its start to its end.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Candidate {
    candidate: pinyon_locks::Candidate,
    /// The lock that it asked for last, and what carries that out.
    asked: Mutex<Option<(Arc<Grant>, Driver)>>,
}

#[pymethods]
impl Candidate {
    #[new]
    fn new(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { candidate: pinyon_locks::Candidate::new(name_bytes(name)?), asked: Mutex::default() })
    }

    /// The next step and its argument. `report`: the word for what became of the last one; `about`: its token, or why.
    #[pyo3(signature = (report, about = None, /))]
    fn _next<'py>(
        &self,
        py: Python<'py>,
        report: &str,
        about: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let Some(kind) = LeaderReportKind::named(report) else {
            let message = format!("a candidate does not understand the report {report}");
            return Err(exception(py, ErrorKind::UsageError, &message));
        };
        let nothing = py.None().into_bound(py);
        let about = about.unwrap_or(&nothing);
        let report = LeaderReport::of(kind, || about.extract(), || about.extract())?;
        let step = self.candidate.next(report, Instant::now());
        let about = match &step {
            LeaderStep::Elected { token } | LeaderStep::Lost { token } => token.into_bound_py_any(py),
            LeaderStep::Lead { look_in: time } | LeaderStep::Pause { time } => time.as_secs_f64().into_bound_py_any(py),
            LeaderStep::Warn { line } => line.into_bound_py_any(py),
            LeaderStep::Ask | LeaderStep::Release | LeaderStep::Over => Ok(py.None().into_bound(py)),
        };
        Ok((step.kind().word(), about?))
    }

    /// Gives the leadership up. Returns whether it led.
    fn _resign(&self) -> bool {
        self.candidate.resign()
    }

    /// Ends the candidate, and its wait for the lock.
    fn _stop(&self) -> PyResult<()> {
        self.candidate.stop();
        self.end_wait()
    }

    #[getter]
    fn _is_stopping(&self) -> bool {
        self.candidate.is_stopping()
    }

    /// The token with which it leads, unless it has lost the lock.
    #[getter]
    fn _token(&self) -> Option<u64> {
        self.candidate.token()
    }

    #[getter]
    fn _state(&self) -> &'static str {
        self.candidate.state().word()
    }
}

impl Candidate {
    /// It begins to ask for a lock, unless it is to stop.
    pub(super) fn asks(&self, py: Python<'_>, held: &Held) -> PyResult<()> {
        *self.lock_asked() = Some((held.grant().clone(), drivers::again(py, held.driver())));
        match self.candidate.is_stopping() {
            true => self.end_wait(),
            false => Ok(()),
        }
    }

    fn end_wait(&self) -> PyResult<()> {
        let asked = self.lock_asked().take();
        asked.map_or(Ok(()), |(grant, driver)| driver.give_up(&grant, GiveUp::Wait))
    }

    fn lock_asked(&self) -> MutexGuard<'_, Option<(Arc<Grant>, Driver)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
