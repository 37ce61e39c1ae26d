//! The Python side of the machine that decides what an operation does on which pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::migration::{self, Counts, Plan, Progress, Returned, Side, Step, StepOutcome, NEEDS_TTL};
use pinyon_cache::operations::{Answer, Compared, Request, Win};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::callers::Found;
use crate::errors::{exception, kind_of, ErrorKind};
use crate::ttl;

type Object = Arc<Py<PyAny>>;

/// The progress of a migrating client and its views.
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
}

/// One operation of a migrating client, by `pinyon_cache::migration::Migration`. Each step is a pool and a call: the
/// method, its arguments and settings. The last step has no pool, but the operation's result.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Migration {
    stepper: Mutex<Stepper>,
    plan: Plan,
    method: Py<PyAny>,
    /// The arguments of the user's operation.
    arguments: Py<PyTuple>,
    /// Where to look up its keys by index. A single key is the first argument; several keys are inside it.
    keys: Py<PyAny>,
    /// The settings of the user's operation. Those for creating a missing item are left out until they apply.
    settings: Py<PyDict>,
    /// The values read for several keys.
    values: Py<PyDict>,
}

struct Stepper {
    machine: migration::Migration<Object, Py<PyAny>>,
    reads: Reads,
}

/// How to read the outcome of the current step.
enum Reads {
    Value,
    ValueAndTtl,
    Lease,
    Compared,
    Done,
    /// The values of these keys.
    Many(Vec<usize>),
    Operation,
}

#[pymethods]
impl Migration {
    /// `operation`: its name in the core's table of plans. `method`: that of a client. `ttl`: for items moved from
    /// servers that cannot report it, or None.
    #[new]
    fn new(
        operation: &str,
        method: Py<PyAny>,
        arguments: Bound<'_, PyTuple>,
        settings: Bound<'_, PyDict>,
        counts: &MigrationCounts,
        ttl: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Some(plan) = Plan::named(operation) else { unreachable!("{operation} has no plan") };
        let (counts, ttl) = (counts.0.clone(), ttl.map(|ttl| ttl::seconds(&ttl)).transpose()?);
        let keys = if plan.is_of_many() { arguments.get_item(0)? } else { arguments.clone().into_any() };
        let tells_outages = settings.get_item("failed")?.is_some_and(|failed| !failed.is_none());
        let machine = migration::Migration::new(plan, keys.len()?, tells_outages, counts, ttl);
        let stepper = Stepper { machine, reads: Reads::Operation }.into();
        let (values, keys) = (PyDict::new(keys.py()).unbind(), keys.unbind());
        Ok(Self { stepper, plan, method, arguments: arguments.unbind(), keys, settings: settings.unbind(), values })
    }

    fn begin<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let step = this.get().stepper().machine.begin();
        Self::call(this, step)
    }

    /// The step that follows this result.
    fn answered<'py>(this: &Bound<'py, Self>, outcome: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let outcome = Self::outcome(this, outcome)?;
        let step = this.get().stepper().machine.next(outcome);
        Self::call(this, step)
    }

    /// The step that follows a failure. Raises the error if there is none.
    fn failed<'py>(this: &Bound<'py, Self>, error: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
        let kind = kind_of(error)?;
        let error = PyErr::from_value(error.clone().into_any());
        let step = this.get().stepper().machine.next(StepOutcome::Failed { error, kind });
        Self::call(this, step)
    }
}

