//! A host that drives a session turn by turn and records what it hands out.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use pinyon_proto::{Arithmetic, Command, Direction, Head, Key, Mode, Opaque, Status, Store};

use super::peer::{Line, Peer};
use super::terminator::{terminator, Terminator};
use crate::session::{Data, Limits, Manner, Outcome, Session, Ticket, Value};
use pinyon_net::address::Address;
use pinyon_net::error::{Error, Kind, Sent};

/// The time that every exchange has, unless a test says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// The first requests on a new connection to a server that has answered a meta no-op: the version, and another.
pub const GREETING: &str = "version\r\nmn\r\n";

/// The answer of a server of this version.
pub fn greeting_of(version: &str) -> String {
    let takes_meta = version.starts_with("1.6.");
    format!("VERSION {version}\r\n{}\r\n", if takes_meta { "MN" } else { "ERROR" })
}

pub struct Host {
    pub session: Session<Peer>,
    pub peer: Peer,
    pub now: Instant,
}

/// A completion, copied so that it can be kept.
#[derive(Clone, Debug)]
pub enum Event {
    Part(Ticket, Answer),
    Reply(Ticket, Answer),
    Large(Ticket, Head),
    Failed(Ticket, Error),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: Status,
    pub index: usize,
    pub value: Vec<u8>,
    pub number: Option<u64>,
    pub line: Vec<u8>,
}

impl Host {
    pub fn new(limits: Limits) -> Self {
        let peer = Peer::default();
        let manner = Manner::default();
        manner.answers_meta();
        let session = Session::new("cache1:11211".into(), peer.clone(), limits).in_manner(manner.into());
        Self { session, peer, now: Instant::now() }
    }

    /// Connected to a server of this version, with nothing in flight.
    pub fn connected(version: &str) -> Self {
        Self::connected_within(version, Limits::default())
    }

    pub fn connected_within(version: &str, limits: Limits) -> Self {
        let mut host = Self::new(limits);
        host.connect(1);
        host.greet(version);
        host
    }

    /// Connected over TLS, to a server whose records the terminator handles.
    pub fn secured(version: &str, limits: Limits) -> (Self, Terminator) {
        let (tls, mut terminator) = terminator();
        let mut host = Self::new(limits);
        host.session = host.session.with_access(Some(tls), None);
        host.connect(1);
        assert_eq!(terminator.shake(&mut host), GREETING.as_bytes());
        let answer = terminator.encrypt(greeting_of(version).as_bytes());
        host.answer(&answer);
        assert!(host.session.is_clean(), "{:?}", host.session.failure());
        (host, terminator)
    }

    /// Begins to connect to a server with so many addresses.
    pub fn connect(&mut self, addresses: usize) {
        self.session.connect((0..addresses).map(address).collect(), self.now, TIMEOUT);
    }

    /// Answers the greeting.
    pub fn greet(&mut self, version: &str) {
        self.session.poll(self.now);
        assert_eq!(self.sent(), GREETING);
        self.peer.reply(greeting_of(version).as_bytes());
        self.session.poll(self.now);
        assert!(self.session.is_clean(), "{:?}", self.session.failure());
    }

    pub fn submit(&mut self, command: Command<'_>) -> Ticket {
        self.session.submit(&command, Data::None, self.now + TIMEOUT).expect("it is taken")
    }

    pub fn submit_value(&mut self, command: Command<'_>, value: &[u8]) -> Ticket {
        self.session.submit(&command, Data::Copied(value), self.now + TIMEOUT).expect("it is taken")
    }

    pub fn submit_joined_get(&mut self, name: &str) -> Ticket {
        self.session.submit_joined_get(key(name), self.now + TIMEOUT).expect("it is taken")
    }

    pub fn submit_quiet(&mut self, command: Command<'_>) -> Ticket {
        let data = match &command {
            Command::Store(store) => Data::Copied(&b"xxxxxxxxxx"[..store.size]),
            _ => Data::None,
        };
        self.session.submit_quiet(&command, data, self.now + TIMEOUT).expect("it is taken")
    }

    /// What the peer has received since the last call, as text.
    pub fn sent(&mut self) -> String {
        self.session.poll(self.now);
        String::from_utf8(self.peer.take_received()).unwrap()
    }

    /// The peer replies, and the session runs until nothing happens any more.
    pub fn answer(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.peer.reply(bytes);
        self.turns()
    }

