//! Values as operations keep them. A [reader](crate::reading) makes the rest of them once an operation is over.

use pinyon_cache::{Destination, Value};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::value_bytes::BytesDestination;

/// A value as an operation keeps it.
pub(crate) enum Stored {
    Made(Py<PyAny>),
    Rest(Box<Rest>),
}

/// A value that was not made yet, or could not be.
pub(crate) struct Rest {
    /// The name of the server that sent it.
    pub(crate) server: Box<str>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
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
