//! Turns every kind of error into its exception in `pinyon.errors`.

use pinyon_cache::blocking::Failure;
use pinyon_cache::dialect::ValueError;
use pinyon_cache::operations::KeyError;
pub(crate) use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::Error;
use pyo3::exceptions::{PyBaseException, PyException, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::classes::Registered;

/// The class of a kind.
pub(crate) fn class_of(py: Python<'_>, kind: ErrorKind) -> PyResult<Bound<'_, PyType>> {
    Ok(Registered::known()?.error(py, kind).clone())
}

/// An exception for a mistake that involves no server.
#[cold]
pub(crate) fn exception(py: Python<'_>, kind: ErrorKind, message: &str) -> PyErr {
    made(class_of(py, kind).and_then(|class| class.call1((message,))))
}

/// The most specific kind of an exception; [`ErrorKind::Error`] for exceptions that are not Pinyon's.
#[cold]
pub(crate) fn kind_of(error: &Bound<'_, PyBaseException>) -> PyResult<ErrorKind> {
    let classes = Registered::known()?;
    for kind in ErrorKind::ALL.into_iter().rev() {
        if error.is_instance(classes.error(error.py(), kind))? {
            return Ok(kind);
        }
    }
    Ok(ErrorKind::Error)
}

/// An exception for an object of a type that is not taken. `expected`: what is, as a sentence begins.
#[cold]
pub(crate) fn unsupported(object: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    match object.get_type().name() {
        Ok(class) => exception(object.py(), ErrorKind::UnsupportedType, &format!("{expected}, not {class}")),
        Err(raised) => raised,
    }
}

/// Raises the core's refusal of an argument.
#[inline]
pub(crate) fn checked<T, E: Into<InvalidArgument>>(py: Python<'_>, argument: Result<T, E>) -> PyResult<T> {
    argument.map_err(|refused| {
        let InvalidArgument { kind, message } = refused.into();
        exception(py, kind, &message)
    })
}

/// A key that cannot be sent.
#[cold]
pub(crate) fn invalid_key(py: Python<'_>, error: &KeyError, key: &[u8]) -> PyErr {
    let InvalidArgument { kind, message } = InvalidArgument::key(error, key);
    exception(py, kind, &message)
}

/// Adds the index of the key to a failure of an operation on many keys.
#[cold]
pub(crate) fn at_index(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| {
        let message = format!("keys[{index}]: {}", value.str()?);
        value.setattr("args", (message,))
    })
}

/// The exception for an operation that failed or was interrupted.
pub(crate) fn from_failure(py: Python<'_>, failure: Failure<PyErr>) -> PyErr {
    match failure {
        Failure::Error(error) => from_core(py, &error),
        Failure::Interrupted(raised) => raised,
    }
}

/// The exception for a failed command.
#[cold]
pub(crate) fn from_core(py: Python<'_>, error: &Error) -> PyErr {
    let call = || {
        let details = PyDict::new(py);
        if !error.server.is_empty() {
            details.set_item("server", &*error.server)?;
        }
        if !error.command.is_empty() {
            details.set_item("command", error.command)?;
        }
        details.set_item("sent", error.sent.as_str())?;
        class_of(py, error.kind.into())?.call((error.to_string(),), Some(&details))
    };
    made(call())
}

/// Whether an exception says that a stored value cannot be read. A failure of a client that `load` uses does not, nor does
/// what stops the program.
#[cold]
pub(crate) fn is_unreadable(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    if !error.is_instance_of::<PyException>(py) || error.is_instance_of::<PyMemoryError>(py) {
        return Ok(false);
    }
    let kind = kind_of(error.value(py))?;
    Ok(kind == ErrorKind::Error || kind.is_a(ErrorKind::UndecodableValue))
}

/// Why a stored value cannot be read, in a line.
#[cold]
pub(crate) fn reason(py: Python<'_>, error: &PyErr) -> String {
    let value = error.value(py);
    let text = value.str().map(|text| text.to_string()).unwrap_or_default();
    let is_own = kind_of(value).is_ok_and(|kind| kind != ErrorKind::Error);
    match error.get_type(py).qualname() {
        Ok(class) if !is_own => format!("{class}: {text}"),
        _ => text,
    }
}

/// The exception for a value that cannot be stored or read.
#[cold]
pub(crate) fn of_value(py: Python<'_>, error: &ValueError) -> PyErr {
    exception(py, error.kind, &error.message)
}

/// Adds the server's name to a failure to read a stored value. Exceptions of the user's serializer stay unchanged.
#[cold]
pub(crate) fn stored_on(py: Python<'_>, error: PyErr, server: &str) -> PyErr {
    of_kind(py, error, ErrorKind::UndecodableValue, |value| {
        value.setattr("server", server)?;
        value.setattr("sent", "yes")
    })
}

/// Adds the command and the key to the same failure.
#[cold]
pub(crate) fn stored_under(py: Python<'_>, error: PyErr, command: &'static str, key: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::UndecodableValue, |value| {
        let server: Bound<'_, PyAny> = value.getattr("server")?;
        let message = format!("{}: {command}: {}: {}", server.str()?, key.repr()?, value.str()?);
        value.setattr("args", (message,))?;
        value.setattr("command", command)
    })
}

/// Adds the key to a failure to write one of many values.
#[cold]
pub(crate) fn unstorable(py: Python<'_>, error: PyErr, key: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| {
        let message = format!("the value of {} cannot be stored: {}", key.repr()?, value.str()?);
        value.setattr("args", (message,))
    })
}

/// Adds the partial results of an operation on many keys to its failure, as the attribute `partial`.
#[cold]
pub(crate) fn raised_beside(py: Python<'_>, error: PyErr, achieved: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| value.setattr("partial", achieved))
}

/// Changes an exception if it is of this kind.
fn of_kind(
    py: Python<'_>,
    error: PyErr,
    kind: ErrorKind,
    change: impl FnOnce(&Bound<'_, PyBaseException>) -> PyResult<()>,
) -> PyErr {
    let value = error.value(py);
    let changed = || match value.is_instance(Registered::known()?.error(py, kind))? {
        true => change(value),
        false => Ok(()),
    };
    changed().err().unwrap_or(error)
}

fn made(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|raised| raised, PyErr::from_value)
}
