//! Failures into the exceptions of `pinyon.errors`.

use pinyon_core::blocking::Failure;
use pinyon_core::dialect::{ValueError, ValueErrorKind};
use pinyon_core::{Error, Kind};
use pinyon_proto::KeyError;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for a failure of the core.
pub(crate) fn exception(py: Python<'_>, failure: Failure<PyErr>) -> PyErr {
    match failure {
        Failure::Error(error) => from_core(py, &error),
        Failure::Interrupted(raised) => raised,
    }
}

pub(crate) fn from_core(py: Python<'_>, error: &Error) -> PyErr {
    let class = class_of(error.kind);
    let details = PyDict::new(py);
    let filled = (|| {
        if !error.server.is_empty() {
            details.set_item("server", &*error.server)?;
        }
        if !error.command.is_empty() {
            details.set_item("command", error.command)?;
        }
        details.set_item("sent", error.sent.as_str())
    })();
    match filled {
        Ok(()) => make(py, class, &error.to_string(), Some(&details)),
        Err(raised) => raised,
    }
}

/// The name of the exception's class.
pub(crate) fn class_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Connect => "ConnectError",
        Kind::Timeout | Kind::Busy => "Timeout",
        Kind::Closed => "ConnectionLost",
        Kind::Protocol => "ProtocolError",
        Kind::Server => "ServerError",
        Kind::TooLarge => "ValueTooLarge",
        Kind::Unsupported => "Unsupported",
        Kind::Usage => "UsageError",
        Kind::Down => "ServerDown",
    }
}

pub(crate) fn invalid_key(py: Python<'_>, error: &KeyError) -> PyErr {
    make(py, "InvalidKey", &error.to_string(), None)
}

/// An exception of the named class of `pinyon.errors`, for what was wrong before any server was involved.
pub(crate) fn usage(py: Python<'_>, class: &str, message: &str) -> PyErr {
    make(py, class, message, None)
}

/// For a value that is not stored, or not read.
#[cold]
pub(crate) fn of_value(py: Python<'_>, error: &ValueError) -> PyErr {
    let class = match error.kind {
        ValueErrorKind::Usage => "UsageError",
        ValueErrorKind::Unsupported => "UnsupportedType",
        ValueErrorKind::TooLarge => "ValueTooLarge",
        ValueErrorKind::UnknownFlags => "UnknownFlags",
        ValueErrorKind::Undecodable => "UndecodableValue",
    };
    usage(py, class, &error.message)
}

/// A failure to read a stored value, with the server that it is stored on. What a serializer of the user's raises is left
/// as it is.
#[cold]
pub(crate) fn stored_on(py: Python<'_>, error: PyErr, server: &str) -> PyErr {
    of_class(py, error, "UndecodableValue", |value| {
        value.setattr("server", server)?;
        value.setattr("sent", "yes")
    })
}

/// The same failure, with what was asked for.
#[cold]
pub(crate) fn stored_under(py: Python<'_>, error: PyErr, command: &'static str, key: &Bound<'_, PyAny>) -> PyErr {
    of_class(py, error, "UndecodableValue", |value| {
        let server: Bound<'_, PyAny> = value.getattr("server")?;
        let message = format!("{}: {command}: {}: {}", server.str()?, key.repr()?, value.str()?);
        value.setattr("args", (message,))?;
        value.setattr("command", command)
    })
}

/// A failure to write one of many values, with its key.
#[cold]
pub(crate) fn unstorable(py: Python<'_>, error: PyErr, key: &Bound<'_, PyAny>) -> PyErr {
    of_class(py, error, "Error", |value| {
        let message = format!("the value of {} cannot be stored: {}", key.repr()?, value.str()?);
        value.setattr("args", (message,))
    })
}

/// A failure of an operation on many keys, with what was achieved of the others in its attribute `partial`.
#[cold]
pub(crate) fn raised_beside(py: Python<'_>, error: PyErr, achieved: &Bound<'_, PyAny>) -> PyErr {
    of_class(py, error, "Error", |value| value.setattr("partial", achieved))
}

/// An exception, changed if it is of this class of `pinyon.errors`.
fn of_class(
    py: Python<'_>,
    error: PyErr,
    class: &str,
    change: impl FnOnce(&Bound<'_, PyBaseException>) -> PyResult<()>,
) -> PyErr {
    let value = error.value(py);
    let changed = || match value.is_instance(&py.import("pinyon.errors")?.getattr(class)?)? {
        true => change(value),
        false => Ok(()),
    };
    changed().err().unwrap_or(error)
}

/// An exception about locks, with what it carries besides its message.
pub(crate) fn lock_failure(py: Python<'_>, class: &str, message: &str, more: Option<(&str, Vec<String>)>) -> PyErr {
    let raised = make(py, class, message, None);
    let Some((name, value)) = more else { return raised };
    match raised.value(py).setattr(name, value) {
        Ok(()) => raised,
        Err(other) => other,
    }
}

fn make(py: Python<'_>, class: &str, message: &str, details: Option<&Bound<'_, PyDict>>) -> PyErr {
    let made = || py.import("pinyon.errors")?.getattr(class)?.call((message,), details);
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(raised) => raised,
    }
}
