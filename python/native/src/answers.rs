//! Answers of operations as Python objects.

use pinyon_core::operations::{
    remaining, statistics, version, Answer, Changed, Compared, Everywhere, Failed, Failures, Fetched, Item,
    ServerCommand,
};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use pyo3::IntoPyObjectExt;

use crate::callers::Found;
use crate::classes::Class;
use crate::errors::{from_core, raised_beside, stored_under};

/// The answer to a request about one key. `default`: returned if the value is missing.
#[inline]
pub(crate) fn answered<'py>(
    py: Python<'py>,
    answer: Answer<Py<PyAny>>,
    default: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match answer {
        Answer::Value(value) => Ok(value.into_bound(py)),
        Answer::Missing => Ok(default.map_or_else(|| py.None().into_bound(py), Bound::clone)),
        Answer::Done(done) => done.into_bound_py_any(py),
        Answer::Number(number) => number.into_bound_py_any(py),
        Answer::ValueAndCas(value, cas) => (value, cas).into_bound_py_any(py),
        Answer::ValueAndTtl(value, ttl) => (value, ttl).into_bound_py_any(py),
        Answer::Compared(Compared::Gone) => Ok(py.None().into_bound(py)),
        Answer::Compared(compared) => (compared == Compared::Stored).into_bound_py_any(py),
        Answer::Lease(found) => Found::new(*found).into_bound_py_any(py),
        Answer::Metadata(item) => metadata(py, &item),
        Answer::ValueAndMetadata(both) => (both.0, metadata(py, &both.1)?).into_bound_py_any(py),
    }
}

fn metadata<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    let fields = (item.size, item.client_flags, item.cas, remaining(item), item.last_access, item.hit_before);
    Class::ItemMetadata.of(py)?.call1(fields)
}

/// The exception for a request about one key.
#[cold]
pub(crate) fn failed(py: Python<'_>, failed: Failed<Box<PyErr>>, key: &Bound<'_, PyAny>) -> PyErr {
    match failed {
        Failed::Error(error) => from_core(py, &error),
        Failed::Unreadable { error, command } => stored_under(py, *error, command, key),
    }
}

/// The values that were found, as a dict. `failed`: a dict for the errors of failed servers; then they are not raised.
pub(crate) fn fetched<'py>(
    py: Python<'py>,
    fetched: Fetched<Py<PyAny>, Box<PyErr>>,
    keys: &[Py<PyAny>],
    failed: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = PyDict::new(py);
    for one in fetched.found {
        match one.cas {
            Some(cas) => found.set_item(&keys[one.index], (one.value, cas))?,
            None => found.set_item(&keys[one.index], one.value)?,
        }
    }
    let mut failures = fetched.failures;
    if let Some(failed) = failed {
        for error in failures.of_servers() {
            failed.set_item(&*error.server, from_core(py, &error).into_value(py))?;
        }
    }
    if let Some(unreadable) = fetched.unreadable {
        let key = keys[unreadable.index].bind(py);
        let error = stored_under(py, *unreadable.error, failures.name(), key);
        return Err(raised_beside(py, error, &found));
    }
    achieved(found.into_any(), failures)
}

/// The keys that were not stored, as a list.
pub(crate) fn stored<'py>(py: Python<'py>, changed: Changed, keys: &[Py<PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let not_stored = keys.iter().zip(&changed.done).filter(|(_, done)| !**done).map(|(key, _)| key);
    let not_stored = PyList::new(py, not_stored.collect::<Vec<_>>())?;
    achieved(not_stored.into_any(), changed.failures)
}

/// The number of deleted items.
pub(crate) fn deleted(py: Python<'_>, changed: Changed) -> PyResult<Bound<'_, PyAny>> {
    let deleted = changed.done.iter().filter(|done| **done).count();
    achieved(deleted.into_bound_py_any(py)?, changed.failures)
}

/// The version or statistics of each server, by name; None if nothing was asked.
pub(crate) fn of_servers(py: Python<'_>, everywhere: Everywhere) -> PyResult<Bound<'_, PyAny>> {
    let asked = everywhere.asked().clone();
    let (answered, all) = (everywhere.finish().map_err(|error| from_core(py, &error))?, PyDict::new(py));
    for (server, lines) in answered {
        match asked {
            ServerCommand::FlushAll { .. } => {}
            ServerCommand::Version => all.set_item(&*server, version(&lines))?,
            ServerCommand::Stats(_) => {
                let statistics = statistics(&lines).collect::<Vec<_>>();
                all.set_item(&*server, statistics.into_py_dict(py)?)?;
            }
        }
    }
    match asked {
        ServerCommand::FlushAll { .. } => Ok(py.None().into_bound(py)),
        _ => Ok(all.into_any()),
    }
}

/// The results; or the failure to raise, with the partial results.
fn achieved<'py>(achieved: Bound<'py, PyAny>, mut failures: Failures) -> PyResult<Bound<'py, PyAny>> {
    match failures.raised() {
        None => Ok(achieved),
        Some(error) => Err(raised_beside(achieved.py(), from_core(achieved.py(), &error), &achieved)),
    }
}
