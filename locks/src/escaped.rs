//! Text without the bytes that mean something around it: others are written as in URLs.

use std::fmt;

/// Letters and digits stay as they are, and so do the bytes of `also`.
pub(super) struct Escaped<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) also: &'static [u8],
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| match byte.is_ascii_alphanumeric() || self.also.contains(byte) {
            true => write!(f, "{}", *byte as char),
            false => write!(f, "%{byte:02X}"),
        })
    }
}

/// Reads what [`Escaped`] writes.
pub(super) fn unescaped(part: &str) -> Option<Vec<u8>> {
    let mut pieces = part.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}