impl Migration {
    fn stepper(&self) -> MutexGuard<'_, Stepper> {
        self.stepper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<'py>(this: &Bound<'py, Self>, mut step: Step<Object, Py<PyAny>, PyErr>) -> PyResult<Bound<'py, PyAny>> {
        let (py, own) = (this.py(), this.get());
        let (method, settings, none) = (own.method.bind(py), own.settings.bind(py), PyDict::new(py));
        while let Step::Tell(error) = step {
            let error = error.value(py);
            settings.as_any().get_item("failed")?.call_method1("setdefault", (error.getattr("server")?, error))?;
            step = own.stepper().machine.next(StepOutcome::Told);
        }
        let key = || own.key(py, own.stepper().machine.key());
        let operate = |settings| (method, &own.arguments, settings).into_pyobject(py);
        let (pool, reads, call) = match step {
            Step::Ask(pool, request) => {
                let many = method.eq("set_many")?;
                let (reads, call) = match request {
                    Request::Get { .. } => (Reads::Value, ("get", (key()?, this), none).into_pyobject(py)?),
                    Request::GetWithTtl => (Reads::ValueAndTtl, ("get_with_ttl", (key()?,), none).into_pyobject(py)?),
                    Request::Lease { lease, .. } => {
                        (Reads::Lease, ("_ask_lease", (key()?, lease), none).into_pyobject(py)?)
                    }
                    Request::GiveBack(Win { cas, keep }) => {
                        (Reads::Done, ("_give_back", (key()?, cas, keep), none).into_pyobject(py)?)
                    }
                    Request::Delete if many => (Reads::Done, ("delete_many", (key()?,), none).into_pyobject(py)?),
                    Request::Delete => (Reads::Done, ("delete", (key()?,), none).into_pyobject(py)?),
                    _ => unreachable!("no plan asks this"),
                };
                (pool, reads, call)
            }
            Step::Store { value, cas, ttl } => {
                (Side::New, Reads::Compared, ("cas", (key()?, &*value, cas, ttl), none).into_pyobject(py)?)
            }
            Step::Read { pool, keys, .. } => {
                let wanted = keys.iter().map(|key| own.key(py, *key)).collect::<PyResult<Vec<_>>>()?;
                (pool, Reads::Many(keys), (method, (wanted,), settings).into_pyobject(py)?)
            }
            Step::Operate if own.plan == Plan::Create => (Side::New, Reads::Operation, operate(&none)?),
            Step::Operate | Step::Create => (Side::New, Reads::Operation, operate(settings)?),
            Step::Return(end) => {
                let returned = match end {
                    Returned::Value(value) => value.clone_ref(py),
                    // The default given to `get`.
                    Returned::Missing => own.arguments.bind(py).get_item(1).map_or_else(|_| py.None(), Bound::unbind),
                    Returned::Answer(answer) => answer,
                    Returned::Done(done) => done.into_py_any(py)?,
                    Returned::Values => own.values.clone_ref(py).into_any(),
                    Returned::Count(count) => count.into_py_any(py)?,
                };
                return ("", returned).into_bound_py_any(py);
            }
            Step::Raise(error) => return Err(error),
            Step::NeedTtl(error) => {
                let raised = exception(py, ErrorKind::Unsupported, &format!("{}; {NEEDS_TTL}", error.value(py).str()?));
                raised.set_cause(py, Some(error));
                return Err(raised);
            }
            Step::Tell(_) => unreachable!("the user was told"),
        };
        own.stepper().reads = reads;
        let pool = if pool == Side::Old { "old" } else { "new" };
        (pool, call).into_bound_py_any(py)
    }

    fn key<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.keys.bind(py).get_item(index)
    }

    fn outcome(this: &Bound<'_, Self>, outcome: &Bound<'_, PyAny>) -> PyResult<StepOutcome<Object, Py<PyAny>, PyErr>> {
        let (py, own) = (this.py(), this.get());
        let object = || Arc::new(outcome.clone().unbind());
        let reads = std::mem::replace(&mut own.stepper().reads, Reads::Operation);
        Ok(StepOutcome::Answered(match reads {
            // The migration passed itself as the default, to recognize a miss.
            Reads::Value if outcome.is(this) => Answer::Missing,
            Reads::Value => Answer::Value(object()),
            Reads::ValueAndTtl => match outcome.extract::<Option<(Py<PyAny>, Option<u32>)>>()? {
                Some((value, ttl)) => Answer::ValueAndTtl(Arc::new(value), ttl),
                None => Answer::Missing,
            },
            Reads::Lease => Answer::Lease(outcome.cast::<Found>()?.get().with(py, Arc::new).into()),
            Reads::Compared if outcome.is_truthy()? => Answer::Compared(Compared::Stored),
            Reads::Compared => Answer::Compared(Compared::Changed),
            Reads::Done => Answer::Done(outcome.is_truthy()?),
            Reads::Many(keys) => {
                let (values, mut found) = (outcome.cast::<PyDict>()?, Vec::new());
                own.values.bind(py).update(values.as_mapping())?;
                for key in keys {
                    if values.contains(own.key(py, key)?)? {
                        found.push(key);
                    }
                }
                return Ok(StepOutcome::Found(found));
            }
            Reads::Operation => {
                let missed = outcome.is_none() || outcome.is(PyBool::new(py, false));
                return Ok(StepOutcome::Operated { answer: outcome.clone().unbind(), found: !missed });
            }
        }))
    }
}
