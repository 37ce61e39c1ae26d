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
    /// A line. [`ReplyReader::head`] is what it says. If that has a size, a [`Decoded::Value`] follows.
    Head {
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
    head: Head,
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

    /// What the last line says. It stays here, as copies of it would cost as much as reading it.
    #[inline]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The length of the value that [`Self::read`] is waiting for.
    #[inline]
    pub fn awaited_value(&self) -> Option<usize> {
        self.value
    }

    /// Says that the caller takes the value's bytes by itself. Only the `\r\n` after them is left to read.
    pub fn take_value(&mut self) {
        self.value = Some(0);
    }

    fn read_line<'b>(&mut self, bytes: &'b [u8], form: Form) -> Result<Decoded<'b>, Malformed> {
        let rest = &bytes[self.searched..];
        let found = match form {
            Form::Meta(_) => end_of_short_line(rest),
            _ => memchr::memchr(b'\n', rest),
        };
        let Some(found) = found else {
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
        let key = decode(line, form, &mut self.head)?;
        self.value = self.head.size;
        Ok(Decoded::Head { key, line, consumed: end + 1 })
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

/// The position of the first line feed. Most replies to meta commands are short, so the first bytes are compared eight at a
/// time, which costs less than to prepare a search.
#[inline(always)]
fn end_of_short_line(bytes: &[u8]) -> Option<usize> {
    let Some(last) = bytes.len().checked_sub(8) else { return bytes.iter().position(|byte| *byte == b'\n') };
    for start in [0, 8, 16] {
        // The last eight overlap those before them.
        let start = last.min(start);
        let eight = bytes.get(start..).and_then(<[u8]>::first_chunk).map_or(0, |eight| u64::from_le_bytes(*eight));
        match first_line_feed(eight) {
            Some(found) => return Some(start + found),
            None if start == last => return None,
            None => {}
        }
    }
    memchr::memchr(b'\n', bytes)
}

#[inline(always)]
fn first_line_feed(eight: u64) -> Option<usize> {
    const LOWEST_BITS: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST_BITS: u64 = LOWEST_BITS << 7;
    const LINE_FEEDS: u64 = LOWEST_BITS * b'\n' as u64;
    // A line feed becomes a zero byte. Of all bytes, the lowest zero is surely marked.
    let zero = eight ^ LINE_FEEDS;
    let marked = zero.wrapping_sub(LOWEST_BITS) & !zero & HIGHEST_BITS;
    (marked != 0).then(|| marked.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_short_line_ends_where_any_line_does(bytes in proptest::collection::vec(0u8..20, 0..40)) {
            prop_assert_eq!(end_of_short_line(&bytes), memchr::memchr(b'\n', &bytes));
        }
    }
}
