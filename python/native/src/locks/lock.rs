//! Names to be locked, and how.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_core::locks::machine::{Renewal, Request};
use pinyon_core::settings;
use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::client::{lock_names, ttl_of, Locks};
use super::grant::{seconds, Grant};
use super::place::{Keeping, Place};
use super::telling::check_called;
use crate::errors::checked;

/// Names to be locked, and how. `pinyon.Locks.lock` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Lock {
    locks: Py<Locks>,
    /// The client of these names, which lives as long as this may ask for them.
    keeping: Arc<Keeping>,
    names: Py<PyTuple>,
    ttl: f64,
    timeout: f64,
    renew: bool,
    max_hold: Option<f64>,
    reentrant: bool,
    on_lost: Option<Py<PyAny>>,
    /// What was taken by `with`, and whose it is.
    entered: Mutex<Vec<(u64, Py<Grant>)>>,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (locks, names, ttl, timeout, renew, max_hold, reentrant, on_lost, /))]
    #[allow(clippy::too_many_arguments)] // those of `lock` in Python
    fn new(
        locks: Bound<'_, Locks>,
        names: Bound<'_, PyTuple>,
        ttl: Option<f64>,
        timeout: Option<f64>,
        renew: bool,
        max_hold: Option<f64>,
        reentrant: Option<bool>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if let Some(callback) = &on_lost {
            check_called(callback)?;
        }
        let usual = &locks.get().usual;
        Ok(Self {
            keeping: locks.get().of(&names)?,
            names: names.unbind(),
            ttl: ttl.unwrap_or(usual.ttl),
            timeout: timeout.unwrap_or(usual.timeout),
            renew,
            max_hold,
            reentrant: reentrant.unwrap_or(usual.reentrant),
            on_lost: on_lost.map(Bound::unbind),
            entered: Mutex::default(),
            locks: locks.unbind(),
        })
    }

    /// The names, as they were given.
    #[getter]
    pub(super) fn names(&self, py: Python<'_>) -> Py<PyTuple> {
        self.names.clone_ref(py)
    }

    #[getter]
    fn _on_lost(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.on_lost.as_ref().map(|callback| callback.clone_ref(py))
    }

    /// Takes it, and keeps what is held until it is left. Not for tasks, which have to await it.
    fn _take_by_with<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, lock) = (slf.py(), slf.get());
        let held = slf.getattr(intern!(py, "_held"))?.call1((slf,))?;
        if let Some(callback) = &lock.on_lost {
            held.call_method1(intern!(py, "on_lost"), (callback,))?;
        }
        lock._enter(held.cast::<Grant>()?.clone().unbind());
        Ok(held)
    }

    /// Gives back what was taken by `with`; an error of the block's goes before one of giving it back.
    fn _give_back_by_with(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, lock) = (slf.py(), slf.get());
        let Some(held) = lock._leave(py)? else {
            return slf.call_method0(intern!(py, "_not_entered")).map(drop);
        };
        let held = held.bind(py);
        if held.get()._given_back() {
            return Ok(());
        }
        match held.get()._release(py).and_then(|kept| kept.is_truthy()) {
            Ok(false) if error.is_none() => Err(PyErr::from_value(held.get()._lost_inside(py))),
            Err(raised) if error.is_none() || !raised.is_instance_of::<PyException>(py) => Err(raised),
            _ => Ok(()),
        }
    }

    /// Keeps what was taken by `with`, until `_leave`.
    fn _enter(&self, held: Py<Grant>) {
        self.entered().push((held.get().owner(), held));
    }

    /// Returns what the caller has entered last, if it has; another task may leave for the only one that has.
    fn _leave(&self, py: Python<'_>) -> PyResult<Option<Py<Grant>>> {
        let owner = match self.only_owner() {
            Some(owner) => owner,
            None => self.owner(py)?,
        };
        let mut entered = self.entered();
        let last = entered.iter().rposition(|(of, _)| *of == owner);
        Ok(last.map(|last| entered.remove(last).1))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.locks)?;
        visit.call(&self.on_lost)?;
        let Ok(entered) = self.entered.try_lock() else { return Ok(()) };
        entered.iter().try_for_each(|(_, held)| visit.call(held))
    }

    fn __clear__(&self) {
        let entered = std::mem::take(&mut *self.entered());
        drop(entered);
    }
}

impl Lock {
    pub(super) fn place(&self, py: Python<'_>) -> PyResult<Place> {
        self.keeping.place(py)
    }

    pub(super) fn timeout(&self) -> f64 {
        self.timeout
    }

    /// The number of the thread, greenlet or task that asks.
    pub(super) fn owner(&self, py: Python<'_>) -> PyResult<u64> {
        self.locks.bind(py).call_method0(intern!(py, "_owner"))?.extract()
    }

    /// `at_once`: it does not wait for the names.
    pub(super) fn request(&self, py: Python<'_>, owner: u64, at_once: bool) -> PyResult<Request> {
        Ok(Request {
            names: lock_names(self.names.bind(py))?,
            owner,
            ttl: ttl_of(py, self.ttl)?,
            wait: (!at_once).then(|| seconds(py, "timeout", self.timeout)).transpose()?,
            renewal: match self.max_hold.filter(|_| self.renew) {
                Some(longest) => Renewal::For(checked(py, settings::seconds("max_hold", longest))?),
                None if self.renew => Renewal::Always,
                None => Renewal::Never,
            },
            reentrant: self.reentrant,
        })
    }

    /// The only one that has entered, however often.
    fn only_owner(&self) -> Option<u64> {
        let entered = self.entered();
        let (first, rest) = entered.split_first()?;
        rest.iter().all(|(owner, _)| *owner == first.0).then_some(first.0)
    }

    fn entered(&self) -> MutexGuard<'_, Vec<(u64, Py<Grant>)>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
