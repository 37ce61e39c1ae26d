//! The bytes of values, sent and received.

use std::any::Any;
use std::sync::Arc;

use pinyon_cache::dialect::ValueError;
use pinyon_cache::operations::OwnedData;
use pinyon_cache::session::LARGE;
use pinyon_cache::{Data, Destination, Value};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::errors::{of_value, ErrorKind};
use crate::keys::lone_surrogate;

/// A value ready to be sent.
pub(crate) enum Encoded<'v> {
    Bytes(&'v Bound<'v, PyBytes>),
    Text(&'v Bound<'v, PyString>),
    Owned(Vec<u8>),
    Large(Arc<Vec<u8>>),
    Dumped(Bound<'v, PyBytes>),
}

impl Encoded<'_> {
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        match bytes.len() < LARGE {
            true => Encoded::Owned(bytes),
            false => Encoded::Large(Arc::new(bytes)),
        }
    }

    /// For one command: small values are copied at submission, large ones are sent without a copy.
    pub(crate) fn data(&self) -> PyResult<Data<'_>> {
        let bytes = self.bytes()?;
        if bytes.len() < LARGE {
            return Ok(Data::Copied(bytes));
        }
        Ok(Data::Shared(match self {
            Encoded::Bytes(bytes) => Arc::new(PyBackedBytes::from((*bytes).clone())),
            Encoded::Dumped(bytes) => Arc::new(PyBackedBytes::from(bytes.clone())),
            Encoded::Text(text) => Arc::new(PyBackedStr::try_from((*text).clone())?),
            Encoded::Large(bytes) => bytes.clone(),
            Encoded::Owned(bytes) => Arc::new(bytes.clone()),
        }))
    }

    /// For a command that may be sent again.
    pub(crate) fn keep(&self) -> PyResult<Kept> {
        match self {
            Encoded::Bytes(bytes) if bytes.as_bytes().len() < LARGE => {
                Ok(Kept::Object(PyBackedBytes::from((*bytes).clone())))
            }
            _ => Ok((&self.data()?).into()),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Encoded::Bytes(bytes) => Ok(bytes.as_bytes()),
            Encoded::Dumped(bytes) => Ok(bytes.as_bytes()),
            Encoded::Text(text) => {
                text.to_str().map(str::as_bytes).map_err(|_| lone_surrogate(text, ErrorKind::UsageError, "the value"))
            }
            Encoded::Owned(bytes) => Ok(bytes),
            Encoded::Large(bytes) => Ok(bytes),
        }
    }
}

/// A value that is kept until it is sent; a small one in Python's memory.
pub(crate) type Kept = OwnedData<PyBackedBytes>;

pub(crate) fn decode_text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyString::from_bytes(py, bytes).map_err(|error| undecodable(py, "text", error))?.into_any())
}

/// After `decr` shortens a number, the server pads it with spaces.
pub(crate) fn decode_integer<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let text = std::str::from_utf8(bytes).map_err(|error| undecodable(py, "an integer", error))?.trim_end();
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    py.get_type::<PyInt>().call1((text,)).map_err(|error| undecodable(py, "an integer", error))
}

fn undecodable(py: Python<'_>, what: &str, error: impl std::fmt::Display) -> PyErr {
    of_value(py, &ValueError::misread(what, error))
}

pub(crate) fn into_bytes<'py>(py: Python<'py>, value: Value<'_>) -> Bound<'py, PyBytes> {
    match value {
        Value::Received(destination) => match destination.into_any().downcast::<BytesDestination>() {
            Ok(received) => received.0.into_bound(py),
            Err(other) => PyBytes::new(py, other.downcast_ref::<Vec<u8>>().map_or(&[], Vec::as_slice)),
        },
        Value::Borrowed(bytes) => PyBytes::new(py, bytes),
        Value::None => PyBytes::new(py, &[]),
    }
}

/// A bytes object that has received, or receives, a value before any other code sees it.
#[derive(Debug)]
pub(crate) struct BytesDestination(Py<PyBytes>);

impl BytesDestination {
    /// `object`: one that no other code has.
    pub(crate) fn of(object: Bound<'_, PyBytes>) -> Self {
        Self(object.unbind())
    }

    pub(crate) fn new(py: Python<'_>, length: usize) -> PyResult<Self> {
        // SAFETY: without a source, this returns a new bytes object with uninitialized content, or null with an
        // exception set. The content is not read before all of it was received: a session hands out only complete
        // values.
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
        // SAFETY: the object lives as long as `self`, and no other code has it. Its buffer does not move, and reading
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
