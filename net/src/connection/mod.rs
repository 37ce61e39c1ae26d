//! The basis of all sessions, whatever their protocol: one connection to one server, from closed to ready to broken.
//!
//! A session owns the bytes ([`Outgoing`], [`Incoming`]) and the exchanges. This module owns the stream and its state.
//! Once connected, the session greets the server in its protocol's way, and reports when it is
//! [ready](Connection::ready). If TLS is enabled, the handshake comes first, and all later bytes pass through
//! `Secured`. Nothing here waits. Errors are returned to the session, which handles its exchanges and then
//! [fails](Connection::fail) the connection.

mod attempt;
mod incoming;
mod login;
mod outgoing;
#[cfg(any(test, feature = "testing"))]
pub mod peer;
mod tls_stream;
mod wire;

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

pub use incoming::Incoming;
pub use outgoing::Outgoing;
pub use outgoing::SharedBytes;

use crate::address::Address;
use crate::error::{Error, Kind};
use crate::network::{Network, Stream};
use crate::tls::ServerTls;
use attempt::{Attempt, Limit};
use login::Logging;
use tls_stream::{Failure, Secured};
pub use wire::Wire;

/// Enough for lines and small values, several at once.
pub const RECEIVE_BUFFER: usize = 64 * 1024;

/// Enough room for any TLS record.
pub const LEAST_ROOM: usize = 20 * 1024;

/// The most that one poll receives, so that other connections get their turn.
pub const RECEIVED_PER_POLL: usize = 256 * 1024;

/// Identifies an exchange of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    pub read: bool,
    pub write: bool,
    /// When to poll even if nothing has happened.
    pub until: Option<Instant>,
}

pub struct Connection<N: Network> {
    server: Arc<str>,
    network: N,
    state: State<N::Stream>,
    /// The address that it is connected to.
    address: Option<Address>,
    /// The TLS settings, if TLS is enabled.
    tls: Option<ServerTls>,
    /// Whom to ask for credentials, if a function returns them, and what it has returned.
    logging: Option<Box<Logging>>,
    /// The TLS layer between the session and the stream, once TLS has begun.
    secured: Option<Box<Secured>>,
    /// Broken streams, and those of addresses that did not answer. They stay open until the host has stopped watching
    /// them.
    broken: Vec<N::Stream>,
    /// Whether the server has ever answered a greeting.
    has_served: bool,
    /// What to do about a server that closes the connection instead of answering its first greeting.
    advice: &'static str,
}

/// Advice for a server that closes the connection before it has ever answered anything.
const PERHAPS_TLS: &str = ": should it speak TLS on this port, set \"tls\"";

enum State<S> {
    /// Not connected, and not connecting.
    Closed,
    /// Awaits credentials before it connects.
    Asking,
    Connecting(Attempt<S>),
    /// Connected. The TLS handshake must finish within this limit.
    Securing(S, Limit),
    /// Connected, and secured if TLS is enabled. The server must answer the greeting within this limit.
    Greeting(S, Limit),
    Ready(S),
    Broken(Error),
}

/// Why nothing was received.
pub enum Unreceived {
    /// Nothing has arrived yet, or a signal came. The connection is unchanged.
    NotNow(io::ErrorKind),
    Broken(Error),
}

impl<N: Network> Connection<N> {
    pub fn new(server: Arc<str>, network: N, tls: Option<ServerTls>) -> Self {
        Self {
            server,
            network,
            state: State::Closed,
            address: None,
            tls,
            logging: None,
            secured: None,
            broken: Vec::new(),
            has_served: false,
            advice: PERHAPS_TLS,
        }
    }

    /// Sets what to do about a server that closes the connection instead of answering its first greeting.
    pub fn advise(&mut self, advice: &'static str) {
        self.advice = advice;
    }

    /// Sets TLS for the next connection.
    pub fn set_tls(&mut self, tls: Option<ServerTls>) {
        self.tls = tls;
    }

