//! Migrations: what Python sees of the machine that decides what an operation does on which pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_core::error::kinds::ErrorKind;
use pinyon_core::migration::{self, Counts, End, Outcome, Plan, Pool, Progress, Step, NEEDS_TTL};
use pinyon_core::operations::{Answer, Compared, Found as CoreFound, Request};
use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::callers::Found;
use crate::errors::exception;
use crate::ttl::Ttl;

type Object = Arc<Py<PyAny>>;

/// How far a migrating client and its views have come.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct MigrationCounts(Arc<Counts>);

#[pymethods]
impl MigrationCounts {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// The fields of `pinyon.Progress`.
    fn progress(&self) -> [u64; 5] {
        let Progress { new, old, moved, refused, missing } = self.0.progress();
        [new, old, moved, refused, missing]
    }

    #[pyo3(signature = (*, new = 0, old = 0, missing = 0))]
    fn add(&self, new: u64, old: u64, missing: u64) {
        self.0.add(Progress { new, old, missing, ..Progress::default() });
    }
}

/// One operation of a migrating client: `pinyon_core::migration::Migration`. Each step is a call: the pool, the method, its
/// arguments and settings; the last one is ("", "return", (what the operation returns,), {}).
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Migration {
    state: Mutex<State>,
    method: Py<PyAny>,
    /// Those of the user's operation, whose first one is the key.
    arguments: Py<PyTuple>,
    /// Those with which it makes a missing item are left out until then.
    settings: Py<PyDict>,
    creates: bool,
}

struct State {
    machine: migration::Migration<Object, Py<PyAny>>,
    reads: Reads,
}

/// How the outcome of the step under way is read.
#[derive(Clone, Copy)]
enum Reads {
    Value,
    ValueAndTtl,
    Lease,
    Compared,
    Done,
    Operation,
}

type MigrationStep = Step<Object, Py<PyAny>, PyErr>;

#[pymethods]
impl Migration {
    /// `operation`: its name in the core's table of plans; `method`: of a client. `ttl`: of items that are moved from servers
    /// that cannot tell, or None.
    #[new]
    fn new(
        operation: &str,
        method: Py<PyAny>,
        arguments: Py<PyTuple>,
        settings: Py<PyDict>,
        counts: &MigrationCounts,
        ttl: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Some(plan) = Plan::of(operation) else { unreachable!("{operation} has no plan") };
        let ttl = ttl.map(|ttl| Ttl::seconds(&ttl)).transpose()?;
        let machine = migration::Migration::new(plan, counts.0.clone(), ttl);
        let state = Mutex::new(State { machine, reads: Reads::Operation });
        Ok(Self { state, method, arguments, settings, creates: plan == Plan::Create })
    }

    fn begin<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let step = this.get().state().machine.begin();
        Self::call(this, step)
    }

    /// The step after one that came to this.
    fn answered<'py>(this: &Bound<'py, Self>, outcome: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let reads = this.get().state().reads;
        let outcome = reads.outcome(this, outcome)?;
        let step = this.get().state().machine.next(outcome);
        Self::call(this, step)
    }

    /// The step after one that has failed. Raises the error where that is the last one.
    fn failed<'py>(this: &Bound<'py, Self>, error: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
        let kind = kind_of(error)?;
        let error = PyErr::from_value(error.clone().into_any());
        let step = this.get().state().machine.next(Outcome::Failed { error, kind });
        Self::call(this, step)
    }
}

