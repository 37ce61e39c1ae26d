//! Values into bytes and client flags, and back.
//!
//! Bytes, text and integers are written here, with the flags that python-memcached, pymemcache and pylibmc read;
//! everything else goes through the serializer's `dump` and `load`.

use std::any::Any;
use std::sync::Arc;

use pinyon_core::session::LARGE;
use pinyon_core::{Data, Destination, SharedBytes, Value};
use pinyon_proto::Head;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyInt, PyString};
use pyo3::{ffi, intern};

use crate::errors::usage;

pub(crate) const BYTES: u32 = 0;
const INTEGER: u32 = 2;
/// Read as integers too: pylibmc writes them so.
const INTEGER_OF_PYLIBMC: u32 = 4;
const TEXT: u32 = 16;

/// How a client turns values into bytes.
pub(crate) struct Codec {
    kind: Kind,
    dump: Py<PyAny>,
    load: Py<PyAny>,
}

enum Kind {
    /// Bytes alone, whatever the flags.
    Raw,
    /// Bytes, text and integers here, the rest by the serializer.
    Plain,
    /// Everything by the serializer.
    Custom,
}

/// A value ready to be sent.
pub(crate) enum Encoded<'v> {
    Bytes(&'v Bound<'v, PyBytes>),
    Text(&'v Bound<'v, PyString>),
    Owned(Vec<u8>),
    Dumped(Bound<'v, PyBytes>),
}

impl Codec {
    /// From a serializer of `pinyon.serializers`, or any object with `dump` and `load`.
    pub(crate) fn new(serializer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = serializer.py();
        let handles: Option<String> = match serializer.getattr_opt(intern!(py, "native"))? {
            Some(native) => native.extract()?,
            None => None,
        };
        let kind = match handles.as_deref() {
            Some("raw") => Kind::Raw,
            Some("plain") => Kind::Plain,
            _ => Kind::Custom,
        };
        let method = |name| -> PyResult<Py<PyAny>> { Ok(serializer.getattr(name)?.unbind()) };
        Ok(Self { kind, dump: method("dump")?, load: method("load")? })
    }

    /// The bytes of a value and its client flags.
    pub(crate) fn encode<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match self.kind {
            Kind::Custom => return self.dump(value),
            Kind::Raw | Kind::Plain => {}
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Ok((Encoded::Bytes(bytes), BYTES));
        }
        if matches!(self.kind, Kind::Raw) {
            let message = format!("the serializer \"raw\" takes bytes, not {}", value.get_type().name()?);
            return Err(usage(value.py(), "UnsupportedType", &message));
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return Ok((Encoded::Text(text), TEXT));
        }
        if let Ok(integer) = value.cast_exact::<PyInt>() {
            let digits = match integer.extract::<i64>() {
                Ok(number) => number.to_string(),
                Err(_) => integer.str()?.to_str()?.to_owned(),
            };
            return Ok((Encoded::Owned(digits.into_bytes()), INTEGER));
        }
        self.dump(value)
    }

    fn dump<'v>(&self, value: &Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let dumped = self.dump.bind(value.py()).call1((value,))?;
        let (bytes, flags) = dumped.extract::<(Bound<'v, PyBytes>, u32)>().map_err(|_: PyErr| {
            usage(value.py(), "UnsupportedType", "a serializer's dump must return (bytes, flags), flags being 32 bits")
        })?;
        Ok((Encoded::Dumped(bytes), flags))
    }

    /// The value that the bytes and client flags of a reply stand for.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, head: &Head, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        let flags = head.item.client_flags;
        match (&self.kind, flags) {
            (Kind::Plain, TEXT) => {
                let bytes = value.bytes();
                Ok(PyString::from_bytes(py, bytes).map_err(|error| undecodable(py, "text", error))?.into_any())
            }
            (Kind::Plain, INTEGER | INTEGER_OF_PYLIBMC) => decode_integer(py, value.bytes()),
            (Kind::Raw, _) | (Kind::Plain, BYTES) => Ok(into_bytes(py, value).into_any()),
            (Kind::Plain | Kind::Custom, _) => self.load.bind(py).call1((into_bytes(py, value), flags)),
        }
    }
}

/// A value kept until it is sent.
pub(crate) enum Kept {
    Nothing,
    Small(Vec<u8>),
    /// As Python has it, small.
    Object(PyBackedBytes),
    Large(SharedBytes),
}

impl Kept {
    pub(crate) fn data(&self) -> Data<'_> {
        match self {
            Kept::Nothing => Data::None,
            Kept::Small(bytes) => Data::Copied(bytes),
            Kept::Object(bytes) => Data::Copied(bytes),
            Kept::Large(bytes) => Data::Shared(bytes.clone()),
        }
    }
}

