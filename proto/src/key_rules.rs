//! Key rules: how unusual keys (too long, or with forbidden bytes) are made to fit. Each rule is that of one client.

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::key::{first_forbidden, is_plain};
use crate::{Key, KeyError, GENERATION_LENGTH, MAX_KEY, NO_GENERATION};

/// The longest namespace under rules that put a digest behind it.
const MAX_BEFORE_DIGEST: usize = MAX_KEY - DIGEST_MARK.len() - 64;

/// The padded base64 of more bytes would exceed [`MAX_KEY`].
const MAX_RAW_KEY: usize = MAX_KEY / 4 * 3;

/// The prefix of a key that is sent as its digest. A user's key with this prefix is sent as a digest too, so keys never
/// collide.
const DIGEST_MARK: &[u8] = b"sha256:";

/// Separates the beginning of a key and its digest in Dalli's form.
const DALLI_MARK: &str = ":md5:";

/// How many characters Dalli keeps of a long key; with a namespace, one more.
const DALLI_PREFIX: usize = 249 - DALLI_MARK.len() - 32;

/// The client whose rule applies to unusual keys. Under every rule, ordinary keys of at most [`MAX_KEY`] bytes are sent
/// as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// Unusual keys are refused.
    #[default]
    Refused,
    /// A key with forbidden bytes is sent as base64, and the server stores the real bytes. A key that is too long in
    /// either form is sent as `sha256:` and the hexadecimal SHA-256 of namespace and key. Keys never collide.
    Encoded,
    /// Dalli's rule. A key of over 250 characters is sent as its beginning, `:md5:`, and the hexadecimal MD5 of
    /// namespace and key. A key with forbidden bytes is sent as base64. A key that is still too long is refused.
    Dalli,
    /// The rule of Cache::Memcached and Cache::Memcached::Fast. Keys may contain control bytes other than NUL and line
    /// feed, and are then sent as base64. After a namespace, a key may be empty. Spaces and long keys are refused.
    CacheMemcached,
}

impl KeyRule {
    const NAMES: [(&'static str, Self); 5] = [
        ("refused", Self::Refused),
        ("encoded", Self::Encoded),
        ("dalli", Self::Dalli),
        ("cache-memcached", Self::CacheMemcached),
        ("cache-memcached-fast", Self::CacheMemcached),
    ];

    /// The rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }

    /// The longest namespace, in bytes, that leaves room for a key or for the form that the rule gives it.
    pub fn longest_namespace(self) -> usize {
        match self {
            Self::Refused | Self::CacheMemcached => MAX_KEY - 1,
            Self::Encoded | Self::Dalli => MAX_BEFORE_DIGEST,
        }
    }
}

/// From the setting `encode_keys`.
impl From<bool> for KeyRule {
    fn from(encode: bool) -> Self {
        if encode {
            Self::Encoded
        } else {
            Self::Refused
        }
    }
}

/// A client's rules for keys: the namespace, and a rule for unusual keys.
#[derive(Clone, Debug, Default)]
pub struct KeyRules {
    /// What stands before every key: the namespace, and room for its generation if it is clearable.
    prefix: Vec<u8>,
    /// The length of the namespace.
    length: usize,
    rule: KeyRule,
}

impl KeyRules {
    /// Fails if the namespace itself cannot be sent or exceeds [`KeyRule::longest_namespace`].
    pub fn new(namespace: &[u8], rule: impl Into<KeyRule>) -> Result<Self, KeyError> {
        let (rule, length) = (rule.into(), namespace.len());
        if length > rule.longest_namespace() {
            return Err(KeyError::NamespaceTooLong { length, limit: rule.longest_namespace() });
        }
        if let Some((byte, position)) = first_forbidden(namespace) {
            return Err(KeyError::NamespaceForbidden { byte, position });
        }
        Ok(Self { prefix: namespace.to_vec(), length, rule })
    }

    /// The same with room for a generation behind the namespace, so that the namespace can be cleared. Keys that memcached
    /// does not accept are then always sent as a digest.
    pub fn clearable(self) -> Result<Self, KeyError> {
        let limit = self.rule.longest_namespace() - GENERATION_LENGTH;
        if self.length > limit {
            return Err(KeyError::NamespaceTooLong { length: self.length, limit });
        }
        Ok(Self { prefix: [&self.prefix, &NO_GENERATION[..]].concat(), ..self })
    }

    /// Whether its keys have room for a generation.
    pub fn is_clearable(&self) -> bool {
        self.length < self.prefix.len()
    }

    /// How keys that memcached does not accept are made to fit.
    pub fn rule(&self) -> KeyRule {
        self.rule
    }

    pub fn namespace(&self) -> &[u8] {
        &self.prefix[..self.length]
    }

