//! Answers of operations as Python objects.

use std::convert::Infallible;

use pinyon_cache::calls::Gives;
use pinyon_cache::operations::{
    remaining, statistics, version, Answer, Changed, Compared, Everywhere, Failed, Failures, Fetched,
    Found as FoundLease, FoundKey, Item, ServerCommand,
};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use pyo3::IntoPyObjectExt;

use crate::callers::{Found, Unseen};
use crate::classes::Class;
use crate::errors::{from_core, is_unreadable, raised_beside};
use crate::reading::Reader;
use crate::stored::Stored;

/// The answer to a request about one key. `default`: returned if the value is missing. `read`: makes the value.
#[inline]
pub(crate) fn read<'py>(
    py: Python<'py>,
    answer: Answer<Stored>,
    default: Option<&Bound<'py, PyAny>>,
    read: impl FnOnce(Stored) -> PyResult<Option<Py<PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    match answer {
        Answer::Value(Stored::Made(value)) => Ok(value.into_bound(py)),
        answer => answered(py, answer.read(read)?, default),
    }
}

/// The answer to a request about one key.
#[inline]
fn answered<'py>(
    py: Python<'py>,
    answer: Answer<Py<PyAny>>,
    default: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match answer {
        Answer::Value(value) => Ok(value.into_bound(py)),
        Answer::Missing => Ok(default.map_or_else(|| py.None().into_bound(py), Bound::clone)),
        Answer::Done(done) => done.into_bound_py_any(py),
        Answer::Number(number) => number.into_bound_py_any(py),
        Answer::ValueAnd(value, fact) => (value, fact.number()).into_bound_py_any(py),
        Answer::Compared(Compared::Gone) => Ok(py.None().into_bound(py)),
        Answer::Compared(compared) => (compared == Compared::Stored).into_bound_py_any(py),
        Answer::Lease(found) => Found::new(*found, None).into_bound_py_any(py),
        Answer::Metadata(item) => metadata(py, &item),
        Answer::ValueAndMetadata(both) => (both.0, metadata(py, &both.1)?).into_bound_py_any(py),
    }
}

/// The answer to a request for a lease. `unseen`: the lease, if it was won. `read`: makes the value.
#[cold]
pub(crate) fn leased<'py>(
    py: Python<'py>,
    found: FoundLease<Stored>,
    unseen: Option<Unseen>,
    read: impl FnOnce(Stored) -> PyResult<Option<Py<PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    Found::new(found.read(read)?, unseen).into_bound_py_any(py)
}

fn metadata<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    let fields = (item.size, item.client_flags, item.cas, remaining(item), item.last_access, item.hit_before);
    Class::ItemMetadata.of(py)?.call1(fields)
}

/// The exception for a request about one key.
#[cold]
pub(crate) fn failed(py: Python<'_>, failed: Failed<Infallible>) -> PyErr {
    match failed {
        Failed::Error(error) => from_core(py, &error),
        Failed::Unreadable { error, .. } => match error {},
    }
}

/// The values that were found, as a dict, which makes them. `failed`: a dict for the errors of failed servers, and of keys
/// whose values cannot be read; then they are not raised.
pub(crate) fn fetched<'py>(
    py: Python<'py>,
    fetched: Fetched<Stored, Infallible>,
    keys: &[Py<PyAny>],
    failed: Option<&Bound<'py, PyDict>>,
    reader: &Reader<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let (found, mut unreadable) = (PyDict::new(py), None);
    for FoundKey { index, value, cas } in fetched.found {
        let value = match value {
            Stored::Made(value) => value,
            rest => match finished(rest, keys[index].bind(py), failed, &mut unreadable, reader)? {
                Some(value) => value,
                None => continue,
            },
        };
        match cas {
            Some(cas) => found.set_item(&keys[index], (value, cas))?,
            None => found.set_item(&keys[index], value)?,
        }
    }
    let mut failures = fetched.failures;
    if let Some(failed) = failed {
        for error in failures.of_servers() {
            failed.set_item(&*error.server, from_core(py, &error).into_value(py))?;
        }
    }
    match unreadable {
        Some(error) => Err(raised_beside(py, error, &found)),
        None => achieved(found.into_any(), failures),
    }
}

/// Finishes one of many values. A value that cannot be read is no obstacle to the others.
#[inline(never)]
fn finished(
    stored: Stored,
    key: &Bound<'_, PyAny>,
    failed: Option<&Bound<'_, PyDict>>,
    unreadable: &mut Option<PyErr>,
    reader: &Reader<'_>,
) -> PyResult<Option<Py<PyAny>>> {
    let py = key.py();
    let names_keys = Reader { passes_over: reader.passes_over && failed.is_none(), ..*reader };
    let error = match names_keys.read(stored, key) {
        Err(error) if is_unreadable(py, &error)? => error,
        read => return read,
    };
    match failed {
        Some(failed) => failed.set_item(key, error.into_value(py))?,
        None => drop(unreadable.get_or_insert(error)),
    }
    Ok(None)
}

/// What a call that changes many keys gives: how many were changed, or a list of those that were or were not.
pub(crate) fn changed<'py>(
    py: Python<'py>,
    changed: Changed,
    gives: Gives,
    keys: &[Py<PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    let these = |wanted: bool| keys.iter().zip(&changed.done).filter(move |(_, done)| **done == wanted);
    let listed = |wanted| PyList::new(py, these(wanted).map(|(key, _)| key).collect::<Vec<_>>());
    let result = match gives {
        Gives::NotStored => listed(false)?.into_any(),
        Gives::Found => listed(true)?.into_any(),
        Gives::Nothing => py.None().into_bound(py),
        _ => these(true).count().into_bound_py_any(py)?,
    };
    achieved(result, changed.failures)
}

/// The version or statistics of each server, by name; None if nothing was asked.
pub(crate) fn of_servers(py: Python<'_>, everywhere: Everywhere) -> PyResult<Bound<'_, PyAny>> {
    let asked = everywhere.asked().clone();
    let (answered, all) = (everywhere.finish().map_err(|error| from_core(py, &error))?, PyDict::new(py));
    for (server, lines) in answered {
        match asked {
            ServerCommand::FlushAll { .. } | ServerCommand::ClearNamespace => {}
            ServerCommand::Version => all.set_item(&*server, version(&lines))?,
            ServerCommand::Stats(_) => {
                let statistics = statistics(&lines).collect::<Vec<_>>();
                all.set_item(&*server, statistics.into_py_dict(py)?)?;
            }
        }
    }
    match asked {
        ServerCommand::FlushAll { .. } | ServerCommand::ClearNamespace => Ok(py.None().into_bound(py)),
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