    /// The server's name in messages.
    pub fn server(&self) -> &Arc<str> {
        &self.server
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether it waits for something to arrive.
    pub fn wants_to_read(&self) -> bool {
        matches!(self.state, State::Securing(..) | State::Greeting(..) | State::Ready(_))
    }

    /// Whether it waits for the socket to take something of its own, such as a handshake.
    pub fn wants_to_write(&self) -> bool {
        match self.state {
            State::Connecting(_) => true,
            State::Securing(..) => self.secured.as_ref().is_some_and(|secured| secured.has_unsent()),
            _ => false,
        }
    }

    /// Whether bytes pass through a network, where something may forget the connection.
    pub fn crosses_network(&self) -> bool {
        matches!(self.address, Some(Address::Tcp(_)))
    }

    pub fn is_greeting(&self) -> bool {
        matches!(self.state, State::Greeting(..))
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// Whether it is closed or broken.
    pub fn is_down(&self) -> bool {
        matches!(self.state, State::Broken(_) | State::Closed)
    }

    /// Why it broke, if it did.
    pub fn failure(&self) -> Option<&Error> {
        match &self.state {
            State::Broken(error) => Some(error),
            _ => None,
        }
    }

    pub fn stream(&self) -> Option<&N::Stream> {
        match &self.state {
            State::Connecting(attempt) => attempt.stream(),
            State::Securing(stream, _) | State::Greeting(stream, _) | State::Ready(stream) => Some(stream),
            State::Closed | State::Asking | State::Broken(_) => None,
        }
    }

    /// The path for a session's bytes, if they can be sent.
    pub fn wire(&mut self) -> Option<Wire<'_, N::Stream>> {
        match &mut self.state {
            State::Greeting(stream, _) | State::Ready(stream) => {
                Some(Wire { stream, secured: self.secured.as_deref_mut() })
            }
            State::Closed | State::Asking | State::Connecting(_) | State::Securing(..) | State::Broken(_) => None,
        }
    }

    /// The deadline for becoming ready.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connecting(attempt) => Some(attempt.limit().deadline),
            State::Securing(_, limit) | State::Greeting(_, limit) => Some(limit.deadline),
            State::Asking => self.logging.as_ref().and_then(|logging| logging.due()),
            State::Closed | State::Ready(_) | State::Broken(_) => None,
        }
    }

    /// Marks the connection ready: the server has answered the greeting.
    pub fn ready(&mut self) {
        self.has_served = true;
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Greeting(stream, _) => State::Ready(stream),
            other => other,
        };
    }

    /// Sends as much as the socket takes without waiting.
    pub fn send(&mut self, outgoing: &mut Outgoing) -> Result<(), Error> {
        let Some(mut wire) = self.wire() else { return Ok(()) };
        if outgoing.unsent() == 0 {
            return Ok(());
        }
        match wire.send(outgoing) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.broken_sending(&error)),
        }
    }

    /// Interprets the result of receiving: the number of bytes, or why there are none.
    pub fn received(&self, outcome: io::Result<usize>, in_reply: impl FnOnce() -> bool) -> Result<usize, Unreceived> {
        match outcome {
            Ok(0) if in_reply() => {
                Err(Unreceived::Broken(self.broke("the server closed the connection in the middle of a reply")))
            }
            Ok(0) => Err(Unreceived::Broken(self.closed())),
            Ok(count) => Ok(count),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Err(Unreceived::NotNow(error.kind()))
            }
            Err(error) => Err(Unreceived::Broken(self.broken_receiving(&error))),
        }
    }

    /// Breaks the connection. Keeps the error, and keeps the stream until [`Self::release`].
    pub fn fail(&mut self, error: Error) {
        let stream = match std::mem::replace(&mut self.state, State::Broken(error)) {
            State::Connecting(attempt) => attempt.into_stream(),
            State::Securing(stream, _) | State::Greeting(stream, _) | State::Ready(stream) => Some(stream),
            State::Closed | State::Asking | State::Broken(_) => None,
        };
        self.broken.extend(stream);
        self.secured = None;
    }

    /// Takes the error of a broken connection, which is then closed.
    pub fn take_failure(&mut self) -> Option<Error> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Broken(error) => Some(error),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Closes the descriptors of broken streams. A host that watches one must stop doing so first. Without this call,
    /// they are closed with the connection, or when it connects again.
    pub fn release(&mut self) {
        self.broken.clear();
    }

    #[cold]
    fn broken_sending(&mut self, error: &io::Error) -> Error {
        // A server that ends TLS sends the reason before it closes, but the close may be noticed first.
        let mut rest = vec![0; RECEIVE_BUFFER];
        let said = self
            .wire()
            .filter(|wire| wire.secured.is_some())
            .map(|mut wire| wire.receive(&mut [IoSliceMut::new(&mut rest)], Stream::receive));
        match said {
            Some(Err(why)) if Failure::of(&why).is_some() => self.broken_by(&why, ""),
            _ => self.broken_by(error, "the connection broke while sending"),
        }
    }

    #[cold]
    fn broken_receiving(&self, error: &io::Error) -> Error {
        self.broken_by(error, "the connection broke while a reply was awaited")
    }

    fn broken_by(&self, error: &io::Error, when: &str) -> Error {
        match Failure::of(error) {
            Some(failure) if self.is_ready() => self.broke(format!("the connection broke: {failure}")),
            Some(failure) => self.unsecured(failure),
            None => self.broke(format!("{when}: {error}{}", self.too_early())),
        }
    }

    #[cold]
    fn closed(&self) -> Error {
        self.broke(format!("the server closed the connection{}", self.too_early()))
    }

    /// Whether the server did not even answer the greeting, and advice if it never has.
    fn too_early(&self) -> String {
        let advice = if self.has_served { "" } else { self.advice };
        match self.is_greeting() && self.secured.is_none() {
            true => format!(" before it answered anything{advice}"),
            false => String::new(),
        }
    }

    fn broke(&self, message: impl Into<String>) -> Error {
        Error::new(Kind::Closed, &self.server, message)
    }

    /// The error of a handshake of TLS that failed.
    fn unsecured(&self, why: &Failure) -> Error {
        let kind = if why.passes { Kind::Connect } else { Kind::Refused };
        Error::new(kind, &self.server, format!("cannot connect: {why}"))
    }

    fn cannot_connect(&self, why: impl std::fmt::Display) -> Error {
        Error::new(Kind::Connect, &self.server, format!("cannot connect: {why}"))
    }
}
