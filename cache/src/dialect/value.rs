//! Whole values in every dialect, as bytes and client flags, and the messages if that is impossible.

use std::fmt;

use super::portable::{digits, float, integer};
use super::{Dialect, Form, HostType, Notation, Plain, JSON, MESSAGEPACK, PICKLE, RUBY_MARSHAL};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::words::words;

/// Why a value cannot be stored or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
}

impl From<ValueError> for InvalidArgument {
    fn from(ValueError { kind, message }: ValueError) -> Self {
        Self { kind, message }
    }
}

impl ValueError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The stored value does not match its flags. `what`: the expected form, with its article.
    pub fn misread(what: &str, why: impl fmt::Display) -> Self {
        let message = format!("the stored value is marked as {what} by its flags but cannot be read as such: {why}");
        Self::new(ErrorKind::UndecodableValue, message)
    }

    /// The stored value is malformed in this notation, or is not plain data.
    pub fn unreadable(notation: Notation, why: impl fmt::Display) -> Self {
        let name = notation.name();
        let message = match notation {
            Notation::MessagePack | Notation::Json => {
                format!("the stored value is marked as {name} but cannot be read: {why}")
            }
            _ => format!(
                "the stored value is in {name}, of which Pinyon reads plain data: {why}; let its writer store plain data"
            ),
        };
        Self::new(ErrorKind::UndecodableValue, message)
    }

    /// The stored value is a pickle, and the client does not read pickles. `offered`: whether the host has a serializer
    /// for them.
    pub fn pickled(flags: u32, offered: bool) -> Self {
        let remedy = if offered {
            "; the serializer \"pickle\" reads it and runs code that its writer chose: use it only where nobody else can \
             write to the cache"
        } else {
            ", which only Python reads; let its writer store plain data"
        };
        let message = format!("the stored value is pickled (flags {flags}){remedy}");
        Self::new(ErrorKind::UnknownFlags, message)
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValueError {}

/// A serializer of Pinyon's own dialect that every language has. It writes only plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainSerializer {
    Portable,
    Json,
}

impl PlainSerializer {
    /// The serializer with this name in the settings.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Portable, Self::Json].into_iter().find(|serializer| serializer.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Json => "json",
        }
    }

    /// The notation and the flags that it writes.
    pub fn writes(self) -> (Notation, u32) {
        match self {
            Self::Portable => (Notation::MessagePack, MESSAGEPACK),
            Self::Json => (Notation::Json, JSON),
        }
    }

    /// The notation of a value with these flags, if this serializer reads it.
    pub fn reads(self, flags: u32) -> Result<Notation, ValueError> {
        match self.writes() {
            (notation, known) if known == flags => Ok(notation),
            _ => Err(unknown_flags(self.name(), flags)),
        }
    }
}

/// In Pinyon's own dialect, this serializer does not read values with these flags.
pub fn unknown_flags(serializer: &str, flags: u32) -> ValueError {
    let hint = match flags {
        PICKLE => "pickled, which only Python reads, with the serializer \"pickle\"",
        MESSAGEPACK => "MessagePack, which the serializer \"portable\" reads",
        JSON => "JSON, which the serializer \"json\" reads",
        RUBY_MARSHAL => "Ruby's Marshal, which only Ruby reads, with the serializer \"marshal\"",
        _ => "written by another client, whose values a client with its dialect reads",
    };
    let message =
        format!("the serializer \"{serializer}\" cannot read a value stored with flags {flags}: it is {hint}");
    ValueError::new(ErrorKind::UnknownFlags, message)
}

impl Dialect {
    /// The bytes and client flags of a value. Pinyon's own dialect uses the serializer `portable` here.
    pub fn encode(self, value: &Plain) -> Result<(Vec<u8>, u32), ValueError> {
        let Some((form, flags)) = self.write(value.kind()) else {
            return Err(self.refuse(value.described(), "", None));
        };
        let refuse = |why: String| self.refuse(value.described(), &format!(": {why}"), None);
        let encoded = self.encode_as(form, value).map_err(refuse)?;
        Ok((encoded, flags))
    }

    /// The same in JSON, as the serializer `json` of Pinyon's own dialect writes it.
    pub fn encode_json(value: &Plain) -> Result<(Vec<u8>, u32), ValueError> {
        if matches!(value.kind(), HostType::Bytes | HostType::Text | HostType::Integer) {
            return Dialect::Pinyon.encode(value);
        }
        let written = Notation::Json.write(value);
        Ok((written.map_err(|why| ValueError::new(ErrorKind::UnsupportedType, why))?, JSON))
    }

    /// The value with these bytes and flags, after it was [decompressed](Self::decompress).
    pub fn decode(self, flags: u32, bytes: &[u8]) -> Result<Plain, ValueError> {
        self.form(flags)?.decode(bytes)
    }

    /// The form of a value with these flags.
    pub fn form(self, flags: u32) -> Result<Form, ValueError> {
        self.read(flags).map_err(|why| {
            let name = self.name();
            let message = format!("the value is stored with flags {flags} in the dialect {name:?}, {why}");
            ValueError::new(ErrorKind::UnknownFlags, message)
        })
    }

