//! Leases: what Python sees of a lease, and of the machine that decides what a caller of `get_or_set` does next.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_core::lease::{self, Finding, Host, Outcome, Place, Signal, Step, Terms};
use pinyon_core::operations::{Found as CoreFound, Request};
use pinyon_core::Value;
use pinyon_proto::{Head, Status};
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use pyo3::IntoPyObjectExt;

use crate::client::Client;
use crate::errors::{checked, exception, kind_of};
use crate::keys::key_bytes;
use crate::ttl::Ttl;
use crate::values::Codec;

/// What was found when a lease was asked for.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Found {
    finding: Finding,
    value: Option<Py<PyAny>>,
}

impl Found {
    pub(crate) fn new(finding: Finding, value: Option<Py<PyAny>>) -> Self {
        Self { finding, value }
    }

    pub(crate) fn parts(&self, py: Python<'_>) -> (Finding, Option<Py<PyAny>>) {
        (self.finding, self.value(py))
    }
}

#[pymethods]
impl Found {
    /// "hit", "stale", "won" or "filling": see `pinyon.Outcome`.
    #[getter]
    fn state(&self) -> &'static str {
        match self.finding {
            Finding::Hit => "hit",
            Finding::Stale => "stale",
            Finding::Won(_) => "won",
            Finding::Filling => "filling",
        }
    }

    /// The value, which beside "won" is a stale one; None where there is none.
    #[getter]
    fn value(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.value.as_ref().map(|value| value.clone_ref(py))
    }

    #[getter]
    fn has_value(&self) -> bool {
        self.value.is_some()
    }

    /// The token to store under (`Client.cas`), and what to give back with it (`Client.give_back`); None where nothing was
    /// won, or nothing can be stored.
    #[getter]
    fn win(&self) -> Option<(u64, bool)> {
        match self.finding {
            Finding::Won(win) => win.map(|win| (win.cas, win.keep)),
            _ => None,
        }
    }
}

/// The callers of `get_or_set`, in Python.
pub(crate) enum Callers {}

impl Host for Callers {
    type Value = Py<PyAny>;
    type Shared = Arc<Shared>;
    type Error = Arc<Raised>;
    type Signal = Event;
}

/// What followers make values of their own from.
pub(crate) enum Shared {
    /// A value that cannot change: all callers have the same object.
    Same(Py<PyAny>),
    /// The bytes of any other value and its client flags, as they would be stored.
    Packed(Vec<u8>, u32),
}

impl Shared {
    fn of(codec: &Codec, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if is_immutable(value) {
            return Ok(Self::Same(value.clone().unbind()));
        }
        let (encoded, client_flags) = codec.encode(value)?;
        Ok(Self::Packed(encoded.bytes()?.to_vec(), client_flags))
    }

    fn copy(&self, py: Python<'_>, codec: &Codec) -> PyResult<Py<PyAny>> {
        match self {
            Self::Same(value) => Ok(value.clone_ref(py)),
            Self::Packed(bytes, client_flags) => {
                let mut head = Head::of(Status::Hit);
                head.item.client_flags = *client_flags;
                codec.decode(py, &head, Value::Borrowed(bytes), "this process").map(Bound::unbind)
            }
        }
    }
}

fn is_immutable(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
}

/// An exception that several callers raise, each with the traceback that the first one had.
pub(crate) struct Raised {
    error: Py<PyBaseException>,
    traceback: Py<PyAny>,
}

impl Raised {
    fn of(error: &Bound<'_, PyBaseException>) -> PyResult<Self> {
        Ok(Self { error: error.clone().unbind(), traceback: error.getattr("__traceback__")?.unbind() })
    }

    fn again(&self, py: Python<'_>) -> PyErr {
        let error = self.error.bind(py);
        match error.setattr("__traceback__", &self.traceback) {
            Ok(()) => PyErr::from_value(error.clone().into_any()),
            Err(other) => other,
        }
    }
}

/// Something with a method `set`, that one caller waits for.
pub(crate) struct Event(Py<PyAny>);

