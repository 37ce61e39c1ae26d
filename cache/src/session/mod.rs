//! A session: one connection to one server, and the queue of exchanges in flight on it.
//!
//! The host submits commands, calls [`Session::poll`] when the socket may have something to do, and takes completions
//! from [`Session::next`]. A session never waits, never calls the host and starts no thread; time is an argument. It
//! verifies every reply against its exchange. A reply that does not match breaks the connection, so a session never
//! hands out another key's value.
//!
//! House rules: only `replies.rs` reads replies, and every failure ends in [`Session::fail`].
//!
//! The rules of a session:
//!
//! 1. A session hands out the replies that have arrived before it declares any exchange late. Deadlines are instants.
//! 2. It verifies a reply by its order, and by what the server echoes: the opaque of a meta command, the key of a
//!    classic `get`. A mismatch fails all exchanges in flight.
//! 3. Its memory is bounded, whatever a server sends: the receive buffer has a fixed size, and lines and values have
//!    limits. A full queue refuses (`Refused::Full`), and the host submits again later.
//! 4. It lends small values out from the receive buffer, so a binding makes the host's object with one copy. It
//!    receives large values (`LARGE`) straight into the host's memory (`Outcome::Large`, `Destination`), and sends
//!    them from where they are (`Data::Shared`).
//! 5. While anything is unsent it also wants to read, so that two full socket buffers cannot wait for each other.
//! 6. A failure says whether the request was sent: `no`, `maybe` or `yes`. `no` also promises that the request will
//!    not be sent later. A request that is unsent at its deadline still leaves later if other exchanges keep the
//!    connection, so its failure says `maybe`.
//! 7. Connecting, TLS, the login and the greeting are states of the session, not steps before it.
//! 8. A quiet command has no reply on success: a later reply shows its outcome. The session puts no-ops between quiet
//!    commands where needed, and tells each exchange what its silence meant.

mod completion;
mod exchange;
mod generations;
mod guard;
mod handshake;
mod protocol;
mod replies;
mod rest_check;
mod stamping;
mod submission;
#[cfg(test)]
pub(crate) mod tests;
mod writing;

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Capabilities, ReplyReader, Unsupported};

pub use completion::{Completion, Destination, Outcome, Reply, Ticket, Value};
pub use pinyon_net::connection::{SharedBytes, Wants};
pub(crate) use protocol::Manner;
use protocol::Probe;
pub use protocol::Protocol;
pub(crate) use rest_check::RESTED;
pub use submission::{BYTES_PER_GAT_LINE, BYTES_PER_LINE, KEYS_PER_LINE};

use crate::metrics::Meter;
use exchange::{About, Exchange};
pub(crate) use generations::{Clearing, Generations};
use guard::Held;
pub(crate) use guard::{larger_than_stored, NO_TOKEN};
use handshake::Awaited;
use pinyon_net::connection::{Connection, Incoming, Outgoing, Unreceived, RECEIVED_PER_POLL};
use pinyon_net::credentials::{Login, LoginBy};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::network::{Network, Stream, System};
use pinyon_net::tls::ServerTls;
use replies::{Current, Receiving};
use stamping::{is_awaited, Stamping};
use submission::Lines;
use writing::Writing;

/// Values of this size or more are received straight into the host's memory, and sent from it.
pub const LARGE: usize = 16 * 1024;

/// How much is received at first while one value is awaited. If the value is large, these bytes are copied once more.
const WINDOW_FOR_ONE: usize = LARGE + 512;

/// The same after a large value, which another one may follow. A value for which this was too little takes another receive.
const WINDOW_AFTER_LARGE: usize = 1024;

/// Bounds on a session's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most exchanges in flight; at most [`Self::MOST_EXCHANGES`].
    pub exchanges: usize,
    /// The most unsent bytes. Beyond them, the session takes nothing more.
    pub unsent: usize,
    /// The largest value sent or received, in bytes.
    pub value: usize,
}

impl Limits {
    /// Half of all opaques, so that no two exchanges in flight share one.
    pub const MOST_EXCHANGES: usize = 32_768;

