//! Bytes as they arrive into replies, without scanning any byte twice or copying a value.

use crate::reply::{decode, Head, Malformed};
use crate::Form;

/// The longest reply line taken, its `\r\n` included: a key, every flag, and room for an error's message.
pub const MAX_LINE: usize = 2048;

/// What stands at the beginning of the bytes given to [`ReplyReader::read`].
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'b> {
    /// More bytes are needed.
    Partial,
    /// A line. When its head has a size, a [`Decoded::Value`] comes next.
    Head {
        head: Head,
        /// The key the line repeats, empty where it repeats none.
        key: &'b [u8],
        line: &'b [u8],
        consumed: usize,
    },
    /// A whole value; `consumed` counts its `\r\n` too.
    Value { value: &'b [u8], consumed: usize },
}

/// Where in a reply the next bytes belong.
#[derive(Clone, Debug, Default)]
pub struct ReplyReader {
    /// How far the current line has been searched for its end.
    searched: usize,
    /// The length of the value that comes next, if one does.
    value: Option<usize>,
}

impl ReplyReader {
    /// Reads what `bytes` begins with: always the bytes not yet consumed, of the exchange whose reply is of this
    /// `form`. The caller drops `consumed` bytes before it calls again, and may call again with more bytes
    /// appended as often as it likes. An error is final: there is no telling where the next reply begins.
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

    /// The caller takes the value's bytes by itself; what remains to be read is the `\r\n` behind them.
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
