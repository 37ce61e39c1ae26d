//! Keys as Python gives them: text as UTF-8, bytes as they are.

use pinyon_core::operations::BorrowedKey;
use pinyon_proto::KeyRules;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{exception, invalid_key, unsupported, ErrorKind};

/// What the ring is asked about, of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routing {
    /// The key as it was given, or what a rule for keys has left of it.
    Bytes,
    /// Of bytes what Python writes for them, `b'key'`: so they are not where the same text is.
    Repr,
}

impl Routing {
    /// What the ring is asked about instead of the key that the core makes of this one, if it is.
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

/// Room for a key as it is sent, and for what the ring is asked about, where the key itself is neither.
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
    match BorrowedKey::new(rules, bytes, &mut scratch.wire) {
        Ok(sent) => Ok(sent.asked_about(scratch.quoted.as_deref())),
        Err(error) => Err(invalid_key(key.py(), &error, bytes)),
    }
}

/// The bytes of a key, borrowed from the object.
pub(crate) fn key_bytes<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    text_bytes(key, ErrorKind::InvalidKey, "the key", "keys")
}

/// The bytes of a text, borrowed from the object. `kind`: of the error for text that UTF-8 cannot express; `one`,
/// `many`: what it is, for messages.
pub(crate) fn text_bytes<'k>(text: &'k Bound<'_, PyAny>, kind: ErrorKind, one: &str, many: &str) -> PyResult<&'k [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        return text.to_str().map(str::as_bytes).map_err(|_| lone_surrogate(text, kind, one));
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    Err(unsupported(text, &format!("{many} are str or bytes")))
}

/// The exception for text that UTF-8 cannot express. `what`: it is, for the message.
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