impl From<&Data<'_>> for Kept {
    fn from(data: &Data<'_>) -> Self {
        match data {
            Data::None => Kept::Nothing,
            Data::Copied(bytes) => Kept::Small(bytes.to_vec()),
            Data::Shared(bytes) => Kept::Large(bytes.clone()),
        }
    }
}

impl Encoded<'_> {
    /// For one command: small values are copied when submitted, large ones sent from where they are.
    pub(crate) fn data(&self) -> PyResult<Data<'_>> {
        let bytes = self.bytes()?;
        if bytes.len() < LARGE {
            return Ok(Data::Copied(bytes));
        }
        Ok(Data::Shared(match self {
            Encoded::Bytes(bytes) => Arc::new(PyBackedBytes::from((*bytes).clone())),
            Encoded::Dumped(bytes) => Arc::new(PyBackedBytes::from(bytes.clone())),
            Encoded::Text(text) => Arc::new(Text(PyBackedStr::try_from((*text).clone())?)),
            Encoded::Owned(bytes) => Arc::new(bytes.clone()),
        }))
    }

    /// For a command that may have to be sent again.
    pub(crate) fn keep(&self) -> PyResult<Kept> {
        match self {
            Encoded::Bytes(bytes) if bytes.as_bytes().len() < LARGE => {
                Ok(Kept::Object(PyBackedBytes::from((*bytes).clone())))
            }
            _ => Ok((&self.data()?).into()),
        }
    }

    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Encoded::Bytes(bytes) => Ok(bytes.as_bytes()),
            Encoded::Dumped(bytes) => Ok(bytes.as_bytes()),
            Encoded::Text(text) => text.to_str().map(str::as_bytes),
            Encoded::Owned(bytes) => Ok(bytes),
        }
    }
}

struct Text(PyBackedStr);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The server pads with spaces what `decr` has made shorter.
fn decode_integer<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let text = std::str::from_utf8(bytes).map_err(|error| undecodable(py, "an integer", error))?.trim_end();
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    py.get_type::<PyInt>().call1((text,)).map_err(|error| undecodable(py, "an integer", error))
}

fn undecodable(py: Python<'_>, what: &str, error: impl std::fmt::Display) -> PyErr {
    let message = format!("the stored value is marked as {what} by its flags but cannot be read as such: {error}");
    usage(py, "UndecodableValue", &message)
}

fn into_bytes<'py>(py: Python<'py>, value: Value<'_>) -> Bound<'py, PyBytes> {
    match value {
        Value::Received(destination) => match destination.into_any().downcast::<BytesDestination>() {
            Ok(received) => received.0.into_bound(py),
            Err(other) => PyBytes::new(py, other.downcast_ref::<Vec<u8>>().map_or(&[], Vec::as_slice)),
        },
        Value::Borrowed(bytes) => PyBytes::new(py, bytes),
        Value::None => PyBytes::new(py, &[]),
    }
}

/// A Python bytes object that a large value is received into before anyone else sees it.
#[derive(Debug)]
pub(crate) struct BytesDestination(Py<PyBytes>);

impl BytesDestination {
    fn new(py: Python<'_>, length: usize) -> PyResult<Self> {
        // SAFETY: without a source, a new bytes object of this length is returned with whatever its memory held, or
        // null with an exception set. Nobody reads it before all of it has been received: a session hands out
        // complete values only.
        let object = unsafe {
            Bound::from_owned_ptr_or_err(
                py,
                ffi::PyBytes_FromStringAndSize(std::ptr::null(), length as ffi::Py_ssize_t),
            )?
        };
        Ok(Self(object.cast_into::<PyBytes>()?.unbind()))
    }
}

impl Destination for BytesDestination {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the object lives as long as `self` and nobody else has it; its buffer does not move, and reading
        // its address and length needs no GIL.
        unsafe {
            let object = self.0.as_ptr();
            std::slice::from_raw_parts(ffi::PyBytes_AS_STRING(object).cast(), ffi::Py_SIZE(object) as usize)
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `self` is borrowed for as long as the slice is.
        unsafe {
            let object = self.0.as_ptr();
            std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(object).cast(), ffi::Py_SIZE(object) as usize)
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Where a large value goes: straight into a bytes object where that is what it will be, else into a buffer.
pub(crate) fn destination(py: Python<'_>, codec: &Codec, head: &Head) -> Box<dyn Destination> {
    let length = head.size.unwrap_or_default();
    if matches!(codec.kind, Kind::Plain) && head.item.client_flags == TEXT {
        return Box::new(vec![0; length]);
    }
    match BytesDestination::new(py, length) {
        Ok(bytes) => Box::new(bytes),
        Err(_) => Box::new(vec![0; length]),
    }
}
