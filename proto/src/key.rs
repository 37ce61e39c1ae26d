//! Key rules: what may stand on the command line, and how other keys are made to fit.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use sha2::{Digest, Sha256};

/// The longest key a server takes, in bytes as sent.
pub const MAX_KEY: usize = 250;

/// The longest namespace: it leaves room for a digest behind it.
pub const MAX_NAMESPACE: usize = MAX_KEY - DIGEST_MARK.len() - 64;

/// Base64 of more raw bytes than this, padded, would pass [`MAX_KEY`].
const MAX_RAW_KEY: usize = MAX_KEY / 4 * 3;

/// Leads a key sent as its digest. A user's own key that begins so is sent as a digest too: no two keys meet.
const DIGEST_MARK: &[u8] = b"sha256:";

/// A key as it is sent: checked, prefixed by the namespace, at most [`MAX_KEY`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    pub(crate) wire: &'a [u8],
    pub(crate) base64: bool,
}

impl<'a> Key<'a> {
    /// A key as [`KeyRules::push`] wrote it, with what that returned; refused when it could not stand on a command
    /// line.
    pub fn new(wire: &'a [u8], base64: bool) -> Result<Self, KeyError> {
        match wire {
            [] => Err(KeyError::Empty),
            _ if wire.len() > MAX_KEY => Err(KeyError::TooLong { length: wire.len(), limit: MAX_KEY }),
            _ => first_forbidden(wire).map_or(Ok(Self { wire, base64 }), Err),
        }
    }

    /// The bytes that stand on the command line.
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
    TooLong { length: usize, limit: usize },
    Forbidden { byte: u8, position: usize },
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
            Self::Forbidden { byte, position } => write!(
                f,
                "the key has the byte 0x{byte:02x} at position {position}; spaces and control bytes cannot be sent, \
                 unless the client encodes keys (encode_keys)"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// How keys are written: the namespace before each, and whether keys that do not fit are encoded or refused.
///
/// Encoded, a key with forbidden bytes is sent as base64 (the server stores the real bytes), and a key that is
/// too long either way is sent as `sha256:` and the hexadecimal SHA-256 of namespace and key.
#[derive(Clone, Debug, Default)]
pub struct KeyRules {
    namespace: Vec<u8>,
    encode: bool,
}

impl KeyRules {
    /// Fails when the namespace itself could not be sent or is longer than [`MAX_NAMESPACE`] bytes.
    pub fn new(namespace: &[u8], encode: bool) -> Result<Self, KeyError> {
        if namespace.len() > MAX_NAMESPACE {
            return Err(KeyError::TooLong { length: namespace.len(), limit: MAX_NAMESPACE });
        }
        if let Some(forbidden) = first_forbidden(namespace) {
            return Err(forbidden);
        }
        Ok(Self { namespace: namespace.to_vec(), encode })
    }

    pub fn namespace(&self) -> &[u8] {
        &self.namespace
    }

    /// Writes the key as it is sent to the end of `out`, and returns whether it was sent as base64.
    /// On an error `out` is as before.
    pub fn push(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KeyError> {
        let length = self.namespace.len() + key.len();
        if !key.is_empty() && length <= MAX_KEY && is_plain(key) && !(self.encode && key.starts_with(DIGEST_MARK)) {
            out.extend_from_slice(&self.namespace);
            out.extend_from_slice(key);
            return Ok(false);
        }
        self.push_unusual(key, length, out)
    }

    /// The key as it is sent: as it stands where it can be, else written to `scratch`.
    pub fn wire<'a>(&self, key: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Key<'a>, KeyError> {
        if self.namespace.is_empty() && !self.encode && !key.is_empty() && key.len() <= MAX_KEY && is_plain(key) {
            return Ok(Key { wire: key, base64: false });
        }
        scratch.clear();
        let base64 = self.push(key, scratch)?;
        Ok(Key { wire: scratch, base64 })
    }

    #[cold]
    fn push_unusual(&self, key: &[u8], length: usize, out: &mut Vec<u8>) -> Result<bool, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if !self.encode {
            return Err(first_forbidden(key).unwrap_or(KeyError::TooLong { length, limit: MAX_KEY }));
        }
        let raw = [self.namespace.as_slice(), key].concat();
        if length <= MAX_RAW_KEY && !key.starts_with(DIGEST_MARK) {
            out.extend_from_slice(STANDARD.encode(raw).as_bytes());
            return Ok(true);
        }
        out.extend_from_slice(&self.namespace);
        out.extend_from_slice(DIGEST_MARK);
        for byte in Sha256::digest(&raw) {
            out.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        Ok(false)
    }
}

fn is_forbidden(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

fn is_plain(key: &[u8]) -> bool {
    !key.iter().fold(false, |found, byte| found | is_forbidden(*byte))
}

fn first_forbidden(key: &[u8]) -> Option<KeyError> {
    if is_plain(key) {
        return None;
    }
    let position = key.iter().position(|byte| is_forbidden(*byte))?;
    Some(KeyError::Forbidden { byte: key[position], position })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(rules: &KeyRules, key: &[u8]) -> Result<(Vec<u8>, bool), KeyError> {
        let mut out = Vec::new();
        let base64 = rules.push(key, &mut out)?;
        Ok((out, base64))
    }

    #[test]
    fn plain_keys_are_prefixed_and_others_refused() {
        let rules = KeyRules::new(b"app:", false).unwrap();
        assert_eq!(written(&rules, b"user:1"), Ok((b"app:user:1".to_vec(), false)));
        assert_eq!(written(&rules, "ключ".as_bytes()), Ok(("app:ключ".as_bytes().to_vec(), false)));
        assert_eq!(written(&rules, b""), Err(KeyError::Empty));
        assert_eq!(written(&rules, b"a b"), Err(KeyError::Forbidden { byte: b' ', position: 1 }));
        assert_eq!(written(&rules, b"a\r\nflush_all"), Err(KeyError::Forbidden { byte: b'\r', position: 1 }));
        assert_eq!(written(&rules, &[b'k'; 246]), Ok(([&b"app:"[..], &[b'k'; 246]].concat(), false)));
        assert_eq!(written(&rules, &[b'k'; 247]), Err(KeyError::TooLong { length: 251, limit: 250 }));
    }

    #[test]
    fn encoded_keys_never_meet_a_plain_key() {
        let rules = KeyRules::new(b"", true).unwrap();
        assert_eq!(written(&rules, b"a b"), Ok((b"YSBi".to_vec(), true)));
        let (digest, base64) = written(&rules, &[b'k'; 300]).unwrap();
        assert!(digest.starts_with(DIGEST_MARK) && digest.len() == 71 && !base64);
        assert_ne!(written(&rules, &digest).unwrap().0, digest);
    }

    #[test]
    fn a_namespace_must_be_sendable() {
        assert!(KeyRules::new(&[b'n'; MAX_NAMESPACE], true).is_ok());
        assert!(KeyRules::new(&[b'n'; MAX_NAMESPACE + 1], true).is_err());
        assert!(KeyRules::new(b"a b", true).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_can_leave_the_command_line(
            key in proptest::collection::vec(any::<u8>(), 0..400), namespace in "[a-z]{0,20}", encode: bool,
        ) {
            let rules = KeyRules::new(namespace.as_bytes(), encode).unwrap();
            match written(&rules, &key) {
                Ok((wire, _)) => prop_assert!(!wire.is_empty() && wire.len() <= MAX_KEY && is_plain(&wire)),
                Err(error) => prop_assert!(!encode || error == KeyError::Empty),
            }
        }
    }
}
