//! A network and clocks for tests, and a server whose answers the test writes.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Decoded, Reader, Value};

use crate::client::{Platform, Setup, Slots, Voting};
use crate::handler::HandlerKind;
use crate::keys::LockKeys;
use crate::machine::{LockOptions, Moment};
use crate::redis;
use pinyon_net::address::{Address, Endpoint};
use pinyon_net::connection::peer::{Line, Peer};
use pinyon_net::network::{Keepalive, Network};

pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The greeting of a client named `c`, one request after the other, with the replies of a server that accepts it.
pub(crate) const GREETING: [(&str, &str); 3] = [
    ("HELLO", "%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n+PONG\r\n"),
    (
        "SUBSCRIBE",
        ">3\r\n$9\r\nsubscribe\r\n$8\r\n{n}:#c:c\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$10\r\n{n}:#freed\r\n:2\r\n",
    ),
    ("INFO", "$0\r\n\r\n"),
];

pub(crate) fn settings(handler: HandlerKind) -> Setup {
    Setup {
        endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: 6379 },
        sentinels: None,
        other_nodes: Vec::new(),
        slots: Slots::default(),
        server: "redis1".into(),
        login: redis::SessionSettings::default(),
        keys: LockKeys::new("n").unwrap(),
        handler,
        connect_timeout: Duration::from_secs(1),
        keepalive: Keepalive::default(),
        replicas: 0,
        options: LockOptions { patience: PATIENCE, ..LockOptions::default() },
        voting: Voting::Alone,
    }
}

#[derive(Clone)]
pub(crate) struct InMemory {
    pub(crate) peer: Peer,
    started: Instant,
    pub(crate) elapsed: Rc<Cell<Duration>>,
}

impl Network for InMemory {
    type Stream = Line;

    fn open(&self, address: &Address) -> io::Result<Line> {
        self.peer.open(address)
    }
}

impl Platform for InMemory {
    fn now(&self) -> Instant {
        self.started + self.elapsed.get()
    }

    fn boot_time(&self) -> Moment {
        Moment(self.elapsed.get())
    }
}

impl Default for InMemory {
    fn default() -> Self {
        Self { peer: Peer::default(), started: Instant::now(), elapsed: Rc::default() }
    }
}

impl InMemory {
    /// The commands that the server has received since the last call.
    pub(crate) fn commands(&self) -> Vec<Vec<String>> {
        let sent = self.peer.take_received();
        let (mut reader, mut rest, mut commands) = (Reader::default(), &sent[..], Vec::new());
        while !rest.is_empty() {
            let (consumed, command) = reader.read(rest).expect("commands are RESP");
            rest = &rest[consumed..];
            let Some(Decoded::Reply(Value::Array(parts))) = command else { panic!("half a command") };
            commands.push(parts.iter().map(text).collect());
        }
        commands
    }
}

/// The name of a command, and of the function that it calls.
pub(crate) fn name_of(command: &[String]) -> String {
    let words = if command[0] == "FCALL" { 2 } else { 1 };
    command[..words].join(" ")
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("not a part of a command: {other:?}"),
    }
}
