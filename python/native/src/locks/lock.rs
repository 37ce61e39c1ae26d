//! Names to be locked, and what the holder can do with them once they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_core::locks::LockRequest;
use pinyon_core::settings::{lock_ttl, waiting_time, LockTerms};
use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::answers::raised;
use super::client::{lock_names, Locks};
use super::place::{Grant, Keeping, Operation, Place};
use super::telling::{check_called, Listener};
use crate::arguments::seconds;
use crate::errors::checked;

/// Names to be locked, and how. `pinyon.Locks.lock` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Lock {
    locks: Py<Locks>,
    /// The client of these names, which lives as long as this may ask for them.
    keeping: Arc<Keeping>,
    /// The names, as they were given.
    #[pyo3(get)]
    names: Py<PyTuple>,
    /// What is asked for, but for the owner.
    request: LockRequest,
    #[pyo3(get, name = "_on_lost")]
    on_lost: Option<Py<PyAny>>,
    /// What was taken by `with`, and whose it is.
    entered: Mutex<Vec<(u64, Py<Held>)>>,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (locks, names, ttl, timeout, renew, max_hold, reentrant, on_lost, /))]
    #[allow(clippy::too_many_arguments)] // those of `lock` in Python
    fn new(
        locks: Bound<'_, Locks>,
        names: Bound<'_, PyTuple>,
        ttl: Option<Bound<'_, PyAny>>,
        timeout: Option<Bound<'_, PyAny>>,
        renew: bool,
        max_hold: Option<Bound<'_, PyAny>>,
        reentrant: Option<bool>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if let Some(callback) = &on_lost {
            check_called(callback)?;
        }
        let usual = &locks.get().usual;
        let time = |given: Option<Bound<'_, PyAny>>, name| given.map(|given| seconds(&given, name)).transpose();
        let terms = LockTerms {
            ttl: time(ttl, "ttl")?.unwrap_or(usual.ttl),
            timeout: time(timeout, "timeout")?.unwrap_or(usual.timeout),
            renew,
            max_hold: time(max_hold, "max_hold")?,
            reentrant: reentrant.unwrap_or(usual.reentrant),
        };
        Ok(Self {
            keeping: locks.get().of(&names)?,
            request: checked(locks.py(), terms.request(lock_names(&names)?))?,
            names: names.unbind(),
            on_lost: on_lost.map(Bound::unbind),
            entered: Mutex::default(),
            locks: locks.unbind(),
        })
    }

    /// Takes it, and keeps what is held until it is left. Not for tasks, which have to await it.
    fn _take_by_with<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, lock) = (slf.py(), slf.get());
        let held = slf.getattr(intern!(py, "_held"))?.call1((slf,))?;
        if let Some(callback) = &lock.on_lost {
            held.call_method1(intern!(py, "on_lost"), (callback,))?;
        }
        lock._enter(held.cast::<Held>()?.clone().unbind());
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
    fn _enter(&self, held: Py<Held>) {
        self.entered().push((held.get().owner(), held));
    }

    /// Returns what the caller has entered last, if it has; another task may leave for the only one that has.
    fn _leave(&self, py: Python<'_>) -> PyResult<Option<Py<Held>>> {
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
    /// The number of the thread, greenlet or task that asks.
    pub(super) fn owner(&self, py: Python<'_>) -> PyResult<u64> {
        self.locks.bind(py).call_method0(intern!(py, "_owner"))?.extract()
    }

    /// `at_once`: it does not wait for the names.
    pub(super) fn request(&self, owner: u64, at_once: bool) -> LockRequest {
        let request = LockRequest { owner, ..self.request.clone() };
        if at_once {
            LockRequest { wait: None, ..request }
        } else {
            request
        }
    }

    /// The only one that has entered, however often.
    fn only_owner(&self) -> Option<u64> {
        let entered = self.entered();
        let (first, rest) = entered.split_first()?;
        rest.iter().all(|(owner, _)| *owner == first.0).then_some(first.0)
    }

    fn entered(&self) -> MutexGuard<'_, Vec<(u64, Py<Held>)>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that was asked for, and is held once it is granted: what `pinyon.Held` is in every concurrency model.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Held {
    /// By it, what renews it lives as long as it does.
    lock: Py<Lock>,
    owner: u64,
    grant: Arc<Grant>,
    place: Place,
    answer: Mutex<Option<Py<PyAny>>>,
    given_back: AtomicBool,
}

/// What was not released is not renewed for ever.
impl Drop for Held {
    fn drop(&mut self) {
        self.place.forsake(&self.grant);
    }
}

impl Held {
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    fn run<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        self.place.run(py, operation, None)
    }

    fn grant(&self) -> Arc<Grant> {
        self.grant.clone()
    }
}

#[pymethods]
impl Held {
    /// Asks for the names, `at_once` or for as long as the lock waits. A thread or greenlet waits here.
    #[new]
    #[pyo3(signature = (lock, at_once = false, /))]
    fn new(lock: Bound<'_, Lock>, at_once: bool) -> PyResult<Self> {
        let (py, asked) = (lock.py(), lock.get());
        let owner = asked.owner(py)?;
        let request = asked.request(owner, at_once);
        let (grant, place) = (Grant::new(request.names.clone()), asked.keeping.place(py)?);
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
        self.lock.get().names.clone_ref(py)
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
    fn _extend<'py>(&self, ttl: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = ttl.py();
        let ttl = checked(py, lock_ttl(seconds(ttl, "ttl")?))?;
        self.run(py, Operation::Extend { grant: self.grant(), ttl })
    }

    /// Gives the names back until it is notified, for at most `wait` seconds, then takes them again. Returns whether it
    /// was notified.
    fn _park<'py>(&self, py: Python<'py>, wait: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let time = |wait: Bound<'py, PyAny>| checked(py, waiting_time("timeout", seconds(&wait, "timeout")?));
        let wait = wait.map(time).transpose()?;
        let relock = self.lock.get().request.wait.unwrap_or_default();
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
