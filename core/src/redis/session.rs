//! The session: commands in, events out.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::resp::{Decoded, Reader, Value};

use super::greeting::Greeting;
use super::info::{Protocol, ServerInfo};
use super::settings::SessionSettings;
use super::submitting::Exchange;
use crate::connection::{Connection, Incoming, Outgoing, Ticket, Unreceived, Wants, RECEIVED_PER_POLL, RECEIVE_BUFFER};
use crate::error::{Error, Kind, Sent};
use crate::network::{Network, Stream, System};
use crate::tls::ServerTls;

/// Something happened.
#[derive(Clone, Debug)]
pub enum RespEvent {
    /// The server has been greeted: commands are taken, and [`RespSession::server`] tells what it is.
    Ready,
    /// The answer to a command; one that the server refuses is answered with [`Value::Error`].
    Reply(Ticket, Value),
    /// What the server sent without being asked: its kind, such as `message`, then what belongs to it.
    Pushed(Vec<Value>),
    /// No answer will come. The error names no command, and says whether it was sent.
    Failed(Ticket, Error),
}

/// One connection to a server that speaks RESP, and the exchanges in flight on it.
pub struct RespSession<N: Network = System> {
    pub(super) connection: Connection<N>,
    pub(super) settings: SessionSettings,
    pub(super) info: ServerInfo,
    pub(super) greeting: Greeting,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) reader: Reader,
    /// Read from the receive buffer, and not yet handed out.
    pub(super) arrived: Option<Decoded>,
    pub(super) queue: VecDeque<Exchange>,
    pub(super) expired: VecDeque<(Ticket, Error)>,
    /// When it was last polled: what was not answered in time is told once all that has arrived was handed out.
    pub(super) looked_at: Option<Instant>,
    pub(super) next_ticket: u64,
    /// Whether [`RespEvent::Ready`] has been handed out.
    pub(super) announced: bool,
    /// Whether anything was ever subscribed to on this connection.
    pub(super) subscribed: bool,
}

impl<N: Network> RespSession<N> {
    /// A session that is not connected: see [`Self::connect`]. `server` is the name for messages.
    pub fn new(server: Arc<str>, network: N, settings: SessionSettings) -> Self {
        Self {
            connection: Connection::new(server, network, settings.tls.clone()),
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
        }
    }

    /// Speaks TLS in this way from the next connection on.
    pub fn set_tls(&mut self, tls: Option<ServerTls>) {
        self.connection.set_tls(tls);
    }

    /// Connects, sends and receives as far as the socket allows without waiting. Take what came of it from
    /// [`Self::next`], all of it, before more is submitted. Calling it early, late or for nothing is harmless.
    pub fn poll(&mut self, now: Instant) {
        self.advance_connection(now);
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
    pub fn deadline(&self) -> Option<Instant> {
        let awaited = self.queue.iter().filter(|exchange| !exchange.abandoned);
        self.connection.deadline().or_else(|| awaited.map(|exchange| exchange.deadline).min())
    }

    /// Sends what is unsent, as far as the socket takes it without waiting.
    pub fn flush(&mut self) {
        let Err(error) = self.connection.send(&mut self.outgoing) else { return };
        if self.connection.is_greeting() {
            // A server that takes no clients says why before it closes the connection.
            let _ = self.fill_with(Stream::receive);
        }
        if self.failure().is_none() {
            self.fail(error);
        }
    }

    /// Receives once, by `receive`, which may wait where the host can. Returns how many bytes came; an error is
    /// one that leaves the connection as it was.
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

    /// Takes what came of receiving, where the host has done that by itself. Returns what there is no room for until the
    /// rest is taken from [`Self::next`].
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

    /// Fails the exchanges whose deadline has passed. Their replies are dropped should they come; when nobody
    /// waits for any reply any more, the server has stopped answering and the connection is closed.
    pub(super) fn expire(&mut self, now: Instant) {
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
        // The connection goes on for others, and what is unsent leaves with what they have submitted.
        self.expired.iter_mut().skip(before).for_each(|(_, error)| error.sent = Sent::Maybe);
    }

    /// Breaks the connection. What is in flight fails with this error.
    pub fn fail(&mut self, error: Error) {
        self.connection.fail(error);
    }

    /// Makes a broken session one that is not connected. What was in flight must have been taken before.
    pub fn take_failure(&mut self) -> Option<Error> {
        debug_assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.connection.take_failure()
    }

    /// Closes the descriptor of a connection that broke: a host that watches it must stop doing so before. Otherwise
    /// it is closed with the session, or when it connects again.
    pub fn release(&mut self) {
        self.connection.release();
    }

    /// Closes the connection without a goodbye, for whoever may share it.
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

    /// What the server is; meaningful once the session is ready.
    pub fn server(&self) -> &ServerInfo {
        &self.info
    }

    /// The server's name, as messages give it.
    pub fn name(&self) -> &Arc<str> {
        self.connection.server()
    }

    /// Whether a command submitted now would be taken.
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

    /// Whether it waits for replies or has something to send.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.has_unsent()
    }

    /// Whether it waits for the socket to take more.
    pub fn wants_to_write(&self) -> bool {
        self.connection.wants_to_write() || self.has_unsent()
    }

    /// Whether some of what was submitted has still to be sent.
    pub fn has_unsent(&self) -> bool {
        self.outgoing.unsent() > 0 && !self.connection.is_down()
    }

    /// Whether messages come as arrays, for want of pushes, and no other commands are taken.
    pub fn is_subscriber_only(&self) -> bool {
        self.subscribed && self.info.protocol == Protocol::Resp2
    }
}
