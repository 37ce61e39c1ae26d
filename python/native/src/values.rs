//! Converts values to bytes and client flags, and back.
//!
//! Bytes, text and integers are handled here, on one match of the flags. The core handles plain data, and the
//! serializer's `dump` and `load` handle everything else.
//!
//! Large values are compressed and decompressed without the GIL.

use pinyon_cache::dialect::{Dialect, Packing, PlainSerializer, BYTES, COMPRESSED, INTEGER, INTEGER_OF_PYLIBMC, TEXT};
use pinyon_cache::{Destination, Value};
use pinyon_proto::{Head, Mode};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::errors::{checked, unsupported};
use crate::foreign::Foreign;
use crate::serializers::{dump_by, load_by, plain, Serializer};
use crate::stored::Stored;
use crate::value_bytes::{decode_integer, decode_text, into_bytes, BytesDestination, Encoded};

/// Values of this size or more are worth releasing the GIL for, to compress or decompress them.
const LARGE: usize = 16 * 1024;

/// How a client converts values.
pub(crate) struct Codec {
    kind: Kind,
    packing: Packing,
    /// The core's serializer for plain data, if it is used.
    plain: Option<PlainSerializer>,
    serializer: Serializer,
}

enum Kind {
    /// Only bytes, whatever the flags.
    Raw,
    /// Bytes, text and integers here, everything else by the serializer.
    Plain,
    /// Everything by the serializer.
    Custom,
    /// In another client's dialect.
    Foreign(Foreign),
}

impl Codec {
    /// `serializer`: one of `pinyon.serializers`, or any object with `dump` and `load`.
    pub(crate) fn new(serializer: &Bound<'_, PyAny>, packing: Packing) -> PyResult<Self> {
        let py = serializer.py();
        let handles: Option<String> = match serializer.getattr_opt(intern!(py, "native"))? {
            Some(native) => native.extract()?,
            None => None,
        };
        let kind = match handles.as_deref() {
            _ if packing.dialect() != Dialect::Pinyon => Kind::Foreign(Foreign::new(packing.dialect(), serializer)?),
            Some("raw") => Kind::Raw,
            Some("plain") => Kind::Plain,
            _ => Kind::Custom,
        };
        Ok(Self { kind, packing, plain: plain(serializer)?, serializer: Serializer::new(serializer)? })
    }