impl Migration {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<'py>(this: &Bound<'py, Self>, step: MigrationStep) -> PyResult<Bound<'py, PyAny>> {
        let (py, own) = (this.py(), this.get());
        let key = own.arguments.bind(py).get_item(0)?;
        match step {
            Step::Ask(pool, request) => {
                let (reads, method, arguments) = match request {
                    Request::Get { .. } => (Reads::Value, "get", (key, this).into_bound_py_any(py)?),
                    Request::GetWithTtl => (Reads::ValueAndTtl, "get_with_ttl", (key,).into_bound_py_any(py)?),
                    Request::Lease { lease, .. } => (Reads::Lease, "ask_lease", (key, lease).into_bound_py_any(py)?),
                    Request::GiveBack(win) => {
                        (Reads::Done, "give_back", (key, win.cas, win.keep).into_bound_py_any(py)?)
                    }
                    Request::Delete if own.is_of_many(py)? => {
                        (Reads::Done, "delete_many", (key,).into_bound_py_any(py)?)
                    }
                    Request::Delete => (Reads::Done, "delete", (key,).into_bound_py_any(py)?),
                    _ => unreachable!("no plan asks this"),
                };
                let pool = if pool == Pool::Old { "old" } else { "new" };
                own.state().reads = reads;
                (pool, method, arguments, PyDict::new(py)).into_bound_py_any(py)
            }
            Step::Store { value, cas, ttl } => {
                own.state().reads = Reads::Compared;
                ("new", "cas", (key, &*value, cas, ttl), PyDict::new(py)).into_bound_py_any(py)
            }
            Step::Operate if own.creates => own.operate(py, &PyDict::new(py)),
            Step::Operate | Step::Create => own.operate(py, own.settings.bind(py)),
            Step::Return(end) => ("", "return", (own.returned(py, end)?,), PyDict::new(py)).into_bound_py_any(py),
            Step::Raise(error) => Err(error),
            Step::NeedTtl(error) => {
                let raised = exception(py, ErrorKind::Unsupported, &format!("{}; {NEEDS_TTL}", error.value(py).str()?));
                raised.set_cause(py, Some(error));
                Err(raised)
            }
        }
    }
}

impl Migration {
    fn operate<'py>(&self, py: Python<'py>, settings: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        self.state().reads = Reads::Operation;
        ("new", &self.method, &self.arguments, settings).into_bound_py_any(py)
    }

    fn is_of_many(&self, py: Python<'_>) -> PyResult<bool> {
        self.method.bind(py).eq(intern!(py, "set_many"))
    }

    /// What is missing is what `get` was given for it.
    fn returned(&self, py: Python<'_>, end: End<Object, Py<PyAny>>) -> PyResult<Py<PyAny>> {
        match end {
            End::Value(value) => Ok(value.clone_ref(py)),
            End::Missing => Ok(self.arguments.bind(py).get_item(1).map_or_else(|_| py.None(), Bound::unbind)),
            End::Answer(answer) => Ok(answer),
            End::Done(done) => done.into_py_any(py),
        }
    }
}

impl Reads {
    fn outcome(
        self,
        migration: &Bound<'_, Migration>,
        outcome: &Bound<'_, PyAny>,
    ) -> PyResult<Outcome<Object, Py<PyAny>, PyErr>> {
        let object = || Arc::new(outcome.clone().unbind());
        Ok(Outcome::Answered(match self {
            // The migration itself is what a missing value was asked to be.
            Self::Value if outcome.is(migration) => Answer::Missing,
            Self::Value => Answer::Value(object()),
            Self::ValueAndTtl => match outcome.extract::<Option<(Py<PyAny>, Option<u32>)>>()? {
                Some((value, ttl)) => Answer::ValueAndTtl(Arc::new(value), ttl),
                None => Answer::Missing,
            },
            Self::Lease => {
                let (finding, value) = outcome.cast::<Found>()?.get().parts(outcome.py());
                Answer::Lease(CoreFound { finding, value: value.map(Arc::new) }.into())
            }
            Self::Compared if outcome.is_truthy()? => Answer::Compared(Compared::Stored),
            Self::Compared => Answer::Compared(Compared::Changed),
            Self::Done => Answer::Done(outcome.is_truthy()?),
            Self::Operation => {
                let missed = outcome.is_none() || outcome.is(PyBool::new(outcome.py(), false));
                return Ok(Outcome::Operated { answer: outcome.clone().unbind(), found: !missed });
            }
        }))
    }
}

/// The most particular kind that an exception of Pinyon's is of.
fn kind_of(error: &Bound<'_, PyBaseException>) -> PyResult<ErrorKind> {
    let errors = error.py().import("pinyon.errors")?;
    for kind in ErrorKind::ALL.into_iter().rev() {
        if error.is_instance(&errors.getattr(kind.as_str())?)? {
            return Ok(kind);
        }
    }
    Ok(ErrorKind::Error)
}