    /// Appends the key to `out` as it is sent, and returns whether it is base64. On an error, `out` is unchanged.
    pub fn push(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KeyError> {
        let length = self.prefix.len() + key.len();
        if !key.is_empty() && length <= MAX_KEY && is_plain(key) && !self.would_meet_a_digest(key) {
            out.extend_from_slice(&self.prefix);
            out.extend_from_slice(key);
            return Ok(false);
        }
        self.push_unusual(key, out)
    }

    /// The user's key itself, if it is sent unchanged. The ring then hashes it too.
    #[inline]
    pub fn as_given<'k>(&self, key: &'k [u8]) -> Option<Key<'k>> {
        let is_usual = !key.is_empty() && key.len() <= MAX_KEY && is_plain(key) && !self.would_meet_a_digest(key);
        (is_usual && self.prefix.is_empty()).then_some(Key { wire: key, base64: false })
    }

    /// Whether a key that memcached accepts is sent as it was given, and as no other key is. To find one among those that
    /// were sent, it need not be checked.
    #[inline]
    pub fn leaves(&self, key: &[u8]) -> bool {
        self.prefix.is_empty() && !self.would_meet_a_digest(key)
    }

    /// The key that the ring hashes, without its namespace. Dalli hashes the shortened key.
    pub fn routed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        if self.rule != KeyRule::Dalli {
            return Cow::Borrowed(key);
        }
        match shortened(&self.prefix, key) {
            // The shortened key still begins with the namespace, which is shorter.
            Some(shortened) => Cow::Owned(shortened[self.prefix.len()..].to_vec()),
            None => Cow::Borrowed(key),
        }
    }

    #[inline]
    fn would_meet_a_digest(&self, key: &[u8]) -> bool {
        self.rule == KeyRule::Encoded && key.starts_with(DIGEST_MARK)
    }

    fn too_long(&self, key: &[u8]) -> KeyError {
        KeyError::TooLong { length: key.len(), namespace: self.length, generation: self.prefix.len() - self.length }
    }

    #[cold]
    fn push_unusual(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KeyError> {
        let raw = [self.prefix.as_slice(), key].concat();
        if raw.is_empty() || key.is_empty() && self.rule != KeyRule::CacheMemcached {
            return Err(KeyError::Empty);
        }
        match self.rule {
            KeyRule::Refused => {
                let forbidden = first_forbidden(key).map(|(byte, position)| KeyError::Forbidden { byte, position });
                Err(forbidden.unwrap_or(self.too_long(key)))
            }
            KeyRule::CacheMemcached => match key.iter().position(|byte| b" \0\n".contains(byte)) {
                Some(position) => Err(KeyError::Forbidden { byte: key[position], position }),
                None if raw.len() > MAX_KEY => Err(self.too_long(key)),
                None => push_somehow(&raw, out),
            },
            KeyRule::Dalli => push_somehow(&shortened(&self.prefix, key).unwrap_or(raw), out),
            KeyRule::Encoded if raw.len() > MAX_RAW_KEY || key.starts_with(DIGEST_MARK) || self.is_clearable() => {
                out.extend_from_slice(&self.prefix);
                out.extend_from_slice(DIGEST_MARK);
                out.extend_from_slice(hexadecimal(&Sha256::digest(&raw)).as_bytes());
                Ok(false)
            }
            KeyRule::Encoded => push_somehow(&raw, out),
        }
    }
}

/// Appends a key with its namespace, unchanged or else as base64.
fn push_somehow(raw: &[u8], out: &mut Vec<u8>) -> Result<bool, KeyError> {
    let base64 = !is_plain(raw);
    let wire = if base64 { Cow::Owned(STANDARD.encode(raw).into_bytes()) } else { Cow::Borrowed(raw) };
    if wire.len() > MAX_KEY {
        return Err(KeyError::TooLongEncoded { length: wire.len() });
    }
    out.extend_from_slice(&wire);
    Ok(base64)
}

/// Dalli's form of a key of over 250 characters.
fn shortened(namespace: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let raw = [namespace, key].concat();
    character(&raw, MAX_KEY)?;
    let left = DALLI_PREFIX + usize::from(!namespace.is_empty());
    let beginning = &raw[..character(&raw, left)?];
    let digest = hexadecimal(&Md5::digest(&raw));
    Some([beginning, DALLI_MARK.as_bytes(), digest.as_bytes()].concat())
}

