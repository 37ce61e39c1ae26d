//! Turns arrived bytes into values, without reading a byte twice.

use super::line::{check_type, parse, Aggregate, Bulk, Line, MAX_LINE};
use super::value::{Decoded, ServerError, Value};
use crate::Malformed;

/// The most memory allocated before the bytes arrive: announcing a length costs a server nothing.
const BYTES_AHEAD: usize = 64 * 1024;
const VALUES_AHEAD: usize = 64;

/// The limits of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The total size of its strings in bytes.
    pub bulk: usize,
    /// The number of values on all levels.
    pub elements: usize,
    /// The nesting depth; at most [`Self::MOST_DEPTH`].
    pub depth: usize,
}

impl Limits {
    /// Values of this depth can be dropped and compared even on a small stack.
    pub const MOST_DEPTH: usize = 128;
}

impl Default for Limits {
    fn default() -> Self {
        Self { bulk: 64 << 20, elements: 1 << 20, depth: 32 }
    }
}

/// Reads one value after another, and keeps the part of an incomplete one.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    limits: Limits,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    string: Option<Unfinished>,
    /// The open collections, innermost last.
    open: Vec<Open>,
    /// How much of the limits the current reply has used.
    bytes: usize,
    elements: usize,
}

/// A string of which at least the `\r\n` is missing.
#[derive(Clone, Debug)]
struct Unfinished {
    kind: Bulk,
    length: usize,
    bytes: Vec<u8>,
    /// Whether the `\r` after it has arrived.
    returned: bool,
}

#[derive(Clone, Debug)]
struct Open {
    kind: Aggregate,
    /// The number of missing values.
    missing: usize,
    values: Vec<Value>,
}

/// The progress of reading.
enum Next {
    Value(Value),
    /// Progress: continue.
    Again,
    /// More bytes must arrive first.
    Wait,
}

impl Reader {
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reads up to the end of one value. Returns the number of bytes taken, which must not be passed again, and the
    /// value if it is complete. It returns `None` only after taking all bytes. An error is final, because the start of
    /// the next value is unknown.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Decoded>), Malformed> {
        if self.is_between_values() {
            if let Some((taken, number)) = whole_integer(bytes) {
                return Ok((taken, Some(Decoded::Reply(Value::Integer(number)))));
            }
        }
        let mut rest = bytes;
        loop {
            let step = match &self.string {
                Some(_) => self.read_string(&mut rest)?,
                None => self.read_line(&mut rest)?,
            };
            let decoded = match step {
                Next::Value(value) => self.add(value),
                Next::Again => None,
                Next::Wait => return Ok((bytes.len(), None)),
            };
            if decoded.is_some() {
                self.bytes = 0;
                self.elements = 0;
                return Ok((bytes.len() - rest.len(), decoded));
            }
        }
    }

    /// Whether no part of an incomplete value has arrived.
    pub fn is_between_values(&self) -> bool {
        self.line.is_empty() && self.string.is_none() && self.open.is_empty() && self.elements == 0
    }

    fn read_line(&mut self, rest: &mut &[u8]) -> Result<Next, Malformed> {
        if rest.is_empty() {
            return Ok(Next::Wait);
        }
        if self.line.is_empty() {
            check_type(rest)?;
        }
        if self.line.last() == Some(&b'\r') {
            return self.end_line(rest);
        }
        let found = memchr::memchr2(b'\r', b'\n', rest);
        let end = found.unwrap_or(rest.len());
        if self.line.len() + end > MAX_LINE {
            let begun = self.line.iter().chain(*rest).copied().take(MAX_LINE).collect::<Vec<u8>>();
            return Err(Malformed::new("a line has no end", &begun));
        }
        if self.line.is_empty() && rest[end..].starts_with(b"\r\n") {
            let line = parse(&rest[..end])?;
            *rest = &rest[end + 2..];
            return self.take(line);
        }
        let kept = end + usize::from(rest.get(end) == Some(&b'\r'));
        self.line.extend_from_slice(&rest[..kept]);
        *rest = &rest[kept..];
        match found {
            Some(_) => self.end_line(rest),
            None => Ok(Next::Wait),
        }
    }

    /// Reads the `\n` at the end of a line that arrived in pieces.
    fn end_line(&mut self, rest: &mut &[u8]) -> Result<Next, Malformed> {
        let Some((first, after)) = rest.split_first() else { return Ok(Next::Wait) };
        let Some(line) = self.line.strip_suffix(b"\r").filter(|_| *first == b'\n') else {
            return Err(Malformed::new("a line does not end in \\r\\n", &self.line));
        };
        let line = parse(line)?;
        self.line.clear();
        self.line.shrink_to(BYTES_AHEAD);
        *rest = after;
        self.take(line)
    }

    fn take(&mut self, line: Line) -> Result<Next, Malformed> {
        match line {
            Line::Whole(value) => {
                self.count_bytes(length_of(&value))?;
                Ok(Next::Value(value))
            }
            Line::Bulk(kind, length) => {
                self.count_bytes(length)?;
                if kind == Bulk::Verbatim && length < 4 {
                    return Err(Malformed::new("a verbatim string without a format", format!("={length}").as_bytes()));
                }
                self.string = Some(Unfinished { kind, length, bytes: Vec::new(), returned: false });
                Ok(Next::Again)
            }
            Line::Aggregate(kind, count) => self.open(kind, count),
        }
    }

    fn open(&mut self, kind: Aggregate, count: usize) -> Result<Next, Malformed> {
        let heads = usize::from(kind == Aggregate::Attribute);
        self.elements = self.elements.saturating_add(count).saturating_add(heads);
        if self.elements > self.limits.elements {
            let limit = format!("{} values, the limit is {}", self.elements, self.limits.elements);
            return Err(Malformed::new("a reply has too many values", limit.as_bytes()));
        }
        if self.open.len() >= self.limits.depth.min(Limits::MOST_DEPTH) {
            let limit = format!("{} levels", self.open.len() + 1);
            return Err(Malformed::new("a reply is nested too deeply", limit.as_bytes()));
        }
        if kind == Aggregate::Push && !self.open.is_empty() {
            return Err(Malformed::new("a push inside a reply", format!(">{count}").as_bytes()));
        }
        if kind == Aggregate::Push && count == 0 {
            return Err(Malformed::new("a push without a kind", b">0"));
        }
        let values = Vec::with_capacity(count.min(VALUES_AHEAD));
        let open = Open { kind, missing: count, values };
        if count > 0 {
            self.open.push(open);
            return Ok(Next::Again);
        }
        Ok(match open.close() {
            Some(value) => Next::Value(value),
            None => Next::Again,
        })
    }

    fn read_string(&mut self, rest: &mut &[u8]) -> Result<Next, Malformed> {
        let Some(string) = &mut self.string else { return Ok(Next::Again) };
        string.fill(rest);
        if string.bytes.len() < string.length {
            return Ok(Next::Wait);
        }
        for expected in b"\r\n" {
            if *expected == b'\r' && string.returned {
                continue;
            }
            match rest.split_first() {
                None => return Ok(Next::Wait),
                Some((byte, after)) if byte == expected => *rest = after,
                Some(_) => return Err(Malformed::new("a string is longer than its length says", rest)),
            }
            string.returned = true;
        }
        let (kind, bytes) = (string.kind, std::mem::take(&mut string.bytes));
        self.string = None;
        let value = match kind {
            Bulk::String => Value::Bytes(bytes.into()),
            Bulk::Error => Value::Error(ServerError::parse(&bytes)),
            Bulk::Verbatim if bytes[3] == b':' => Value::Bytes(bytes[4..].into()),
            Bulk::Verbatim => return Err(Malformed::new("a verbatim string without a format", &bytes)),
        };
        Ok(Next::Value(value))
    }

    /// Adds a value to the innermost collection. Returns what is complete now.
    fn add(&mut self, mut value: Value) -> Option<Decoded> {
        loop {
            let Some(open) = self.open.last_mut() else { return Some(Decoded::Reply(value)) };
            open.missing -= 1;
            if open.kind != Aggregate::Attribute {
                open.values.push(value);
            }
            if open.missing > 0 {
                return None;
            }
            let whole = self.open.pop()?;
            if whole.kind == Aggregate::Push {
                return Some(Decoded::Push(whole.values));
            }
            value = whole.close()?;
        }
    }

    fn count_bytes(&mut self, length: usize) -> Result<(), Malformed> {
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes <= self.limits.bulk {
            return Ok(());
        }
        let limit = format!("{} bytes, the limit is {}", self.bytes, self.limits.bulk);
        Err(Malformed::new("a reply is too large", limit.as_bytes()))
    }
}

