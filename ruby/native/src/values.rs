//! Converts values to bytes and client flags, and back.

use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Integer, Module, RModule, RString, Ruby, Symbol, TryConvert, Value};
use pinyon_cache::dialect::{
    unknown_flags, Dialect, Form, HostType, JsonWriter, MessagePackWriter, Notation, Packing, Plain, PlainSerializer,
    TreeWriter, ValueError, BYTES, INTEGER, INTEGER_OF_PYLIBMC, RUBY_MARSHAL, TEXT,
};
use pinyon_cache::operations::{Bytes, Mode};
use pinyon_cache::Data;

use crate::errors::{checked, exception, is_unreadable, of_value, own, unsupported, ErrorKind};
use crate::objects::{class_name, integer, is_exactly, load, truth, write, Failed};
use crate::texts::{self, StringKind};

/// Dalli's flag for a value that Ruby's Marshal has written.
const DALLI_MARSHAL: u32 = 1;

/// How a client converts values.
pub(crate) struct Codec {
    kind: Kind,
    packing: Packing,
}

enum Kind {
    /// Only bytes, whatever the flags.
    Raw,
    /// Strings and Integers here, plain data by the core's serializer.
    Plain(PlainSerializer),
    /// Strings and Integers here, everything else by Ruby's Marshal.
    Marshal,
    /// Everything by an object with `dump` and `load`.
    Custom(Opaque<Value>),
    /// In another client's dialect; with Ruby's Marshal for objects if the user asked for it.
    Foreign(Foreign),
}

/// A value ready to be sent.
pub(crate) enum Encoded {
    /// A frozen String: nobody changes its bytes.
    String(RString),
    Owned(Vec<u8>),
}

impl Encoded {
    /// The bytes, for as long as the value stays on the stack of the thread that waits.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the String is frozen, so its bytes do not change. It is referred to from the stack, so it is
            // neither collected nor moved.
            Encoded::String(string) => unsafe { string.as_slice() },
            Encoded::Owned(bytes) => bytes,
        }
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data::Copied(self.bytes())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Encoded::Owned(bytes) => bytes,
            string => string.bytes().to_vec(),
        }
    }

    /// Keeps the String in place until here.
    pub(crate) fn stayed(&self) {
        std::hint::black_box(self);
    }
}

impl Codec {
    /// `serializer`: a name, or an object with `dump` and `load`.
    pub(crate) fn new(ruby: &Ruby, serializer: Value, packing: Packing) -> Result<Self, Error> {
        let dialect = packing.dialect();
        let name = match serializer.is_nil() {
            true => Some("portable".to_owned()),
            false => {
                Symbol::from_value(serializer).map(|name| name.name().map(|name| name.into_owned())).transpose()?
            }
        };
        let kind = match (name.as_deref(), dialect) {
            (Some("portable"), Dialect::Pinyon) => Kind::Plain(PlainSerializer::Portable),
            (Some("json"), Dialect::Pinyon) => Kind::Plain(PlainSerializer::Json),
            (Some("raw"), Dialect::Pinyon) => Kind::Raw,
            (Some("marshal"), Dialect::Pinyon) => Kind::Marshal,
            (Some("portable"), dialect) => Kind::Foreign(Foreign { dialect, marshals: false }),
            (Some("marshal"), Dialect::Dalli) => Kind::Foreign(Foreign { dialect, marshals: true }),
            (Some(name), Dialect::Pinyon) => {
                let message = format!("there is no serializer :{name}; there are :portable, :raw, :json and :marshal");
                return Err(exception(ruby, ErrorKind::UsageError, &message));
            }
            (None, Dialect::Pinyon)
                if serializer.respond_to("dump", false)? && serializer.respond_to("load", false)? =>
            {
                Kind::Custom(serializer.into())
            }
            (None, Dialect::Pinyon) => {
                let expected = "a serializer is a Symbol, or an object with dump and load";
                return Err(unsupported(ruby, expected, serializer));
            }
            _ => {
                let name = dialect.name();
                let message = format!("the dialect {name:?} says how values are stored: leave serializer out");
                return Err(exception(ruby, ErrorKind::UsageError, &message));
            }
        };
        Ok(Self { kind, packing })
    }

    /// The serializer object, for the garbage collector.
    pub(crate) fn object(&self) -> Option<Opaque<Value>> {
        match self.kind {
            Kind::Custom(serializer) => Some(serializer),
            _ => None,
        }
    }

