//! Language-neutral data, for reading and writing the notations of other languages.
//!
//! Small readers read Ruby's Marshal, Perl's Storable, PHP's serialize and Python's marshal into this: the languages'
//! own readers make objects, and so run code. A reference to an earlier part is read again, within a budget of parts,
//! bytes and depth.

use super::date_time::{DateTime, Instant};
use super::parts::{Part, NOT_UTF8};
use super::HostType;

/// A value of plain data: no objects of classes, and nothing that runs code.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer too large for `Integer`: its absolute value, least significant byte first.
    Big {
        negative: bool,
        magnitude: Vec<u8>,
    },
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    /// Text in another encoding than UTF-8, and the name that its language has for the encoding.
    Encoded(Vec<u8>, String),
    DateTime(DateTime),
    Instant(Instant),
    List(Vec<Plain>),
    /// An immutable list, in languages that have them.
    Tuple(Vec<Plain>),
    /// In the order of the stored value.
    Map(Vec<(Plain, Plain)>),
}

impl Plain {
    /// A string from a language that does not mark text: it is text if it is valid UTF-8.
    pub(super) fn string(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Plain::Text(text.to_owned()),
            Err(_) => Plain::Bytes(bytes.to_vec()),
        }
    }

    /// An integer in its simplest form. `magnitude`: its absolute value, least significant byte first.
    pub(super) fn integer(negative: bool, magnitude: &[u8]) -> Self {
        let significant = magnitude.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if significant <= 8 {
            let mut bytes = [0; 8];
            bytes[..significant].copy_from_slice(&magnitude[..significant]);
            let value = i128::from(u64::from_le_bytes(bytes));
            if let Ok(value) = i64::try_from(if negative { -value } else { value }) {
                return Plain::Integer(value);
            }
        }
        Plain::Big { negative, magnitude: magnitude[..significant].to_vec() }
    }

    /// Its name in messages that refuse it.
    pub(super) fn described(&self) -> &'static str {
        self.part().kind()
    }

    /// The host type that corresponds to it.
    pub fn kind(&self) -> HostType {
        match self {
            Plain::Bytes(_) => HostType::Bytes,
            Plain::Text(_) => HostType::Text,
            Plain::Integer(_) | Plain::Big { .. } => HostType::Integer,
            Plain::Bool(_) => HostType::Bool,
            Plain::Float(_) => HostType::Float,
            _ => HostType::Plain,
        }
    }

    /// Its first part.
    pub fn part(&self) -> Part<'_> {
        match self {
            Plain::Null => Part::Null,
            Plain::Bool(truth) => Part::Bool(*truth),
            Plain::Integer(number) => Part::Integer(*number),
            Plain::Big { negative, magnitude } => big(*negative, magnitude),
            Plain::Float(number) => Part::Float(*number),
            Plain::Bytes(bytes) => Part::Bytes(bytes),
            Plain::Text(text) => Part::Text(text),
            Plain::Encoded(bytes, encoding) => Part::Encoded(bytes, encoding),
            Plain::DateTime(date_time) => Part::DateTime(*date_time),
            Plain::Instant(instant) => Part::Instant(*instant),
            Plain::List(items) => Part::List(items.len()),
            Plain::Tuple(items) => Part::Tuple(items.len()),
            Plain::Map(pairs) => Part::Map(pairs.len()),
        }
    }
}

fn big(negative: bool, magnitude: &[u8]) -> Part<'_> {
    let mut bytes = [0; 8];
    match (negative, bytes.get_mut(..magnitude.len())) {
        (false, Some(room)) => {
            room.copy_from_slice(magnitude);
            Part::Unsigned(u64::from_le_bytes(bytes))
        }
        _ => Part::Big { negative, magnitude },
    }
}

/// Lists and maps begin empty.
impl TryFrom<Part<'_>> for Plain {
    type Error = &'static str;

    fn try_from(part: Part<'_>) -> Result<Self, &'static str> {
        Ok(match part {
            Part::Null | Part::End => Plain::Null,
            Part::Bool(truth) => Plain::Bool(truth),
            Part::Integer(number) => Plain::Integer(number),
            Part::Unsigned(number) => Plain::integer(false, &number.to_le_bytes()),
            Part::Big { negative, magnitude } => Plain::integer(negative, magnitude),
            Part::Float(number) => Plain::Float(number),
            Part::Bytes(bytes) => Plain::Bytes(bytes.to_vec()),
            Part::Text(text) => Plain::Text(text.to_owned()),
            Part::Utf8(bytes) => Plain::Text(std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)?.to_owned()),
            Part::Encoded(bytes, encoding) => Plain::Encoded(bytes.to_vec(), encoding.to_owned()),
            Part::DateTime(date_time) => Plain::DateTime(date_time),
            Part::Instant(instant) => Plain::Instant(instant),
            Part::List(_) => Plain::List(Vec::new()),
            Part::Tuple(_) => Plain::Tuple(Vec::new()),
            Part::Map(_) => Plain::Map(Vec::new()),
        })
    }
}
