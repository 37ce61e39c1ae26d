//! Keys from Python: text as UTF-8, bytes unchanged.

use pinyon_cache::operations::BorrowedKey;
use pinyon_proto::KeyRules;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{exception, invalid_key, unsupported, ErrorKind};

/// The form of a key that the ring hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routing {
    /// The user's key, or the part of it that a key rule keeps.
    Bytes,
    /// For bytes, their repr `b'key'`, so that they are not where the same text is.
    Repr,
}

impl Routing {
    /// The form that the ring hashes, if it differs from the core's.
    #[inline]
    pub(crate) fn quoted(self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        match self {
            Routing::Bytes => Ok(None),
            Routing::Repr => Self::repr(key),
        }
    }

    #[cold]
    fn repr(key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        match key.cast::<PyBytes>() {
            Ok(key) => Ok(Some(key.repr()?.to_str()?.as_bytes().to_vec())),
            Err(_) => Ok(None),
        }
    }
}

/// Memory for a key as it is sent, and for the form that the ring hashes, if they differ from the user's key.
#[derive(Default)]
pub(crate) struct Scratch {
    wire: Vec<u8>,
    quoted: Option<Vec<u8>>,
}

/// A key as a client sends it.
#[inline(always)]
pub(crate) fn sent<'k>(
    rules: &KeyRules,
    routing: Routing,
    key: &'k Bound<'_, PyAny>,
    scratch: &'k mut Scratch,
) -> PyResult<BorrowedKey<'k>> {
    let bytes = key_bytes(key)?;
    scratch.quoted = routing.quoted(key)?;
    let sent = BorrowedKey::new(rules, bytes, &mut scratch.wire);
    let sent = sent.map_err(|error| invalid_key(key.py(), &error, bytes))?;
    Ok(sent.asked_about(scratch.quoted.as_deref()))
}

/// The bytes of a key, borrowed from the object.
#[inline]
pub(crate) fn key_bytes<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    text_bytes(key, ErrorKind::InvalidKey, "the key", "keys")
}

/// The bytes of a text, borrowed from the object. `kind`: the error for text that UTF-8 cannot express. `one`, `many`:
/// its name in messages.
#[inline]
pub(crate) fn text_bytes<'k>(text: &'k Bound<'_, PyAny>, kind: ErrorKind, one: &str, many: &str) -> PyResult<&'k [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        return text.to_str().map(str::as_bytes).map_err(|_| lone_surrogate(text, kind, one));
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    Err(neither(text, many))
}

#[cold]
fn neither(text: &Bound<'_, PyAny>, many: &str) -> PyErr {
    unsupported(text, &format!("{many} are str or bytes"))
}

/// The exception for text that UTF-8 cannot express. `what`: the name of the text in the message.
#[cold]
pub(crate) fn lone_surrogate(text: &Bound<'_, PyString>, kind: ErrorKind, what: &str) -> PyErr {
    let py = text.py();
    let shown = || -> PyResult<String> {
        const MOST: usize = 40;
        let shown = text.repr()?.to_str()?.to_owned();
        let start: String = shown.chars().take(MOST).collect();
        Ok(if start.len() < shown.len() { format!("{start}…") } else { shown })
    };
    match shown() {
        Ok(shown) => {
            let message = format!("{what} {shown} has a lone surrogate, which UTF-8 cannot express: replace it, or encode the text to bytes yourself");
            exception(py, kind, &message)
        }
        Err(raised) => raised,
    }
}
