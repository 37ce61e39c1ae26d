//! Keys as Python gives them: text as UTF-8, bytes as they are.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::usage;

/// The bytes of a key, borrowed from the object.
pub(crate) fn key_bytes<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    text_bytes(key, "InvalidKey", "the key", "keys")
}

/// The bytes of a text, borrowed from the object. `class`: of the error for text that UTF-8 cannot express; `one`,
/// `many`: what it is, for messages.
pub(crate) fn text_bytes<'k>(text: &'k Bound<'_, PyAny>, class: &str, one: &str, many: &str) -> PyResult<&'k [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        let raised = |_| usage(text.py(), class, &format!("{one} has a lone surrogate, which UTF-8 cannot express"));
        return text.to_str().map(str::as_bytes).map_err(raised);
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let message = format!("{many} are str or bytes, not {}", text.get_type().name()?);
    Err(usage(text.py(), "UnsupportedType", &message))
}
