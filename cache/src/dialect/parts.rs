//! Values as sequences of parts: a reader produces the parts in order, and a writer takes them in the same order. So a
//! host converts values to and from its objects without a tree in between.

use std::fmt;

use super::date_time::{DateTime, Instant};

/// A part of a value. The items of a list or a map follow it, and then an `End`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'p> {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer too large for `Integer`.
    Unsigned(u64),
    /// An integer of more than 64 bits: its absolute value, least significant byte first.
    Big {
        negative: bool,
        magnitude: &'p [u8],
    },
    Float(f64),
    Bytes(&'p [u8]),
    Text(&'p str),
    /// Text as stored. It may be invalid UTF-8, which is found when a string is made from it. Writers refuse this part.
    Utf8(&'p [u8]),
    /// Text in another encoding than UTF-8, and the name that its language has for the encoding.
    Encoded(&'p [u8], &'p str),
    DateTime(DateTime),
    Instant(Instant),
    /// A list with so many items. Readers of notations without lengths say 0.
    List(usize),
    /// An immutable list, in languages that have them.
    Tuple(usize),
    /// A map with so many pairs of a key and a value. Its length is like that of a list.
    Map(usize),
    /// The end of the innermost open list, tuple or map.
    End,
}

impl Part<'_> {
    /// Its name in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Part::Null => "null",
            Part::Bool(_) => "a boolean",
            Part::Integer(_) | Part::Unsigned(_) => "an integer",
            Part::Big { .. } => "an integer of more than 64 bits",
            Part::Float(_) => "a float",
            Part::Bytes(_) => "bytes",
            Part::Text(_) | Part::Utf8(_) => "text",
            Part::Encoded(..) => "text in another encoding",
            Part::DateTime(_) | Part::Instant(_) => "a date-time",
            Part::List(_) => "a list",
            Part::Tuple(_) => "a tuple",
            Part::Map(_) => "a map",
            Part::End => "an end",
        }
    }
}

/// The message for a [`Part::Utf8`] that is not UTF-8.
pub const NOT_UTF8: &str = "a text in it is not UTF-8";

/// Reads the parts of a stored value, within limits. Invalid values give an error that says what is wrong.
pub trait Reader {
    /// Whether to refuse a map if two of its keys are equal to the host. Otherwise the last one counts.
    const KEYS_DIFFER: bool;

    /// The next part. After the last one, call `end` instead.
    fn next(&mut self) -> Result<Part<'_>, String>;

    /// Checks that nothing follows the value.
    fn end(&mut self) -> Result<(), String>;
}

/// Writes a value from its parts.
pub trait Writer {
    /// What it has written, once the value is complete.
    type Written;

    fn write(&mut self, part: Part<'_>) -> Result<(), Unwritable>;

    fn finish(self) -> Result<Self::Written, Unwritable>;
}

/// Why a part of a value cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The nesting exceeds this depth, or a value contains itself.
    Depth(usize),
    /// The notation cannot express a value with this name.
    Kind(&'static str),
    /// The notation cannot express a map with a key of this kind.
    Key(&'static str),
    /// An integer of more than 64 bits.
    Big,
    /// Bytes, text or a collection of more than 4 GiB.
    Length,
    /// The number of items differs from the announced number.
    Count,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwritable::Depth(most) => write!(f, "data nested more than {most} levels deep, or in itself"),
            Unwritable::Kind(kind) => f.write_str(kind),
            Unwritable::Key(kind) => write!(f, "a map with {kind} as a key"),
            Unwritable::Big => f.write_str("an integer of more than 64 bits"),
            Unwritable::Length => f.write_str("a part of more than 4 GiB"),
            Unwritable::Count => f.write_str("a list or map that was changed while it was written"),
        }
    }
}

impl std::error::Error for Unwritable {}

/// The open lists and maps of a writer.
#[derive(Debug)]
pub(super) struct Nesting {
    most: usize,
    open: Vec<Open>,
    /// Whether the value is complete.
    done: bool,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) is_map: bool,
    /// The number of parts still to come.
    pub(super) left: usize,
    pub(super) is_empty: bool,
}

/// The role of a part in its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The value itself, or the first item of a list.
    First,
    Item,
    FirstKey,
    Key,
    Value,
}

impl Nesting {
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Vec::new(), done: false }
    }

    /// Begins a part other than an end.
    #[inline]
    pub(super) fn part(&mut self) -> Result<Role, Unwritable> {
        let deep = self.open.len();
        let Some(open) = self.open.last_mut() else {
            return if std::mem::replace(&mut self.done, true) { Err(Unwritable::Count) } else { Ok(Role::First) };
        };
        if deep >= self.most {
            return Err(Unwritable::Depth(self.most));
        }
        open.left = open.left.checked_sub(1).ok_or(Unwritable::Count)?;
        let is_first = std::mem::replace(&mut open.is_empty, false);
        Ok(match (open.is_map, is_first) {
            (false, true) => Role::First,
            (false, false) => Role::Item,
            (true, true) => Role::FirstKey,
            (true, false) if open.left % 2 == 1 => Role::Key,
            (true, false) => Role::Value,
        })
    }

    #[inline]
    pub(super) fn begin_list(&mut self, length: usize) {
        self.open.push(Open { is_map: false, left: length, is_empty: true });
    }

    #[inline]
    pub(super) fn begin_map(&mut self, pairs: usize) {
        self.open.push(Open { is_map: true, left: pairs.saturating_mul(2), is_empty: true });
    }

    /// Ends a collection. Returns whether it was a map.
    #[inline]
    pub(super) fn end(&mut self) -> Result<bool, Unwritable> {
        match self.open.pop() {
            Some(Open { is_map, left: 0, .. }) => Ok(is_map),
            _ => Err(Unwritable::Count),
        }
    }

    pub(super) fn finish(&self) -> Result<(), Unwritable> {
        match self.done && self.open.is_empty() {
            true => Ok(()),
            false => Err(Unwritable::Count),
        }
    }
}
