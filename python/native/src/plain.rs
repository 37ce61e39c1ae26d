//! Plain data by Pinyon's own serializers: `portable`, which writes MessagePack, and `json`.

use pinyon_core::dialect::{unknown_flags as unknown, JsonWriter, MessagePackWriter, Notation, JSON, MESSAGEPACK};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::{exception, of_value, ErrorKind};
use crate::parts::{load, write, Failed};

/// The notation that a serializer of `pinyon.serializers` writes: of itself, not of a class that is made of it.
pub(crate) fn notation_of(serializer: &Bound<'_, PyAny>) -> PyResult<Option<Notation>> {
    Ok(match own_class(serializer)?.as_deref() {
        Some("Portable") => Some(Notation::MessagePack),
        Some("Json") => Some(Notation::Json),
        _ => None,
    })
}

/// Of a serializer of `pinyon.serializers`, the name of its class.
pub(crate) fn own_class(serializer: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let class = serializer.get_type();
    let is_own = class.module()?.to_str()? == "pinyon.serializers";
    is_own.then(|| class.name().map(|name| name.to_string())).transpose()
}

/// What is stored of plain data, and its flags.
pub(crate) fn dump(notation: Notation, value: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, u32)> {
    let (written, flags) = match notation {
        Notation::Json => (write(value, JsonWriter::default()), JSON),
        _ => (write(value, MessagePackWriter::default()), MESSAGEPACK),
    };
    match written {
        Ok(written) => Ok((written, flags)),
        Err(Failed::Raised(raised)) => Err(raised),
        Err(Failed::Why(what)) => Err(refuse(value.py(), notation, &what)),
    }
}

#[cold]
fn refuse(py: Python<'_>, notation: Notation, what: &str) -> PyErr {
    let takes = match notation {
        Notation::Json => "bool, None, float, str, int of up to 64 bits, list and dict with str keys",
        _ => "bytes, str, int of up to 64 bits, bool, None, float, list, dict and datetime",
    };
    let message = format!(
        "the serializer \"{}\" does not take {what}; nested, it takes {takes}. For other types make the client with \
         serializer=\"pickle\" (safe only where nobody else can write to the cache) or an object with dump and load",
        name(notation)
    );
    exception(py, ErrorKind::UnsupportedType, &message)
}

fn name(notation: Notation) -> &'static str {
    match notation {
        Notation::Json => "json",
        _ => "portable",
    }
}

/// Plain data that was stored with these flags.
pub(crate) fn read<'py>(py: Python<'py>, notation: Notation, flags: u32, stored: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match (notation, flags) {
        (Notation::MessagePack, MESSAGEPACK) | (Notation::Json, JSON) => load(py, notation, stored),
        _ => Err(of_value(py, &unknown(name(notation), flags))),
    }
}

/// Returns what the serializer of that name stores of a value, and its flags.
#[pyfunction]
pub(crate) fn dump_plain<'py>(value: &Bound<'py, PyAny>, serializer: &str) -> PyResult<(Bound<'py, PyBytes>, u32)> {
    let (written, flags) = dump(named(serializer), value)?;
    Ok((PyBytes::new(value.py(), &written), flags))
}

/// Returns the value that the serializer of that name has stored so.
#[pyfunction]
pub(crate) fn load_plain<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    flags: u32,
    serializer: &str,
) -> PyResult<Bound<'py, PyAny>> {
    read(py, named(serializer), flags, &data)
}

/// Returns the error that says who reads values with flags that the serializer of that name does not know.
#[pyfunction]
pub(crate) fn unknown_flags<'py>(py: Python<'py>, serializer: &str, flags: u32) -> Bound<'py, PyAny> {
    of_value(py, &unknown(serializer, flags)).into_value(py).into_bound(py).into_any()
}

fn named(serializer: &str) -> Notation {
    match serializer {
        "json" => Notation::Json,
        _ => Notation::MessagePack,
    }
}