    /// Refuses a value that exceeds the limit, before anything is sent. `key`: the text of its key, for the message.
    pub fn check_value(&self, size: usize, key: impl FnOnce() -> String) -> Result<(), InvalidArgument> {
        let limit = self.value;
        if size <= limit {
            return Ok(());
        }
        let message = format!(
            "the value of {} has {size} bytes, more than the client's limit (max_value_size) of {limit}; nothing was stored",
            key()
        );
        Err(InvalidArgument::new(ErrorKind::ValueTooLarge, message))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { exchanges: 4096, unsent: 64 * 1024, value: 1024 * 1024 }
    }
}

/// A command's data block.
#[derive(Clone)]
pub enum Data<'a> {
    None,
    /// Copied at submission; for small values.
    Copied(&'a [u8]),
    /// Kept by the caller and sent without a copy.
    Shared(SharedBytes),
}

/// Why a namespace cannot be cleared.
pub(crate) const NOT_CLEARABLE: &str =
    "the namespace cannot be cleared: give all clients that share it the settings \"namespace\" and \"clearable\"";

/// Why a session did not take a command. Nothing of it was sent or queued.
#[derive(Debug)]
pub enum Refused {
    /// The session is not ready or its queue is full: wait, then submit again.
    Full,
    Unsupported(Unsupported),
    TooLarge {
        size: usize,
        limit: usize,
    },
    /// The server would refuse the value, and delete the present item.
    TooLargeForServer {
        size: usize,
        limit: usize,
    },
    /// The client's namespace cannot be cleared.
    NotClearable,
}

impl Refused {
    /// The error for a caller that cannot wait.
    pub fn into_error(self, server: &Arc<str>, command: &'static str) -> Error {
        let error = match self {
            Refused::Full => Error::new(Kind::Usage, server, "the connection accepts no more commands"),
            Refused::Unsupported(unsupported) => Error::new(Kind::Unsupported, server, unsupported.to_string()),
            Refused::TooLarge { size, limit } => {
                let limits = format!("more than the client's limit (max_value_size) of {limit}");
                Error::new(Kind::TooLarge, server, format!("the value has {size} bytes, {limits}"))
            }
            Refused::TooLargeForServer { size, limit } => {
                let message = format!("{}; its item_size_max is {limit} bytes", larger_than_stored(size));
                Error::new(Kind::TooLarge, server, message)
            }
            Refused::NotClearable => Error::new(Kind::Usage, server, NOT_CLEARABLE),
        };
        error.of(command, Sent::No)
    }
}

pub struct Session<N: Network = System> {
    connection: Connection<N>,
    /// The user to log in as, if any.
    login: Option<Login>,
    manner: Arc<Manner>,
    /// The next answer that the greeting awaits.
    awaits: Awaited,
    /// How the greeting tries a meta command.
    probe: Probe,
    limits: Limits,
    capabilities: Capabilities,
    outgoing: Outgoing,
    incoming: Incoming,
    reader: ReplyReader,
    queue: VecDeque<Exchange>,
    next_ticket: u64,
    /// A reply whose head has been read.
    current: Option<Current>,
    /// A large value on its way into the host's memory.
    receiving: Option<Receiving>,
    /// How much is received at first while one value is awaited.
    window: usize,
    /// The number of quiet exchanges at the front of the queue that are over, as a later reply has shown.
    silent: usize,
    /// An error that one of the quiet exchanges at the front of the queue caused. The server does not say which.
    unattributed: Option<Error>,
    /// The number of quiet commands since the last loud one.
    quiet_run: usize,
    lines: Lines,
    /// The number of stores joined since anything else was submitted or sent.
    stores: usize,
    /// Exchanges that end out of turn: by an error, or else by the reply that was read last.
    ended: VecDeque<(Ticket, Result<(), Error>)>,
    /// A store that waits until the server's limit is known.
    held: Option<Box<Held>>,
    /// What writes generations into keys, if their namespace is clearable.
    stamping: Option<Box<Stamping>>,
    /// What tells the store of hot keys what is written, if the client has one.
    writing: Option<Box<Writing>>,
    /// Whether it has neither.
    is_plain: bool,
    /// When the socket was last read. Once everything received by then is handled, exchanges due before it may fail.
    looked_at: Option<Instant>,
    meter: Option<Meter>,
    /// A moment when the connection was there.
    connected: Option<Instant>,
}

