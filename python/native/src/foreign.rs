//! Converts values to and from another client's dialect.

use pinyon_cache::dialect::{Dialect, Form, HostType, Plain, TreeWriter, ValueError};
use pinyon_cache::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, PyTypeInfo};

use crate::errors::{checked, of_value};
use crate::parts::{integer, load, write, Failed};
use crate::serializers::{own_class, Serializer};
use crate::value_bytes::{decode_integer, decode_text, into_bytes, Encoded};

/// How a client with another client's dialect writes and reads Python objects.
pub(crate) struct Foreign {
    dialect: Dialect,
    /// The serializer for pickles, if the user asked for it.
    pickle: Option<Serializer>,
}

impl Foreign {
    /// `serializer`: one of `pinyon.serializers`. In another client's dialect, it only decides whether to pickle.
    pub(crate) fn new(dialect: Dialect, serializer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = serializer.py();
        match own_class(serializer)?.as_deref() {
            Some("Portable") => Ok(Self { dialect, pickle: None }),
            Some("Pickle") => {
                checked(py, dialect.check_pickles())?;
                Ok(Self { dialect, pickle: Some(Serializer::new(serializer)?) })
            }
            _ => checked(py, Err(dialect.has_serializer(true))),
        }
    }

    pub(crate) fn encode<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let kind = self.kind(value);
        let Some((form, flags)) = self.dialect.write(kind) else { return Err(self.refuse(value, "")) };
        match form {
            Form::Bytes => return Ok((Encoded::Bytes(value.cast()?), flags)),
            Form::Text => return Ok((Encoded::Text(value.cast()?), flags)),
            Form::Pickle => return self.dump(value),
            _ => {}
        }
        let plain = match value.cast::<PyInt>() {
            Ok(number) if kind == HostType::Integer => Ok(integer(number)?),
            _ => write(value, TreeWriter::default()),
        };
        let written = match plain {
            Ok(plain) => self.dialect.encode_as(form, &plain),
            Err(Failed::Why(what)) => Err(format!("it contains {what}")),
            Err(Failed::Raised(raised)) => return Err(raised),
        };
        match written {
            Ok(written) => Ok((Encoded::owned(written), flags)),
            Err(_) if self.pickle.is_some() => self.dump(value),
            Err(why) => Err(self.refuse(value, &format!(": {why}"))),
        }
    }

    /// A piece to append or prepend: only its bytes, as other clients do.
    pub(crate) fn encode_piece<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match value.cast::<PyBytes>() {
            Ok(bytes) => Ok((Encoded::Bytes(bytes), 0)),
            Err(_) => Ok((Encoded::Text(value.cast()?), 0)),
        }
    }

    fn kind(&self, value: &Bound<'_, PyAny>) -> HostType {
        let subclasses = self.dialect.takes_subclasses();
        match value {
            bytes if is::<PyBytes>(bytes, subclasses) => HostType::Bytes,
            text if is::<PyString>(text, subclasses) => HostType::Text,
            truth if is::<PyBool>(truth, false) => HostType::Bool,
            number if is::<PyInt>(number, subclasses) => HostType::Integer,
            number if is::<PyFloat>(number, false) => HostType::Float,
            list if list.is_none() || is::<PyList>(list, false) || is::<PyDict>(list, false) => HostType::Plain,
            tuple if self.dialect == Dialect::Libmc && is::<PyTuple>(tuple, false) => HostType::Plain,
            _ => HostType::Object,
        }
    }

    fn dump<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        self.pickle.as_ref().map_or_else(|| Err(self.refuse(value, "")), |pickle| pickle.dump(value))
    }

    fn refuse(&self, value: &Bound<'_, PyAny>, why: &str) -> PyErr {
        let py = value.py();
        let class = value.get_type().qualname().map_or_else(|_| "this value".to_owned(), |name| name.to_string());
        of_value(py, &self.dialect.refuse(&class, why, Some(self.pickle.is_some())))
    }

    /// `flags`: those of the decompressed value.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        match checked(py, self.dialect.form(flags))? {
            Form::Bytes => Ok(into_bytes(py, value).into_any()),
            Form::Text => decode_text(py, value.bytes()),
            Form::Integer => decode_integer(py, value.bytes()),
            Form::Notation(notation) => load(py, notation, value.bytes()),
            form @ (Form::Float | Form::Bool) => match checked(py, form.decode(value.bytes()))? {
                Plain::Float(number) => number.into_bound_py_any(py),
                plain => (plain == Plain::Bool(true)).into_bound_py_any(py),
            },
            Form::Pickle => match &self.pickle {
                Some(pickle) => pickle.load(py, value, flags),
                None => checked(py, Err(ValueError::pickled(flags, true))),
            },
        }
    }

    /// Whether values with these flags are pickles, which run code when they are loaded.
    pub(crate) fn pickles(&self, flags: u32) -> bool {
        self.pickle.is_some() && self.dialect.form(flags).is_ok_and(|form| matches!(form, Form::Pickle))
    }

    /// Whether the received bytes become a bytes object unchanged.
    pub(crate) fn is_bytes(&self, flags: u32) -> bool {
        !self.dialect.is_compressed(flags) && self.dialect.read(flags) == Ok(Form::Bytes)
    }
}

fn is<T: PyTypeInfo>(value: &Bound<'_, PyAny>, subclasses: bool) -> bool {
    value.is_exact_instance_of::<T>() || (subclasses && value.is_instance_of::<T>())
}
