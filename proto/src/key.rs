//! Keys as they are sent, and why some keys cannot be sent.

/// The longest key that a server takes, in bytes as sent.
pub const MAX_KEY: usize = 250;

/// A key as it is sent: checked, with its namespace, at most [`MAX_KEY`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    pub(crate) wire: &'a [u8],
    pub(crate) base64: bool,
}

impl<'a> Key<'a> {
    /// A key as [`KeyRules::push`](crate::KeyRules::push) wrote it, and what that returned. Refuses a key that cannot
    /// be part of a command line.
    pub fn new(wire: &'a [u8], base64: bool) -> Result<Self, KeyError> {
        match wire {
            [] => Err(KeyError::Empty),
            _ if wire.len() > MAX_KEY => Err(KeyError::TooLong { length: wire.len(), limit: MAX_KEY }),
            _ => first_forbidden(wire).map_or(Ok(Self { wire, base64 }), Err),
        }
    }

    /// The same without a check, for bytes that were checked before and have not changed.
    #[inline]
    pub fn known(wire: &'a [u8], base64: bool) -> Self {
        debug_assert!(Self::new(wire, base64).is_ok(), "{wire:?} is not a key");
        Self { wire, base64 }
    }

    /// Its bytes on the command line.
    pub fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Whether they are base64 of the real key, to be sent with the meta flag `b`.
    pub fn is_base64(&self) -> bool {
        self.base64
    }
}

/// Why a key cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    Empty,
    TooLong {
        length: usize,
        limit: usize,
    },
    /// The key is too long even in the form that the rule gives it.
    TooLongEncoded {
        length: usize,
    },
    Forbidden {
        byte: u8,
        position: usize,
    },
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "the key is empty; memcached keys have 1 to {MAX_KEY} bytes"),
            Self::TooLong { length, limit } => write!(
                f,
                "the key has {length} bytes with its namespace, {limit} is the limit; shorten it, or let the client \
                 encode keys (encode_keys) to send a digest instead"
            ),
            Self::TooLongEncoded { length } => write!(
                f,
                "the key takes {length} bytes once it is encoded, {MAX_KEY} is the limit; shorten it, or leave out its \
                 spaces and control bytes"
            ),
            Self::Forbidden { byte, position } => write!(
                f,
                "the key has the byte 0x{byte:02x} at position {position}; spaces and control bytes cannot be sent, \
                 unless the client encodes keys (encode_keys)"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

fn is_forbidden(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Whether a key may be part of a command line. Every key of every command is checked, in blocks that processors
/// compare at once. The last block may overlap the one before it.
#[inline]
pub(crate) fn is_plain(key: &[u8]) -> bool {
    let found = match key.len() {
        0..4 => has_forbidden(key),
        4..8 => has_forbidden(&key[..4]) | has_forbidden(&key[key.len() - 4..]),
        8..16 => has_forbidden(&key[..8]) | has_forbidden(&key[key.len() - 8..]),
        length => has_forbidden(&key[length - 16..]) || key.chunks_exact(16).any(has_forbidden),
    };
    !found
}

#[inline(always)]
fn has_forbidden(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| found | is_forbidden(*byte))
}

pub(crate) fn first_forbidden(key: &[u8]) -> Option<KeyError> {
    if is_plain(key) {
        return None;
    }
    let position = key.iter().position(|byte| is_forbidden(*byte))?;
    Some(KeyError::Forbidden { byte: key[position], position })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_byte_is_found_wherever_it_is() {
        for length in 1..=MAX_KEY {
            let mut key = vec![b'k'; length];
            assert_eq!(first_forbidden(&key), None, "{length}");
            for position in 0..length {
                for byte in [0, b'\n', b' ', 0x7f] {
                    key[position] = byte;
                    assert_eq!(first_forbidden(&key), Some(KeyError::Forbidden { byte, position }), "{length}");
                }
                key[position] = b'!';
            }
        }
    }

    #[test]
    fn no_other_byte_is_forbidden() {
        for byte in (0x21..0x7f).chain(0x80..=0xff) {
            assert!(is_plain(&[byte; 5]) && is_plain(&[byte; 12]) && is_plain(&[byte; 40]), "{byte:#x}");
        }
    }
}