    /// The bytes of a value and its client flags.
    #[inline]
    pub(crate) fn encode(&self, ruby: &Ruby, value: Value) -> Result<(Encoded, u32), Error> {
        match self.packing.compresses() {
            false => self.serialize(ruby, value),
            true => self.compress(ruby, value),
        }
    }

    /// The same, for this mode of storing.
    pub(crate) fn encode_for(&self, ruby: &Ruby, mode: Mode, value: Value) -> Result<(Encoded, u32), Error> {
        if !matches!(mode, Mode::Append | Mode::Prepend) {
            return self.encode(ruby, value);
        }
        checked(ruby, self.packing.check_append())?;
        match (&self.kind, RString::from_value(value)) {
            (Kind::Custom(_), _) => self.serialize(ruby, value),
            (Kind::Foreign(_), Some(piece)) => Ok((Encoded::String(RString::new_frozen(piece)), 0)),
            (_, Some(_)) => self.serialize(ruby, value),
            (_, None) => Err(unsupported(ruby, "append and prepend take a String", value)),
        }
    }

    /// The flags with which a counter reads as an integer; 0 if this client does not store integers as digits.
    pub(crate) fn counter_flags(&self, number: u64) -> u32 {
        let dialect = match self.kind {
            Kind::Plain(_) | Kind::Marshal => Dialect::Pinyon,
            Kind::Foreign(Foreign { dialect, .. }) => dialect,
            Kind::Raw | Kind::Custom(_) => return BYTES,
        };
        match i64::try_from(number).map(|number| dialect.encode(&Plain::Integer(number))) {
            Ok(Ok((bytes, flags))) if bytes == number.to_string().as_bytes() => flags,
            _ => BYTES,
        }
    }

    #[inline(never)]
    fn compress(&self, ruby: &Ruby, value: Value) -> Result<(Encoded, u32), Error> {
        let (encoded, flags) = self.serialize(ruby, value)?;
        match checked(ruby, self.packing.pack(encoded.bytes(), flags))? {
            None => Ok((encoded, flags)),
            Some((stored, flags)) => Ok((Encoded::Owned(stored), flags)),
        }
    }

    fn serialize(&self, ruby: &Ruby, value: Value) -> Result<(Encoded, u32), Error> {
        match &self.kind {
            Kind::Custom(serializer) => return dump_by(ruby, ruby.get_inner(*serializer), value),
            Kind::Foreign(foreign) => return foreign.encode(ruby, value),
            Kind::Raw | Kind::Plain(_) | Kind::Marshal => {}
        }
        let string = RString::from_value(value);
        if matches!(self.kind, Kind::Raw) {
            let bytes = string.ok_or_else(|| unsupported(ruby, "the serializer :raw takes Strings", value))?;
            return Ok((Encoded::String(RString::new_frozen(bytes)), BYTES));
        }
        if let Some(string) = string.filter(|_| is_exactly(value, ruby.class_string())) {
            let flags = match (texts::kind_of(ruby, string), &self.kind) {
                (Ok(StringKind::Text), _) => TEXT,
                (Ok(StringKind::Bytes), _) => BYTES,
                (Err(_), Kind::Marshal) => return Ok((marshal(ruby, value)?, RUBY_MARSHAL)),
                (Err(refused), _) => return Err(refused),
            };
            return Ok((Encoded::String(RString::new_frozen(string)), flags));
        }
        if let Some(number) = Integer::from_value(value) {
            return Ok((Encoded::Owned(digits(number)?), INTEGER));
        }
        match self.kind {
            Kind::Plain(plain) => write_plain(ruby, plain, value),
            _ => Ok((marshal(ruby, value)?, RUBY_MARSHAL)),
        }
    }

    /// The value with these bytes and client flags.
    #[inline]
    pub(crate) fn decode(&self, ruby: &Ruby, Bytes { bytes, client_flags }: Bytes) -> Result<Value, Error> {
        match self.string(ruby, &bytes, client_flags) {
            Some(string) => Ok(string),
            None => self.decode_other(ruby, &bytes, client_flags),
        }
    }

