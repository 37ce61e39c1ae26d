//! Keys as Python gives them: text as UTF-8, bytes as they are.

use pinyon_core::operations::BorrowedKey;
use pinyon_proto::KeyRules;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{checked, exception, unsupported, ErrorKind};

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
    let sent = checked(key.py(), BorrowedKey::new(rules, bytes, &mut scratch.wire))?;
    Ok(sent.asked_about(scratch.quoted.as_deref()))
}

/// The bytes of a key, borrowed from the object.
pub(crate) fn key_bytes<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    text_bytes(key, ErrorKind::InvalidKey, "the key", "keys")
}

/// The bytes of a text, borrowed from the object. `kind`: of the error for text that UTF-8 cannot express; `one`,
/// `many`: what it is, for messages.
pub(crate) fn text_bytes<'k>(text: &'k Bound<'_, PyAny>, kind: ErrorKind, one: &str, many: &str) -> PyResult<&'k [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        let raised = |_| exception(text.py(), kind, &format!("{one} has a lone surrogate, which UTF-8 cannot express"));
        return text.to_str().map(str::as_bytes).map_err(raised);
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    Err(unsupported(text, &format!("{many} are str or bytes")))
}
