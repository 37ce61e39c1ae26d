//! Plain data of other languages into Python's objects, and back.

use pinyon_core::dialect::Plain;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::errors::usage;

/// As deep as what is written is read again.
const DEPTH: usize = 190;

/// Encodings that text of Ruby's may be in, by how their names begin. Python has others, some of which take forever.
const ENCODINGS: [&str; 14] = [
    "ISO-8859-",
    "WINDOWS-",
    "UTF-16",
    "UTF-32",
    "US-ASCII",
    "SHIFT_JIS",
    "EUC-",
    "GB2312",
    "GBK",
    "GB18030",
    "BIG5",
    "KOI8-",
    "IBM",
    "CP",
];

/// A Python object as plain data, or what of it is not plain.
pub(crate) fn to_plain(value: &Bound<'_, PyAny>) -> PyResult<Result<Plain, String>> {
    plain(value, DEPTH)
}

fn plain(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Result<Plain, String>> {
    if depth == 0 {
        return Ok(Err(format!("it is nested more than {DEPTH} levels deep, or contains itself")));
    }
    if value.is_none() {
        return Ok(Ok(Plain::Null));
    }
    if let Ok(truth) = value.cast_exact::<PyBool>() {
        return Ok(Ok(Plain::Bool(truth.is_true())));
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(Ok(Plain::Text(text.to_str()?.to_owned())));
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Ok(Ok(Plain::Bytes(bytes.as_bytes().to_vec())));
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Ok(Ok(Plain::Float(number.value())));
    }
    if let Ok(number) = value.cast_exact::<PyInt>() {
        return integer(number).map(Ok);
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        return Ok(items(list.iter(), depth)?.map(Plain::List));
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return Ok(items(tuple.iter(), depth)?.map(Plain::Tuple));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let mut pairs = Vec::with_capacity(dict.len());
        for (key, item) in dict {
            match (plain(&key, depth - 1)?, plain(&item, depth - 1)?) {
                (Ok(key), Ok(item)) => pairs.push((key, item)),
                (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
            }
        }
        return Ok(Ok(Plain::Map(pairs)));
    }
    Ok(Err(format!("{} is not plain data", value.get_type().qualname()?)))
}

fn items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> PyResult<Result<Vec<Plain>, String>> {
    items.map(|item| plain(&item, depth - 1)).collect()
}

fn integer(number: &Bound<'_, PyInt>) -> PyResult<Plain> {
    if let Ok(small) = number.extract::<i64>() {
        return Ok(Plain::Integer(small));
    }
    let absolute = number.abs()?;
    let bits: usize = absolute.call_method0("bit_length")?.extract()?;
    let bytes = absolute.call_method1("to_bytes", (bits.div_ceil(8), "little"))?;
    Ok(Plain::Big { negative: number.lt(0)?, magnitude: bytes.extract()? })
}

/// Plain data as Python has it; an error where Python cannot have it.
pub(crate) fn into_python(py: Python<'_>, value: Plain) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Plain::Null => Ok(py.None().into_bound(py)),
        Plain::Bool(truth) => truth.into_bound_py_any(py),
        Plain::Integer(number) => number.into_bound_py_any(py),
        Plain::Big { negative, magnitude } => {
            let bytes = PyBytes::new(py, &magnitude);
            let number = py.get_type::<PyInt>().call_method1("from_bytes", (bytes, "little"))?;
            if negative {
                number.neg()
            } else {
                Ok(number)
            }
        }
        Plain::Float(number) => number.into_bound_py_any(py),
        Plain::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Plain::Text(text) => text.into_bound_py_any(py),
        Plain::Encoded(bytes, encoding) => {
            let refuse = |why: &dyn std::fmt::Display| {
                let message = format!("there is text in the encoding {encoding} in the stored value: {why}");
                usage(py, "UndecodableValue", &message)
            };
            let name = encoding.to_uppercase();
            if !ENCODINGS.iter().any(|known| name.starts_with(known)) {
                return Err(refuse(&"Pinyon does not know it"));
            }
            PyBytes::new(py, &bytes).call_method1("decode", (&encoding,)).map_err(|error| refuse(&error))
        }
        Plain::List(items) => {
            let items = items.into_iter().map(|item| into_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Plain::Tuple(items) => {
            let items = items.into_iter().map(|item| into_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        Plain::Map(pairs) => {
            let (dict, length) = (PyDict::new(py), pairs.len());
            for (key, item) in pairs {
                let key = into_python(py, key)?;
                let hashed = key.hash();
                hashed
                    .map_err(|error| usage(py, "UndecodableValue", &format!("a key in the stored value: {error}")))?;
                dict.set_item(key, into_python(py, item)?)?;
            }
            match dict.len() == length {
                true => Ok(dict.into_any()),
                false => Err(usage(py, "UndecodableValue", "two keys in the stored value are the same in Python")),
            }
        }
    }
}
