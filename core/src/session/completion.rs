//! What a session hands out: replies and failures, each with the ticket of its exchange.

use std::any::Any;
use std::sync::Arc;

use pinyon_proto::Head;

pub use crate::connection::Ticket;
use crate::error::Error;

/// Something happened to an exchange.
#[derive(Debug)]
pub struct Completion<'s> {
    pub ticket: Ticket,
    pub outcome: Outcome<'s>,
}

#[derive(Debug)]
pub enum Outcome<'s> {
    /// One reply of several, as each `VALUE` of a classic `get` is; more follow.
    Part(Reply<'s>),
    /// The whole reply, or the last of several.
    Reply(Reply<'s>),
    /// A large value is about to arrive. Hand a place for it to [`Session::receive_into`](super::Session::receive_into),
    /// or go on and the session makes one; its reply follows when it is filled.
    Large(Head),
    Failed(Error),
}

/// A reply, its bytes borrowed from the receive buffer.
#[derive(Debug)]
pub struct Reply<'s> {
    pub head: &'s Head,
    /// Which of the keys of a [`GetMany`](pinyon_proto::Command::GetMany) this is about.
    pub index: usize,
    pub value: Value<'s>,
    /// The reply's first line, without its `\r\n`; empty when the value came in pieces.
    pub line: &'s [u8],
    /// The server's name, for messages.
    pub server: &'s Arc<str>,
}

#[derive(Debug)]
pub enum Value<'s> {
    None,
    /// In the receive buffer until the next call.
    Borrowed(&'s [u8]),
    /// Received straight into the place the host handed in.
    Received(Box<dyn Destination>),
}

impl Value<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::None => &[],
            Value::Borrowed(bytes) => bytes,
            Value::Received(destination) => destination.bytes(),
        }
    }
}

/// Memory of the host's that a large value is received into.
pub trait Destination: Send + std::fmt::Debug {
    /// The whole of it; as long as the value is.
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    /// For the host to get back what it handed in.
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
