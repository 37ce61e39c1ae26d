//! A network and clocks for tests, and a server whose answers the test writes.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Decoded, Reader, Value};

use crate::address::{Address, Endpoint};
use crate::connection::peer::{Line, Peer};
use crate::locks::client::{Platform, Setup, Slots, Voting};
use crate::locks::handler::HandlerKind;
use crate::locks::keys::LockKeys;
use crate::locks::machine::{LockOptions, Moment};
use crate::network::{Keepalive, Network};
use crate::redis;

pub(in crate::locks) const PATIENCE: Duration = Duration::from_secs(2);

/// The greeting of a client named `c`, one request after the other, with the replies of a server that accepts it.
pub(in crate::locks) const GREETING: [(&str, &str); 3] = [
    ("HELLO", "%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n+PONG\r\n"),
    (
        "SUBSCRIBE",
        ">3\r\n$9\r\nsubscribe\r\n$8\r\n{n}:#c:c\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$10\r\n{n}:#freed\r\n:2\r\n",
    ),
    ("INFO", "$0\r\n\r\n"),
];

pub(in crate::locks) fn settings(handler: HandlerKind) -> Setup {
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
pub(in crate::locks) struct InMemory {
    pub(in crate::locks) peer: Peer,
    started: Instant,
    pub(in crate::locks) elapsed: Rc<Cell<Duration>>,
}

impl Network for InMemory {
    type Stream = Line;

    fn open(&self, address: &Address) -> io::Result<Line> {
        self.peer.open(address)
    }
}

impl AsRawFd for Line {
    fn as_raw_fd(&self) -> RawFd {
        7
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
    pub(in crate::locks) fn commands(&self) -> Vec<Vec<String>> {
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
pub(in crate::locks) fn name_of(command: &[String]) -> String {
    let words = if command[0] == "FCALL" { 2 } else { 1 };
    command[..words].join(" ")
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("not a part of a command: {other:?}"),
    }
}
