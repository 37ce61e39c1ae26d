//! How a session comes to be ready: once it is connected, the server's version says what may be sent.

use std::time::{Duration, Instant};

use pinyon_proto::{Capabilities, Decoded, Form, ReplyReader, ServerVersion, Status};

use super::Session;
use crate::address::Address;
use crate::connection::{Incoming, Outgoing, RECEIVE_BUFFER};
use crate::error::{Error, Kind};
use crate::network::Network;

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
        self.connection.connect(addresses, now, timeout);
        self.advance_connection(now);
    }

    /// Until when the connection must stand.
    pub fn connection_deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Goes on connecting as far as it can without waiting.
    pub(super) fn advance_connection(&mut self, now: Instant) {
        match self.connection.advance(now, "version") {
            Ok(true) => self.outgoing.append_bytes(b"version\r\n"),
            Ok(false) => {}
            Err(error) => self.fail(error),
        }
    }

    /// Reads the answer to the version probe, which makes the session ready.
    pub(super) fn read_version(&mut self) {
        if !self.connection.is_greeting() {
            return;
        }
        let error = match self.reader.read(self.incoming.bytes(), Form::Version) {
            Ok(Decoded::Head { head, line, consumed, .. }) if head.status == Status::Version => {
                let version = line.strip_prefix(b"VERSION ").and_then(ServerVersion::parse);
                self.capabilities = Capabilities::of(version);
                self.incoming.consume(consumed);
                if !self.incoming.is_empty() {
                    let message = "cannot connect: the server sent more than the answer to \"version\"";
                    return self.fail(Error::new(Kind::Protocol, self.server(), message));
                }
                return self.connection.ready();
            }
            Ok(Decoded::Head { line, .. }) => {
                format!("cannot connect: the server answered \"version\" with \"{}\"", line.escape_ascii())
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => return,
            Err(malformed) => format!("cannot connect: this is not a memcached server: {malformed}"),
        };
        self.fail(Error::new(Kind::Protocol, self.server(), error));
    }
}
