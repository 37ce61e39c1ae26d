//! An honest conversation whose replies are dropped, duplicated, swapped and cut, with arbitrary bytes in between.
//! There must be no panic, bounded memory, at most one completion per exchange, and never another key's value.
#![no_main]

mod server;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_cache::{Data, Limits, Outcome, Reply, Session, Ticket};
use pinyon_net::connection::peer::{Faults, Peer};
use pinyon_net::Address;
use pinyon_proto::{Arithmetic, Command, Direction, Flag, Key, MetaCommand, Mode, Store, Verb};

use server::{value_of, Server, KEYS};

const LIMITS: Limits = Limits { exchanges: 40, unsent: 64 * 1024, value: 256 * 1024 };

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    version: Version,
    steps: Vec<Step<'a>>,
}

#[derive(Arbitrary, Debug)]
enum Version {
    Meta,
    MetaWithoutOpaqueOnMiss,
    Classic,
}

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Ask {
        ask: Ask,
        key: u8,
        quiet: bool,
        patient: bool,
    },
    Abandon(u8),
    Pass(u16),
    /// Delivers the whole next reply.
    Deliver,
    DeliverBeginning(u16),
    DeliverAll,
    Drop,
    Double,
    Swap,
    Noise(&'a [u8]),
    Narrow(u8),
    Turn,
    Close,
    Reconnect,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ask {
    Get,
    /// Gets this key and the following ones, each by a get that may be joined.
    JoinedGets,
    GetMany,
    Set,
    JoinedSet,
    Delete,
    Increment,
    Touch,
    MetaGet,
    NoOp,
}

fuzz_target!(|input: Input<'_>| {
    let mut run = Run::new(&input.version);
    for step in &input.steps {
        run.step(step);
    }
    run.session.close();
    run.turn();
    assert!(run.awaited.is_empty(), "never heard of: {:?}", run.awaited);
});

/// Whose value may answer an exchange.
#[derive(Clone, Copy, Debug)]
enum About {
    Key(usize),
    /// All keys, in order.
    Keys,
    NoValue,
}

struct Run {
    session: Session<Peer>,
    peer: Peer,
    server: Server,
    version: &'static str,
    now: Instant,
    awaited: BTreeMap<Ticket, About>,
}

impl Run {
    fn new(version: &Version) -> Self {
        let version = match version {
            Version::Meta => "1.6.45",
            Version::MetaWithoutOpaqueOnMiss => "1.6.12",
            Version::Classic => "1.5.22",
        };
        let peer = Peer::default();
        let session = Session::new("fuzzed".into(), peer.clone(), LIMITS);
        let server = Server::new(version != "1.5.22");
        let mut run = Self { session, peer, server, version, now: Instant::now(), awaited: BTreeMap::new() };
        run.connect();
        run
    }

