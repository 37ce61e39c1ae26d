//! Converts Python objects to the parts that the core writes, and parts that it reads to Python objects.
//!
//! There is no tree in between. This code checks nesting and announced lengths, and refuses a list that another thread
//! changes meanwhile.

use std::vec::Drain;

use pinyon_cache::dialect::{
    DateTime, Instant, Notation, Objects, Part, Plain, Unwritable, ValueError, Writer, NOT_UTF8,
};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyList, PyString,
    PyTimeAccess, PyTuple, PyTzInfo, PyTzInfoAccess,
};
use pyo3::IntoPyObjectExt;

use crate::errors::{of_value, ErrorKind};
use crate::keys::lone_surrogate;

const DAY: i64 = 24 * 60 * 60;
/// How many keys are remembered while a value is read. The dicts in a list usually have the same keys.
const KEYS: usize = 32;

/// The allowed encodings of Ruby's texts, by prefix. Python has others, and some take forever.
const ENCODINGS: &str = "ISO-8859- WINDOWS- UTF-16 UTF-32 US-ASCII SHIFT_JIS EUC- GB2312 GBK GB18030 BIG5 KOI8- IBM CP";

/// Why an object cannot be written or read.
pub(crate) enum Failed {
    /// What is wrong with it.
    Why(String),
    Raised(PyErr),
}

impl From<PyErr> for Failed {
    fn from(raised: PyErr) -> Self {
        Failed::Raised(raised)
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Failed::Why(why)
    }
}

/// Writes an object.
pub(crate) fn write<W: Writer>(value: &Bound<'_, PyAny>, mut writer: W) -> Result<W::Written, Failed> {
    put(value, &mut writer)?;
    writer.finish().map_err(|refused| Failed::Why(refused.to_string()))
}

/// Containers are copied first: the time zone of a datetime inside may run code that changes them, and so may another
/// thread.
fn put<W: Writer>(value: &Bound<'_, PyAny>, writer: &mut W) -> Result<(), Failed> {
    let mut write = |part: Part<'_>| writer.write(part).map_err(|refused| named(refused, value));
    if let Ok(text) = value.cast_exact::<PyString>() {
        let encoded = text.to_str().map_err(|_| lone_surrogate(text, ErrorKind::UsageError, "the text"))?;
        return write(Part::Text(encoded));
    }
    if let Ok(number) = value.cast_exact::<PyInt>() {
        if let Ok(small) = number.extract() {
            return write(Part::Integer(small));
        }
        return match number.extract() {
            Ok(large) => write(Part::Unsigned(large)),
            Err(_) => write(integer(number)?.part()),
        };
    }
    if value.is_none() {
        return write(Part::Null);
    }
    if let Ok(truth) = value.cast_exact::<PyBool>() {
        return write(Part::Bool(truth.is_true()));
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return write(Part::Float(number.value()));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let pairs = gathered(dict.iter());
        return put_all(value, Part::Map(pairs.len()), pairs.into_iter().flat_map(|(key, item)| [key, item]), writer);
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        let items = gathered(list.iter());
        return put_all(value, Part::List(items.len()), items.into_iter(), writer);
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return put_all(value, Part::Tuple(tuple.len()), tuple.iter(), writer);
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return write(Part::Bytes(bytes.as_bytes()));
    }
    match value.cast_exact::<PyDateTime>() {
        Ok(date_time) => write(point(date_time)?),
        Err(_) => Err(Failed::Why(value.get_type().qualname()?.to_string())),
    }
}

/// All items of a container. Without a GIL, PyO3 keeps it locked during a fold, but not from one item to the next.
#[inline]
fn gathered<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let all = Vec::with_capacity(items.len());
    items.fold(all, |mut all, item| {
        all.push(item);
        all
    })
}

