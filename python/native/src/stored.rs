//! Values as operations keep them, and what becomes of them once an operation is over.
//!
//! Some values run code of the user's when they are loaded, such as a serializer's `load`. This happens only when the
//! operation no longer has its connection. The code may take its time, and it may use the client.

use pinyon_core::directory::Directory;
use pinyon_core::{Destination, Value};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{is_unreadable, reason, stored_on, stored_under};
use crate::value_bytes::BytesDestination;
use crate::values::Codec;

/// A value as an operation keeps it.
pub(crate) enum Stored {
    Made(Py<PyAny>),
    Rest(Box<Rest>),
}

/// A value that was not made yet, or could not be.
pub(crate) struct Rest {
    /// The name of the server that sent it.
    server: Box<str>,
    content: Content,
}

enum Content {
    Unloaded { flags: u32, bytes: Box<dyn Destination> },
    Failed(PyErr),
}

impl Stored {
    #[cold]
    pub(crate) fn failed(error: PyErr, server: &str) -> Self {
        Self::Rest(Rest { server: server.into(), content: Content::Failed(error) }.into())
    }

    #[inline(never)]
    pub(crate) fn unloaded(py: Python<'_>, flags: u32, value: Value<'_>, server: &str) -> Self {
        let bytes = match value {
            Value::Received(bytes) => bytes,
            other => Box::new(BytesDestination::of(PyBytes::new(py, other.bytes()))),
        };
        Self::Rest(Rest { server: server.into(), content: Content::Unloaded { flags, bytes } }.into())
    }

    /// The value, if nothing remains to be done for it.
    #[inline]
    pub(crate) fn into_made(self) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Self::Made(value) => Ok(Some(value)),
            Self::Rest(_) => unreachable!("a reader finishes it"),
        }
    }

    /// Whether something remains to be done for it.
    #[inline]
    pub(crate) fn is_rest(&self) -> bool {
        matches!(self, Self::Rest(_))
    }
}

/// Makes values once their operation is over.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'c> {
    pub(crate) codec: &'c Codec,
    pub(crate) directory: &'c Directory,
    /// The name of the command that asked for them.
    pub(crate) command: &'static str,
    /// Whether values that cannot be read count as missing.
    pub(crate) passes_over: bool,
}

impl Reader<'_> {
    /// The value of a key, or None if it cannot be read and counts as missing.
    #[inline]
    pub(crate) fn read(&self, stored: Stored, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        match stored {
            Stored::Made(value) => Ok(Some(value)),
            Stored::Rest(rest) => self.finish(*rest, key),
        }
    }

    #[inline(never)]
    fn finish(&self, Rest { server, content }: Rest, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let read = match content {
            Content::Unloaded { flags, bytes } => self.codec.read(py, flags, Value::Received(bytes)),
            Content::Failed(error) => Err(error),
        };
        let error = match read {
            Ok(value) => return Ok(Some(value.unbind())),
            Err(error) => error,
        };
        if !self.passes_over || !is_unreadable(py, &error)? {
            return Err(stored_under(py, stored_on(py, error, &server), self.command, key));
        }
        self.directory.unreadable(&server, self.command, &reason(py, &error));
        Ok(None)
    }
}
