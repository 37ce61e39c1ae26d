//! Values into bytes and client flags, and back.
//!
//! Bytes, text and integers are done here, on one match of the flags; plain data goes through the core, and everything
//! else through the serializer's `dump` and `load`.

use pinyon_core::dialect::{Dialect, Notation, Packing, BYTES, COMPRESSED, INTEGER, INTEGER_OF_PYLIBMC, TEXT};
use pinyon_core::{Destination, Value};
use pinyon_proto::{Head, Mode};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::encoded::Encoded;
use crate::errors::{exception, of_value, stored_on, ErrorKind};
use crate::foreign::Foreign;
use crate::packing::{pack, unpack};
use crate::plain;
use crate::received::{decode_integer, decode_text, into_bytes, BytesDestination};

/// How a client turns values into bytes.
pub(crate) struct Codec {
    kind: Kind,
    packing: Packing,
    /// Of plain data, where the core writes and reads it.
    notation: Option<Notation>,
    dump: Py<PyAny>,
    load: Py<PyAny>,
}

enum Kind {
    /// Bytes alone, whatever the flags.
    Raw,
    /// Bytes, text and integers here, the rest by the serializer.
    Plain,
    /// Everything by the serializer.
    Custom,
    /// As another client does it.
    Foreign(Foreign),
}

impl Codec {
    /// From a serializer of `pinyon.serializers`, or any object with `dump` and `load`.
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
        let method = |name| -> PyResult<Py<PyAny>> { Ok(serializer.getattr(name)?.unbind()) };
        let notation = plain::notation_of(serializer)?;
        Ok(Self { kind, packing, notation, dump: method("dump")?, load: method("load")? })
    }

    /// The bytes of a value and its client flags.
    pub(crate) fn encode<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match self.packing.compresses() {
            false => self.serialize(value),
            true => self.compress(value),
        }
    }

    #[inline(never)]
    fn compress<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        pack(value.py(), &self.packing, self.serialize(value)?)
    }

    /// The same, of what is stored in this way.
    pub(crate) fn encode_for<'v>(&self, mode: Mode, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match mode {
            Mode::Append | Mode::Prepend => self.encode_piece(value),
            _ => self.encode(value),
        }
    }

    #[inline(never)]
    fn encode_piece<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        self.packing.check_append().map_err(|error| of_value(value.py(), &error))?;
        match &self.kind {
            Kind::Foreign(foreign) => foreign.encode_piece(value),
            _ => self.serialize(value),
        }
    }

    fn serialize<'v>(&self, value: &'v Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        match &self.kind {
            Kind::Custom => return self.dump(value),
            Kind::Foreign(foreign) => return foreign.encode(value),
            Kind::Raw | Kind::Plain => {}
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Ok((Encoded::Bytes(bytes), BYTES));
        }
        if matches!(self.kind, Kind::Raw) {
            let message = format!("the serializer \"raw\" takes bytes, not {}", value.get_type().name()?);
            return Err(exception(value.py(), ErrorKind::UnsupportedType, &message));
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return Ok((Encoded::Text(text), TEXT));
        }
        if let Ok(integer) = value.cast_exact::<PyInt>() {
            return Ok((Encoded::Owned(digits(integer)?), INTEGER));
        }
        match self.notation {
            Some(notation) => self.write(notation, value),
            None => self.dump(value),
        }
    }

    #[inline(never)]
    fn write<'v>(&self, notation: Notation, value: &Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let (written, flags) = plain::dump(notation, value)?;
        Ok((Encoded::owned(written), flags))
    }

    fn dump<'v>(&self, value: &Bound<'v, PyAny>) -> PyResult<(Encoded<'v>, u32)> {
        let dumped = self.dump.bind(value.py()).call1((value,))?;
        let (bytes, flags) = dumped.extract::<(Bound<'v, PyBytes>, u32)>().map_err(|_: PyErr| {
            exception(
                value.py(),
                ErrorKind::UnsupportedType,
                "a serializer's dump must return (bytes, flags), flags being 32 bits",
            )
        })?;
        Ok((Encoded::Dumped(bytes), flags))
    }

    /// The value that the bytes and client flags of a reply stand for. `server`: the name of the one that has it.
    pub(crate) fn decode<'py>(
        &self,
        py: Python<'py>,
        head: &Head,
        value: Value<'_>,
        server: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.read(py, head.item.client_flags, value) {
            Ok(value) => Ok(value),
            Err(error) => Err(stored_on(py, error, server)),
        }
    }

    fn read<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        match (&self.kind, flags) {
            (Kind::Plain, TEXT) => decode_text(py, value.bytes()),
            (Kind::Plain, INTEGER | INTEGER_OF_PYLIBMC) => decode_integer(py, value.bytes()),
            (Kind::Plain, BYTES) => Ok(into_bytes(py, value).into_any()),
            (Kind::Raw, flags) if flags < COMPRESSED => Ok(into_bytes(py, value).into_any()),
            _ => self.read_other(py, flags, value),
        }
    }

    #[inline(never)]
    fn read_other<'py>(&self, py: Python<'py>, flags: u32, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
        let dialect = self.packing.dialect();
        // The flags of a serializer of the user's are its own, unless compression is asked for, too.
        let knows = self.packing.is_set() || !matches!(self.kind, Kind::Custom);
        if knows && dialect.is_compressed(flags) {
            let bytes = unpack(py, &self.packing, flags, value.bytes())?;
            return self.read(py, dialect.inside(flags), Value::Borrowed(&bytes));
        }
        match (&self.kind, self.notation) {
            (Kind::Foreign(foreign), _) => foreign.decode(py, flags, value),
            (Kind::Plain, Some(notation)) => plain::read(py, notation, flags, value.bytes()),
            (Kind::Raw, _) => Ok(into_bytes(py, value).into_any()),
            (Kind::Plain | Kind::Custom, _) => self.load.bind(py).call1((into_bytes(py, value), flags)),
        }
    }
}

/// Where a large value goes: straight into a bytes object where that is what it will be, else into a buffer.
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

fn digits(integer: &Bound<'_, PyInt>) -> PyResult<Vec<u8>> {
    Ok(match integer.extract::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => integer.str()?.to_str()?.to_owned(),
    }
    .into_bytes())
}
