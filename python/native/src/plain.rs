//! Which values are plain data: those that keep their type on the way to a cache and back.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::errors::usage;

/// Deeper nesting is refused; so are lists and dicts that contain themselves.
const DEPTH: usize = 200;

/// Raises `UnsupportedType` unless the value is plain data that the serializer can write without changing a type.
///
/// `portable` (MessagePack) takes everything plain; `json` takes neither bytes nor datetimes, and text alone as keys.
#[pyfunction]
pub(crate) fn check_plain(value: &Bound<'_, PyAny>, serializer: &str) -> PyResult<()> {
    let json = serializer == "json";
    match find_other(value, json, DEPTH)? {
        None => Ok(()),
        Some(other) => {
            let takes = match json {
                true => "bool, None, float, str, int of up to 64 bits, list and dict with str keys",
                false => "bytes, str, int of up to 64 bits, bool, None, float, list, dict and datetime",
            };
            let message = format!(
                "the serializer \"{serializer}\" does not take {other}; nested, it takes {takes}. For other types make \
                 the client with serializer=\"pickle\" (safe only where nobody else can write to the cache) or an object \
                 with dump and load"
            );
            Err(usage(value.py(), "UnsupportedType", &message))
        }
    }
}

/// Describes the first thing in the value that is not plain.
fn find_other(value: &Bound<'_, PyAny>, json: bool, depth: usize) -> PyResult<Option<String>> {
    if depth == 0 {
        return Ok(Some(format!("data nested more than {DEPTH} levels deep, or in itself")));
    }
    if value.is_none() || value.is_exact_instance_of::<PyBool>() || value.is_exact_instance_of::<PyFloat>() {
        return Ok(None);
    }
    if value.is_exact_instance_of::<PyString>() {
        return Ok(None);
    }
    if value.is_exact_instance_of::<PyInt>() {
        let fits = value.extract::<i64>().is_ok() || value.extract::<u64>().is_ok();
        return Ok((!fits).then(|| "an int of more than 64 bits".to_owned()));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        for item in list {
            if let Some(other) = find_other(&item, json, depth - 1)? {
                return Ok(Some(other));
            }
        }
        return Ok(None);
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        for (key, item) in dict {
            if json && !key.is_exact_instance_of::<PyString>() {
                return Ok(Some(format!("a dict with a key of type {}", key.get_type().qualname()?)));
            }
            for part in [key, item] {
                if let Some(other) = find_other(&part, json, depth - 1)? {
                    return Ok(Some(other));
                }
            }
        }
        return Ok(None);
    }
    let binary = value.is_exact_instance_of::<PyBytes>() || value.is_exact_instance_of::<PyDateTime>();
    if binary && !json {
        return Ok(None);
    }
    Ok(Some(value.get_type().qualname()?.to_string()))
}