    /// The same, if it is a String that can be made without calling Ruby's methods.
    #[inline(always)]
    pub(crate) fn string(&self, ruby: &Ruby, bytes: &[u8], flags: u32) -> Option<Value> {
        match (&self.kind, flags) {
            (Kind::Plain(_) | Kind::Marshal, BYTES) => Some(ruby.str_from_slice(bytes).as_value()),
            (Kind::Plain(_) | Kind::Marshal, TEXT) if std::str::from_utf8(bytes).is_ok() => {
                Some(texts::text(ruby, bytes).as_value())
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn decode_other(&self, ruby: &Ruby, bytes: &[u8], flags: u32) -> Result<Value, Error> {
        let dialect = self.packing.dialect();
        // A user's serializer defines its own flags, unless compression is enabled.
        let knows = self.packing.is_set() || !matches!(self.kind, Kind::Custom(_));
        if knows && dialect.is_compressed(flags) {
            let bytes = checked(ruby, self.packing.unpack(flags, bytes))?;
            return self.decode(ruby, Bytes { bytes, client_flags: dialect.inside(flags) });
        }
        match (&self.kind, flags) {
            (Kind::Raw, _) => Ok(ruby.str_from_slice(bytes).as_value()),
            (Kind::Custom(serializer), flags) => {
                ruby.get_inner(*serializer).funcall("load", (ruby.str_from_slice(bytes), flags))
            }
            (Kind::Foreign(foreign), flags) => foreign.decode(ruby, flags, bytes),
            (_, TEXT) => text(ruby, bytes),
            (_, INTEGER | INTEGER_OF_PYLIBMC) => number(ruby, bytes),
            (Kind::Marshal, RUBY_MARSHAL) => unmarshal(ruby, bytes),
            (Kind::Marshal, _) => checked(ruby, Err(unknown_flags("marshal", flags))),
            (Kind::Plain(plain), _) => load(ruby, checked(ruby, plain.reads(flags))?, bytes),
        }
    }
}

/// The values of another client's dialect. `marshals`: by Ruby's Marshal, which the user asked for.
struct Foreign {
    dialect: Dialect,
    marshals: bool,
}

impl Foreign {
    fn encode(&self, ruby: &Ruby, value: Value) -> Result<(Encoded, u32), Error> {
        if self.marshals {
            return Ok((marshal(ruby, value)?, DALLI_MARSHAL));
        }
        let kind = Self::kind(ruby, value)?;
        let Some((form, flags)) = self.dialect.write(kind) else { return Err(self.refuse(ruby, value, "")) };
        if let (Form::Bytes | Form::Text, Some(string)) = (form, RString::from_value(value)) {
            return Ok((Encoded::String(RString::new_frozen(string)), flags));
        }
        let plain = match Integer::from_value(value) {
            Some(number) => integer(number).map_err(Failed::Raised),
            None => write(ruby, value, TreeWriter::default()),
        };
        let written = match plain {
            Ok(plain) => self.dialect.encode_as(form, &plain),
            Err(Failed::Why(what)) => Err(format!("it contains {what}")),
            Err(Failed::Raised(raised)) => return Err(raised),
        };
        match written {
            Ok(written) => Ok((Encoded::Owned(written), flags)),
            Err(why) => Err(self.refuse(ruby, value, &format!(": {why}"))),
        }
    }

    #[cold]
    fn refuse(&self, ruby: &Ruby, value: Value, why: &str) -> Error {
        of_value(ruby, &self.dialect.refuse(&class_name(value), why, None))
    }

    fn decode(&self, ruby: &Ruby, flags: u32, bytes: &[u8]) -> Result<Value, Error> {
        match checked(ruby, self.dialect.form(flags))? {
            Form::Bytes => Ok(ruby.str_from_slice(bytes).as_value()),
            Form::Text => text(ruby, bytes),
            Form::Integer => number(ruby, bytes),
            Form::Notation(Notation::Ruby) if self.marshals => unmarshal(ruby, bytes),
            Form::Notation(notation) => load(ruby, notation, bytes),
            form @ (Form::Float | Form::Bool) => Ok(match checked(ruby, form.decode(bytes))? {
                Plain::Float(number) => ruby.float_from_f64(number).as_value(),
                Plain::Bool(true) => ruby.qtrue().as_value(),
                _ => ruby.qfalse().as_value(),
            }),
            Form::Pickle => checked(ruby, Err(ValueError::pickled(flags, false))),
        }
    }

    fn kind(ruby: &Ruby, value: Value) -> Result<HostType, Error> {
        if let Some(string) = RString::from_value(value) {
            return Ok(match texts::kind_of(ruby, string)? {
                StringKind::Text => HostType::Text,
                StringKind::Bytes => HostType::Bytes,
            });
        }
        Ok(match value {
            number if Integer::from_value(number).is_some() => HostType::Integer,
            number if magnus::Float::from_value(number).is_some() => HostType::Float,
            truthful if truth(truthful).is_some() => HostType::Bool,
            list if list.is_nil() || is_exactly(list, ruby.class_array()) || is_exactly(list, ruby.class_hash()) => {
                HostType::Plain
            }
            _ => HostType::Object,
        })
    }
}

#[inline(never)]
fn write_plain(ruby: &Ruby, serializer: PlainSerializer, value: Value) -> Result<(Encoded, u32), Error> {
    let (notation, flags) = serializer.writes();
    let written = match notation {
        Notation::Json => write(ruby, value, JsonWriter::default()),
        _ => write(ruby, value, MessagePackWriter::default()),
    };
    match written {
        Ok(written) => Ok((Encoded::Owned(written), flags)),
        Err(Failed::Raised(raised)) => Err(raised),
        Err(Failed::Why(what)) => Err(refuse(ruby, serializer, &what)),
    }
}

#[cold]
fn refuse(ruby: &Ruby, serializer: PlainSerializer, what: &str) -> Error {
    let takes = match serializer {
        PlainSerializer::Json => {
            "true, false, nil, Float, String, Integer of up to 64 bits, Array and Hash with String keys"
        }
        PlainSerializer::Portable => {
            "String, Integer of up to 64 bits, true, false, nil, Float, Array, Hash, Time and DateTime"
        }
    };
    let message = format!(
        "the serializer :{} does not take {what}, which other languages would read as something else; nested, it takes {takes}. \
         For other classes make the client with serializer: :marshal (safe only where nobody else can write to the cache) \
         or an object with dump and load",
        serializer.name()
    );
    exception(ruby, ErrorKind::UnsupportedType, &message)
}

fn dump_by(ruby: &Ruby, serializer: Value, value: Value) -> Result<(Encoded, u32), Error> {
    let dumped: Value = serializer.funcall("dump", (value,))?;
    let wrong = |_: Error| {
        exception(
            ruby,
            ErrorKind::UnsupportedType,
            "a serializer's dump must return [bytes, flags], flags being 32 bits",
        )
    };
    let (bytes, flags) = <(RString, u32)>::try_convert(dumped).map_err(wrong)?;
    Ok((Encoded::String(RString::new_frozen(bytes)), flags))
}

fn marshal(ruby: &Ruby, value: Value) -> Result<Encoded, Error> {
    let module: RModule = ruby.class_object().const_get("Marshal")?;
    match module.funcall::<_, _, RString>("dump", (value,)) {
        Ok(dumped) => Ok(Encoded::String(RString::new_frozen(dumped))),
        Err(refused) if refused.is_kind_of(ruby.exception_type_error()) => {
            let message = format!("Ruby's Marshal cannot write the value: {refused}");
            Err(exception(ruby, ErrorKind::Unpicklable, &message))
        }
        Err(raised) => Err(raised),
    }
}

fn unmarshal(ruby: &Ruby, bytes: &[u8]) -> Result<Value, Error> {
    let module: RModule = ruby.class_object().const_get("Marshal")?;
    let stored = ruby.str_from_slice(bytes);
    module.funcall("load", (stored,)).map_err(|raised| {
        let is_own = own(ruby, &raised).is_ok_and(|own| own.is_some());
        match !is_own && is_unreadable(ruby, &raised).unwrap_or(false) {
            true => exception(
                ruby,
                ErrorKind::UndecodableValue,
                &format!("the stored value cannot be read by Marshal: {raised}"),
            ),
            false => raised,
        }
    })
}

#[inline]
fn text(ruby: &Ruby, bytes: &[u8]) -> Result<Value, Error> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(texts::text(ruby, bytes).as_value()),
        Err(error) => Err(of_value(ruby, &ValueError::misread("text", error))),
    }
}

/// After `decr` shortens a number, the server pads it with spaces.
fn number(ruby: &Ruby, bytes: &[u8]) -> Result<Value, Error> {
    let misread = |why: &str| of_value(ruby, &ValueError::misread("an integer", why));
    let text = std::str::from_utf8(bytes).map_err(|error| misread(&error.to_string()))?.trim_end();
    if let Ok(number) = text.parse::<i64>() {
        return Ok(ruby.integer_from_i64(number).as_value());
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => ruby.str_new(text).funcall("to_i", ()),
        false => Err(misread("it is not a number")),
    }
}

fn digits(number: Integer) -> Result<Vec<u8>, Error> {
    match number.to_i64() {
        Ok(number) => Ok(number.to_string().into_bytes()),
        Err(_) => number.funcall::<_, _, String>("to_s", ()).map(String::into_bytes),
    }
}
