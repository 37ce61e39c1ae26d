//! What a session hands out: replies and failures, each with its exchange's ticket.

use std::any::Any;
use std::sync::Arc;

use pinyon_proto::{Head, Item};

use crate::near::Read;
pub use pinyon_net::connection::Ticket;
use pinyon_net::error::Error;

/// News of an exchange.
#[derive(Debug)]
pub struct Completion<'s> {
    pub ticket: Ticket,
    pub outcome: Outcome<'s>,
}

#[derive(Debug)]
pub enum Outcome<'s> {
    /// One of several replies, such as each `VALUE` of a classic `get`. More follow.
    Part(Reply<'s>),
    /// The only reply, or the last of several.
    Reply(Reply<'s>),
    /// A large value is about to arrive. Pass memory for it to [`Session::receive_into`](super::Session::receive_into);
    /// otherwise the session allocates it. The reply follows once the value is complete.
    Large {
        head: Head,
        /// As in [`Reply::index`].
        index: usize,
    },
    Failed(Error),
}

/// A reply. It borrows its bytes from the receive buffer.
#[derive(Debug)]
pub struct Reply<'s> {
    pub head: &'s Head,
    /// The index of its key in the [`GetMany`](pinyon_proto::Command::GetMany).
    pub index: usize,
    pub value: Value<'s>,
    /// The reply's first line without its `\r\n`. It is empty if the value arrived in pieces.
    pub line: &'s [u8],
    /// The server's name, for messages.
    pub server: &'s Arc<str>,
}

impl Reply<'_> {
    /// Its value, to be kept in memory.
    pub(crate) fn to_keep(&self) -> Read<'_> {
        let Item { client_flags, cas, .. } = self.head.item;
        Read { bytes: self.value.bytes(), client_flags, server: self.server, token: cas }
    }
}

#[derive(Debug)]
pub enum Value<'s> {
    None,
    /// In the receive buffer, until the next call.
    Borrowed(&'s [u8]),
    /// In the memory that the host supplied.
    Received(Box<dyn Destination>),
}

impl Value<'_> {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::None => &[],
            Value::Borrowed(bytes) => bytes,
            Value::Received(destination) => destination.bytes(),
        }
    }
}

/// The host's memory for a large value.
pub trait Destination: Send + std::fmt::Debug {
    /// The whole memory, exactly as long as the value.
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Lets the host downcast to its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl Destination for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
