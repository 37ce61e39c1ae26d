//! A value taken apart: a reader gives its parts one after the other, and a writer takes them in the same order. So a
//! host makes its objects of them, and them of its objects, without a tree in between.

use std::fmt;

use super::portable::{DateTime, Instant};

/// A part of a value. What belongs to a list or a map follows it, and then comes an `End`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'p> {
    Null,
    Bool(bool),
    Integer(i64),
    /// One that is too large for an `Integer`.
    Unsigned(u64),
    /// Of more than 64 bits: its absolute value, the least significant byte first.
    Big {
        negative: bool,
        magnitude: &'p [u8],
    },
    Float(f64),
    Bytes(&'p [u8]),
    Text(&'p str),
    /// Text as it is stored: whoever makes a string of it finds out whether it is UTF-8. Writers take none.
    Utf8(&'p [u8]),
    /// Text in an encoding other than UTF-8, by the name its language gives that.
    Encoded(&'p [u8], &'p str),
    DateTime(DateTime),
    Instant(Instant),
    /// A list of so many items. Readers of notations that do not say how many follow, say 0.
    List(usize),
    /// A list that cannot be changed, in languages that tell the two apart.
    Tuple(usize),
    /// So many pairs: each is a key, then its value. Counted as a list is.
    Map(usize),
    /// Of the list, tuple or map that was begun last.
    End,
}

impl Part<'_> {
    /// What to call it in a message.
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

/// What is said of a [`Part::Utf8`] that is none.
pub const NOT_UTF8: &str = "a text in it is not UTF-8";

/// Takes a stored value apart. Whatever is stored, it is read within bounds, or it is an error that says what is wrong.
pub trait Reader {
    /// Whether a map is refused that has two keys which are the same to the host. Otherwise the last one counts.
    const KEYS_DIFFER: bool;

    /// The next part. Once the value is complete, the host calls `end` instead.
    fn next(&mut self) -> Result<Part<'_>, String>;

    /// Nothing stands behind the value.
    fn end(&mut self) -> Result<(), String>;
}

/// Puts a value together.
pub trait Writer {
    /// What has been written, once the value is complete.
    type Written;

    fn write(&mut self, part: Part<'_>) -> Result<(), Unwritable>;

    fn finish(self) -> Result<Self::Written, Unwritable>;
}

/// Why a part of a value is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// It is nested deeper than this, or contains itself.
    Depth(usize),
    /// The notation has no counterpart to what is called so.
    Kind(&'static str),
    /// The notation has no maps with a key that is called so.
    Key(&'static str),
    /// An integer of more than 64 bits.
    Big,
    /// Bytes, text or a collection of more than 4 GiB.
    Length,
    /// A list or map has other than as many parts as it was begun with.
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

/// Where a writer is: within which lists and maps.
#[derive(Debug)]
pub(super) struct Nesting {
    most: usize,
    open: Vec<Open>,
    /// The value is complete.
    done: bool,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) is_map: bool,
    /// How many parts are still to come.
    pub(super) left: usize,
    pub(super) is_empty: bool,
}

/// What a part is to what it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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

    /// Another part begins, other than an end.
    #[inline]
    pub(super) fn part(&mut self) -> Result<Place, Unwritable> {
        let deep = self.open.len();
        let Some(open) = self.open.last_mut() else {
            return if std::mem::replace(&mut self.done, true) { Err(Unwritable::Count) } else { Ok(Place::First) };
        };
        if deep >= self.most {
            return Err(Unwritable::Depth(self.most));
        }
        open.left = open.left.checked_sub(1).ok_or(Unwritable::Count)?;
        let is_first = std::mem::replace(&mut open.is_empty, false);
        Ok(match (open.is_map, is_first) {
            (false, true) => Place::First,
            (false, false) => Place::Item,
            (true, true) => Place::FirstKey,
            (true, false) if open.left % 2 == 1 => Place::Key,
            (true, false) => Place::Value,
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

    /// Returns whether it was a map that has ended.
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
