//! What came of something about locks, in Python.

use std::sync::Arc;

use pinyon_core::locks::call::{Answer, Attempt, Inspected, Names};
use pinyon_core::locks::client::Outcome;
use pinyon_core::locks::keys::shown;
use pinyon_core::locks::machine::Failure;
use pinyon_proto::resp::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyo3::IntoPyObjectExt;

use super::grant::GrantState;
use crate::errors::{from_core, lock_failure};

/// What whoever waited is given; None where a lock is not to be had now.
pub(crate) fn answer(py: Python<'_>, outcome: Outcome, state: Option<&Arc<GrantState>>) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Granted { notified, .. } => notified.into_py_any(py),
        Outcome::Failed(Failure::Busy { .. }) => Ok(py.None()),
        Outcome::Failed(failure) => Err(raised(py, failure, state)),
        Outcome::Released { held } | Outcome::Extended { held } => held.into_py_any(py),
        Outcome::Answered(answer) => answered(py, answer),
        Outcome::Value(value) => value_in_python(py, value),
    }
}

fn raised(py: Python<'_>, failure: Failure, state: Option<&Arc<GrantState>>) -> PyErr {
    let what = state.map_or_else(|| "the lock".to_owned(), |state| described(&state.names));
    match failure {
        Failure::Timeout => {
            let server = state.map_or("the server", |state| state.backend.server());
            lock_failure(py, "LockTimeout", &format!("{server}: {what} was not to be had in time"), None)
        }
        Failure::AlreadyHeld => {
            let message = format!(
                "{what}: one of the names is held already by whoever asks; a lock may be taken again with reentrant=True, \
                 and with the names it has"
            );
            lock_failure(py, "AlreadyHeld", &message, None)
        }
        Failure::Deadlock { cycle } => {
            let message = format!(
                "{what} would never be had: its holders wait, in turn, for what whoever asks holds; release that, and \
                 begin again"
            );
            let cycle: Vec<String> = cycle.iter().map(Attempt::to_string).collect();
            lock_failure(py, "Deadlock", &message, Some(("cycle", cycle)))
        }
        Failure::NotHeld => lock_failure(py, "LockLost", &format!("{what} is not held"), None),
        Failure::Busy { .. } => lock_failure(py, "LockTimeout", &format!("{what} is held by somebody else"), None),
        Failure::Server(error) => from_core(py, &error),
    }
}

/// The names of a lock for people to read: the first few.
fn described(names: &Names) -> String {
    const FEW: usize = 3;
    let few: Vec<String> = names.iter().take(FEW).map(|name| shown(name)).collect();
    match names.len() {
        1 => format!("the lock {}", few[0]),
        count if count <= FEW => format!("the lock on {}", few.join(", ")),
        count => format!("the lock on {} and {} more", few.join(", "), count - FEW),
    }
}

fn answered(py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
    match answer {
        Answer::Notified { moved } => moved.into_py_any(py),
        Answer::ForceReleased { released } => released.into_py_any(py),
        Answer::Inspected(names) => {
            let each = names.iter().map(|name| inspected(py, name)).collect::<PyResult<Vec<_>>>()?;
            each.into_py_any(py)
        }
        other => Err(lock_failure(py, "ProtocolError", &format!("unexpected answer: {other:?}"), None)),
    }
}

/// `(holder, token, seconds left, those who wait, seconds since it was granted)`, None where there is none.
fn inspected(py: Python<'_>, name: &Inspected) -> PyResult<Py<PyAny>> {
    let holder = name.holder.as_ref().map(|holder| holder.attempt.to_string());
    let token = name.holder.as_ref().and_then(|holder| holder.token);
    let waiting: Vec<String> = name.waiting.iter().map(Attempt::to_string).collect();
    let [left, age] = [name.pttl, name.age].map(|time| time.map(|time| time.as_secs_f64()));
    (holder, token, left, waiting, age).into_py_any(py)
}

/// A reply: text for what the server says itself, bytes for what it was given.
fn value_in_python(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Null => Ok(py.None()),
        Value::Boolean(truth) => truth.into_py_any(py),
        Value::Integer(number) => number.into_py_any(py),
        Value::Double(number) => number.into_py_any(py),
        Value::Status(text) => PyString::new(py, &String::from_utf8_lossy(&text)).into_py_any(py),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_py_any(py),
        Value::BigNumber(digits) => {
            let digits = String::from_utf8_lossy(&digits).into_owned();
            py.get_type::<pyo3::types::PyInt>().call1((digits,))?.into_py_any(py)
        }
        Value::Array(values) | Value::Set(values) => {
            let values = values.into_iter().map(|value| value_in_python(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_py_any(py)
        }
        Value::Map(pairs) => {
            let all = PyDict::new(py);
            for (key, value) in pairs {
                all.set_item(value_in_python(py, key)?, value_in_python(py, value)?)?;
            }
            all.into_py_any(py)
        }
        Value::Error(error) => lock_failure(py, "ServerError", &error.to_string(), None).into_value(py).into_py_any(py),
    }
}
