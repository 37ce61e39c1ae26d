//! The Python side of the machine that decides what a caller of `get_or_set` does next.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_cache::blocking::give_back_late;
use pinyon_cache::lease::{self, FlightKey, Step, StepOutcome, Terms};
use pinyon_cache::operations::{Request, SentKey, Win};
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use crate::callers::{Callers, Event, Found, Raised, Shared};
use crate::client::Client;
use crate::errors::{checked, exception, kind_of};
use crate::keys::key_bytes;
use crate::ttl;
use crate::values::Codec;

/// One caller's way to a value, by `pinyon_cache::lease::GetOrSet`. Each step is a tuple of its name and its arguments.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct GetOrSet {
    machine: Mutex<lease::GetOrSet<Callers>>,
    codec: Arc<Codec>,
    client: Py<Client>,
    key: Py<PyAny>,
    /// A lease that its caller was told to give back, until it has done so.
    unreturned: Mutex<Option<Win>>,
    /// Kept alive, because the flight identifies them by their addresses.
    scope_and_caller: [Py<PyAny>; 2],
}

impl GetOrSet {
    fn machine(&self) -> MutexGuard<'_, lease::GetOrSet<Callers>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out the steps that need no Python, up to the next one that does.
    fn next<'py>(&self, py: Python<'py>, outcome: StepOutcome<Callers>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().next(outcome, Instant::now());
        self.carry_out(py, step)
    }

    fn carry_out<'py>(&self, py: Python<'py>, mut step: Step<Callers>) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let outcome = match step {
                Step::Share => self
                    .value(py)
                    .and_then(|value| Shared::of(&self.codec, value.bind(py)).map(Arc::new))
                    .map(StepOutcome::Shared),
                Step::Copy(shared) => shared.copy(py, &self.codec).map(StepOutcome::Value),
                step => return self.handed_out(py, step),
            };
            let outcome = outcome.or_else(|raised| failed(raised.value(py)))?;
            step = self.machine().next(outcome, Instant::now());
        }
    }

    fn handed_out<'py>(&self, py: Python<'py>, step: Step<Callers>) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key.bind(py);
        match step {
            Step::Ask(Request::Lease { lease, recache }) => ("ask", key, lease, recache).into_bound_py_any(py),
            Step::Ask(Request::Renew { lease, recache, cas }) => {
                ("ask", key, lease, recache, cas).into_bound_py_any(py)
            }
            Step::GiveBack(Request::GiveBack(win)) => ("give_back", key, win.cas, win.keep).into_bound_py_any(py),
            Step::Store { cas, ttl } => ("store", key, self.value(py)?, cas, ttl).into_bound_py_any(py),
            Step::Pause(pause) => ("pause", pause.as_secs_f64()).into_bound_py_any(py),
            Step::Follow(patience) => ("follow", patience.as_secs_f64()).into_bound_py_any(py),
            Step::Make => ("make",).into_bound_py_any(py),
            Step::Return(value) => ("return", value).into_bound_py_any(py),
            Step::Raise(error) => Err(error.again(py)),
            Step::Refuse(refusal) => {
                let message = refusal.message(&key.repr()?.to_cow()?);
                Err(exception(py, refusal.kind(), &message))
            }
            Step::Ask(_) | Step::GiveBack(_) | Step::Share | Step::Copy(_) => {
                unreachable!("these are carried out natively")
            }
        }
    }

    fn unreturned(&self) -> MutexGuard<'_, Option<Win>> {
        self.unreturned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.machine().value().map_or_else(|| py.None(), |value| value.clone_ref(py)))
    }
}

impl Drop for GetOrSet {
    fn drop(&mut self) {
        Python::attach(|py| self.abandon(py));
    }
}

fn failed(error: &Bound<'_, PyBaseException>) -> PyResult<StepOutcome<Callers>> {
    Ok(StepOutcome::Failed { error: Arc::new(Raised::of(error)?), is_outage: kind_of(error)?.is_outage() })
}

#[pymethods]
impl GetOrSet {
    /// `scope`: shared by callers that can wake each other. `caller`: identifies this caller. `wait`: seconds or None.
    /// The other times are given like a ttl.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are the method's")]
    fn new(
        client: &Bound<'_, Client>,
        key: Bound<'_, PyAny>,
        scope: Bound<'_, PyAny>,
        caller: Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        stale: &Bound<'_, PyAny>,
        early: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let [ttl, stale, early, lease] =
            [ttl::seconds(ttl)?, ttl::seconds(stale)?, ttl::seconds(early)?, ttl::seconds(lease)?];
        let (handle, client) = (client.clone().unbind(), client.get());
        let terms = checked(key.py(), Terms::new(ttl, stale, early, lease, wait))?;
        let bytes = key_bytes(&key)?.into();
        let flight_key = FlightKey { scope: scope.as_ptr() as usize, key: bytes, policy: client.policy };
        let chance = RandomState::new().hash_one(());
        let flights = client.flights.clone();
        let machine =
            lease::GetOrSet::new(flights, flight_key, caller.as_ptr() as usize, terms, chance, Instant::now());
        Ok(Self {
            machine: Mutex::new(machine),
            codec: client.codec.clone(),
            client: handle,
            key: key.unbind(),
            unreturned: Mutex::default(),
            scope_and_caller: [scope.unbind(), caller.unbind()],
        })
    }

    /// A task that is never resumed forms a cycle with this object.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.client)?;
        self.scope_and_caller.iter().try_for_each(|object| visit.call(object))
    }

    fn begin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().begin(Instant::now());
        self.carry_out(py, step)
    }

    /// Registers the signal of a "follow". Returns whether the caller must wait for it.
    fn follow(&self, signal: Py<PyAny>) -> bool {
        self.machine().follow(Event(signal))
    }

    /// The step that follows this answer.
    fn found<'py>(&self, found: &Bound<'py, Found>) -> PyResult<Bound<'py, PyAny>> {
        let py = found.py();
        self.next(py, StepOutcome::Found(found.get().with(py, |value| value)))
    }

    fn made<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(value.py(), StepOutcome::Value(value.clone().unbind()))
    }

    fn done<'py>(&self, outcome: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(outcome.py(), StepOutcome::Done)
    }

    fn stored<'py>(&self, outcome: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(outcome.py(), StepOutcome::Stored(outcome.is_truthy()?))
    }

    /// The step that follows a failure. Raises the error if there is none.
    fn failed<'py>(&self, error: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
        self.next(error.py(), failed(error)?)
    }

    /// Ends a caller that goes away. Returns the arguments for `Client._give_back` if it has won a lease, or None. Call
    /// `returned` afterwards.
    fn leave(&self) -> Option<(u64, bool)> {
        let win = self.machine().leave();
        *self.unreturned() = win;
        win.map(|win| (win.cas, win.keep))
    }

    /// Gives back the lease of a caller that was interrupted on its way out. Nobody waits for it.
    fn abandon(&self, py: Python<'_>) {
        let left = self.machine().leave();
        let Some(win) = self.unreturned().take().or(left) else { return };
        let client = self.client.get();
        let given_back = client.with_key(self.key.bind(py), |key| {
            give_back_late(&client.directory, key.owned(), win, client.policy);
            Ok(())
        });
        if let Err(error) = given_back {
            error.write_unraisable(py, None);
        }
    }

    /// Takes note that the lease was given back.
    fn returned(&self) {
        *self.unreturned() = None;
    }
}
