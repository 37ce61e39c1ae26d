//! Values in another client's dialect: Python's objects into its forms, and its forms into Python's objects.

use pinyon_core::dialect::{Dialect, Form, Kind, Notation};
use pinyon_core::Value;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors::usage;
use crate::trees::{into_python, to_plain};
use crate::values::{decode_integer, decode_text, digits, into_bytes, undecodable, Encoded};

/// What Python objects are written as, and what is read.
pub(crate) struct Foreign {
    dialect: Dialect,
    /// The serializer that pickles, where the user has asked for it.
    pickle: Option<Py<PyAny>>,
}

impl Foreign {
    /// `serializer` is one of `pinyon.serializers`: in another client's dialect, all it says is whether to pickle.
    pub(crate) fn new(dialect: Dialect, serializer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = serializer.py();
        let name = serializer.get_type().name()?;
        let is_own = serializer.get_type().module()?.to_str()? == "pinyon.serializers";
        let pickles = match (is_own, name.to_str()?) {
            (true, "Portable") => false,
            (true, "Pickle") if dialect.write(Kind::Object).is_some() => true,
            (true, "Pickle") => {
                let message = format!(
                    "the clients of the dialect {:?} do not read pickled values: leave serializer out",
                    dialect.name()
                );
                return Err(usage(py, "UsageError", &message));
            }
            _ => {
                let message = format!(
                    "the dialect {:?} says how values are stored; beside it, serializer is \"pickle\" or left out",
                    dialect.name()
                );
                return Err(usage(py, "UsageError", &message));
            }
        };
        Ok(Self { dialect, pickle: pickles.then(|| serializer.clone().unbind()) })
    }

