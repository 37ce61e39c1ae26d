//! Every kind of error into the exception of `pinyon.errors` that it is raised as.

use pinyon_core::blocking::Failure;
use pinyon_core::dialect::ValueError;
pub(crate) use pinyon_core::error::kinds::ErrorKind;
use pinyon_core::invalid::InvalidArgument;
use pinyon_core::operations::KeyError;
use pinyon_core::Error;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// The class of a kind. The tests ensure that there is one for each, and no other.
pub(crate) fn class_of(py: Python<'_>, kind: ErrorKind) -> PyResult<&Bound<'_, PyType>> {
    static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || {
        let errors = py.import("pinyon.errors")?;
        let class = |kind: ErrorKind| Ok(errors.getattr(kind.as_str())?.cast_into()?.unbind());
        ErrorKind::ALL.into_iter().map(class).collect::<PyResult<_>>()
    })?;
    Ok(classes[kind as usize].bind(py))
}

/// An exception, for what was wrong before any server was involved.
#[cold]
pub(crate) fn exception(py: Python<'_>, kind: ErrorKind, message: &str) -> PyErr {
    made(class_of(py, kind).and_then(|class| class.call1((message,))))
}

/// The most particular kind that an exception is of; [`ErrorKind::Error`] for those that are not Pinyon's.
#[cold]
pub(crate) fn kind_of(error: &Bound<'_, PyBaseException>) -> PyResult<ErrorKind> {
    for kind in ErrorKind::ALL.into_iter().rev() {
        if error.is_instance(class_of(error.py(), kind)?)? {
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

/// An argument that the core refuses becomes an exception.
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

/// The same failure, of one of the keys of an operation on many.
#[cold]
pub(crate) fn at_index(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| {
        let message = format!("keys[{index}]: {}", value.str()?);
        value.setattr("args", (message,))
    })
}

/// The exception for an operation that failed, or was interrupted.
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

/// For a value that is not stored, or not read.
#[cold]
pub(crate) fn of_value(py: Python<'_>, error: &ValueError) -> PyErr {
    exception(py, error.kind, &error.message)
}

/// A failure to read a stored value, with the server that it is stored on. What a serializer of the user's raises is left
/// as it is.
#[cold]
pub(crate) fn stored_on(py: Python<'_>, error: PyErr, server: &str) -> PyErr {
    of_kind(py, error, ErrorKind::UndecodableValue, |value| {
        value.setattr("server", server)?;
        value.setattr("sent", "yes")
    })
}

/// The same failure, with what was asked for.
#[cold]
pub(crate) fn stored_under(py: Python<'_>, error: PyErr, command: &'static str, key: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::UndecodableValue, |value| {
        let server: Bound<'_, PyAny> = value.getattr("server")?;
        let message = format!("{}: {command}: {}: {}", server.str()?, key.repr()?, value.str()?);
        value.setattr("args", (message,))?;
        value.setattr("command", command)
    })
}

/// A failure to write one of many values, with its key.
#[cold]
pub(crate) fn unstorable(py: Python<'_>, error: PyErr, key: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| {
        let message = format!("the value of {} cannot be stored: {}", key.repr()?, value.str()?);
        value.setattr("args", (message,))
    })
}

/// A failure of an operation on many keys, with what was achieved of the others in its attribute `partial`.
#[cold]
pub(crate) fn raised_beside(py: Python<'_>, error: PyErr, achieved: &Bound<'_, PyAny>) -> PyErr {
    of_kind(py, error, ErrorKind::Error, |value| value.setattr("partial", achieved))
}

/// An exception, changed if it is of this kind.
fn of_kind(
    py: Python<'_>,
    error: PyErr,
    kind: ErrorKind,
    change: impl FnOnce(&Bound<'_, PyBaseException>) -> PyResult<()>,
) -> PyErr {
    let value = error.value(py);
    let changed = || match value.is_instance(class_of(py, kind)?)? {
        true => change(value),
        false => Ok(()),
    };
    changed().err().unwrap_or(error)
}

fn made(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|raised| raised, PyErr::from_value)
}
