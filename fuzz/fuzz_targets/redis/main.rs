//! A conversation with a Redis server that has various greetings. Pushes, other replies and arbitrary bytes come
//! between its honest replies. There must be no panic and bounded memory, and every exchange must finish at most once.
//! As long as the server is honest, each key gets its own value.
#![no_main]

#[allow(dead_code)]
#[path = "../in_resp.rs"]
mod in_resp;
mod server;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_locks::redis::{RespEvent, RespLimits, RespSession, SessionSettings, Ticket};
use pinyon_net::connection::peer::{Faults, Peer};
use pinyon_net::{Address, Error};
use pinyon_proto::resp::{self, Value};

use server::{value_of, Manners, Server};

const REPLY: resp::Limits = resp::Limits { bulk: 64 * 1024, elements: 256, depth: 8 };
const LIMITS: RespLimits = RespLimits { exchanges: 40, unsent: 64 * 1024, command: 32 * 1024, reply: REPLY };
/// Its first letter is not one of an escape. Otherwise an error with a line feed and the rest could contain it by
/// chance.
const PASSWORD: &str = "unheard of by all";
const PATIENCE: Duration = Duration::from_secs(100);
const IMPATIENCE: Duration = Duration::from_millis(50);

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    manners: Manners,
    logs_in: bool,
    database: u8,
    steps: Vec<Step<'a>>,
}

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Get {
        key: u8,
        patient: bool,
    },
    Subscribe {
        channels: u8,
    },
    /// Any command. If it is taken, it leaves as one command.
    Command {
        parts: Vec<&'a [u8]>,
        patient: bool,
    },
    Abandon(u8),
    Pass(u16),
    Deliver,
    DeliverAll,
    /// The server pushes something, as it may.
    Push(u8),
    /// The server is not honest any more.
    Noise(&'a [u8]),
    DeliverBeginning(u16),
    Drop,
    Double,
    Narrow(u8),
    Turn,
    Close,
    Reconnect(Manners),
}

fuzz_target!(|input: Input<'_>| {
    let mut run = Run::new(&input);
    for step in &input.steps {
        run.step(step);
    }
    run.deliver_all();
    if run.honest && run.session.is_ready() {
        assert!(run.awaited.is_empty(), "not answered: {:?}", run.awaited);
    }
    run.session.close();
    run.turn();
    assert!(run.awaited.is_empty(), "never heard of: {:?}", run.awaited);
});

struct Run {
    session: RespSession<Peer>,
    peer: Peer,
    server: Server,
    logs_in: bool,
    honest: bool,
    now: Instant,
    /// The awaited tickets, with the key if it is a get.
    awaited: BTreeMap<Ticket, Option<u8>>,
}

impl Run {
    fn new(input: &Input<'_>) -> Self {
        let settings = SessionSettings {
            password: input.logs_in.then(|| PASSWORD.into()),
            database: input.database.into(),
            limits: LIMITS,
            ..SessionSettings::default()
        };
        let peer = Peer::default();
        let session = RespSession::new("fuzzed".into(), peer.clone(), settings);
        let server = Server::new(input.manners);
        let (logs_in, now) = (input.logs_in, Instant::now());
        let mut run = Self { session, peer, server, logs_in, honest: true, now, awaited: BTreeMap::new() };
        run.connect(input.manners);
        run
    }

