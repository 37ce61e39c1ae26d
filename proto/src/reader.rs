//! Turns arrived bytes into replies, without scanning a byte twice or copying a value.

use crate::reply::{decode, Head, Malformed};
use crate::Form;

/// The longest reply line, including `\r\n`: a key, all flags, and room for an error message.
pub const MAX_LINE: usize = 2048;

/// The beginning of the bytes given to [`ReplyReader::read`].
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'b> {
    /// More bytes are needed.
    Partial,
    /// A line. If its head has a size, a [`Decoded::Value`] follows.
    Head {
        head: Head,
        /// The key in the line, or an empty slice.
        key: &'b [u8],
        line: &'b [u8],
        consumed: usize,
    },
    /// A complete value. `consumed` includes its `\r\n`.
    Value { value: &'b [u8], consumed: usize },
}

/// The position within a reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyReader {
    /// How much of the current line was searched for its end.
    searched: usize,
    /// The length of the value that comes next, if any.
    value: Option<usize>,
}

impl ReplyReader {
    /// Reads the beginning of `bytes`, which are all unconsumed bytes, as part of a reply of this `form`. Before the
    /// next call, the caller drops `consumed` bytes; it may append more bytes at any time. An error is final, because
    /// the start of the next reply is unknown.
    pub fn read<'b>(&mut self, bytes: &'b [u8], form: Form) -> Result<Decoded<'b>, Malformed> {
        match self.value {
            Some(length) => self.read_value(bytes, length),
            None => self.read_line(bytes, form),
        }
    }

    /// The length of the value that [`Self::read`] is waiting for.
    pub fn awaited_value(&self) -> Option<usize> {
        self.value
    }

    /// Says that the caller takes the value's bytes by itself. Only the `\r\n` after them is left to read.
    pub fn take_value(&mut self) {
        self.value = Some(0);
    }

    fn read_line<'b>(&mut self, bytes: &'b [u8], form: Form) -> Result<Decoded<'b>, Malformed> {
        let Some(found) = memchr::memchr(b'\n', &bytes[self.searched..]) else {
            if bytes.len() >= MAX_LINE {
                return Err(Malformed::new("a reply line has no end", bytes));
            }
            self.searched = bytes.len();
            return Ok(Decoded::Partial);
        };
        let end = self.searched + found;
        let Some(line) = bytes[..end].strip_suffix(b"\r") else {
            return Err(Malformed::new("a reply line does not end in \\r\\n", &bytes[..end]));
        };
        if end >= MAX_LINE {
            return Err(Malformed::new("a reply line is too long", line));
        }
        self.searched = 0;
        let (head, key) = decode(line, form)?;
        self.value = head.size;
        Ok(Decoded::Head { head, key, line, consumed: end + 1 })
    }

    fn read_value<'b>(&mut self, bytes: &'b [u8], length: usize) -> Result<Decoded<'b>, Malformed> {
        let after = bytes.get(length..).unwrap_or_default();
        if after.len() < 2 {
            return match after {
                [] | [b'\r'] => Ok(Decoded::Partial),
                _ => Err(Malformed::new("a value is longer than its length says", after)),
            };
        }
        if !after.starts_with(b"\r\n") {
            return Err(Malformed::new("a value is longer than its length says", after));
        }
        self.value = None;
        Ok(Decoded::Value { value: &bytes[..length], consumed: length + 2 })
    }
}
