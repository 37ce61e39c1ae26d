//! One lock that was asked for: what its holder can do with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinyon_core::settings::waiting_time;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::answers::raised;
use super::client::ttl_of;
use super::lock::Lock;
use super::place::{self, Operation, Place};
use super::telling::{check_called, Listener};
use crate::errors::checked;

/// A lock that was asked for, and is held once it is granted: what `Held` is in every concurrency model.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Grant {
    /// By it, what renews it lives as long as it does.
    lock: Py<Lock>,
    owner: u64,
    grant: Arc<place::Grant>,
    place: Place,
    answer: Mutex<Option<Py<PyAny>>>,
    given_back: AtomicBool,
}

/// What was not released is not renewed for ever.
impl Drop for Grant {
    fn drop(&mut self) {
        self.place.forsake(&self.grant);
    }
}

impl Grant {
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    fn run<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        self.place.run(py, operation, None)
    }

    fn grant(&self) -> Arc<place::Grant> {
        self.grant.clone()
    }
}

#[pymethods]
impl Grant {
    /// Asks for the names, `at_once` or for as long as the lock waits. A thread or greenlet waits here.
    #[new]
    #[pyo3(signature = (lock, at_once = false, /))]
    fn new(lock: Bound<'_, Lock>, at_once: bool) -> PyResult<Self> {
        let (py, asked) = (lock.py(), lock.get());
        let owner = asked.owner(py)?;
        let request = asked.request(py, owner, at_once)?;
        let (grant, place) = (place::Grant::new(request.names.clone()), asked.place(py)?);
        let answer = place.run(py, Operation::Acquire { grant: grant.clone(), request }, None)?.unbind();
        let (answer, given_back) = (Mutex::new(Some(answer)), AtomicBool::new(false));
        Ok(Self { lock: lock.unbind(), owner, grant, place, answer, given_back })
    }

    /// What came of asking, once: None where the names were not to be had at once. A task awaits it.
    fn _answer(&self) -> Option<Py<PyAny>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The names, as they were asked for.
    #[getter]
    fn names(&self, py: Python<'_>) -> Py<PyTuple> {
        self.lock.get().names(py)
    }

    /// The fencing token: higher than that of any earlier lock on any of the names.
    ///
    /// Whatever is written under the lock can refuse writers with lower tokens: a holder that was stopped for longer
    /// than the ttl does not know that it has lost the lock.
    #[getter]
    fn token(&self) -> u64 {
        self.grant.token()
    }

    /// How many seconds it is still held, if nothing prolongs it; None when it is not held.
    fn _left(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.place.remaining(py, &self.grant)?.map(|remaining| remaining.as_secs_f64()))
    }

    /// Raises `LockLost` unless it is held still.
    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        match self.place.remaining(py, &self.grant)? {
            Some(_) => Ok(()),
            None => Err(raised(py, self.grant.not_held())),
        }
    }

    /// What is raised at the end of a block in which it was lost.
    pub(super) fn _lost_inside<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        raised(py, self.grant.lost_early()).into_value(py).into_bound(py).into_any()
    }

    /// Calls back once with what was held when it is lost; at once, if it is lost already.
    fn _tell(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        check_called(&callback)?;
        match slf.get().grant.listen(Listener::new(slf, callback.clone())?) {
            Ok(()) => Ok(()),
            Err(_) => callback.call1((slf,)).map(drop),
        }
    }

    /// Gives it back. Returns whether it was held to the end.
    pub(super) fn _release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.given_back.store(true, Ordering::Relaxed);
        self.run(py, Operation::Release { grant: self.grant() })
    }

    /// Whether its holder has given it back, in time or not.
    #[getter]
    pub(super) fn _given_back(&self) -> bool {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Lets it last for `ttl` seconds from now. Returns whether it is held still.
    fn _extend<'py>(&self, py: Python<'py>, ttl: f64) -> PyResult<Bound<'py, PyAny>> {
        let ttl = ttl_of(py, ttl)?;
        self.run(py, Operation::Extend { grant: self.grant(), ttl })
    }

    /// Gives the names back until it is notified, for at most `wait` seconds, then takes them again. Returns whether it
    /// was notified.
    fn _park<'py>(&self, py: Python<'py>, wait: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let wait = wait.map(|wait| seconds(py, "timeout", wait)).transpose()?;
        let relock = seconds(py, "timeout", self.lock.get().timeout())?;
        self.run(py, Operation::Park { grant: self.grant(), wait, relock })
    }

    /// Notifies those that are parked on the same names, `most` of them, 0 for all. Returns how many.
    fn _notify<'py>(&self, py: Python<'py>, most: u32) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, Operation::Notify { grant: self.grant(), most })
    }

    /// Nobody waits for it, or holds it, any more: given back without waiting for the answer.
    fn _cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.place.cancel(py, &self.grant)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)?;
        let visit_all = |listeners: &[Listener]| listeners.iter().try_for_each(|listener| listener.traverse(&visit));
        self.grant.with_listeners(visit_all).unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        drop(self.grant.take_listeners());
    }
}

/// A time to wait: any, also none and without end.
pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    checked(py, waiting_time(name, seconds))
}