    fn connect(&mut self, manners: Manners) {
        self.server = Server::new(manners);
        self.honest = true;
        self.peer.behave(Faults::default());
        self.session.connect(vec![Address::Unix("/fuzzed".into())], self.now, PATIENCE);
        self.deliver_all();
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Get { key, patient } => self.submit(&[b"GET", &[*key]], Some(*key), *patient),
            Step::Subscribe { channels } => {
                let mut parts: Vec<&[u8]> = vec![b"SUBSCRIBE"];
                parts.resize(2 + usize::from(*channels % 4), b"c");
                self.submit(&parts, None, true);
            }
            Step::Command { parts, patient } => self.submit(parts, None, *patient),
            Step::Abandon(which) if !self.awaited.is_empty() => {
                let ticket = *self.awaited.keys().nth(usize::from(*which) % self.awaited.len()).unwrap();
                self.session.abandon(ticket);
                self.awaited.remove(&ticket);
            }
            Step::Abandon(_) => {}
            Step::Pass(milliseconds) => self.now += Duration::from_millis((*milliseconds).into()),
            Step::Deliver => self.deliver(usize::MAX),
            Step::DeliverAll => self.deliver_all(),
            Step::Push(number) => {
                if self.session.is_ready() {
                    self.server.push(*number);
                }
            }
            Step::Noise(bytes) => {
                self.honest = false;
                self.peer.reply(bytes);
            }
            Step::DeliverBeginning(length) => {
                self.honest = false;
                self.deliver((*length).into());
            }
            Step::Drop => {
                self.honest = false;
                self.serve();
                self.server.replies.pop_front();
            }
            Step::Double => {
                self.honest = false;
                self.serve();
                if let Some(reply) = self.server.replies.front().cloned() {
                    self.server.replies.push_front(reply);
                }
            }
            Step::Narrow(width) => {
                let receive_width = Some(usize::from(*width) * 16 + 1);
                self.peer.behave(Faults { receive_width, ..Faults::default() });
            }
            Step::Turn => self.turn(),
            Step::Close => self.session.close(),
            Step::Reconnect(manners) => {
                if self.session.failure().is_some() {
                    self.turn();
                    self.session.take_failure();
                    self.connect(*manners);
                }
            }
        }
    }

    fn submit(&mut self, parts: &[&[u8]], key: Option<u8>, patient: bool) {
        let deadline = self.now + if patient { PATIENCE } else { IMPATIENCE };
        if let Ok(ticket) = self.session.submit(parts, deadline) {
            assert!(self.awaited.insert(ticket, key).is_none());
        }
    }

    fn serve(&mut self) {
        self.session.poll(self.now);
        self.server.serve(&self.peer.take_received());
    }

    fn deliver(&mut self, length: usize) {
        self.serve();
        if let Some(reply) = self.server.replies.pop_front() {
            self.peer.reply(&reply[..reply.len().min(length)]);
            self.turn();
        }
    }

    /// Answers everything that was sent, and takes everything that arrives.
    fn deliver_all(&mut self) {
        loop {
            self.deliver(usize::MAX);
            let left = self.peer.left();
            if self.session.failure().is_some() || (left == 0 && self.server.replies.is_empty()) {
                break;
            }
            self.turn();
            assert!(
                left == 0 || self.peer.left() < left || self.session.failure().is_some(),
                "bytes that nobody takes"
            );
        }
        self.turn();
    }

    fn turn(&mut self) {
        self.session.poll(self.now);
        while let Some(event) = self.session.next() {
            match event {
                RespEvent::Troubled(_) => {}
                RespEvent::Ready => assert!(self.session.is_ready()),
                RespEvent::Pushed(values) => assert!(!values.is_empty() && elements(&values) <= REPLY.elements),
                RespEvent::Reply(ticket, value) => {
                    let key = self.awaited.remove(&ticket).expect("somebody waits for it");
                    assert!(elements(std::slice::from_ref(&value)) <= REPLY.elements + 1);
                    if let (Some(key), true) = (key, self.honest) {
                        assert_eq!(value, Value::Bytes(value_of(key).into()), "for key {key}");
                    }
                }
                RespEvent::Failed(ticket, error) => {
                    assert!(self.awaited.remove(&ticket).is_some(), "nobody waits for {ticket:?}");
                    self.check_error(&error);
                }
            }
        }
        if let Some(error) = self.session.failure() {
            self.check_error(error);
        }
    }

    /// A server may repeat a refused password, but no error may contain it.
    fn check_error(&self, error: &Error) {
        let text = error.to_string();
        assert!(text.len() < 4096 && !(self.logs_in && text.contains(PASSWORD)), "{text}");
    }
}

/// The number of values, including nested ones.
fn elements(values: &[Value]) -> usize {
    let inside = |value: &Value| match value {
        Value::Array(values) | Value::Set(values) => elements(values),
        Value::Map(pairs) => pairs.iter().map(|(key, value)| elements(&[key.clone(), value.clone()])).sum(),
        _ => 0,
    };
    values.iter().map(|value| 1 + inside(value)).sum()
}
