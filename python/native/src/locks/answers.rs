//! Outcomes of lock operations as Python objects.

use std::time::Duration;

use pinyon_locks::call::{Attempt, Inspected};
use pinyon_locks::{Known, LockFailure, LockOutcome, RateAnswer, StatusAnswer};
use pinyon_proto::resp::Value;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString};
use pyo3::IntoPyObjectExt;

use crate::errors::{exception, from_core, ErrorKind};

/// The object for the waiting caller; None if a lock is taken and the caller does not wait.
pub(super) fn answer(py: Python<'_>, outcome: LockOutcome) -> PyResult<Py<PyAny>> {
    match outcome {
        LockOutcome::Held { notified } => notified.into_py_any(py),
        LockOutcome::Busy => Ok(py.None()),
        LockOutcome::Released { held } | LockOutcome::Extended { held } => held.into_py_any(py),
        LockOutcome::Notified { moved } => moved.into_py_any(py),
        LockOutcome::ReleasedAll { released } => released.into_py_any(py),
        LockOutcome::HandedOver { ticket } => ticket.into_py_any(py),
        LockOutcome::ForceReleased { released } => released.into_py_any(py),
        LockOutcome::Status(StatusAnswer::Each(inspected)) => statuses(py, &inspected),
        LockOutcome::Status(StatusAnswer::IsLocked(is_locked)) => is_locked.into_py_any(py),
        LockOutcome::Status(StatusAnswer::FirstOwner(owner)) => owner.map(shown).into_py_any(py),
        LockOutcome::Status(StatusAnswer::Waiting(count)) => count.into_py_any(py),
        LockOutcome::Status(StatusAnswer::Permits(permits)) => permits.into_py_any(py),
        LockOutcome::Rated(answer) => rated(py, &answer),
        LockOutcome::Value(value) => value_in_python(py, value),
        LockOutcome::Failed(failure) => Err(raised(py, *failure)),
    }
}

pub(super) fn raised(py: Python<'_>, failure: LockFailure) -> PyErr {
    if let Some(error) = &failure.cause {
        return from_core(py, error);
    }
    let raised = exception(py, failure.kind, &failure.message);
    let told = match failure.blocker {
        Some(blocker) => blamed(raised.value(py), &blocker.holder, blocker.held_for, blocker.remark.as_deref()),
        None if failure.kind == ErrorKind::Deadlock => {
            let cycle: Vec<String> = failure.cycle.iter().cloned().map(shown).collect();
            raised.value(py).setattr("cycle", cycle)
        }
        None => Ok(()),
    };
    told.err().unwrap_or(raised)
}

/// Tells a `LockTimeout` who holds the lock.
fn blamed(
    raised: &Bound<'_, PyBaseException>,
    holder: &Attempt,
    held_for: Option<Duration>,
    note: Option<&str>,
) -> PyResult<()> {
    raised.setattr("holder", shown(holder.clone()))?;
    raised.setattr("held_for", held_for.map(|time| time.as_secs_f64()))?;
    raised.setattr("note", note)?;
    let Some(who) = holder.who() else { return Ok(()) };
    raised.setattr("host", who.host)?;
    raised.setattr("pid", who.pid)?;
    raised.setattr("label", who.label)
}

/// For each name, the fields of a `LockStatus` after the name.
fn statuses(py: Python<'_>, inspected: &[Inspected]) -> PyResult<Py<PyAny>> {
    let status = |inspected: &Inspected| {
        let holder = inspected.holder.as_ref().map(|holder| shown(holder.attempt.clone()));
        let token = inspected.holder.as_ref().and_then(|holder| holder.token);
        let waiting: Vec<String> = inspected.waiting.iter().cloned().map(shown).collect();
        let [left, age] = [inspected.pttl, inspected.age].map(|time| time.map(|time| time.as_secs_f64()));
        let readers: Vec<String> = inspected.sharing.iter().cloned().map(shown).collect();
        let known = inspected.known().map(|Known { attempt, who, note }| {
            let (host, pid, label) = who.map_or((None, None, None), |who| (who.host, Some(who.pid), who.label));
            (shown(attempt.clone()), (host, pid, label, note.map(str::to_owned)))
        });
        (holder, token, left, waiting, age, readers, known.collect::<Vec<_>>())
    };
    inspected.iter().map(status).collect::<Vec<_>>().into_py_any(py)
}

/// The fields of a `RateResult`.
fn rated(py: Python<'_>, answer: &RateAnswer) -> PyResult<Py<PyAny>> {
    let retry_after = answer.retry_after.map(|time| time.as_secs_f64());
    (answer.allowed, answer.limit, answer.remaining, retry_after, answer.reset.as_secs_f64()).into_py_any(py)
}

fn shown(attempt: Attempt) -> String {
    attempt.to_string()
}

/// A reply: text for the server's own words, bytes for stored data.
pub(super) fn value_in_python(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Null => Ok(py.None()),
        Value::Boolean(truth) => truth.into_py_any(py),
        Value::Integer(number) => number.into_py_any(py),
        Value::Double(number) => number.into_py_any(py),
        Value::Status(text) => PyString::new(py, &String::from_utf8_lossy(&text)).into_py_any(py),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_py_any(py),
        Value::BigNumber(digits) => {
            let digits = String::from_utf8_lossy(&digits).into_owned();
            py.get_type::<PyInt>().call1((digits,))?.into_py_any(py)
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
        Value::Error(error) => exception(py, ErrorKind::ServerError, &error.to_string()).into_value(py).into_py_any(py),
    }
}
