//! Keys as Python gives them: text as UTF-8, bytes as they are.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::usage;

/// The bytes of a key, borrowed from the object.
pub(crate) fn key_bytes<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    if let Ok(text) = key.cast::<PyString>() {
        let message = "the key has a lone surrogate, which UTF-8 cannot express";
        return text.to_str().map(str::as_bytes).map_err(|_| usage(key.py(), "InvalidKey", message));
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let message = format!("keys are str or bytes, not {}", key.get_type().name()?);
    Err(usage(key.py(), "UnsupportedType", &message))
}
