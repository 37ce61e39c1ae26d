//! Reads MessagePack. Every part takes at least one byte, so an announced length is trusted only as far as bytes
//! remain.

use super::{DATE_TIME, INSTANT, READ_DEPTH};
use crate::dialect::date_time::{DateTime, Instant};
use crate::dialect::parts::{Part, Reader};

/// In nanoseconds.
const SECOND: u32 = 1_000_000_000;
const CUT: &str = "its end is missing";

#[derive(Debug)]
pub struct MessagePackReader<'b> {
    /// The unread bytes.
    bytes: &'b [u8],
    /// The number of parts to come of the innermost open list or map.
    left: usize,
    /// The same numbers of the lists and maps around it, outermost first.
    open: Vec<usize>,
}

impl<'b> MessagePackReader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, left: 1, open: Vec::new() }
    }

    #[inline(always)]
    fn part(&mut self) -> Result<Part<'b>, String> {
        let marker = self.number::<1>()?[0];
        Ok(match marker {
            0x00..=0x7f => Part::Integer(marker.into()),
            0x80..=0x8f => self.map((marker & 0x0f).into())?,
            0x90..=0x9f => self.list((marker & 0x0f).into())?,
            0xa0..=0xbf => self.text((marker & 0x1f).into())?,
            0xc0 => Part::Null,
            0xc1 => return Err("it is malformed".to_owned()),
            0xc2 => Part::Bool(false),
            0xc3 => Part::Bool(true),
            0xc4 => Part::Bytes(self.sized::<1>()?),
            0xc5 => Part::Bytes(self.sized::<2>()?),
            0xc6 => Part::Bytes(self.sized::<4>()?),
            0xc7 => self.extension_of::<1>()?,
            0xc8 => self.extension_of::<2>()?,
            0xc9 => self.extension_of::<4>()?,
            0xca => Part::Float(f32::from_be_bytes(self.number()?).into()),
            0xcb => Part::Float(f64::from_be_bytes(self.number()?)),
            0xcc => Part::Integer(u8::from_be_bytes(self.number()?).into()),
            0xcd => Part::Integer(u16::from_be_bytes(self.number()?).into()),
            0xce => Part::Integer(u32::from_be_bytes(self.number()?).into()),
            0xcf => {
                let number = u64::from_be_bytes(self.number()?);
                i64::try_from(number).map_or(Part::Unsigned(number), Part::Integer)
            }
            0xd0 => Part::Integer(i8::from_be_bytes(self.number()?).into()),
            0xd1 => Part::Integer(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Part::Integer(i32::from_be_bytes(self.number()?).into()),
            0xd3 => Part::Integer(i64::from_be_bytes(self.number()?)),
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4))?,
            0xd9 => {
                let length = self.length::<1>()?;
                self.text(length)?
            }
            0xda => {
                let length = self.length::<2>()?;
                self.text(length)?
            }
            0xdb => {
                let length = self.length::<4>()?;
                self.text(length)?
            }
            0xdc => {
                let length = self.length::<2>()?;
                self.list(length)?
            }
            0xdd => {
                let length = self.length::<4>()?;
                self.list(length)?
            }
            0xde => {
                let pairs = self.length::<2>()?;
                self.map(pairs)?
            }
            0xdf => {
                let pairs = self.length::<4>()?;
                self.map(pairs)?
            }
            0xe0..=0xff => Part::Integer((marker as i8).into()),
        })
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(CUT)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn number<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(CUT)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// A length of `N` bytes.
    fn length<const N: usize>(&mut self) -> Result<usize, String> {
        Ok(self.number::<N>()?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn sized<const N: usize>(&mut self) -> Result<&'b [u8], String> {
        let length = self.length::<N>()?;
        self.take(length)
    }

    #[inline]
    fn text(&mut self, length: usize) -> Result<Part<'b>, String> {
        self.take(length).map(Part::Utf8)
    }

    fn list(&mut self, length: usize) -> Result<Part<'b>, String> {
        self.begin(length)?;
        Ok(Part::List(length))
    }

    fn map(&mut self, pairs: usize) -> Result<Part<'b>, String> {
        self.begin(pairs.saturating_mul(2))?;
        Ok(Part::Map(pairs))
    }

    fn begin(&mut self, parts: usize) -> Result<(), String> {
        if parts > self.bytes.len() {
            return Err(CUT.to_owned());
        }
        if self.open.len() >= READ_DEPTH {
            return Err(format!("it is nested more than {READ_DEPTH} levels deep"));
        }
        self.open.push(std::mem::replace(&mut self.left, parts));
        Ok(())
    }

    fn extension_of<const N: usize>(&mut self) -> Result<Part<'b>, String> {
        let length = self.length::<N>()?;
        self.extension(length)
    }

    fn extension(&mut self, length: usize) -> Result<Part<'b>, String> {
        let kind = i8::from_be_bytes(self.number()?);
        let bytes = self.take(length)?;
        match kind {
            INSTANT => instant(bytes).map(Part::Instant).ok_or_else(|| "an instant in it is malformed".to_owned()),
            DATE_TIME => {
                let text = std::str::from_utf8(bytes).ok().and_then(DateTime::parse);
                text.map(Part::DateTime).ok_or_else(|| "a date-time in it is malformed".to_owned())
            }
            _ => Err(format!("there is an unknown MessagePack extension {kind} in it")),
        }
    }
}

impl Reader for MessagePackReader<'_> {
    const KEYS_DIFFER: bool = false;

    #[inline]
    fn next(&mut self) -> Result<Part<'_>, String> {
        if self.left == 0 {
            self.left = self.open.pop().unwrap_or_default();
            return Ok(Part::End);
        }
        self.left -= 1;
        self.part()
    }

    fn end(&mut self) -> Result<(), String> {
        match self.bytes {
            [] => Ok(()),
            _ => Err("bytes follow the value, as after an append to it".to_owned()),
        }
    }
}

fn instant(bytes: &[u8]) -> Option<Instant> {
    let (seconds, nanoseconds) = match bytes.len() {
        4 => (u32::from_be_bytes(bytes.try_into().ok()?).into(), 0),
        8 => {
            let both = u64::from_be_bytes(bytes.try_into().ok()?);
            ((both & 0x3_ffff_ffff) as i64, (both >> 34) as u32)
        }
        12 => (i64::from_be_bytes(bytes[4..].try_into().ok()?), u32::from_be_bytes(bytes[..4].try_into().ok()?)),
        _ => return None,
    };
    (nanoseconds < SECOND).then_some(Instant { seconds, nanoseconds })
}