fn put_all<'py, W: Writer>(
    value: &Bound<'py, PyAny>,
    beginning: Part<'_>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    writer: &mut W,
) -> Result<(), Failed> {
    writer.write(beginning).map_err(|refused| named(refused, value))?;
    for item in items {
        put(&item, writer)?;
    }
    writer.write(Part::End).map_err(|refused| named(refused, value))
}

/// The reason in Python's words.
#[cold]
fn named(refused: Unwritable, value: &Bound<'_, PyAny>) -> Failed {
    let class = match value.get_type().qualname() {
        Ok(class) => class.to_string(),
        Err(raised) => return Failed::Raised(raised),
    };
    Failed::Why(match refused {
        Unwritable::Kind(_) => class,
        Unwritable::Key(_) => format!("a dict with a key of type {class}"),
        Unwritable::Big => "an int of more than 64 bits".to_owned(),
        refused => refused.to_string(),
    })
}

pub(crate) fn integer(number: &Bound<'_, PyInt>) -> PyResult<Plain> {
    if let Ok(small) = number.extract() {
        return Ok(Plain::Integer(small));
    }
    let absolute = number.abs()?;
    let bits: usize = absolute.call_method0("bit_length")?.extract()?;
    let bytes = absolute.call_method1("to_bytes", (bits.div_ceil(8), "little"))?;
    Ok(Plain::Big { negative: number.lt(0)?, magnitude: bytes.extract()? })
}

fn point(date_time: &Bound<'_, PyDateTime>) -> PyResult<Part<'static>> {
    if date_time.get_tzinfo().is_some() {
        let since = date_time.sub(epoch(date_time.py())?)?;
        let since = since.cast::<PyDelta>()?;
        return Ok(Part::Instant(Instant {
            seconds: i64::from(since.get_days()) * DAY + i64::from(since.get_seconds()),
            nanoseconds: since.get_microseconds() as u32 * 1000,
        }));
    }
    Ok(Part::DateTime(DateTime {
        year: date_time.get_year() as u16,
        month: date_time.get_month(),
        day: date_time.get_day(),
        hour: date_time.get_hour(),
        minute: date_time.get_minute(),
        second: date_time.get_second(),
        nanosecond: date_time.get_microsecond() * 1000,
    }))
}

fn epoch(py: Python<'_>) -> PyResult<Bound<'_, PyDateTime>> {
    PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&*PyTzInfo::utc(py)?))
}

/// Reads an object in this notation.
pub(crate) fn load<'py>(py: Python<'py>, notation: Notation, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = PythonObjects { py, keys: Default::default() };
    notation.assemble(bytes, &mut objects).map_err(|failed| match failed {
        Failed::Why(why) => of_value(py, &ValueError::unreadable(notation, why)),
        Failed::Raised(raised) => raised,
    })
}

/// Makes Python's objects of parts.
struct PythonObjects<'py> {
    py: Python<'py>,
    /// Recent keys, each at a position derived from its text.
    keys: [Option<Bound<'py, PyString>>; KEYS],
}

impl<'py> Objects for PythonObjects<'py> {
    type Object = Bound<'py, PyAny>;
    type Error = Failed;

    #[inline]
    fn object(&mut self, part: Part<'_>) -> Result<Bound<'py, PyAny>, Failed> {
        object(self.py, part)
    }

    fn key(&mut self, text: &[u8]) -> Result<Bound<'py, PyAny>, Failed> {
        let (first, last) = (text.first().copied().unwrap_or_default(), text.last().copied().unwrap_or_default());
        let place = text.len() + 7 * usize::from(first) + 3 * usize::from(last);
        let known = &mut self.keys[place % KEYS];
        match known {
            Some(key) if key.to_str().is_ok_and(|known| known.as_bytes() == text) => Ok(key.clone().into_any()),
            _ => Ok(known.insert(string(self.py, text)?).clone().into_any()),
        }
    }

    fn list(&mut self, items: Drain<'_, Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>, Failed> {
        Ok(PyList::new(self.py, items)?.into_any())
    }

