//! Redis, Valkey and compatible servers: a session that speaks RESP.
//!
//! Like memcached's, a [`RespSession`] is one connection to one server and the queue of exchanges in flight on it. It
//! never waits, never calls the host and starts no thread; time is an argument. It takes any command. Replies come in
//! the order of the commands, with the server's pushes in between.

mod classes;
mod greeting;
mod info;
mod refusal;
mod renewing;
mod replies;
mod settings;
mod submitting;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::resp::{Decoded, Reader, Value};

pub use classes::{actual, Refusal};
pub use info::{Protocol, ServerInfo};
pub use pinyon_net::connection::{Ticket, Wants};
pub use settings::{Password, RespLimits, SessionSettings};
pub use submitting::RespRefused;

use greeting::Greeting;
use pinyon_net::connection::{Connection, Incoming, Outgoing, Unreceived, RECEIVED_PER_POLL, RECEIVE_BUFFER};
use pinyon_net::credentials::Question;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::{Network, Stream, System};
use pinyon_net::tls::ServerTls;
use renewing::Renewal;
use submitting::Exchange;

/// Something happened.
#[derive(Clone, Debug)]
pub enum RespEvent {
    /// The greeting is done: the session takes commands, and [`RespSession::server`] describes the server.
    Ready,
    /// The answer to a command. If the server refused it, the answer is [`Value::Error`].
    Reply(Ticket, Value),
    /// A push: its kind, such as `message`, then its content.
    Pushed(Vec<Value>),
    /// No answer will come. The error says whether the command was sent, but not which command it was.
    Failed(Ticket, Error),
    /// The connection could not log in anew, goes on, and tries again. This answers no command.
    Troubled(Error),
}

/// A connection to a server that speaks RESP, and the exchanges in flight on it.
pub struct RespSession<N: Network = System> {
    connection: Connection<N>,
    settings: SessionSettings,
    info: ServerInfo,
    greeting: Greeting,
    outgoing: Outgoing,
    incoming: Incoming,
    reader: Reader,
    /// Read from the receive buffer, but not handed out yet.
    arrived: Option<Decoded>,
    queue: VecDeque<Exchange>,
    expired: VecDeque<(Ticket, Error)>,
    /// When it was last polled. Timeouts are reported after everything that had arrived by then.
    looked_at: Option<Instant>,
    next_ticket: u64,
    /// Whether [`RespEvent::Ready`] was handed out.
    announced: bool,
    /// Whether this connection was ever used to subscribe.
    subscribed: bool,
    /// Whether the server has accepted RESP3, and then has spoken RESP2.
    only_resp2: bool,
    /// Of the login, if its credentials end.
    renewal: Option<Box<Renewal>>,
}

impl<N: Network> RespSession<N> {
    /// A session that is not connected: see [`Self::connect`]. `server` is its name in messages.
    pub fn new(server: Arc<str>, network: N, settings: SessionSettings) -> Self {
        let mut connection = Connection::new(server, network, settings.tls.clone());
        connection.set_credentials(settings.credentials.clone());
        Self {
            connection,
            reader: Reader::new(settings.limits.reply),
            settings,
            info: ServerInfo::default(),
            greeting: Greeting::default(),
            outgoing: Outgoing::default(),
            incoming: Incoming::new(RECEIVE_BUFFER),
            arrived: None,
            queue: VecDeque::new(),
            expired: VecDeque::new(),
            looked_at: None,
            next_ticket: 0,
            announced: false,
            subscribed: false,
            only_resp2: false,
            renewal: None,
        }
    }

    /// Sets TLS for the next connection.
    pub fn set_tls(&mut self, tls: Option<ServerTls>) {
        self.connection.set_tls(tls);
    }

    /// Greets the server in RESP2 from the next connection on, as it does not keep to RESP3. Fails if the settings insist
    /// on RESP3, or if that has not helped.
    pub fn fall_back(&mut self) -> bool {
        let may = self.settings.protocol.is_none() && !self.only_resp2;
        self.only_resp2 = true;
        may
    }

    /// Connects, sends and receives as far as the socket allows without waiting. Take all results from [`Self::next`]
    /// before you submit more. Calling it early, late or needlessly does no harm.
    pub fn poll(&mut self, now: Instant) {
        self.advance_connection(now);
        if self.renewal.is_some() {
            self.renew(now);
        }
        self.flush();
        let mut received = 0;
        while let Ok(count @ 1..) = self.fill_with(Stream::receive) {
            received += count;
            if !self.is_amid_value() || received >= RECEIVED_PER_POLL {
                break;
            }
        }
        self.check_connecting_time(now);
        self.looked_at = Some(now);
    }

    /// What to wait for before the next [`Self::poll`].
    pub fn wants(&self) -> Wants {
        Wants { read: self.connection.wants_to_read(), write: self.wants_to_write(), until: self.deadline() }
    }

