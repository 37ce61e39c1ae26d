//! Leases: what Python sees of who makes a value, and of the machine that decides what a caller does next.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinyon_core::lease::{Finding, Machine, Step, Terms, Win};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use crate::errors::{exception, ErrorKind};
use crate::ttl::Ttl;

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

/// One caller's way to a value: `pinyon_core::lease::Machine`. Each step is a tuple of its name and what belongs to it.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Leasing {
    terms: Terms,
    machine: Mutex<Machine>,
}

impl Leasing {
    fn step<'py>(&self, py: Python<'py>, step: impl FnOnce(&mut Machine) -> Step) -> PyResult<Bound<'py, PyAny>> {
        match step(&mut self.machine()) {
            Step::Ask => ("ask",).into_bound_py_any(py),
            Step::Wait(pause) => ("wait", pause.as_secs_f64()).into_bound_py_any(py),
            Step::Make => ("make",).into_bound_py_any(py),
            Step::Store { cas } => ("store", cas).into_bound_py_any(py),
            Step::GiveBack(Win { cas, keep }) => ("give_back", cas, keep).into_bound_py_any(py),
            Step::Take => ("take",).into_bound_py_any(py),
            Step::Done => ("done",).into_bound_py_any(py),
            Step::GiveUp => ("give_up",).into_bound_py_any(py),
        }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Leasing {
    /// All but `wait` are seconds as a ttl is given; `wait` is seconds, or None.
    #[new]
    fn new(
        ttl: &Bound<'_, PyAny>,
        stale: &Bound<'_, PyAny>,
        early: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let py = ttl.py();
        let wrong =
            |_| exception(py, ErrorKind::UsageError, "wait must be a number of seconds from 0 on, less than 2**31");
        let wait = wait.map(|seconds| {
            Duration::try_from_secs_f64(seconds).ok().filter(|wait| wait.as_secs() < 1 << 31).ok_or(()).map_err(wrong)
        });
        let terms = Terms::new(
            Ttl::seconds(ttl)?,
            Ttl::up_to_30_days(stale, "stale")?,
            Ttl::up_to_30_days(early, "early")?,
            Ttl::within(lease, "lease")?,
            wait.transpose()?,
        );
        let terms = terms.map_err(|why| exception(py, ErrorKind::UsageError, why))?;
        let chance = RandomState::new().hash_one(());
        Ok(Self { terms, machine: Mutex::new(Machine::new(&terms, chance, Instant::now())) })
    }

    /// How long the item is to live, in seconds.
    #[getter]
    fn ttl(&self) -> i64 {
        self.terms.ttl
    }

    #[getter]
    fn lease(&self) -> i32 {
        self.terms.lease
    }

    #[getter]
    fn recache(&self) -> i32 {
        self.terms.recache
    }

    /// Seconds that this caller still waits for somebody else.
    #[getter]
    fn patience(&self) -> f64 {
        self.machine().patience(Instant::now()).as_secs_f64()
    }

    /// What is to be given back if the caller goes away now: the arguments of `Client.give_back`, or None.
    #[getter]
    fn win(&self) -> Option<(u64, bool)> {
        self.machine().win().map(|win| (win.cas, win.keep))
    }

    fn found<'py>(&self, found: &Bound<'py, Found>) -> PyResult<Bound<'py, PyAny>> {
        self.step(found.py(), |machine| machine.found(found.get().finding, Instant::now()))
    }

    fn waited<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::waited)
    }

    fn made<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::made)
    }

    fn failed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::failed)
    }

    fn stored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::stored)
    }

    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::lost)
    }

    fn gave_back<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, Machine::gave_back)
    }
}