impl<N: Network> Session<N> {
    /// A session that is not connected: see [`Self::connect`]. `server` is its name in messages.
    pub fn new(server: Arc<str>, network: N, limits: Limits) -> Self {
        Self {
            connection: Connection::new(server, network, None),
            login: None,
            manner: Arc::default(),
            awaits: Awaited::Version,
            probe: Probe::Never,
            limits,
            capabilities: Capabilities::of(None),
            outgoing: Outgoing::default(),
            incoming: Incoming::new(0),
            reader: ReplyReader::default(),
            queue: VecDeque::new(),
            next_ticket: 0,
            current: None,
            receiving: None,
            window: WINDOW_FOR_ONE,
            silent: 0,
            unattributed: None,
            quiet_run: 0,
            lines: Lines::default(),
            stores: 0,
            ended: VecDeque::new(),
            held: None,
            stamping: None,
            writing: None,
            is_plain: true,
            looked_at: None,
            meter: None,
            connected: None,
        }
    }

    /// The same session, with TLS and a login.
    pub fn with_access(mut self, tls: Option<ServerTls>, login: Option<LoginBy>) -> Self {
        self.connection.set_tls(tls);
        match login {
            Some(LoginBy::Asking(credentials)) => self.connection.set_credentials(Some(credentials)),
            Some(LoginBy::Fixed(login)) => self.login = Some(login),
            None => {}
        }
        self
    }

    /// The same session, with the server's known manner of speaking.
    pub(crate) fn in_manner(mut self, manner: Arc<Manner>) -> Self {
        self.stamping = manner.generations().map(|generations| Stamping::new(generations.clone()).into());
        self.writing = manner.near().map(|near| Writing::new(near.clone()).into());
        self.is_plain = self.stamping.is_none() && self.writing.is_none();
        self.manner = manner;
        self
    }

