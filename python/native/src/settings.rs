//! Settings from Python's keyword arguments. What they may be, and what is said of those that make no sense, is in the core.

use pinyon_core::invalid::{InvalidArgument, InvalidKind};
use pinyon_core::settings::{CacheSettings, Given, LockSettings, NamedSettings};
use pinyon_core::tls::TlsSettings;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyDict, PyString, PyTuple};

use crate::errors::usage;
use crate::tls::Tls;
use crate::ttl::delta_seconds;

/// Settings with these changed.
pub(crate) fn changed<S: NamedSettings>(
    mut settings: S,
    py: Python<'_>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<S> {
    for (name, value) in given.into_iter().flatten() {
        let (name, value) = (name.cast_into::<PyString>()?, listed(value)?);
        let name = name.to_str()?;
        settings.set(name, read(name, &value)?).map_err(|invalid| refused(py, &invalid))?;
    }
    Ok(settings)
}

/// The names and defaults of all settings, by what they are of.
#[pyfunction]
pub(crate) fn default_settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("Client", defaults(py, &CacheSettings::default())?)?;
    all.set_item("Locks", defaults(py, &LockSettings::default())?)?;
    all.set_item("Tls", defaults(py, &TlsSettings::default())?)?;
    Ok(all)
}

/// The exception for an argument that the core refuses.
pub(crate) fn refused(py: Python<'_>, invalid: &InvalidArgument) -> PyErr {
    let class = match invalid.kind {
        InvalidKind::Usage => "UsageError",
        InvalidKind::Servers => "InvalidServers",
        InvalidKind::Key => "InvalidKey",
        InvalidKind::Type => "UnsupportedType",
        InvalidKind::Unknown => return PyTypeError::new_err(invalid.message.clone()),
    };
    usage(py, class, &invalid.message)
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
    match value.extract() {
        Ok(number) => Ok(Given::Number(number)),
        Err(_) => Ok(Given::Other(value.get_type().name()?.to_string())),
    }
}

fn defaults<'py>(py: Python<'py>, settings: &impl NamedSettings) -> PyResult<Bound<'py, PyDict>> {
    let defaults = PyDict::new(py);
    for (name, value) in settings.values() {
        match value {
            Given::Flag(flag) => defaults.set_item(name, flag)?,
            Given::Whole(number) => defaults.set_item(name, number)?,
            Given::Number(number) => defaults.set_item(name, number)?,
            Given::Text(text) => defaults.set_item(name, text)?,
            _ => defaults.set_item(name, py.None())?,
        }
    }
    Ok(defaults)
}