    /// The bytes of a value and its client flags.
    pub(crate) fn encode<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match self.packing.compresses() {
            false => self.serialize(value),
            true => self.compress(value),
        }
    }

    /// Compresses the value, if that is worthwhile.
    #[inline(never)]
    fn compress<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let (py, (encoded, flags)) = (value.py(), self.serialize(value)?);
        let bytes = encoded.bytes()?;
        match checked(py, unlocked(py, bytes.len(), || self.packing.pack(bytes, flags)))? {
            None => Ok((encoded, flags)),
            Some((stored, flags)) => Ok((Encoded::owned(stored), flags)),
        }
    }

    /// The same, for this mode of storing.
    pub(crate) fn encode_for<'v>(&self, mode: Mode, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match mode {
            Mode::Append | Mode::Prepend => self.encode_piece(value),
            _ => self.encode(value),
        }
    }

    /// The flags with which a counter reads as an integer; 0 if this client does not store integers as digits.
    pub(crate) fn counter_flags(&self, py: Python<'_>, number: u64) -> PyResult<u32> {
        let (Kind::Plain | Kind::Foreign(_)) = self.kind else { return Ok(BYTES) };
        let number = number.into_pyobject(py)?.into_any();
        let (encoded, flags) = self.serialize(&number)?;
        let is_digits = encoded.bytes()? == number.str()?.to_str()?.as_bytes();
        Ok(if is_digits { flags } else { BYTES })
    }

    #[inline(never)]
    fn encode_piece<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        checked(value.py(), self.packing.check_append())?;
        let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
        match &self.kind {
            Kind::Custom => self.serialize(value),
            _ if !is_text => Err(unsupported(value, "append and prepend take str or bytes")),
            Kind::Foreign(foreign) => foreign.encode_piece(value),
            _ => self.serialize(value),
        }
    }

    fn serialize<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match &self.kind {
            Kind::Custom => return self.serializer.dump(value),
            Kind::Foreign(foreign) => return foreign.encode(value),
            Kind::Raw | Kind::Plain => {}
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Ok((Encoded::Bytes(bytes), BYTES));
        }
        if matches!(self.kind, Kind::Raw) {
            return Err(unsupported(value, "the serializer \"raw\" takes bytes"));
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return Ok((Encoded::Text(text), TEXT));
        }
        if let Ok(integer) = value.cast_exact::<PyInt>() {
            return Ok((Encoded::Owned(digits(integer)?), INTEGER));
        }
        match self.plain {
            Some(plain) => write(plain, value),
            None => self.serializer.dump(value),
        }
    }

    /// The value for a reply's bytes and client flags, while the operation is under way. What may call back, and what
    /// takes long, is left for later. `server`: the name of the server that sent it.
    #[inline(always)]
    pub(crate) fn receive(&self, py: Python<'_>, head: &Head, value: Value<'_>, server: &str) -> Stored {
        let flags = head.item.client_flags;
        match self.read_simple(py, flags, value) {
            Ok(read) => made(read, server),
            Err(other) => self.receive_other(py, flags, other, server),
        }
    }

    #[inline(never)]
    fn receive_other(&self, py: Python<'_>, flags: u32, value: Value<'_>, server: &str) -> Stored {
        let calls_back = match &self.kind {
            Kind::Foreign(foreign) => foreign.pickles(flags),
            Kind::Plain => self.plain.is_none(),
            Kind::Raw => false,
            Kind::Custom => true,
        };
        match calls_back || self.is_compressed(flags) {
            true => Stored::unloaded(py, flags, value, server),
            false => made(self.read_other(py, flags, value), server),
        }
    }

    /// The value for bytes and client flags.
    pub(crate) fn read<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        self.read_simple(py, flags, value).unwrap_or_else(|other| self.read_other(py, flags, other))
    }

    /// The value for bytes and client flags, if it is bytes or text.
    #[inline]
    pub(crate) fn read_plain<'py>(&self, py: Python<'py>, flags: u32, value: &[u8]) -> Option<Bound<'py, PyAny>> {
        match (&self.kind, flags) {
            (Kind::Plain | Kind::Raw, BYTES) => Some(PyBytes::new(py, value).into_any()),
            (Kind::Plain, TEXT) => decode_text(py, value).ok(),
            _ => None,
        }
    }

    /// The value, if it is bytes, text or an integer.
    #[inline(always)]
    fn read_simple<'py, 'v>(&self, py: Python<'py>, flags: u32, value: Value<'v>) -> Result<Read<'py>, Value<'v>> {
        Ok(match (&self.kind, flags) {
            (Kind::Plain, TEXT) => decode_text(py, value.bytes()),
            (Kind::Plain, INTEGER | INTEGER_OF_PYLIBMC) => decode_integer(py, value.bytes()),
            (Kind::Plain, BYTES) => Ok(into_bytes(py, value).into_any()),
            (Kind::Raw, flags) if flags < COMPRESSED => Ok(into_bytes(py, value).into_any()),
            _ => return Err(value),
        })
    }

    fn is_compressed(&self, flags: u32) -> bool {
        // A user's serializer defines its own flags, unless compression is enabled.
        let knows = self.packing.is_set() || !matches!(self.kind, Kind::Custom);
        knows && self.packing.dialect().is_compressed(flags)
    }

    #[inline(never)]
    fn read_other<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        if self.is_compressed(flags) {
            let (packed, packing) = (value.bytes(), &self.packing);
            let bytes = checked(py, unlocked(py, packed.len(), || packing.unpack(flags, packed)))?;
            return self.read(py, packing.dialect().inside(flags), Value::Borrowed(&bytes));
        }
        match (&self.kind, self.plain) {
            (Kind::Foreign(foreign), _) => foreign.decode(py, flags, value),
            (Kind::Plain, Some(plain)) => load_by(py, plain, flags, value.bytes()),
            (Kind::Raw, _) => Ok(into_bytes(py, value).into_any()),
            (Kind::Plain | Kind::Custom, _) => self.serializer.load(py, value, flags),
        }
    }
}

/// The outcome of reading a value.
type Read<'py> = PyResult<Bound<'py, PyAny>>;

#[inline]
fn made(read: Read<'_>, server: &str) -> Stored {
    match read {
        Ok(value) => Stored::Made(value.unbind()),
        Err(error) => Stored::failed(error, server),
    }
}

/// Memory for a large value: the bytes object itself if the value is bytes, otherwise a buffer.
pub(crate) fn destination(py: Python<'_>, codec: &Codec, head: &Head) -> Box<dyn Destination> {
    let length = head.size.unwrap_or_default();
    let flags = head.item.client_flags;
    let is_bytes = match &codec.kind {
        Kind::Plain => flags != TEXT,
        Kind::Foreign(foreign) => foreign.is_bytes(flags),
        Kind::Raw | Kind::Custom => true,
    };
    if !is_bytes {
        return Box::new(vec![0; length]);
    }
    match BytesDestination::new(py, length) {
        Ok(bytes) => Box::new(bytes),
        Err(_) => Box::new(vec![0; length]),
    }
}

#[inline(never)]
fn write<'v>(plain: PlainSerializer, value: &Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
    let (written, flags) = dump_by(plain, value)?;
    Ok((Encoded::owned(written), flags))
}

/// Releases the GIL for work on so many bytes, if that is worthwhile.
fn unlocked<T: Send>(py: Python<'_>, length: usize, work: impl FnOnce() -> T + Send) -> T {
    match length < LARGE {
        true => work(),
        false => py.detach(work),
    }
}

fn digits(integer: &Bound<'_, PyInt>) -> PyResult<Vec<u8>> {
    Ok(match integer.extract::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => integer.str()?.to_str()?.to_owned(),
    }
    .into_bytes())
}
