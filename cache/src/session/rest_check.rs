//! Asking a connection that has rested whether it still answers, before anything else is sent on it.
//!
//! Firewalls and load balancers forget connections that are silent for some minutes, and tell neither side. What is sent
//! on such a connection is lost. So the first request after a rest is a no-op, which changes nothing. If no answer comes
//! within a part of the caller's time, the connection is closed, and the caller's own request leaves on another one.
//!
//! A connection has rested when nothing has used it for a second. Drivers need not know about this: requests that wait
//! for a session that fails were not sent, so they leave on another one.

use std::time::{Duration, Instant};

use pinyon_proto::{Decoded, Form};

use super::handshake::Awaited;
use super::Session;
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::Network;

/// A connection that was silent for so long is asked before it is used.
pub(crate) const RESTED: Duration = Duration::from_secs(1);

/// Which part of a client's timeout the answer may take.
const PART: u32 = 4;

impl<N: Network> Session<N> {
    /// Asks the server for a sign of life if the connection was silent for `rest`. Until the answer, the session is not
    /// ready. `timeout`: the client's.
    #[cold]
    pub(crate) fn ask_after(&mut self, rest: Duration, now: Instant, timeout: Duration) {
        if rest < RESTED || !self.is_clean() || !self.connection.crosses_network() {
            return;
        }
        let (request, form): (&[u8], _) = match self.capabilities.meta() {
            true => (b"mn\r\n", Form::NoOp),
            false if self.manner.asks_version() => (b"version\r\n", Form::Version),
            // The server answers nothing that changes nothing.
            false => return,
        };
        self.awaits = Awaited::SignOfLife(form);
        self.outgoing.append_bytes(request);
        self.connection.greet_again(now, timeout / PART);
    }

    pub(super) fn read_sign_of_life(&mut self, form: Form) {
        match self.reader.read(self.incoming.bytes(), form) {
            Ok(Decoded::Head { consumed, .. }) => {
                self.incoming.consume(consumed);
                self.be_ready();
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => {}
            Err(malformed) => self.is_no_memcached(&malformed),
        }
    }

    /// The connection turned out to be lost while it rested. The server may be well.
    pub(super) fn lose(&mut self) {
        let why =
            "the connection had been idle and no longer works: a firewall or load balancer on the way drops idle \
                   connections (see the setting \"keepalive\"), or the server was restarted";
        self.fail(Error::new(Kind::Lost, self.server(), why));
    }
}
