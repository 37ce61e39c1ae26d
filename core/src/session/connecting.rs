//! How a session comes to be ready: one address after the other, then the server's version.

use std::time::{Duration, Instant};

use pinyon_proto::{Capabilities, Decoded, Form, ReplyReader, ServerVersion, Status};

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::{Session, State, RECEIVE_BUFFER};
use crate::address::Address;
use crate::error::{Error, Kind};
use crate::network::{Network, Stream};

/// An attempt to connect, to one address at a time.
pub(super) struct Attempt<S> {
    stream: Option<S>,
    addresses: std::vec::IntoIter<Address>,
    deadline: Instant,
    /// Why the address before this one failed.
    failure: String,
}

impl<S> Attempt<S> {
    pub(super) fn stream(&self) -> Option<&S> {
        self.stream.as_ref()
    }

    pub(super) fn into_stream(self) -> Option<S> {
        self.stream
    }
}

impl<N: Network> Session<N> {
    /// Begins to connect, to the first of `addresses` that answers, with `timeout` for all of it. A session whose
    /// connection broke starts anew; take what was in flight from [`Session::next`] before.
    pub fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.outgoing = Outgoing::default();
        self.incoming = Incoming::new(RECEIVE_BUFFER);
        self.reader = ReplyReader::default();
        self.current = None;
        self.receiving = None;
        self.silent = 0;
        self.unattributed = None;
        self.quiet_run = 0;
        self.forget_joined();
        self.broken = None;
        let failure = "its name has no address".to_owned();
        let addresses = addresses.into_iter();
        self.state = State::Connecting(Attempt { stream: None, addresses, deadline: now + timeout, failure });
        self.advance_connection(now);
    }

    /// Until when the connection must stand.
    pub fn connection_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connecting(attempt) => Some(attempt.deadline),
            State::Probing(_, deadline) => Some(*deadline),
            State::Closed | State::Ready(_) | State::Broken(_) => None,
        }
    }

    /// Goes on connecting as far as it can without waiting.
    pub(super) fn advance_connection(&mut self, now: Instant) {
        if self.connection_deadline().is_some_and(|deadline| deadline <= now) {
            let why = match self.state {
                State::Probing(..) => "it accepted the connection but did not answer \"version\" in time",
                _ => "it did not accept the connection in time",
            };
            return self.fail(Error::new(Kind::Timeout, &self.server, format!("cannot connect: {why}")));
        }
        let State::Connecting(attempt) = &mut self.state else { return };
        loop {
            let opened = match attempt.stream.take() {
                Some(stream) => Ok(stream),
                None => match attempt.addresses.next() {
                    Some(address) => self.network.open(&address).map_err(|error| (address, error)),
                    None => break,
                },
            };
            let mut stream = match opened {
                Ok(stream) => stream,
                Err((address, error)) => {
                    attempt.failure = format!("{address}: {error}");
                    continue;
                }
            };
            match stream.connected() {
                Ok(true) => {
                    let deadline = attempt.deadline;
                    self.state = State::Probing(stream, deadline);
                    self.outgoing.append_bytes(b"version\r\n");
                    return;
                }
                Ok(false) => {
                    attempt.stream = Some(stream);
                    return;
                }
                Err(error) => attempt.failure = error.to_string(),
            }
        }
        let message = format!("cannot connect: {}", attempt.failure);
        self.fail(Error::new(Kind::Connect, &self.server, message));
    }

    /// Reads the answer to the version probe, which makes the session ready.
    pub(super) fn read_version(&mut self) {
        if !matches!(self.state, State::Probing(..)) {
            return;
        }
        let error = match self.reader.read(self.incoming.bytes(), Form::Version) {
            Ok(Decoded::Head { head, line, consumed, .. }) if head.status == Status::Version => {
                let version = line.strip_prefix(b"VERSION ").and_then(ServerVersion::parse);
                self.capabilities = Capabilities::of(version);
                self.incoming.consume(consumed);
                if !self.incoming.is_empty() {
                    let message = "cannot connect: the server sent more than the answer to \"version\"";
                    return self.fail(Error::new(Kind::Protocol, &self.server, message));
                }
                let State::Probing(stream, _) = std::mem::replace(&mut self.state, State::Closed) else { return };
                self.state = State::Ready(stream);
                return;
            }
            Ok(Decoded::Head { line, .. }) => {
                format!("cannot connect: the server answered \"version\" with \"{}\"", line.escape_ascii())
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => return,
            Err(malformed) => format!("cannot connect: this is not a memcached server: {malformed}"),
        };
        self.fail(Error::new(Kind::Protocol, &self.server, error));
    }
}