impl Signal for Event {
    fn wake(self) {
        Python::attach(|py| {
            if let Err(error) = self.0.call_method0(py, "set") {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

/// One caller's way to a value: `pinyon_core::lease::GetOrSet`. Each step is a tuple: its name, and what belongs to it.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct GetOrSet {
    machine: Mutex<lease::GetOrSet<Callers>>,
    codec: Arc<Codec>,
    key: Py<PyAny>,
    /// The flight knows both by their addresses.
    scope_and_caller: [Py<PyAny>; 2],
}

impl GetOrSet {
    fn machine(&self) -> MutexGuard<'_, lease::GetOrSet<Callers>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the steps that this half of the client takes by itself, up to one that Python takes.
    fn next<'py>(&self, py: Python<'py>, outcome: Outcome<Callers>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().next(outcome, Instant::now());
        self.carry_out(py, step)
    }

    fn carry_out<'py>(&self, py: Python<'py>, mut step: Step<Callers>) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let outcome = match step {
                Step::Share => self
                    .value(py)
                    .and_then(|value| Shared::of(&self.codec, value.bind(py)).map(Arc::new))
                    .map(Outcome::Shared),
                Step::Copy(shared) => shared.copy(py, &self.codec).map(Outcome::Value),
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

    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.machine().value().map_or_else(|| py.None(), |value| value.clone_ref(py)))
    }
}

fn failed(error: &Bound<'_, PyBaseException>) -> PyResult<Outcome<Callers>> {
    Ok(Outcome::Failed { error: Arc::new(Raised::of(error)?), is_outage: kind_of(error)?.is_outage() })
}

#[pymethods]
impl GetOrSet {
    /// `scope`: what callers have in common that can wake each other; `caller`: who asks. All times but `wait` are given as
    /// a ttl is; `wait` is seconds, or None.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are the method's")]
    fn new(
        client: &Client,
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
            [Ttl::seconds(ttl)?, Ttl::seconds(stale)?, Ttl::seconds(early)?, Ttl::seconds(lease)?];
        let terms = checked(key.py(), Terms::new(ttl, stale, early, lease, wait))?;
        let bytes = key_bytes(&key)?.into();
        let place = Place { scope: scope.as_ptr() as usize, key: bytes, policy: client.policy };
        let chance = RandomState::new().hash_one(());
        let flights = client.flights.clone();
        let machine = lease::GetOrSet::new(flights, place, caller.as_ptr() as usize, terms, chance, Instant::now());
        Ok(Self {
            machine: Mutex::new(machine),
            codec: client.codec.clone(),
            key: key.unbind(),
            scope_and_caller: [scope.unbind(), caller.unbind()],
        })
    }

    /// A task that is never resumed refers to this, and this to the task.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.scope_and_caller.iter().try_for_each(|object| visit.call(object))
    }

    fn begin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().begin(Instant::now());
        self.carry_out(py, step)
    }

    /// Registers what "follow" waits for. Returns whether there is anything to wait for.
    fn follow(&self, signal: Py<PyAny>) -> bool {
        self.machine().follow(Event(signal))
    }

    /// The step after one that came to this.
    fn found<'py>(&self, found: &Bound<'py, Found>) -> PyResult<Bound<'py, PyAny>> {
        let py = found.py();
        let (finding, value) = found.get().parts(py);
        self.next(py, Outcome::Found(CoreFound { finding, value }))
    }

    fn made<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(value.py(), Outcome::Value(value.clone().unbind()))
    }

    fn done<'py>(&self, outcome: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(outcome.py(), Outcome::Done)
    }

    /// The step after one that has failed. Raises the error where that is the last one.
    fn failed<'py>(&self, error: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
        self.next(error.py(), failed(error)?)
    }

    /// The caller goes away. Returns the arguments of `Client.give_back` where it has won, or None.
    fn leave(&self) -> Option<(u64, bool)> {
        self.machine().leave().map(|win| (win.cas, win.keep))
    }
}