impl Unfinished {
    /// Takes its bytes. Memory grows as bytes arrive, and ends at the length of the string.
    fn fill(&mut self, rest: &mut &[u8]) {
        let missing = self.length - self.bytes.len();
        let (own, after) = rest.split_at(missing.min(rest.len()));
        if self.bytes.capacity() - self.bytes.len() < own.len() {
            let ahead = own.len().max(self.bytes.len()).max(BYTES_AHEAD);
            self.bytes.reserve_exact(ahead.min(missing));
        }
        self.bytes.extend_from_slice(own);
        *rest = after;
    }
}

impl Open {
    /// The complete value; an attribute gives none.
    fn close(self) -> Option<Value> {
        match self.kind {
            Aggregate::Array | Aggregate::Push => Some(Value::Array(self.values)),
            Aggregate::Set => Some(Value::Set(self.values)),
            Aggregate::Attribute => None,
            Aggregate::Map => {
                let mut pairs = Vec::with_capacity(self.values.len() / 2);
                let mut values = self.values.into_iter();
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Some(Value::Map(pairs))
            }
        }
    }
}

/// The integer at the beginning, and its length in bytes: scripts answer with little else. `None` for anything else,
/// including an incomplete integer and one with unusually many digits.
fn whole_integer(bytes: &[u8]) -> Option<(usize, i64)> {
    const DIGITS: usize = 18;
    let (negative, digits) = match bytes {
        [b':', b'-', digits @ ..] => (true, digits),
        [b':', digits @ ..] => (false, digits),
        _ => return None,
    };
    let (mut number, mut count) = (0, 0);
    for byte in &digits[..digits.len().min(DIGITS)] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + i64::from(digit);
        count += 1;
    }
    if count == 0 || !digits[count..].starts_with(b"\r\n") {
        return None;
    }
    Some((count + usize::from(negative) + 3, if negative { -number } else { number }))
}

/// The memory that a value of one line keeps, in bytes.
fn length_of(value: &Value) -> usize {
    match value {
        Value::Status(text) | Value::BigNumber(text) => text.len(),
        Value::Error(error) => error.code.len() + error.message.len(),
        _ => 0,
    }
}