    /// The same session, counting the outcomes of its exchanges.
    pub(crate) fn metered(mut self, meter: Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Whether an exchange in flight is timed. Then [`Self::arrived`] must be told when its answer arrives.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.times_before(Ticket(self.next_ticket)))
    }

    /// Says that the bytes received last had arrived by now.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Instant) {
        if let Some(meter) = &mut self.meter {
            meter.arrived(now);
        }
    }

    /// Whether it would take a command now.
    pub fn accepts(&self) -> bool {
        self.connection.is_ready()
            && self.queue.len() < self.limits.exchanges
            && self.outgoing.unsent() + self.lines.unencoded() < self.limits.unsent
            && self.held.is_none()
    }

    pub fn is_ready(&self) -> bool {
        self.connection.is_ready()
    }

    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Whether it is at a reply boundary: connected, with nothing in flight, unsent or unread.
    pub fn is_clean(&self) -> bool {
        self.is_ready() && self.queue.is_empty() && self.outgoing.unsent() == 0 && self.incoming.is_empty()
    }

    /// Whether it awaits replies or has something to send.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.has_unsent()
    }

    /// Whether something that was submitted is unsent.
    pub fn has_unsent(&self) -> bool {
        self.outgoing.unsent() + self.lines.unencoded() > 0 && !self.connection.is_down()
    }

    /// Whether it waits for the socket to take more.
    pub fn wants_to_write(&self) -> bool {
        self.connection.wants_to_write() || self.has_unsent()
    }

    /// Whether it is not connected, and not connecting.
    pub(crate) fn is_down(&self) -> bool {
        self.connection.is_down()
    }

    /// Whether it needs credentials of the host's to connect.
    pub(crate) fn asks_host(&self) -> bool {
        self.connection.has_credentials()
    }

    /// Why the connection broke, if it did.
    pub fn failure(&self) -> Option<&Error> {
        self.connection.failure()
    }

    /// What the connected server can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Since when the connection is there, at the latest; `None` if it is new.
    pub(crate) fn connected_since(&self) -> Option<Instant> {
        self.connected
    }

    /// Takes note that it is connected by now, if it is. Drivers that do not always poll call it once it is ready.
    pub(crate) fn note_connected(&mut self, now: Instant) {
        if self.connected.is_none() && self.is_ready() {
            self.connected = Some(now);
        }
    }

    /// The server's name in messages.
    pub fn server(&self) -> &Arc<str> {
        self.connection.server()
    }

    pub fn stream(&self) -> Option<&N::Stream> {
        self.connection.stream()
    }

    /// How many bytes of replies this process has received from the server, on all connections of the client.
    #[cold]
    pub(crate) fn heard(&self) -> u64 {
        self.meter.as_ref().map_or(0, Meter::heard)
    }

    /// Whether a part of a reply has arrived, whose rest is awaited.
    pub(crate) fn is_in_reply(&self) -> bool {
        self.current.is_some() || self.receiving.is_some() || !self.incoming.is_empty()
    }

    /// Whether a part of the reply to this exchange has arrived.
    pub(crate) fn is_in_reply_to(&self, ticket: Option<Ticket>) -> bool {
        self.is_in_reply() && self.first_in_flight() == ticket
    }

    /// The exchange whose reply is next. Its caller may be gone.
    pub(crate) fn first_in_flight(&self) -> Option<Ticket> {
        self.queue.front().map(|exchange| exchange.ticket)
    }

    /// How many bytes were submitted and are not sent.
    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.unsent() + self.lines.unencoded()
    }

    /// Gives up an exchange: its reply is read and dropped. Other exchanges are not affected.
    pub fn abandon(&mut self, ticket: Ticket) {
        if let Ok(position) = self.queue.binary_search_by_key(&ticket, |exchange| exchange.ticket) {
            self.queue[position].abandoned = true;
            self.drop_stamp(ticket);
        }
        self.ended.retain(|(ended, _)| *ended != ticket);
        self.held.take_if(|held| held.ticket() == ticket);
    }

    /// Awaits the replies to all exchanges until then.
    #[cold]
    pub(crate) fn postpone(&mut self, until: Instant) {
        self.queue.iter_mut().for_each(|exchange| exchange.deadline = until);
    }

    /// Goes on without the host until then: its memory, functions and figures are not used any more. Returns false if it
    /// cannot, because it needs credentials of the host's.
    #[cold]
    pub(crate) fn leave_host(&mut self, until: Instant) -> bool {
        if !self.is_ready() && self.asks_host() {
            return false;
        }
        self.postpone(until);
        self.meter = None;
        self.connection.set_credentials(None);
        if let Some(receiving) = &mut self.receiving {
            receiving.leave_host();
        }
        true
    }

    /// Connects, sends and receives as far as the socket allows without waiting. Take the results from [`Self::next`].
    /// Calling it early, late or needlessly does no harm.
    pub fn poll(&mut self, now: Instant) {
        self.arrived(now);
        self.note_connected(now);
        self.advance_connection(now);
        self.flush();
        let mut received = 0;
        while let Ok(count @ 1..) = self.fill_with(Stream::receive) {
            received += count;
            if !self.awaits_large_value() || received >= RECEIVED_PER_POLL {
                break;
            }
        }
        self.check_connecting_time(now);
        self.looked_at = Some(now);
    }

    /// What to wait for before the next [`Self::poll`].
    pub fn wants(&self) -> Wants {
        let until = self
            .queue
            .iter()
            .filter(|exchange| is_awaited(exchange, &self.stamping))
            .map(|exchange| exchange.deadline)
            .min();
        let until = until.or(self.held.as_ref().map(|held| held.deadline()));
        Wants {
            read: self.connection.wants_to_read(),
            write: self.wants_to_write(),
            until: self.connection_deadline().or(until),
        }
    }

    /// Sends as much as the socket takes without waiting.
    pub fn flush(&mut self) {
        self.end_joined();
        if let Err(error) = self.connection.send(&mut self.outgoing) {
            self.broke_sending(error);
        }
    }

    /// Receives once, by `receive`, which may wait if the host can. Returns the number of bytes received. An error
    /// leaves the connection as it was.
    pub(crate) fn fill_with(
        &mut self,
        receive: impl FnOnce(&mut N::Stream, &mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, io::ErrorKind> {
        let Some(mut wire) = self.connection.wire() else { return Ok(0) };
        let mut straight = 0;
        let outcome = match self.receiving.as_mut().map(Receiving::room).filter(|room| !room.is_empty()) {
            Some(room) => {
                let wanted = room.len();
                let mut buffers = [IoSliceMut::new(room), IoSliceMut::new(self.incoming.room())];
                wire.receive(&mut buffers, receive).inspect(|count| straight = wanted.min(*count))
            }
            None => {
                let awaits_one_value = awaits_one_value(&self.queue) && !wire.is_secured();
                let is_empty = self.incoming.is_empty();
                let room = self.incoming.room();
                if room.is_empty() {
                    return Err(io::ErrorKind::WouldBlock);
                }
                let window = match awaits_one_value {
                    true if is_empty => room.len().min(self.window),
                    true => room.len().min(WINDOW_FOR_ONE),
                    false => room.len(),
                };
                wire.receive(&mut [IoSliceMut::new(&mut room[..window])], receive)
            }
        };
        match self.connection.received(outcome, || self.is_in_reply()) {
            Ok(count) => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.filled += straight;
                }
                self.incoming.filled(count - straight);
                if let Some(meter) = &self.meter {
                    meter.received(count as u64, self.outgoing.position());
                }
                self.read_greeting();
                Ok(count)
            }
            Err(Unreceived::NotNow(kind)) => Err(kind),
            Err(Unreceived::Broken(error)) => {
                self.broke(error);
                Ok(0)
            }
        }
    }

    /// Whether the next bytes belong to a large value and go straight into its memory.
    fn awaits_large_value(&mut self) -> bool {
        self.receiving.as_mut().is_some_and(|receiving| !receiving.room().is_empty())
    }

    /// Fails the exchanges whose deadline has passed, and drops their replies. If every exchange in flight has expired,
    /// the server has stopped answering, and the connection is closed.
    fn expire(&mut self, now: Instant) {
        let position = self.outgoing.position();
        let before = self.ended.len();
        let mut arriving = self.is_in_reply();
        for exchange in self.queue.iter_mut().skip(self.silent) {
            // Replies come in order, so what has arrived belongs to the first.
            let arrives = std::mem::take(&mut arriving);
            if !is_awaited(exchange, &self.stamping) || exchange.deadline > now {
                continue;
            }
            exchange.abandoned = true;
            let sent = if position > exchange.begin { Sent::Maybe } else { Sent::No };
            let error = match arrives {
                true => Error::cut_short(self.connection.server()),
                false => Error::unanswered(self.connection.server()),
            };
            self.ended.push_back((exchange.ticket, Err(exchange.failed(error, sent))));
        }
        for position in before..self.ended.len() {
            self.drop_stamp(self.ended[position].0);
        }
        self.expire_held(now);
        if self.ended.len() == before {
            return;
        }
        if self.queue.iter().all(|exchange| !is_awaited(exchange, &self.stamping)) {
            return self.fail(Error::unanswered(self.server()));
        }
        // Other exchanges keep the connection, so the unsent part leaves with theirs.
        let errors = self.ended.iter_mut().skip(before).filter_map(|(_, ended)| ended.as_mut().err());
        errors.for_each(|error| error.sent = Sent::Maybe);
    }

    /// Breaks the connection. Everything in flight fails with this error.
    pub fn fail(&mut self, error: Error) {
        self.forget_joined();
        self.meter.iter().for_each(|meter| meter.connected(false));
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
        self.fail(Error::new(Kind::Closed, self.server(), "the connection was closed"));
    }
}

/// Whether at most one value is in flight.
fn awaits_one_value(queue: &VecDeque<Exchange>) -> bool {
    let mut exchanges = queue.iter().filter(|exchange| !matches!(exchange.about, About::EndOfLine));
    let alone = exchanges.next().is_some_and(|first| !matches!(first.about, About::Keys(_)));
    alone && exchanges.next().is_none()
}
