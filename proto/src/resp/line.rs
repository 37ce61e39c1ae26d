//! Lines: each is a short value, or the head of a longer one.

use super::value::{ServerError, Value};
use crate::number::{signed, unsigned};
use crate::Malformed;

/// The longest line without its `\r\n`: an error message or a number of many digits.
pub const MAX_LINE: usize = 64 * 1024;

/// The meaning of a line.
pub(super) enum Line {
    Whole(Value),
    /// So many bytes and a `\r\n` follow.
    Bulk(Bulk, usize),
    /// So many values follow.
    Aggregate(Aggregate, usize),
}

/// The meaning of the bytes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bulk {
    String,
    /// A format of three letters, a colon, and a string.
    Verbatim,
    Error,
}

/// The collection of the values after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Array,
    /// Keys and values alternately.
    Map,
    Set,
    Push,
    /// Keys and values alternately, about the value that follows them.
    Attribute,
}

/// Refuses bytes that no line begins with.
pub(super) fn check_type(bytes: &[u8]) -> Result<(), Malformed> {
    match bytes.first() {
        None | Some(b'+' | b'-' | b':' | b'$' | b'*' | b'_' | b'#' | b',' | b'(') => Ok(()),
        Some(b'!' | b'=' | b'%' | b'~' | b'>' | b'|') => Ok(()),
        Some(b';' | b'.') => Err(Malformed::new("a part of a streamed value, which is not taken", bytes)),
        Some(_) => Err(Malformed::new("unexpected reply", bytes)),
    }
}

/// Reads a line that [`check_type`] accepts, without its `\r\n`.
pub(super) fn parse(line: &[u8]) -> Result<Line, Malformed> {
    let (kind, text) = (line[0], &line[1..]);
    let whole = match kind {
        b'+' => Value::Status(text.into()),
        b'-' => Value::Error(ServerError::parse(text)),
        b':' => Value::Integer(integer(text).ok_or_else(|| Malformed::new("expected an integer", line))?),
        b',' => Value::Double(double(text).ok_or_else(|| Malformed::new("expected a double", line))?),
        b'(' if is_big_number(text) => Value::BigNumber(text.into()),
        b'(' => return Err(Malformed::new("expected a big number", line)),
        b'#' => match text {
            b"t" => Value::Boolean(true),
            b"f" => Value::Boolean(false),
            _ => return Err(Malformed::new("expected #t or #f", line)),
        },
        b'_' if text.is_empty() => Value::Null,
        b'_' => return Err(Malformed::new("expected nothing after a null", line)),
        b'$' | b'*' if text == b"-1" => Value::Null,
        b'$' => return Ok(Line::Bulk(Bulk::String, length(line)?)),
        b'!' => return Ok(Line::Bulk(Bulk::Error, length(line)?)),
        b'=' => return Ok(Line::Bulk(Bulk::Verbatim, length(line)?)),
        b'*' => return Ok(Line::Aggregate(Aggregate::Array, length(line)?)),
        b'~' => return Ok(Line::Aggregate(Aggregate::Set, length(line)?)),
        b'>' => return Ok(Line::Aggregate(Aggregate::Push, length(line)?)),
        b'%' => return Ok(Line::Aggregate(Aggregate::Map, length(line)?.saturating_mul(2))),
        _ => return Ok(Line::Aggregate(Aggregate::Attribute, length(line)?.saturating_mul(2))),
    };
    Ok(Line::Whole(whole))
}

fn length(line: &[u8]) -> Result<usize, Malformed> {
    if &line[1..] == b"?" {
        return Err(Malformed::new("a streamed value, which is not taken", line));
    }
    let length = unsigned(&line[1..]).and_then(|length| length.try_into().ok());
    length.ok_or_else(|| Malformed::new("a length is not a number", line))
}

fn integer(text: &[u8]) -> Option<i64> {
    signed(text).or_else(|| std::str::from_utf8(text).ok()?.parse().ok())
}

fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => Some(f64::NAN),
        _ if text.iter().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) => None,
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
