//! What a host supplies: storage for keys and data until they are sent, and a reader for values.

use std::borrow::Cow;

use pinyon_proto::{Head, Key, KeyError, KeyRules};

use super::Single;
use crate::session::{Data, Destination, SharedBytes, Value};

/// Makes the host's objects from the values that servers send.
///
/// The core calls it while it reads a reply: it must not wait, unwind, or use the client.
pub trait Values {
    /// A value in the host's form.
    type Value;
    /// Why the host could not read a value.
    type Error;

    /// Makes a value from bytes and client flags. `server`: the name of the server that sent it, for messages.
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Self::Value, Self::Error>;

    /// Provides memory for a large value. It must be as long as the head says.
    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }

    /// Makes the value of one of many keys, for hosts that want to know which: the key with this index.
    #[inline(always)]
    fn read_of(&self, _index: usize, head: &Head, value: Value<'_>, server: &str) -> Result<Self::Value, Self::Error> {
        self.read(head, value, server)
    }

    /// Provides memory for a large value of one of many keys.
    fn destination_of(&self, _index: usize, head: &Head) -> Box<dyn Destination> {
        self.destination(head)
    }
}

/// A key that is kept until its request is over.
pub trait SentKey {
    /// The key as it is sent.
    fn wire(&self) -> Key<'_>;
    /// The key as the ring hashes it.
    fn routed(&self) -> &[u8];
    /// The same key with memory of its own.
    fn owned(&self) -> OwnedKey {
        OwnedKey::from(BorrowedKey { wire: self.wire(), routed: self.routed() })
    }
}

/// A data block that is kept until its request is over.
pub trait SentData {
    fn data(&self) -> Data<'_>;
}

/// A data block that borrows nothing, so the operation may outlive the call that began it. `B` is a type of the host's.
#[derive(Clone, Default)]
pub enum OwnedData<B = Vec<u8>> {
    #[default]
    Nothing,
    /// A copy, for memory that the host may change or free.
    Copied(Vec<u8>),
    /// A small immutable object of the host's. It is copied at submission.
    Object(B),
    /// Memory that is sent without a copy. It must not change while it is referenced. Worthwhile for large values.
    Shared(SharedBytes),
}

impl<B: AsRef<[u8]>, V: Values> Single<OwnedKey, OwnedData<B>, V> {
    /// Takes the memory of its key and of its data block, for others. Call it once the operation is over.
    #[inline]
    pub fn take_memory(&mut self) -> [Vec<u8>; 2] {
        let (key, data) = self.key_and_data();
        let data = match data {
            OwnedData::Copied(bytes) => std::mem::take(bytes),
            _ => Vec::new(),
        };
        [std::mem::take(&mut key.wire), data]
    }
}

impl<B: AsRef<[u8]>> SentData for OwnedData<B> {
    fn data(&self) -> Data<'_> {
        match self {
            Self::Nothing => Data::None,
            Self::Copied(bytes) => Data::Copied(bytes),
            Self::Object(object) => Data::Copied(object.as_ref()),
            Self::Shared(bytes) => Data::Shared(bytes.clone()),
        }
    }
}

impl<B> From<&Data<'_>> for OwnedData<B> {
    fn from(data: &Data<'_>) -> Self {
        match data {
            Data::None => Self::Nothing,
            Data::Copied(bytes) => Self::Copied(bytes.to_vec()),
            Data::Shared(bytes) => Self::Shared(bytes.clone()),
        }
    }
}

/// Returns values as bytes with client flags, for hosts that make their objects once an operation is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsBytes;

/// A value's bytes and its client flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub bytes: Vec<u8>,
    pub client_flags: u32,
}

impl Values for AsBytes {
    type Value = Bytes;
    type Error = std::convert::Infallible;

    fn read(&self, head: &Head, value: Value<'_>, _server: &str) -> Result<Bytes, Self::Error> {
        let bytes = match value {
            Value::Received(destination) => match destination.into_any().downcast::<Vec<u8>>() {
                Ok(received) => *received,
                Err(_) => unreachable!("it was received into a vector"),
            },
            other => other.bytes().to_vec(),
        };
        Ok(Bytes { bytes, client_flags: head.item.client_flags })
    }
}

/// Reads no value, for requests whose callers are gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unread;

impl Values for Unread {
    type Value = ();
    type Error = std::convert::Infallible;

    fn read(&self, _head: &Head, _value: Value<'_>, _server: &str) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A key in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedKey<'k> {
    pub wire: Key<'k>,
    pub routed: &'k [u8],
}

impl<'k> BorrowedKey<'k> {
    /// Forms a key from the user's key by the client's rules. Keys that need rewriting are written to `scratch`.
    #[inline]
    pub fn new(rules: &KeyRules, given: &'k [u8], scratch: &'k mut Vec<u8>) -> Result<Self, KeyError> {
        match rules.as_given(given) {
            Some(wire) => Ok(Self { wire, routed: given }),
            None => Self::written(rules, given, scratch),
        }
    }

    #[inline(never)]
    fn written(rules: &KeyRules, given: &'k [u8], scratch: &'k mut Vec<u8>) -> Result<Self, KeyError> {
        scratch.clear();
        let base64 = rules.push(given, scratch)?;
        let end = scratch.len();
        let routed = match rules.routed(given) {
            Cow::Borrowed(routed) => Some(routed),
            Cow::Owned(routed) => {
                scratch.extend_from_slice(&routed);
                None
            }
        };
        let (wire, behind) = scratch.split_at(end);
        Ok(Self { wire: Key::known(wire, base64), routed: routed.unwrap_or(behind) })
    }

    /// The same key with another form for the ring, for hosts that have both.
    #[inline]
    pub fn asked_about(self, routed: Option<&'k [u8]>) -> Self {
        Self { routed: routed.unwrap_or(self.routed), ..self }
    }
}

impl SentKey for BorrowedKey<'_> {
    fn wire(&self) -> Key<'_> {
        self.wire
    }