/// The position of the character with this number, if any. As in Ruby, an invalid byte counts as a character.
fn character(raw: &[u8], number: usize) -> Option<usize> {
    let begins = raw.utf8_chunks().flat_map(|chunk| {
        let invalid = chunk.invalid().iter().map(|_| 1);
        chunk.valid().chars().map(char::len_utf8).chain(invalid)
    });
    let mut begins = begins.scan(0, |end, length| {
        *end += length;
        Some(*end - length)
    });
    begins.nth(number)
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

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
        assert_eq!(written(&rules, &[b'k'; 247]), Err(KeyError::TooLong { length: 247, namespace: 4, generation: 0 }));
    }

    #[test]
    fn keys_of_a_clearable_namespace_have_room_for_its_generation() {
        let rules = KeyRules::new(b"app:", false).unwrap().clearable().unwrap();
        assert_eq!((rules.namespace(), rules.is_clearable()), (&b"app:"[..], true));
        assert_eq!(written(&rules, b"user:1"), Ok((b"app:!!!!!!!!!!!user:1".to_vec(), false)));
        assert_eq!(*rules.routed(b"user:1"), *b"user:1");
        assert_eq!(written(&rules, &[b'k'; 235]).unwrap().0.len(), MAX_KEY);
        let refused = written(&rules, &[b'k'; 236]).unwrap_err();
        assert_eq!(refused, KeyError::TooLong { length: 236, namespace: 4, generation: 11 });
        assert!(refused.about("k").contains("236 bytes, the namespace 4 and its generation 11"), "{refused}");
        assert!(KeyRules::new(&[b'n'; 239], false).unwrap().clearable().is_err());
    }

    #[test]
    fn unusual_keys_of_a_clearable_namespace_are_digests() {
        let rules = KeyRules::new(b"app:", true).unwrap().clearable().unwrap();
        for key in [&b"a b"[..], &[b'k'; 300], b"sha256:"] {
            let (wire, base64) = written(&rules, key).unwrap();
            assert!(wire.starts_with(b"app:!!!!!!!!!!!sha256:") && wire.len() == 86 && !base64);
        }
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
    fn dalli_shortens_by_characters_and_asks_its_ring_about_what_is_left() {
        let key = "ключ".repeat(13) + &"k".repeat(200);
        let shortened = |namespace: &[u8]| written(&KeyRules::new(namespace, KeyRule::Dalli).unwrap(), key.as_bytes());
        assert_eq!(shortened(b""), Err(KeyError::TooLongEncoded { length: 301 }));
        let late = "k".repeat(249) + "ключ";
        let rules = KeyRules::new(b"app:", KeyRule::Dalli).unwrap();
        let (wire, base64) = written(&rules, late.as_bytes()).unwrap();
        assert_eq!((&wire[..9], &wire[213..218], wire.len(), base64), (&b"app:kkkkk"[..], &b":md5:"[..], 250, false));
        assert_eq!(*rules.routed(late.as_bytes()), wire[4..]);
        assert_eq!(*rules.routed(b"a b"), *b"a b");
        let spaces = written(&rules, "sp ace".repeat(50).as_bytes());
        assert_eq!(spaces, Err(KeyError::TooLongEncoded { length: 336 }));
    }

    #[test]
    fn keys_are_stored_where_the_clients_store_them() {
        let vectors: Vec<Value> = serde_json::from_str(include_str!("../../vectors/keys.json")).unwrap();
        let mut seen = HashMap::new();
        for vector in &vectors {
            let bytes = |name: &str| vector[name].as_str().map(unhex);
            let rule = KeyRule::named(vector["rule"].as_str().unwrap()).unwrap();
            let rules = KeyRules::new(&bytes("namespace_hex").unwrap(), rule).unwrap();
            let stored = written(&rules, &bytes("key_hex").unwrap()).ok().map(|(wire, base64)| match base64 {
                true => STANDARD.decode(wire).unwrap(),
                false => wire,
            });
            assert_eq!(stored, bytes("stored_hex"), "{vector}");
            *seen.entry(vector["rule"].as_str().unwrap()).or_insert(0) += 1;
        }
        assert!(KeyRule::names().all(|name| seen[name] > 10));
    }

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_byte_of_no_character_counts_as_one() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(|number| character(b"\xe3\x81a\xd0\xba", number)),
            [Some(0), Some(1), Some(2), Some(3), None]
        );
    }

    #[test]
    fn a_namespace_must_be_sendable() {
        for (name, rule) in KeyRule::NAMES {
            let limit = rule.longest_namespace();
            let rules = KeyRules::new(&vec![b'n'; limit], rule).unwrap();
            assert!(written(&rules, b"k").is_ok(), "{name}");
            let refused = KeyRules::new(&vec![b'n'; limit + 1], rule).unwrap_err();
            assert_eq!(refused, KeyError::NamespaceTooLong { length: limit + 1, limit }, "{name}");
        }
        let refused = KeyRules::new(b"a b", true).unwrap_err();
        assert_eq!(refused, KeyError::NamespaceForbidden { byte: b' ', position: 1 });
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_can_leave_the_command_line(
            key in proptest::collection::vec(any::<u8>(), 0..400), namespace in "[a-z]{0,20}", rule in 0..5_usize,
        ) {
            let rule = KeyRule::NAMES[rule].1;
            let rules = KeyRules::new(namespace.as_bytes(), rule).unwrap();
            match written(&rules, &key) {
                Ok((wire, _)) => prop_assert!(!wire.is_empty() && wire.len() <= MAX_KEY && is_plain(&wire)),
                Err(error) => prop_assert!(rule != KeyRule::Encoded || error == KeyError::Empty),
            }
            prop_assert!(rule == KeyRule::Dalli || rules.routed(&key) == key);
        }
    }
}
