//! Serializers: Pinyon's own for plain data, and objects with `dump` and `load`.

use pinyon_cache::dialect::{unknown_flags as unknown, JsonWriter, MessagePackWriter, Notation, PlainSerializer};
use pinyon_cache::Value;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::{checked, exception, of_value, ErrorKind};
use crate::parts::{load, write, Failed};
use crate::value_bytes::{into_bytes, Encoded};

/// The methods of a serializer object.
pub(crate) struct Serializer {
    dump: Py<PyAny>,
    load: Py<PyAny>,
}

impl Serializer {
    pub(crate) fn new(serializer: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { dump: serializer.getattr("dump")?.unbind(), load: serializer.getattr("load")?.unbind() })
    }

    pub(crate) fn dump<'v>(&self, value: &Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let (py, dumped) = (value.py(), self.dump.bind(value.py()).call1((value,))?);
        let (bytes, flags) = dumped.extract::<(Bound<'v, PyBytes>, u32)>().map_err(|_: PyErr| {
            let message = "a serializer's dump must return (bytes, flags), flags being 32 bits";
            exception(py, ErrorKind::UnsupportedType, message)
        })?;
        Ok((Encoded::Dumped(bytes), flags))
    }

    pub(crate) fn load<'py>(&self, py: Python<'py>, value: Value<'_>, flags: u32) -> PyResult<Bound<'py, PyAny>> {
        self.load.bind(py).call1((into_bytes(py, value), flags))
    }
}

/// The class name of a serializer from `pinyon.serializers`; None for a subclass.
pub(crate) fn own_class(serializer: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let class = serializer.get_type();
    let is_own = class.module()?.to_str()? == "pinyon.serializers";
    is_own.then(|| class.name().map(|name| name.to_string())).transpose()
}

/// The core's serializer that corresponds to one of `pinyon.serializers`, if any.
pub(crate) fn plain(serializer: &Bound<'_, PyAny>) -> PyResult<Option<PlainSerializer>> {
    Ok(own_class(serializer)?.and_then(|class| PlainSerializer::named(&class.to_lowercase())))
}

/// The bytes and flags of plain data.
pub(crate) fn dump_by(serializer: PlainSerializer, value: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, u32)> {
    let (notation, flags) = serializer.writes();
    let written = match notation {
        Notation::Json => write(value, JsonWriter::default()),
        _ => write(value, MessagePackWriter::default()),
    };
    match written {
        Ok(written) => Ok((written, flags)),
        Err(Failed::Raised(raised)) => Err(raised),
        Err(Failed::Why(what)) => Err(refuse(value.py(), serializer, &what)),
    }
}

#[cold]
fn refuse(py: Python<'_>, serializer: PlainSerializer, what: &str) -> PyErr {
    let takes = match serializer {
        PlainSerializer::Json => "bool, None, float, str, int of up to 64 bits, list and dict with str keys",
        PlainSerializer::Portable => "bytes, str, int of up to 64 bits, bool, None, float, list, dict and datetime",
    };
    let message = format!(
        "the serializer \"{}\" does not take {what}; nested, it takes {takes}. For other types make the client with \
         serializer=\"pickle\" (safe only where nobody else can write to the cache) or an object with dump and load",
        serializer.name()
    );
    exception(py, ErrorKind::UnsupportedType, &message)
}

/// Reads plain data with these flags.
pub(crate) fn load_by<'py>(
    py: Python<'py>,
    serializer: PlainSerializer,
    flags: u32,
    stored: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    load(py, checked(py, serializer.reads(flags))?, stored)
}

/// Returns the bytes and flags of a value, as written by the serializer with this name.
#[pyfunction]
pub(crate) fn dump_plain<'py>(value: &Bound<'py, PyAny>, serializer: &str) -> PyResult<(Bound<'py, PyBytes>, u32)> {
    let (written, flags) = dump_by(named(serializer), value)?;
    Ok((PyBytes::new(value.py(), &written), flags))
}

/// Returns a value written by the serializer with this name.
#[pyfunction]
pub(crate) fn load_plain<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    flags: u32,
    serializer: &str,
) -> PyResult<Bound<'py, PyAny>> {
    load_by(py, named(serializer), flags, &data)
}

fn named(serializer: &str) -> PlainSerializer {
    PlainSerializer::named(serializer).unwrap_or_else(|| unreachable!("pinyon.serializers knows the names"))
}

/// Returns the error for flags that the serializer with this name does not know. It names a serializer that does.
#[pyfunction]
pub(crate) fn unknown_flags<'py>(py: Python<'py>, serializer: &str, flags: u32) -> Bound<'py, PyAny> {
    of_value(py, &unknown(serializer, flags)).into_value(py).into_bound(py).into_any()
}
