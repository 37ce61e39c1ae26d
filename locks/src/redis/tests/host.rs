//! A host that drives a session turn by turn and records what it hands out.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use pinyon_proto::resp::{encode, Value};

use crate::redis::{RespEvent, RespSession, SessionSettings, Ticket};
use pinyon_net::address::Address;
use pinyon_net::connection::peer::Peer;
use pinyon_net::error::{Kind, Sent};

/// The time that every exchange has, unless a test says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// A server's answer to `HELLO 3` and `PING`.
pub const WELCOME: &[u8] =
    b"%5\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n\
    $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n+PONG\r\n";

pub struct Host {
    pub session: RespSession<Peer>,
    pub peer: Peer,
    pub now: Instant,
}

impl Host {
    pub fn new(settings: SessionSettings) -> Self {
        let peer = Peer::default();
        Self { session: RespSession::new("redis1:6379".into(), peer.clone(), settings), peer, now: Instant::now() }
    }

    /// Connected by RESP3, with nothing in flight.
    pub fn connected() -> Self {
        Self::connected_with(SessionSettings::default())
    }

    pub fn connected_with(settings: SessionSettings) -> Self {
        let mut host = Self::new(settings);
        host.connect(1);
        assert_eq!(host.sent(), ["HELLO 3", "PING"]);
        assert!(matches!(host.answer(WELCOME)[..], [RespEvent::Ready]), "{:?}", host.session.failure());
        host
    }

    /// Connected to a server that does not know `HELLO`.
    pub fn connected_by_resp2() -> Self {
        let mut host = Self::new(SessionSettings::default());
        host.connect(1);
        assert_eq!(host.sent(), ["HELLO 3", "PING"]);
        host.answer(b"-ERR unknown command 'HELLO', with args beginning with: '3' \r\n+PONG\r\n");
        assert_eq!(host.sent(), ["INFO server", "INFO replication", "PING"]);
        assert!(matches!(
            host.answer(b"$20\r\nredis_version:5.0.14\r\n$11\r\nrole:master\r\n+PONG\r\n")[..],
            [RespEvent::Ready]
        ));
        host
    }

    /// Begins to connect to a server with so many addresses.
    pub fn connect(&mut self, addresses: u16) {
        let addresses = (0..addresses).map(|number| SocketAddr::from((Ipv4Addr::LOCALHOST, 6379 + number)));
        self.session.connect(addresses.map(Address::Tcp).collect(), self.now, TIMEOUT);
    }

    /// Submits a command, given as words.
    pub fn submit(&mut self, command: &str) -> Ticket {
        let parts: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.session.submit(&parts, self.now + TIMEOUT).expect("it is taken")
    }

    /// The commands that the peer has received since the last call, as words.
    pub fn sent(&mut self) -> Vec<String> {
        self.session.poll(self.now);
        commands(&self.peer.take_received())
    }

    /// The peer replies, and the session runs until nothing happens any more.
    pub fn answer(&mut self, bytes: &[u8]) -> Vec<RespEvent> {
        self.peer.reply(bytes);
        self.turns()
    }

    /// Polls once, and returns all that comes of it.
    pub fn turn(&mut self) -> Vec<RespEvent> {
        self.session.poll(self.now);
        std::iter::from_fn(|| self.session.next()).collect()
    }

    /// Polls until nothing happens any more.
    pub fn turns(&mut self) -> Vec<RespEvent> {
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
}

/// Complete requests as words.
pub fn commands(mut requests: &[u8]) -> Vec<String> {
    let mut reader = pinyon_proto::resp::Reader::default();
    let mut commands = Vec::new();
    while !requests.is_empty() {
        let (consumed, command) = reader.read(requests).expect("commands are RESP");
        requests = &requests[consumed..];
        let Some(pinyon_proto::resp::Decoded::Reply(Value::Array(parts))) = command else {
            panic!("half a command: {command:?}");
        };
        let words: Vec<String> = parts.iter().map(text).collect();
        commands.push(words.join(" "));
    }
    commands
}

/// A string's text.
pub fn text(value: &Value) -> String {
    match value {
        Value::Bytes(text) | Value::Status(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("not a string: {other:?}"),
    }
}

/// The single reply among the events, with its ticket.
pub fn replies(events: &[RespEvent]) -> Vec<(Ticket, Value)> {
    let reply = |event: &RespEvent| match event {
        RespEvent::Reply(ticket, value) => (*ticket, value.clone()),
        other => panic!("not a reply: {other:?}"),
    };
    events.iter().map(reply).collect()
}

pub fn failures(events: &[RespEvent]) -> Vec<(Ticket, Kind, Sent)> {
    let failure = |event: &RespEvent| match event {
        RespEvent::Failed(ticket, error) => (*ticket, error.kind, error.sent),
        other => panic!("not a failure: {other:?}"),
    };
    events.iter().map(failure).collect()
}

/// The pushes among the events, as words.
pub fn pushes(events: &[RespEvent]) -> Vec<String> {
    let push = |event: &RespEvent| match event {
        RespEvent::Pushed(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => panic!("not a push: {other:?}"),
    };
    events.iter().map(push).collect()
}

pub fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().into())
}

pub fn status(text: &str) -> Value {
    Value::Status(text.as_bytes().into())
}

/// A command as bytes, for a peer that replies with one.
pub fn array(words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>(), &mut out);
    out
}

/// A push as bytes.
pub fn push(words: &str) -> Vec<u8> {
    let mut out = array(words);
    out[0] = b'>';
    out
}
