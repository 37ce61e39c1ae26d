//! Values as an operation keeps them until it is over.

use std::convert::Infallible;

use magnus::{Error, Ruby, Value};
use pinyon_cache::operations::{AsBytes, Bytes, Head, Request, Values};
use pinyon_cache::Value as Received;

use crate::values::Codec;

/// A value that was received.
pub(crate) enum Stored {
    Bytes(Bytes),
    /// Ruby's String. It must stay on the stack, where the garbage collector sees it.
    String(Value),
}

impl From<Bytes> for Stored {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl Codec {
    /// The value as Ruby's object.
    #[inline]
    pub(crate) fn read(&self, ruby: &Ruby, stored: impl Into<Stored>) -> Result<Value, Error> {
        match stored.into() {
            Stored::Bytes(bytes) => self.decode(ruby, bytes),
            Stored::String(string) => Ok(string),
        }
    }
}

/// Reads the values of a thread's operation. The operation is on the thread's stack, so a String is made at once, of the
/// receive buffer. To make other objects may call Ruby, which this must not: they stay bytes.
pub(crate) struct OnStack<'c> {
    ruby: &'c Ruby,
    /// None if the answer would put the String on the heap.
    codec: Option<&'c Codec>,
}

impl<'c> OnStack<'c> {
    #[inline]
    pub(crate) fn new(ruby: &'c Ruby, codec: &'c Codec, request: &Request) -> Self {
        let stays = matches!(request, Request::Get(_) | Request::GetAndTouch { .. });
        Self { ruby, codec: stays.then_some(codec) }
    }
}

impl Values for OnStack<'_> {
    type Value = Stored;
    type Error = Infallible;

    #[inline]
    fn read(&self, head: &Head, value: Received<'_>, server: &str) -> Result<Stored, Infallible> {
        let string = match (self.codec, &value) {
            (Some(codec), Received::Borrowed(bytes)) => codec.string(self.ruby, bytes, head.item.client_flags),
            _ => None,
        };
        match string {
            Some(string) => Ok(Stored::String(string)),
            None => AsBytes.read(head, value, server).map(Stored::Bytes),
        }
    }
}