    fn connect(&mut self) {
        self.server.forget();
        self.peer.behave(Faults::default());
        self.session.connect(vec![Address::Unix("/fuzzed".into())], self.now, Duration::from_secs(60));
        self.peer.reply(format!("VERSION {}\r\n", self.version).as_bytes());
        for _ in 0..20 {
            self.session.poll(self.now);
        }
        self.peer.take_received();
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Ask { ask, key, quiet, patient } => self.ask(*ask, usize::from(*key) % KEYS, *quiet, *patient),
            Step::Abandon(choice) => {
                if let Some(ticket) = self.awaited.keys().nth(usize::from(*choice)).copied() {
                    self.session.abandon(ticket);
                    self.awaited.remove(&ticket);
                }
            }
            Step::Pass(milliseconds) => self.now += Duration::from_millis((*milliseconds).into()),
            Step::Deliver => self.deliver(usize::MAX),
            Step::DeliverBeginning(length) => self.deliver((*length).into()),
            Step::DeliverAll => {
                self.serve();
                while !self.server.replies.is_empty() {
                    self.deliver(usize::MAX);
                }
            }
            Step::Drop => {
                self.serve();
                self.server.replies.pop_front();
            }
            Step::Double => {
                self.serve();
                if let Some(reply) = self.server.replies.front().cloned() {
                    self.server.replies.push_front(reply);
                }
            }
            Step::Swap => {
                self.serve();
                if self.server.replies.len() > 1 {
                    self.server.replies.swap(0, 1);
                }
            }
            Step::Noise(bytes) => self.peer.reply(bytes),
            Step::Narrow(width) => {
                let receive_width = Some(usize::from(*width) * 64 + 1);
                self.peer.behave(Faults { receive_width, ..Faults::default() });
            }
            Step::Turn => self.turn(),
            Step::Close => self.session.close(),
            Step::Reconnect => {
                if self.session.failure().is_some() {
                    self.turn();
                    self.connect();
                }
            }
        }
    }

    /// The server carries out everything it was sent. Its replies wait for delivery.
    fn serve(&mut self) {
        self.session.poll(self.now);
        self.server.serve(&self.peer.take_received());
    }

    /// Delivers the next reply, or the beginning of it.
    fn deliver(&mut self, length: usize) {
        self.serve();
        if let Some(reply) = self.server.replies.pop_front() {
            self.peer.reply(&reply[..reply.len().min(length)]);
            self.turn();
        }
    }

    fn ask(&mut self, ask: Ask, number: usize, quiet: bool, patient: bool) {
        let name = server::name_of(number);
        let key = Key::new(name.as_bytes(), false).unwrap();
        let all = (0..KEYS).map(server::name_of).collect::<Vec<_>>().join(" ");
        let value = value_of(number);
        let (mode, size) = (Mode::Set, value.len());
        let command = match ask {
            Ask::JoinedGets => return self.ask_joined(number, patient),
            Ask::Get => Command::Get { key, cas: false },
            Ask::GetMany => Command::GetMany { keys: all.as_bytes(), cas: false, ttl: None },
            Ask::Set | Ask::JoinedSet => {
                Command::Store(Store { mode, key, size, client_flags: 0, ttl: 0, cas: None, returns_cas: false })
            }
            Ask::Delete => Command::Delete { key },
            Ask::Increment => Command::Arithmetic(Arithmetic {
                key: Key::new(b"counter", false).unwrap(),
                direction: Direction::Increment,
                delta: 1,
            }),
            Ask::Touch => Command::Touch { key, ttl: 9 },
            Ask::MetaGet => {
                Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: &[Flag::Value, Flag::Size] })
            }
            Ask::NoOp => Command::NoOp,
        };
        let data = if matches!(ask, Ask::Set | Ask::JoinedSet) { Data::Copied(&value) } else { Data::None };
        let deadline = self.deadline(patient);
        let submitted = match quiet {
            _ if matches!(ask, Ask::JoinedSet) => self.session.submit_joined(&command, data, deadline),
            true => self.session.submit_quiet(&command, data, deadline),
            false => self.session.submit(&command, data, deadline),
        };
        if let Ok(ticket) = submitted {
            let about = match ask {
                Ask::Get | Ask::JoinedGets | Ask::MetaGet => About::Key(number),
                Ask::GetMany => About::Keys,
                _ => About::NoValue,
            };
            assert!(self.awaited.insert(ticket, about).is_none());
        }
    }

    fn ask_joined(&mut self, first: usize, patient: bool) {
        for number in (first..first + 20).map(|number| number % KEYS) {
            let name = server::name_of(number);
            let key = Key::new(name.as_bytes(), false).unwrap();
            if let Ok(ticket) = self.session.submit_joined_get(key, self.deadline(patient)) {
                assert!(self.awaited.insert(ticket, About::Key(number)).is_none());
            }
        }
    }

    fn deadline(&self, patient: bool) -> Instant {
        self.now + Duration::from_millis(if patient { 100_000 } else { 50 })
    }

    fn turn(&mut self) {
        self.session.poll(self.now);
        let mut last = None;
        while let Some(completion) = self.session.next() {
            let ticket = completion.ticket;
            let about = *self.awaited.get(&ticket).expect("somebody waits for it");
            match completion.outcome {
                Outcome::Large { head, .. } => assert!(head.size.unwrap() <= LIMITS.value),
                Outcome::Part(reply) => check(about, &reply),
                Outcome::Reply(reply) => {
                    check(about, &reply);
                    self.awaited.remove(&ticket);
                    assert!(last < Some(ticket), "out of order");
                    last = Some(ticket);
                }
                Outcome::Failed(_) => drop(self.awaited.remove(&ticket)),
            }
        }
    }
}

/// Noise may invent a value, but it cannot know another key's.
fn check(about: About, reply: &Reply<'_>) {
    let value = reply.value.bytes();
    assert!(value.len() <= LIMITS.value);
    let own = match about {
        About::Key(number) => number,
        About::Keys => reply.index,
        About::NoValue => return,
    };
    for other in (0..KEYS).filter(|other| *other != own) {
        assert!(value != value_of(other), "the value of key {other} for key {own}");
    }
}
