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
            _ if wire.len() > MAX_KEY => Err(KeyError::TooLong { length: wire.len(), namespace: 0, generation: 0 }),
            _ => match first_forbidden(wire) {
                None => Ok(Self { wire, base64 }),
                Some((byte, position)) => Err(KeyError::Forbidden { byte, position }),
            },
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

/// Why a key, or a namespace, cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    Empty,
    /// The lengths of the key, of the namespace before it, and of the room for a generation between them.
    TooLong {
        length: usize,
        namespace: usize,
        generation: usize,
    },
    /// The key is too long even in the form that the rule gives it.
    TooLongEncoded {
        length: usize,
    },
    Forbidden {
        byte: u8,
        position: usize,
    },
    /// The namespace leaves no room for keys.
    NamespaceTooLong {
        length: usize,
        limit: usize,
    },
    NamespaceForbidden {
        byte: u8,
        position: usize,
    },
}

impl KeyError {
    /// The same as a sentence about `key`, for messages.
    pub fn about(&self, key: &str) -> String {
        const REMEDY: &str = "shorten it, or set encode_keys to send a digest instead";
        match self {
            Self::Empty => format!("the key {key} is empty; memcached's keys have 1 to {MAX_KEY} bytes"),
            Self::TooLong { length, namespace: 0, .. } => {
                format!("the key {key} has {length} bytes; memcached's limit is {MAX_KEY}: {REMEDY}")
            }
            Self::TooLong { length, namespace, generation: 0 } => format!(
                "the key {key} has {length} bytes and the namespace {namespace}; memcached's limit for both together \
                 is {MAX_KEY}: {REMEDY}"
            ),
            Self::TooLong { length, namespace, generation } => format!(
                "the key {key} has {length} bytes, the namespace {namespace} and its generation {generation}; memcached's \
                 limit for all together is {MAX_KEY}: {REMEDY}"
            ),
            Self::TooLongEncoded { length } => format!(
                "the key {key} has {length} bytes once it is encoded; memcached's limit is {MAX_KEY}: shorten it, or \
                 leave out its spaces and control bytes"
            ),
            Self::Forbidden { byte, position } => format!(
                "the key {key} has {} at position {position}, which memcached does not take: replace it, or set \
                 encode_keys",
                named(*byte)
            ),
            Self::NamespaceTooLong { length, limit } if *limit < MAX_KEY - 1 => format!(
                "the namespace has {length} bytes and leaves no room for the digest of a long key: {limit} is its limit"
            ),
            Self::NamespaceTooLong { length, limit } => format!(
                "the namespace has {length} bytes and leaves no room for keys, which have at most {MAX_KEY} bytes with \
                 their namespace: {limit} is its limit"
            ),
            Self::NamespaceForbidden { byte, position } => format!(
                "the namespace has {} at position {position}, which memcached does not take: replace it",
                named(*byte)
            ),
        }
    }
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.about("given"))
    }
}

fn named(byte: u8) -> String {
    match byte {
        b' ' => "a space".to_owned(),
        byte => format!("the control byte 0x{byte:02x}"),
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

/// The first byte that a command line cannot contain, and its position.
pub(crate) fn first_forbidden(key: &[u8]) -> Option<(u8, usize)> {
    if is_plain(key) {
        return None;
    }
    let position = key.iter().position(|byte| is_forbidden(*byte))?;
    Some((key[position], position))
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
                    assert_eq!(first_forbidden(&key), Some((byte, position)), "{length}");
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