    fn tuple(&mut self, items: Drain<'_, Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>, Failed> {
        Ok(PyTuple::new(self.py, items)?.into_any())
    }

    fn map(&mut self, mut items: Drain<'_, Bound<'py, PyAny>>, keys_differ: bool) -> Result<Bound<'py, PyAny>, Failed> {
        let (dict, pairs) = (PyDict::new(self.py), items.len() / 2);
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            dict.set_item(key, value).map_err(|error| match error.is_instance_of::<PyTypeError>(self.py) {
                true => Failed::Why(format!("a key in the stored value: {error}")),
                false => Failed::Raised(error),
            })?;
        }
        match keys_differ && dict.len() != pairs {
            true => Err("two keys in it are the same in Python".to_owned().into()),
            false => Ok(dict.into_any()),
        }
    }
}

fn string<'py>(py: Python<'py>, text: &[u8]) -> Result<Bound<'py, PyString>, Failed> {
    PyString::from_bytes(py, text).map_err(|_| Failed::Why(NOT_UTF8.to_owned()))
}

/// The object for a part that is a whole value.
fn object<'py>(py: Python<'py>, part: Part<'_>) -> Result<Bound<'py, PyAny>, Failed> {
    Ok(match part {
        Part::Integer(number) => number.into_bound_py_any(py)?,
        Part::Bool(truth) => truth.into_bound_py_any(py)?,
        Part::Utf8(text) => string(py, text)?.into_any(),
        Part::Unsigned(number) => number.into_bound_py_any(py)?,
        Part::Float(number) => number.into_bound_py_any(py)?,
        Part::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Part::Text(text) => PyString::new(py, text).into_any(),
        Part::Big { negative, magnitude } => {
            let number = py.get_type::<PyInt>().call_method1("from_bytes", (PyBytes::new(py, magnitude), "little"))?;
            if negative {
                number.neg()?
            } else {
                number
            }
        }
        Part::Encoded(bytes, encoding) => encoded(py, bytes, encoding)?,
        Part::DateTime(date_time) => naive(py, date_time).map_err(|error| error.to_string())?,
        Part::Instant(instant) => aware(py, instant).map_err(|error| error.to_string())?,
        Part::Null | Part::List(_) | Part::Tuple(_) | Part::Map(_) | Part::End => py.None().into_bound(py),
    })
}

fn encoded<'py>(py: Python<'py>, bytes: &[u8], encoding: &str) -> Result<Bound<'py, PyAny>, Failed> {
    let (bytes, decode) = (PyBytes::new(py, bytes), intern!(py, "decode"));
    if encoding == "WTF-8" {
        return Ok(bytes.call_method1(decode, ("utf-8", "surrogatepass"))?);
    }
    let refuse = |why: &dyn std::fmt::Display| format!("there is text in the encoding {encoding} in it: {why}");
    let name = encoding.to_uppercase();
    if !ENCODINGS.split(' ').any(|known| name.starts_with(known)) {
        return Err(refuse(&"Pinyon does not know it").into());
    }
    bytes.call_method1(decode, (encoding,)).map_err(|error| refuse(&error).into())
}

fn naive(py: Python<'_>, date_time: DateTime) -> PyResult<Bound<'_, PyAny>> {
    let DateTime { year, month, day, hour, minute, second, nanosecond } = date_time;
    Ok(PyDateTime::new(py, year.into(), month, day, hour, minute, second, nanosecond / 1000, None)?.into_any())
}

fn aware(py: Python<'_>, instant: Instant) -> PyResult<Bound<'_, PyAny>> {
    let days = i32::try_from(instant.seconds.div_euclid(DAY)).unwrap_or(i32::MAX);
    let seconds = instant.seconds.rem_euclid(DAY) as i32;
    epoch(py)?.add(PyDelta::new(py, days, seconds, (instant.nanoseconds / 1000) as i32, false)?)
}
