//! What a host supplies: how its keys and data are kept until they are sent, and what becomes of values.

use pinyon_proto::{Head, Key};

use crate::session::{Data, Destination, Value};

/// Makes the host's values of what servers send.
///
/// It is called while a reply is read: it must not wait, unwind, or use the client.
pub trait Values {
    /// A value as the host has it.
    type Value;
    /// Why the host could not make one.
    type Error;

    /// Makes a value of its bytes and client flags. `server`: the name of the server that sent it, for messages.
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Self::Value, Self::Error>;

    /// Says where a large value is to be received; it must be as long as the head says.
    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }
}

/// A key that is kept until its request is over.
pub trait SentKey {
    /// As it is sent.
    fn wire(&self) -> Key<'_>;
    /// As the ring is asked about it.
    fn routed(&self) -> &[u8];
}

/// A data block that is kept until its request is over.
pub trait SentData {
    fn data(&self) -> Data<'_>;
}

/// Values as bytes with their client flags, for hosts that make their objects once an operation is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// A value's bytes and its client flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub bytes: Vec<u8>,
    pub client_flags: u32,
}

impl Values for Plain {
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

/// A key that the caller keeps.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedKey<'k> {
    pub wire: Key<'k>,
    pub routed: &'k [u8],
}

impl SentKey for BorrowedKey<'_> {
    fn wire(&self) -> Key<'_> {
        self.wire
    }

    fn routed(&self) -> &[u8] {
        self.routed
    }
}

/// A key of one's own.
#[derive(Clone, Debug)]
pub struct OwnedKey {
    wire: Vec<u8>,
    base64: bool,
    /// Where the ring is asked about something else than what is sent.
    routed: Option<Box<[u8]>>,
}

impl OwnedKey {
    pub fn new(wire: Key<'_>, routed: &[u8]) -> Self {
        let base64 = wire.is_base64();
        let wire = wire.wire().to_vec();
        Self { routed: (wire != routed).then(|| routed.into()), wire, base64 }
    }
}

impl SentKey for OwnedKey {
    fn wire(&self) -> Key<'_> {
        Key::new(&self.wire, self.base64).unwrap_or_else(|_| unreachable!("it was a key when it was made"))
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
