//! What Python supplies to operations: keys and data until they are sent, and a reader for values.

use std::convert::Infallible;
use std::sync::Arc;

use pinyon_cache::operations::{AnyOperation, BorrowedKey, OwnedKey, SentKey, Single, Values};
use pinyon_cache::{Destination, Value};
use pinyon_proto::{Head, Key};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

use crate::stored::Stored;
use crate::value_bytes::Kept;
use crate::values::{destination, Codec};

/// A request about one key, and any operation, in an event loop.
pub(crate) type LoopRequest = Single<KeptKey, Kept, LoopValues>;
pub(crate) type LoopOperation = AnyOperation<KeptKey, Kept, LoopValues>;

/// For a thread that waits by itself. It holds the GIL whenever a reply is read.
pub(crate) struct ThreadValues<'c, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) codec: &'c Codec,
}

/// For operations of coroutines.
pub(crate) struct LoopValues(pub(crate) Arc<Codec>);

impl Values for ThreadValues<'_, '_> {
    type Value = Stored;
    type Error = Infallible;

    #[inline(always)]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Stored, Infallible> {
        Ok(self.codec.receive(self.py, head, value, server))
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        destination(self.py, self.codec, head)
    }
}

impl Values for LoopValues {
    type Value = Stored;
    type Error = Infallible;

    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Stored, Infallible> {
        Python::attach(|py| ThreadValues { py, codec: &self.0 }.read(head, value, server))
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        Python::attach(|py| destination(py, &self.0, head))
    }
}

/// A key that is kept until its request is over.
pub(crate) enum KeptKey {
    /// Sent from Python's memory.
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    /// The ring hashes another form than the one that is sent.
    Rewritten(Box<Rewritten>),
}

/// Boxed, because keys are moved often.
pub(crate) struct Rewritten {
    key: OwnedKey,
    given: Py<PyAny>,
}

impl KeptKey {
    /// `sent`: the form of `given` that is sent.
    #[inline(always)]
    pub(crate) fn new(sent: BorrowedKey<'_>, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !std::ptr::eq(sent.wire.wire(), sent.routed) {
            return Ok(Self::Rewritten(Rewritten { key: sent.into(), given: given.clone().unbind() }.into()));
        }
        match given.cast::<PyString>() {
            Ok(text) => Ok(Self::Text(PyBackedStr::try_from(text.clone())?)),
            Err(_) => Ok(Self::Bytes(PyBackedBytes::from(given.cast::<PyBytes>()?.clone()))),
        }
    }

    /// One that has its own memory. `given`: the user's key.
    pub(crate) fn rewritten(key: OwnedKey, given: Py<PyAny>) -> Self {
        Self::Rewritten(Rewritten { key, given }.into())
    }

    /// The user's key, for messages.
    #[cold]
    pub(crate) fn given<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            Self::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
            Self::Text(text) => PyString::new(py, text).into_any(),
            Self::Rewritten(rewritten) => rewritten.given.bind(py).clone(),
        }
    }
}

impl SentKey for KeptKey {
    #[inline]
    fn wire(&self) -> Key<'_> {
        let wire = match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Rewritten(rewritten) => return rewritten.key.wire(),
        };
        Key::known(wire, false)
    }

    #[inline]
    fn routed(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Rewritten(rewritten) => rewritten.key.routed(),
        }
    }
}