    pub(crate) fn encode<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let kind = self.kind(value);
        let Some((form, flags)) = self.dialect.write(kind) else { return Err(self.refuse(value, "")) };
        let encoded = match form {
            Form::Bytes => Encoded::Bytes(value.cast()?),
            Form::Text => Encoded::Text(value.cast()?),
            Form::Integer if self.dialect == Dialect::PhpMemcached && value.extract::<i64>().is_err() => {
                return Err(self.refuse(value, ": PHP has integers of up to 64 bits"))
            }
            Form::Integer => Encoded::Owned(digits(value.cast()?)?),
            Form::Float => Encoded::Owned(self.float(value.cast()?)?),
            Form::Bool => Encoded::Owned(self.truth(value.is_truthy()?).to_vec()),
            Form::Notation(notation) => return self.write(notation, value, flags),
            Form::Pickle => return self.dump(value),
            Form::Json | Form::MessagePack => unreachable!("these are only read"),
        };
        Ok((encoded, flags))
    }

    /// What is put before or behind a stored value: its bytes alone, as other clients do.
    pub(crate) fn encode_piece<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok((Encoded::Bytes(bytes), 0));
        }
        match value.cast::<PyString>() {
            Ok(text) => Ok((Encoded::Text(text), 0)),
            Err(_) => Err(usage(value.py(), "UnsupportedType", "append and prepend take bytes or text")),
        }
    }

    fn kind(&self, value: &Bound<'_, PyAny>) -> Kind {
        let subclasses = self.dialect.takes_subclasses();
        if value.is_exact_instance_of::<PyBytes>() || (subclasses && value.is_instance_of::<PyBytes>()) {
            return Kind::Bytes;
        }
        if value.is_exact_instance_of::<PyString>() || (subclasses && value.is_instance_of::<PyString>()) {
            return Kind::Text;
        }
        if value.is_exact_instance_of::<PyBool>() {
            return Kind::Bool;
        }
        if value.is_exact_instance_of::<PyInt>() || (subclasses && value.is_instance_of::<PyInt>()) {
            return Kind::Integer;
        }
        if value.is_exact_instance_of::<PyFloat>() {
            return Kind::Float;
        }
        let plain = value.is_none()
            || value.is_exact_instance_of::<PyList>()
            || value.is_exact_instance_of::<PyDict>()
            || (self.dialect == Dialect::Libmc && value.is_exact_instance_of::<PyTuple>());
        if plain {
            Kind::Plain
        } else {
            Kind::Object
        }
    }

    fn truth(&self, truth: bool) -> &'static [u8] {
        match (truth, self.dialect) {
            (true, _) => b"1",
            (false, Dialect::PhpMemcached) => b"",
            (false, _) => b"0",
        }
    }

    fn float(&self, number: &Bound<'_, PyFloat>) -> PyResult<Vec<u8>> {
        let text = match number.value() {
            value if self.dialect == Dialect::PhpMemcached && value.is_nan() => "NaN".to_owned(),
            value if self.dialect == Dialect::PhpMemcached && value.is_infinite() => {
                if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
            }
            _ => number.str()?.to_str()?.to_owned(),
        };
        Ok(text.into_bytes())
    }

    fn write<'v>(&self, notation: Notation, value: &'v Bound<'v, PyAny>, flags: u32) -> PyResult<(Encoded<'v>, u32)> {
        let written = to_plain(value)?.and_then(|plain| notation.write(&plain));
        match written {
            Ok(written) => Ok((Encoded::Owned(written), flags)),
            Err(_) if self.pickle.is_some() => self.dump(value),
            Err(why) => Err(self.refuse(value, &format!(": {why}"))),
        }
    }

    fn dump<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let Some(pickle) = &self.pickle else { return Err(self.refuse(value, "")) };
        let (bytes, flags) = pickle.bind(value.py()).call_method1(intern!(value.py(), "dump"), (value,))?.extract()?;
        Ok((Encoded::Dumped(bytes), flags))
    }

    fn refuse(&self, value: &Bound<'_, PyAny>, why: &str) -> PyErr {
        let py = value.py();
        let class = value.get_type().qualname().map_or_else(|_| "this value".to_owned(), |name| name.to_string());
        let remedy = match self.dialect.write(Kind::Object) {
            Some(_) if self.pickle.is_none() => {
                "; its clients would pickle it, which serializer=\"pickle\" does (safe only where nobody else can write \
                 to the cache)"
            }
            _ if why.is_empty() => "; it takes plain data: bytes, text, numbers, bool, None, list and dict",
            _ => "",
        };
        let message = format!("the dialect {:?} does not take {class}{why}{remedy}", self.dialect.name());
        usage(py, "UnsupportedType", &message)
    }

    /// `flags` of a value that is not compressed, or not any more.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        let form = self.dialect.read(flags).map_err(|why| {
            let message =
                format!("the value is stored with flags {flags} in the dialect {:?}, {why}", self.dialect.name());
            usage(py, "UnknownFlags", &message)
        })?;
        match form {
            Form::Bytes => Ok(into_bytes(py, value).into_any()),
            Form::Text => decode_text(py, value.bytes()),
            Form::Integer => decode_integer(py, value.bytes()),
            Form::Float => {
                match std::str::from_utf8(value.bytes()).ok().and_then(|text| text.trim().parse::<f64>().ok()) {
                    Some(number) => Ok(PyFloat::new(py, number).into_any()),
                    None => Err(undecodable(py, "a float", "it is no number")),
                }
            }
            Form::Bool => match value.bytes() {
                b"1" => Ok(PyBool::new(py, true).to_owned().into_any()),
                b"0" | b"" => Ok(PyBool::new(py, false).to_owned().into_any()),
                _ => Err(undecodable(py, "a bool", "it is neither 0 nor 1")),
            },
            Form::Notation(notation) => {
                let plain = notation.read(value.bytes()).map_err(|why| unreadable(py, notation, &why))?;
                into_python(py, plain)
            }
            Form::Pickle => match &self.pickle {
                Some(pickle) => pickle.bind(py).call_method1(intern!(py, "load"), (into_bytes(py, value), flags)),
                None => Err(usage(
                    py,
                    "UnknownFlags",
                    &format!(
                        "the stored value is pickled (flags {flags}); serializer=\"pickle\" reads it, which runs code \
                         that its writer chose: use it only where nobody else can write to the cache"
                    ),
                )),
            },
            Form::Json => load(py, "Json", "JSON", value),
            Form::MessagePack => load(py, "Portable", "MESSAGEPACK", value),
        }
    }

    /// Whether what is received becomes a bytes object as it is.
    pub(crate) fn is_bytes(&self, flags: u32) -> bool {
        !self.dialect.is_compressed(flags) && self.dialect.read(flags) == Ok(Form::Bytes)
    }
}

/// By a serializer of Pinyon's that reads this.
fn load<'py>(py: Python<'py>, class: &str, flags: &str, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    let serializers = py.import(intern!(py, "pinyon.serializers"))?;
    let flags = serializers.getattr(flags)?;
    serializers.getattr(class)?.call0()?.call_method1(intern!(py, "load"), (into_bytes(py, value), flags))
}

fn unreadable(py: Python<'_>, notation: Notation, why: &str) -> PyErr {
    let message = format!(
        "the stored value is in {}, of which Pinyon reads plain data: {why}; let its writer store plain data",
        notation.name()
    );
    usage(py, "UndecodableValue", &message)
}
