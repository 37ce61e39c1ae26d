//! Settings from Python's keyword arguments. The core says what they may be, and what is wrong with them.

use pinyon_core::invalid::{InvalidArgument, InvalidKind};
use pinyon_core::settings::{Given, NamedSettings};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyDict, PyString, PyTuple};

use crate::errors::usage;
use crate::tls::Tls;
use crate::ttl::delta_seconds;

/// These settings, but for those that are given.
pub(crate) fn changed<S: NamedSettings>(mut settings: S, given: Option<&Bound<'_, PyDict>>) -> PyResult<S> {
    for (name, value) in given.into_iter().flatten() {
        let (name, value) = (name.cast_into::<PyString>()?, listed(value)?);
        let name = name.to_str()?;
        checked(value.py(), settings.set(name, read(name, &value)?))?;
    }
    Ok(settings)
}

/// An argument that the core refuses becomes an exception.
pub(crate) fn checked<T>(py: Python<'_>, argument: Result<T, InvalidArgument>) -> PyResult<T> {
    argument.map_err(|InvalidArgument { kind, message }| match kind {
        InvalidKind::Usage => usage(py, "UsageError", &message),
        InvalidKind::Servers => usage(py, "InvalidServers", &message),
        InvalidKind::Key => usage(py, "InvalidKey", &message),
        InvalidKind::Type => usage(py, "UnsupportedType", &message),
        InvalidKind::Unknown => PyTypeError::new_err(message),
    })
}

/// A tuple of what can be iterated over; anything else as it is.
fn listed(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || !value.hasattr("__iter__")? {
        return Ok(value);
    }
    let items = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(value.py(), items)?.into_any())
}

fn read<'v>(name: &str, value: &'v Bound<'_, PyAny>) -> PyResult<Given<'v>> {
    if value.is_none() {
        return Ok(Given::Nothing);
    }
    if let Ok(text) = value.cast::<PyString>() {
        let class = if name == "namespace" { "InvalidKey" } else { "UsageError" };
        let message = format!("the {name} has a lone surrogate, which UTF-8 cannot express");
        return text.to_str().map(Given::Text).map_err(|_| usage(text.py(), class, &message));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Given::Bytes(bytes.as_bytes()));
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        return items.as_slice().iter().map(|item| read(name, item)).collect::<PyResult<_>>().map(Given::List);
    }
    if let Ok(tls) = value.cast::<Tls>() {
        return Ok(Given::Tls(tls.get().tls.clone()));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Given::Flag(flag.is_true()));
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        return Ok(Given::Number(delta_seconds(delta)));
    }
    if let Ok(number) = value.extract() {
        return Ok(Given::Whole(number));
    }
    let kind = value.get_type().name()?;
    Ok(value.extract().map_or_else(|_| Given::Other(kind.to_string()), Given::Number))
}
