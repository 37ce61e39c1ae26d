//! What becomes of stored values once an operation is over.
//!
//! Some values run code of the user's when they are loaded, such as a serializer's `load`. This happens only when the
//! operation no longer has its connection. The code may take its time, and it may use the client.
//!
//! In an event loop the code runs when the coroutine resumes; a greenlet runs it itself.

use pinyon_cache::directory::Directory;
use pinyon_cache::Value;
use pyo3::prelude::*;

use crate::errors::{is_unreadable, reason, stored_on, stored_under};
use crate::stored::{Content, Rest, Stored};
use crate::values::Codec;

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