    fn routed(&self) -> &[u8] {
        self.routed
    }
}

/// A key with memory of its own.
#[derive(Clone, Debug)]
pub struct OwnedKey {
    wire: Vec<u8>,
    base64: bool,
    /// The form that the ring hashes, where it differs from the one that is sent.
    routed: Option<Box<[u8]>>,
}

impl OwnedKey {
    /// Forms a key from the user's key by the client's rules, and copies it.
    pub fn new(rules: &KeyRules, given: &[u8]) -> Result<Self, KeyError> {
        BorrowedKey::new(rules, given, &mut Vec::new()).map(Self::from)
    }

    /// A copy of a key, in memory that another key or a data block has left.
    #[inline]
    pub fn copied_to(mut memory: Vec<u8>, BorrowedKey { wire, routed }: BorrowedKey<'_>) -> Self {
        memory.clear();
        memory.extend_from_slice(wire.wire());
        Self { routed: (memory != routed).then(|| routed.into()), wire: memory, base64: wire.is_base64() }
    }
}

impl From<BorrowedKey<'_>> for OwnedKey {
    fn from(key: BorrowedKey<'_>) -> Self {
        Self::copied_to(Vec::new(), key)
    }
}

impl SentKey for OwnedKey {
    fn wire(&self) -> Key<'_> {
        Key::known(&self.wire, self.base64)
    }

    fn routed(&self) -> &[u8] {
        self.routed.as_deref().unwrap_or(&self.wire)
    }
}

impl SentData for Data<'_> {
    #[inline]
    fn data(&self) -> Data<'_> {
        self.clone()
    }
}

impl SentData for Option<Vec<u8>> {
    fn data(&self) -> Data<'_> {
        self.as_deref().map_or(Data::None, Data::Copied)
    }
}

#[cfg(test)]
mod tests {
    use pinyon_proto::KeyRule;

    use super::*;
    use crate::operations::Keys;

    /// What is sent, whether it is base64, and what the ring hashes: for the key alone, and for the same key among
    /// many.
    fn prepared(rules: &KeyRules, given: &[u8]) -> [(Vec<u8>, bool, Vec<u8>); 2] {
        let of = |wire: Key<'_>, routed: &[u8]| (wire.wire().to_vec(), wire.is_base64(), routed.to_vec());
        let (one, mut keys) = (OwnedKey::new(rules, given).unwrap(), Keys::default());
        keys.push(rules, b"before").unwrap();
        keys.push(rules, given).unwrap();
        [of(one.wire(), one.routed()), of(keys.key(1), keys.routed(1))]
    }

    #[test]
    fn data_that_is_owned_is_what_it_was_made_of() {
        let of = |data: Data<'_>| OwnedData::<&[u8]>::from(&data);
        assert!(matches!(of(Data::None).data(), Data::None));
        assert!(matches!(of(Data::Copied(b"small")).data(), Data::Copied(b"small")));
        assert!(matches!(OwnedData::Object(b"object").data(), Data::Copied(b"object")));
        let large: SharedBytes = std::sync::Arc::new(vec![7; 3]);
        let shared = of(Data::Shared(large.clone()));
        assert!(matches!(shared.data(), Data::Shared(bytes) if std::sync::Arc::ptr_eq(&bytes, &large)));
    }

    #[test]
    fn the_ring_is_asked_about_the_key_as_it_was_given() {
        let rules = KeyRules::new(b"app:", KeyRule::Encoded).unwrap();
        for (given, wire, base64) in [("k", "app:k", false), ("a b", "YXBwOmEgYg==", true)] {
            for one in prepared(&rules, given.as_bytes()) {
                assert_eq!(one, (wire.into(), base64, given.into()));
            }
        }
    }

    #[test]
    fn of_a_key_that_dalli_shortens_the_ring_is_asked_about_what_is_left() {
        let rules = KeyRules::new(b"app:", KeyRule::Dalli).unwrap();
        for (given, is_base64) in [([b'k'; 300].to_vec(), false), ([&b"a b"[..], &[b'\xfc'; 2]].concat(), true)] {
            let routed = rules.routed(&given).into_owned();
            let [one, among_many] = prepared(&rules, &given);
            assert_eq!((one.1, &one.2), (is_base64, &routed));
            assert_eq!(one, among_many);
        }
        let [(wire, _, routed), _] = prepared(&rules, &[b'k'; 300]);
        assert_eq!((wire.len(), &wire[4..]), (250, &routed[..]), "the namespace is the ring's to add");
        assert!(routed.windows(5).any(|mark| mark == b":md5:"));
        let (long_and_odd, mut scratch) = ([&[b'k'; 140][..], b" ", &[b'k'; 140]].concat(), Vec::new());
        let refused = BorrowedKey::new(&rules, &long_and_odd, &mut scratch).unwrap_err();
        assert!(matches!(refused, KeyError::TooLongEncoded { .. }), "{refused}");
    }
}
