//! Writes MessagePack, each part in its shortest form.

use super::{DATE_TIME, INSTANT, WRITTEN_DEPTH};
use crate::dialect::date_time::Instant;
use crate::dialect::parts::{Nesting, Part, Unwritable, Writer};

/// Writes bool, null, integers of up to 64 bits, floats, text, bytes, date-times, lists, and maps with any keys.
#[derive(Debug)]
pub struct MessagePackWriter {
    out: Vec<u8>,
    nesting: Nesting,
}

impl Default for MessagePackWriter {
    fn default() -> Self {
        Self { out: Vec::new(), nesting: Nesting::new(WRITTEN_DEPTH) }
    }
}

impl Writer for MessagePackWriter {
    type Written = Vec<u8>;

    fn write(&mut self, part: Part<'_>) -> Result<(), Unwritable> {
        if part == Part::End {
            return self.nesting.end().map(drop);
        }
        self.nesting.part()?;
        match part {
            Part::Null => self.out.push(0xc0),
            Part::Bool(truth) => self.out.push(if truth { 0xc3 } else { 0xc2 }),
            Part::Integer(number) => self.integer(number),
            Part::Unsigned(number) => self.unsigned(number),
            Part::Float(number) => self.marked(0xcb, &number.to_be_bytes()),
            Part::Text(text) => {
                match text.len() {
                    length @ 0..32 => self.out.push(0xa0 | length as u8),
                    length => self.length(length, Some(0xd9), 0xda)?,
                }
                self.out.extend_from_slice(text.as_bytes());
            }
            Part::Bytes(bytes) => {
                self.length(bytes.len(), Some(0xc4), 0xc5)?;
                self.out.extend_from_slice(bytes);
            }
            Part::List(length) => {
                match length {
                    0..16 => self.out.push(0x90 | length as u8),
                    _ => self.length(length, None, 0xdc)?,
                }
                self.nesting.begin_list(length);
            }
            Part::Map(pairs) => {
                match pairs {
                    0..16 => self.out.push(0x80 | pairs as u8),
                    _ => self.length(pairs, None, 0xde)?,
                }
                self.nesting.begin_map(pairs);
            }
            Part::DateTime(date_time) => self.extension(DATE_TIME, date_time.to_string().as_bytes())?,
            Part::Instant(instant) => self.instant(instant)?,
            Part::Big { .. } => return Err(Unwritable::Big),
            Part::Utf8(_) | Part::Encoded(..) | Part::Tuple(_) => return Err(Unwritable::Kind(part.kind())),
            Part::End => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>, Unwritable> {
        self.nesting.finish()?;
        Ok(self.out)
    }
}

impl MessagePackWriter {
    fn marked(&mut self, marker: u8, bytes: &[u8]) {
        self.out.push(marker);
        self.out.extend_from_slice(bytes);
    }

    fn integer(&mut self, number: i64) {
        match number {
            0.. => self.unsigned(number as u64),
            -32..0 => self.out.push(number as u8),
            -0x80..-32 => self.marked(0xd0, &(number as i8).to_be_bytes()),
            -0x8000..-0x80 => self.marked(0xd1, &(number as i16).to_be_bytes()),
            -0x8000_0000..-0x8000 => self.marked(0xd2, &(number as i32).to_be_bytes()),
            _ => self.marked(0xd3, &number.to_be_bytes()),
        }
    }

    fn unsigned(&mut self, number: u64) {
        match number {
            0..0x80 => self.out.push(number as u8),
            0x80..0x100 => self.marked(0xcc, &[number as u8]),
            0x100..0x1_0000 => self.marked(0xcd, &(number as u16).to_be_bytes()),
            0x1_0000..0x1_0000_0000 => self.marked(0xce, &(number as u32).to_be_bytes()),
            _ => self.marked(0xcf, &number.to_be_bytes()),
        }
    }

    /// Writes a length. `short`: the marker for one byte, if any. `longer`: the marker for two bytes; the one for four
    /// follows it.
    fn length(&mut self, length: usize, short: Option<u8>, longer: u8) -> Result<(), Unwritable> {
        match (u8::try_from(length), u16::try_from(length), u32::try_from(length), short) {
            (Ok(length), _, _, Some(short)) => self.marked(short, &[length]),
            (_, Ok(length), _, _) => self.marked(longer, &length.to_be_bytes()),
            (_, _, Ok(length), _) => self.marked(longer + 1, &length.to_be_bytes()),
            _ => return Err(Unwritable::Length),
        }
        Ok(())
    }

    fn extension(&mut self, kind: i8, bytes: &[u8]) -> Result<(), Unwritable> {
        match bytes.len() {
            4 => self.out.push(0xd6),
            8 => self.out.push(0xd7),
            length => self.marked(0xc7, &[u8::try_from(length).map_err(|_| Unwritable::Length)?]),
        }
        self.marked(kind as u8, bytes);
        Ok(())
    }

    fn instant(&mut self, Instant { seconds, nanoseconds }: Instant) -> Result<(), Unwritable> {
        match (u32::try_from(seconds), seconds) {
            (Ok(seconds), _) if nanoseconds == 0 => self.extension(INSTANT, &seconds.to_be_bytes()),
            (_, 0..0x4_0000_0000) => {
                let both = u64::from(nanoseconds) << 34 | seconds as u64;
                self.extension(INSTANT, &both.to_be_bytes())
            }
            _ => {
                let mut both = [0; 12];
                both[..4].copy_from_slice(&nanoseconds.to_be_bytes());
                both[4..].copy_from_slice(&seconds.to_be_bytes());
                self.extension(INSTANT, &both)
            }
        }
    }
}
