//! What Python supplies to operations: its keys and data, kept until they are sent, and values made of replies.

use std::sync::Arc;

use pinyon_core::operations::{BorrowedKey, SentData, SentKey, Values};
use pinyon_core::{Data, Destination, Value};
use pinyon_proto::{Head, Key};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

use crate::encoded::Kept;
use crate::values::{destination, Codec};

/// Of a thread that waits by itself, and holds the GIL whenever a reply is read.
pub(crate) struct ThreadValues<'c, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) codec: &'c Codec,
}

/// Of operations that coroutines wait for.
pub(crate) struct LoopValues(pub(crate) Arc<Codec>);

impl Values for ThreadValues<'_, '_> {
    type Value = Py<PyAny>;
    type Error = Box<PyErr>;

    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Py<PyAny>, Box<PyErr>> {
        self.codec.decode(self.py, head, value, server).map(Bound::unbind).map_err(Box::new)
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        destination(self.py, self.codec, head)
    }
}

impl Values for LoopValues {
    type Value = Py<PyAny>;
    type Error = Box<PyErr>;

    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Py<PyAny>, Box<PyErr>> {
        Python::attach(|py| ThreadValues { py, codec: &self.0 }.read(head, value, server))
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        Python::attach(|py| destination(py, &self.0, head))
    }
}

/// A key, kept until its request is over.
pub(crate) enum KeptKey {
    /// Sent as Python has it.
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    /// The ring is asked about something else than what is sent.
    Rewritten {
        wire: Vec<u8>,
        base64: bool,
        routed: Vec<u8>,
    },
}

impl KeptKey {
    /// `sent`: what becomes of `given`.
    pub(crate) fn new(sent: BorrowedKey<'_>, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (BorrowedKey { wire: key, routed }, wire) = (sent, sent.wire.wire());
        if !std::ptr::eq(wire, routed) && wire != routed {
            return Ok(Self::Rewritten { wire: wire.to_vec(), base64: key.is_base64(), routed: routed.to_vec() });
        }
        match given.cast::<PyString>() {
            Ok(text) => Ok(Self::Text(PyBackedStr::try_from(text.clone())?)),
            Err(_) => Ok(Self::Bytes(PyBackedBytes::from(given.cast::<PyBytes>()?.clone()))),
        }
    }

    /// As it was given, for messages.
    #[cold]
    pub(crate) fn given<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            Self::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
            _ => PyString::new(py, &String::from_utf8_lossy(self.routed())).into_any(),
        }
    }
}

impl SentKey for KeptKey {
    #[inline]
    fn wire(&self) -> Key<'_> {
        let (wire, base64) = match self {
            Self::Text(text) => (text.as_bytes(), false),
            Self::Bytes(bytes) => (&**bytes, false),
            Self::Rewritten { wire, base64, .. } => (&**wire, *base64),
        };
        Key::known(wire, base64)
    }

    #[inline]
    fn routed(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Rewritten { routed, .. } => routed,
        }
    }
}

impl SentData for Kept {
    fn data(&self) -> Data<'_> {
        Kept::data(self)
    }
}
