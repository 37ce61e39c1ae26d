//! Rates.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::client::Locks;
use super::drivers::{self, Drivers, Operation};
use super::names::name_bytes;
use crate::arguments::{seconds, whole};
use crate::errors::{checked, exception, ErrorKind};

/// How many permits a name gives in a time. `pinyon.Locks.rate` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Rate {
    rate: Arc<pinyon_locks::Rate>,
    /// The client of this name.
    client: Arc<Drivers>,
    /// How long to wait, unless it is said: the client's setting.
    timeout: f64,
    /// The name, as it was given.
    #[pyo3(get)]
    name: Py<PyAny>,
    /// The seconds in which it gives `limit` permits.
    #[pyo3(get)]
    per: f64,
}

#[pymethods]
impl Rate {
    #[new]
    #[pyo3(signature = (locks = None, name = None, limit = None, per = None, burst = None, /))]
    fn new(
        py: Python<'_>,
        locks: Option<&Bound<'_, PyAny>>,
        name: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
        per: Option<&Bound<'_, PyAny>>,
        burst: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (Some(Ok(locks)), Some(name), Some(limit), Some(per)) = (locks.map(Bound::cast::<Locks>), name, limit, per)
        else {
            return Err(exception(py, ErrorKind::UsageError, "a rate is made by `rate` of a client of locks"));
        };
        let number = |given: &Bound<'_, PyAny>, what| whole::<i64>(given, what, "a whole number (int)", "below 2**63");
        let (limit, per) = (number(limit, "limit")?, seconds(per, "per")?);
        let burst = burst.map(|burst| number(burst, "burst")).transpose()?;
        let rate = checked(py, pinyon_locks::Rate::new(name_bytes(name)?, limit, per, burst))?;
        let (locks, names) = (locks.get(), PyTuple::new(py, [name])?);
        let (client, timeout) = (locks.of(&names)?, locks.usual.timeout);
        Ok(Self { rate: rate.into(), client, timeout, name: name.clone().unbind(), per })
    }

    /// Asks for permits: `True` and more numbers, see `pinyon.RateResult`. With `waits`, for `timeout` seconds.
    fn _ask<'py>(
        &self,
        n: &Bound<'py, PyAny>,
        waits: bool,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = n.py();
        let permits = whole(n, "n", "a whole number (int)", "below 2**63")?;
        let timeout = timeout.map_or(Ok(self.timeout), |timeout| seconds(timeout, "timeout"))?;
        let question = checked(py, self.rate.ask(permits, waits.then_some(timeout)))?;
        drivers::run(py, &drivers::of_caller(py, &self.client)?, Operation::Rate { question })
    }

    /// How many permits it gives in `per` seconds.
    #[getter]
    fn limit(&self) -> u64 {
        self.rate.limit()
    }

    /// How many permits it gives at once.
    #[getter]
    fn burst(&self) -> u64 {
        self.rate.burst()
    }
}