    /// Polls once, and returns all that comes of it.
    pub fn turn(&mut self) -> Vec<Event> {
        self.session.poll(self.now);
        let mut events = Vec::new();
        while let Some(completion) = self.session.next() {
            events.push(Event::of(completion.ticket, completion.outcome));
        }
        events
    }

    /// Polls until nothing happens any more.
    pub fn turns(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut idle = 0;
        while idle < 3 {
            let unread = !self.peer.is_drained() && self.session.failure().is_none();
            let turn = self.turn();
            idle = if turn.is_empty() && !unread { idle + 1 } else { 0 };
            events.extend(turn);
        }
        events
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn failure(&self) -> (Kind, String) {
        let error = self.session.failure().expect("the connection is broken");
        (error.kind, error.to_string())
    }

    pub fn has_failed(&self, kind: Kind, part: &str) {
        let (failed, message) = self.failure();
        assert_eq!(failed, kind);
        assert!(message.contains(part), "{message}");
    }
}

impl Event {
    fn of(ticket: Ticket, outcome: Outcome<'_>) -> Self {
        match outcome {
            Outcome::Part(reply) => Event::Part(ticket, Answer::of(reply.head, reply.index, &reply.value, reply.line)),
            Outcome::Reply(reply) => {
                Event::Reply(ticket, Answer::of(reply.head, reply.index, &reply.value, reply.line))
            }
            Outcome::Large { head, .. } => Event::Large(ticket, head),
            Outcome::Failed(error) => Event::Failed(ticket, error),
        }
    }

    pub fn ticket(&self) -> Ticket {
        match self {
            Event::Part(ticket, _) | Event::Reply(ticket, _) => *ticket,
            Event::Large(ticket, _) | Event::Failed(ticket, _) => *ticket,
        }
    }

    pub fn answer(&self) -> &Answer {
        match self {
            Event::Part(_, answer) | Event::Reply(_, answer) => answer,
            other => panic!("not a reply: {other:?}"),
        }
    }

    pub fn failed(&self) -> (Ticket, Kind, Sent) {
        match self {
            Event::Failed(ticket, error) => (*ticket, error.kind, error.sent),
            other => panic!("not a failure: {other:?}"),
        }
    }

    /// Whether it contains bytes of a server's reply.
    pub fn hands_out_something(&self) -> bool {
        matches!(self, Event::Part(..) | Event::Reply(..) | Event::Large(..))
    }
}

impl Answer {
    fn of(head: &Head, index: usize, value: &Value<'_>, line: &[u8]) -> Self {
        let (value, line) = (value.bytes().to_vec(), line.to_vec());
        Self { status: head.status, index, value, number: head.number, line }
    }
}

/// The tickets and statuses of replies, for short comparisons.
pub fn statuses(events: &[Event]) -> Vec<(Ticket, Status)> {
    events.iter().map(|event| (event.ticket(), event.answer().status)).collect()
}

/// The tickets and values of replies.
pub fn values(events: &[Event]) -> Vec<(Ticket, &[u8])> {
    events.iter().map(|event| (event.ticket(), event.answer().value.as_slice())).collect()
}

pub fn failures(events: &[Event]) -> Vec<(Ticket, Kind, Sent)> {
    events.iter().map(Event::failed).collect()
}

pub fn opaque(ticket: Ticket) -> Opaque {
    Opaque(ticket.0 as u16)
}

/// The opaque as in replies: ` O` and hexadecimal digits.
pub fn echo(ticket: Ticket) -> String {
    format!(" O{:x}", opaque(ticket).0)
}

pub fn key(wire: &str) -> Key<'_> {
    Key::new(wire.as_bytes(), false).unwrap()
}

pub fn get(name: &str) -> Command<'_> {
    Command::Get { key: key(name), cas: false }
}

pub fn get_many(names: &str) -> Command<'_> {
    Command::GetMany { keys: names.as_bytes(), cas: false, ttl: None }
}

pub fn set(name: &str, size: usize) -> Command<'_> {
    Command::Store(Store {
        mode: Mode::Set,
        key: key(name),
        size,
        client_flags: 0,
        ttl: 0,
        cas: None,
        returns_cas: false,
    })
}

pub fn delete(name: &str) -> Command<'_> {
    Command::Delete { key: key(name) }
}

pub fn incr(name: &str) -> Command<'_> {
    Command::Arithmetic(Arithmetic { key: key(name), direction: Direction::Increment, delta: 1 })
}

pub fn address(number: usize) -> Address {
    Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 11211 + number as u16)))
}

pub fn stream_of(session: &Session<Peer>) -> Option<&Line> {
    session.stream()
}
