//! Parts of values: those of the core, and those of the header.

use pinyon_cache::dialect::{DateTime, Instant, Part as Core};

use crate::errors::{Error, Failure};
use crate::status::numbered;
use crate::structs::{empty, Bytes, Part};

numbered! {
    PartKind: u32 {
        Null = 0,
        Bool = 1,
        Integer = 2,
        Unsigned = 3,
        Big = 4,
        Float = 5,
        Bytes = 6,
        Text = 7,
        Encoded = 8,
        DateTime = 9,
        Instant = 10,
        List = 11,
        Tuple = 12,
        Map = 13,
        Close = 14,
        Fault = 15,
    }
}

impl Part {
    fn of_kind(kind: PartKind) -> Self {
        Self { kind: kind as u32, ..empty() }
    }

    pub(super) fn of_bytes(kind: PartKind, bytes: &[u8]) -> Self {
        Self { bytes: Bytes::of(bytes), ..Self::of_kind(kind) }
    }

    pub(super) fn of_collection(kind: PartKind, items: usize) -> Self {
        Self { number: items as u64, ..Self::of_kind(kind) }
    }

    /// A part for C. It points to the same bytes.
    pub fn of(part: &Core<'_>) -> Self {
        match *part {
            Core::Null => Self::of_kind(PartKind::Null),
            Core::Bool(truth) => Self { truth: truth.into(), ..Self::of_kind(PartKind::Bool) },
            Core::Integer(integer) => Self { integer, ..Self::of_kind(PartKind::Integer) },
            Core::Unsigned(number) => Self { number, ..Self::of_kind(PartKind::Unsigned) },
            Core::Big { negative, magnitude } => {
                Self { truth: negative.into(), ..Self::of_bytes(PartKind::Big, magnitude) }
            }
            Core::Float(real) => Self { real, ..Self::of_kind(PartKind::Float) },
            Core::Bytes(bytes) => Self::of_bytes(PartKind::Bytes, bytes),
            Core::Text(text) => Self::of_bytes(PartKind::Text, text.as_bytes()),
            Core::Utf8(bytes) => Self::of_bytes(PartKind::Text, bytes),
            Core::Encoded(bytes, encoding) => {
                Self { encoding: Bytes::of(encoding.as_bytes()), ..Self::of_bytes(PartKind::Encoded, bytes) }
            }
            Core::DateTime(DateTime { year, month, day, hour, minute, second, nanosecond }) => {
                Self { year, month, day, hour, minute, second, nanosecond, ..Self::of_kind(PartKind::DateTime) }
            }
            Core::Instant(Instant { seconds, nanoseconds }) => {
                Self { integer: seconds, nanosecond: nanoseconds, ..Self::of_kind(PartKind::Instant) }
            }
            Core::List(items) => Self::of_collection(PartKind::List, items),
            Core::Tuple(items) => Self::of_collection(PartKind::Tuple, items),
            Core::Map(pairs) => Self::of_collection(PartKind::Map, pairs),
            Core::End => Self::of_kind(PartKind::Close),
        }
    }

    /// A part for the core.
    ///
    /// # Safety
    /// Its bytes stay as they are for the lifetime.
    pub unsafe fn core<'p>(&self) -> Result<Core<'p>, Error> {
        self.bytes.check("bytes")?;
        // SAFETY: the caller keeps the part's bytes as they are for the lifetime.
        let bytes: &'p [u8] = unsafe { self.bytes.slice() };
        Ok(match PartKind::ALL.get(self.kind as usize) {
            Some(PartKind::Null) => Core::Null,
            Some(PartKind::Bool) => Core::Bool(self.truth != 0),
            Some(PartKind::Integer) => Core::Integer(self.integer),
            Some(PartKind::Unsigned) => Core::Unsigned(self.number),
            Some(PartKind::Big) => Core::Big { negative: self.truth != 0, magnitude: bytes },
            Some(PartKind::Float) => Core::Float(self.real),
            Some(PartKind::Bytes) => Core::Bytes(bytes),
            Some(PartKind::Text) => {
                let text = std::str::from_utf8(bytes);
                Core::Text(text.map_err(|why| Failure::usage(format!("a text is not UTF-8: {why}")))?)
            }
            Some(PartKind::DateTime) => {
                let Self { year, month, day, hour, minute, second, nanosecond, .. } = *self;
                Core::DateTime(DateTime { year, month, day, hour, minute, second, nanosecond })
            }
            Some(PartKind::Instant) => Core::Instant(Instant { seconds: self.integer, nanoseconds: self.nanosecond }),
            Some(PartKind::List) => Core::List(self.number as usize),
            Some(PartKind::Tuple) => Core::Tuple(self.number as usize),
            Some(PartKind::Map) => Core::Map(self.number as usize),
            Some(PartKind::Close) => Core::End,
            Some(PartKind::Encoded | PartKind::Fault) | None => {
                return Err(Failure::usage(format!("a part of the kind {} cannot be written", self.kind)))
            }
        })
    }
}