    /// When to [`Self::poll`] even if nothing has happened.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        // A lock asks for this some ten times, mostly of a connection with nothing in flight.
        if self.queue.is_empty() && self.renewal.is_none() {
            return self.connection.deadline();
        }
        self.first_deadline()
    }

    #[inline(never)]
    fn first_deadline(&self) -> Option<Instant> {
        let awaited = self.queue.iter().filter(|exchange| !exchange.abandoned);
        let first = || awaited.map(|exchange| exchange.deadline).min();
        match self.renewal {
            None => self.connection.deadline().or_else(first),
            Some(_) => self.connection.deadline().or_else(|| first().into_iter().chain(self.renewal_due()).min()),
        }
    }

    #[inline]
    pub(crate) fn has_question(&self) -> bool {
        self.connection.has_question()
    }

    /// A question for credentials, once. Drivers look for it after every call.
    pub fn take_question(&mut self) -> Option<Question> {
        self.connection.take_question()
    }

    /// Whether it awaits credentials before it connects.
    pub(crate) fn is_asking(&self) -> bool {
        self.connection.is_asking()
    }

    /// Sends as much as the socket takes without waiting.
    pub fn flush(&mut self) {
        let Err(error) = self.connection.send(&mut self.outgoing) else { return };
        if self.connection.is_greeting() {
            // A server that refuses clients sends the reason before it closes the connection.
            let _ = self.fill_with(Stream::receive);
        }
        if self.failure().is_none() {
            self.fail(error);
        }
    }

    /// Receives once, by `receive`, which may wait if the host can. Returns the number of bytes received. An error
    /// leaves the connection as it was.
    pub(crate) fn fill_with(
        &mut self,
        receive: impl FnOnce(&mut N::Stream, &mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, io::ErrorKind> {
        let Some(mut wire) = self.connection.wire() else { return Ok(0) };
        let room = self.incoming.room();
        if room.is_empty() {
            return Err(io::ErrorKind::WouldBlock);
        }
        let outcome = wire.receive(&mut [IoSliceMut::new(room)], receive);
        let in_reply = || !self.reader.is_between_values() || !self.incoming.is_empty();
        match self.connection.received(outcome, in_reply) {
            Ok(count) => {
                self.incoming.filled(count);
                self.read_greeting();
                Ok(count)
            }
            Err(Unreceived::NotNow(kind)) => Err(kind),
            Err(Unreceived::Broken(error)) => {
                self.fail(error);
                Ok(0)
            }
        }
    }

    /// Takes bytes that the host has received by itself. Returns those without room, until events are taken from
    /// [`Self::next`].
    pub(crate) fn take_in<'b>(&mut self, received: io::Result<&'b [u8]>) -> &'b [u8] {
        let mut rest: &[u8] = received.as_ref().map_or(&[], |bytes| bytes);
        let _ = self.fill_with(|_, buffers| {
            let (taken, left) = received.map(|bytes| bytes.split_at(bytes.len().min(buffers[0].len())))?;
            buffers[0][..taken.len()].copy_from_slice(taken);
            rest = left;
            Ok(taken.len())
        });
        rest
    }

    /// Fails the exchanges whose deadline has passed, and drops their replies. If every exchange in flight has expired,
    /// the server has stopped answering, and the connection is closed.
    fn expire(&mut self, now: Instant) {
        let position = self.outgoing.position();
        let before = self.expired.len();
        for exchange in &mut self.queue {
            if exchange.abandoned || exchange.deadline > now {
                continue;
            }
            exchange.abandoned = true;
            let error = Error::unanswered(self.connection.server());
            self.expired.push_back((exchange.ticket, error.of("", exchange.sent(position))));
        }
        if self.expired.len() == before {
            return;
        }
        if self.queue.iter().all(|exchange| exchange.abandoned) {
            return self.fail(Error::unanswered(self.connection.server()));
        }
        // Other exchanges keep the connection, so the unsent part leaves with theirs.
        self.expired.iter_mut().skip(before).for_each(|(_, error)| error.sent = Sent::Maybe);
    }

    /// Breaks the connection. Everything in flight fails with this error.
    pub fn fail(&mut self, error: Error) {
        self.connection.fail(error);
    }

    /// Takes the error of a broken session, which is then unconnected. Take what was in flight first.
    pub fn take_failure(&mut self) -> Option<Error> {
        debug_assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.connection.take_failure()
    }

    /// Closes the descriptor of a broken connection. A host that watches it must stop doing so first. Without this
    /// call, it is closed with the session, or when the session connects again.
    pub fn release(&mut self) {
        self.connection.release();
    }

    /// Closes the connection without sending anything, since a forked process may share it.
    pub fn close(&mut self) {
        self.fail(Error::new(Kind::Closed, self.connection.server(), "the connection was closed"));
    }

    /// Why the connection broke, if it did.
    pub fn failure(&self) -> Option<&Error> {
        self.connection.failure()
    }

    pub fn stream(&self) -> Option<&N::Stream> {
        self.connection.stream()
    }

    /// The server's description. It is complete once the session is ready.
    pub fn server(&self) -> &ServerInfo {
        &self.info
    }

    /// The server's name in messages.
    pub fn name(&self) -> &Arc<str> {
        self.connection.server()
    }

    /// Whether it would take a command now.
    pub fn accepts(&self) -> bool {
        self.is_ready()
            && self.queue.len() < self.settings.limits.exchanges
            && self.outgoing.unsent() < self.settings.limits.unsent
    }

    pub fn is_ready(&self) -> bool {
        self.connection.is_ready()
    }

    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Whether it awaits replies or has something to send.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.has_unsent()
    }

    /// Whether it waits for the socket to take more.
    pub fn wants_to_write(&self) -> bool {
        self.connection.wants_to_write() || self.has_unsent()
    }

    /// Whether something that was submitted is unsent.
    pub fn has_unsent(&self) -> bool {
        self.outgoing.unsent() > 0 && !self.connection.is_down()
    }

    /// Whether messages arrive as arrays because there are no pushes. Then it takes no other commands.
    pub fn is_subscriber_only(&self) -> bool {
        self.subscribed && self.info.protocol == Protocol::Resp2
    }
}