    /// A value in a form that this dialect [writes](Self::write) for its kind. The error says why not.
    pub fn encode_as(self, form: Form, value: &Plain) -> Result<Vec<u8>, String> {
        let php = self == Dialect::PhpMemcached;
        Ok(match (form, value) {
            (Form::Notation(notation), value) => notation.write(value)?,
            (Form::Bytes, Plain::Bytes(bytes)) => bytes.clone(),
            (Form::Text, Plain::Text(text)) => text.clone().into_bytes(),
            (Form::Integer, Plain::Integer(number)) => number.to_string().into_bytes(),
            (Form::Integer, Plain::Big { .. }) if php => return Err("PHP has integers of up to 64 bits".to_owned()),
            (Form::Integer, Plain::Big { negative, magnitude }) => digits(*negative, magnitude).into_bytes(),
            (Form::Float, Plain::Float(number)) if php && number.is_nan() => b"NaN".to_vec(),
            (Form::Float, Plain::Float(f64::INFINITY)) if php => b"Infinity".to_vec(),
            (Form::Float, Plain::Float(f64::NEG_INFINITY)) if php => b"-Infinity".to_vec(),
            (Form::Float, Plain::Float(number)) => float(*number).into_bytes(),
            (Form::Bool, Plain::Bool(true)) => b"1".to_vec(),
            (Form::Bool, Plain::Bool(false)) if php => Vec::new(),
            (Form::Bool, Plain::Bool(false)) => b"0".to_vec(),
            (Form::Pickle, _) => return Err("it is neither text, bytes nor a number".to_owned()),
            _ => return Err(format!("it is {}", value.described())),
        })
    }

    /// The error for a value of the class `what` that cannot be stored. `why` is empty, or follows a colon. `pickles`:
    /// whether the client pickles values that have no other form; None where the host has no pickles.
    pub fn refuse(self, what: &str, why: &str, pickles: Option<bool>) -> ValueError {
        let may_pickle = self.write(HostType::Object).is_some();
        let remedy = match pickles {
            Some(false) if may_pickle => {
                "; its clients would pickle it, as the serializer \"pickle\" does (safe only where nobody else can write \
                 to the cache)"
                    .into()
            }
            None if may_pickle && self != Dialect::Pinyon => "; it takes text, bytes and numbers alone".into(),
            _ if why.is_empty() => format!("; it takes plain data: {}", words().plain),
            _ => String::new(),
        };
        let message = format!("the dialect {:?} does not take {what}{why}{remedy}", self.name());
        ValueError::new(ErrorKind::UnsupportedType, message)
    }

    /// Refuses pickles, unless its clients pickle values that have no other form.
    pub fn check_pickles(self) -> Result<(), ValueError> {
        if self.write(HostType::Object).is_some() {
            return Ok(());
        }
        let name = self.name();
        let message = format!("the clients of the dialect {name:?} do not read pickled values: leave serializer out");
        Err(ValueError::new(ErrorKind::UsageError, message))
    }

    /// The error for a serializer beside this dialect, which determines by itself how values are stored. `pickles`:
    /// whether the host has pickles, which its clients may write.
    pub fn has_serializer(self, pickles: bool) -> ValueError {
        let name = self.name();
        let remedy = if pickles { "beside it, serializer is \"pickle\" or left out" } else { "leave serializer out" };
        let message = format!("the dialect {name:?} says how values are stored: {remedy}");
        ValueError::new(ErrorKind::UsageError, message)
    }
}

impl Form {
    /// Reads a value in this form.
    pub fn decode(self, bytes: &[u8]) -> Result<Plain, ValueError> {
        match self {
            Form::Bytes => Ok(Plain::Bytes(bytes.to_vec())),
            Form::Text => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Plain::Text(text.to_owned())),
                Err(error) => Err(ValueError::misread("text", error)),
            },
            Form::Integer => number(bytes).ok_or_else(|| ValueError::misread("an integer", "it is not a number")),
            Form::Float => {
                let text = std::str::from_utf8(bytes).ok().map(str::trim);
                let number = text.and_then(|text| text.parse().ok()).map(Plain::Float);
                number.ok_or_else(|| ValueError::misread("a float", "it is not a number"))
            }
            Form::Bool => match bytes {
                b"1" => Ok(Plain::Bool(true)),
                b"0" | b"" => Ok(Plain::Bool(false)),
                _ => Err(ValueError::misread("a bool", "it is neither 0 nor 1")),
            },
            Form::Notation(notation) => notation.read(bytes).map_err(|why| ValueError::unreadable(notation, why)),
            Form::Pickle => Err(ValueError::pickled(PICKLE, false)),
        }
    }
}

/// After `decr` shortens a number, the server pads it with spaces.
fn number(bytes: &[u8]) -> Option<Plain> {
    let (negative, digits) = match bytes.trim_ascii_end() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    Some(Plain::integer(negative, &integer(digits)?))
}
