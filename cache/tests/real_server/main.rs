//! A session on real sockets, with the installed memcached.

mod batches;
mod failing;
mod interrupted_leases;
mod migrating;
#[path = "../../../net/tests/playing/mod.rs"]
mod playing;
mod polled;
mod refused_waits;
mod scenarios;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::session::LARGE;
use pinyon_cache::{Data, Limits, Outcome, Refused, Session, Ticket};
use pinyon_net::network::System;
use pinyon_net::{Address, Kind};
use pinyon_proto::{Arithmetic, Command, Direction, Flag, Key, MetaCommand, Mode, StatsKind, Status, Store, Verb};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use server::Memcached;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A session, and the completions that it handed out.
struct Host {
    session: Session,
    done: Vec<(Ticket, Result<Answer, Kind>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: Status,
    cas: Option<u64>,
    value: Vec<u8>,
    line: String,
}

impl Host {
    fn connected(address: Address) -> Self {
        let limits = Limits { value: 8 << 20, ..Limits::default() };
        let mut session = Session::new("memcached".into(), System::default(), limits);
        session.connect(vec![address], Instant::now(), TIMEOUT);
        let mut host = Self { session, done: Vec::new() };
        host.drive(|host| host.session.is_ready());
        host
    }

    /// Waits and polls until the condition holds.
    fn drive(&mut self, mut until: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !until(self) {
            assert!(Instant::now() < deadline, "nothing happens any more");
            assert!(self.session.failure().is_none(), "{:?}", self.session.failure());
            self.wait();
            self.turn();
        }
    }

    fn wait(&self) {
        let wants = self.session.wants();
        let Some(stream) = self.session.stream() else { return };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, wants.read);
        flags.set(PollFlags::OUT, wants.write);
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(stream, flags)], Some(&second)).unwrap();
    }

    fn turn(&mut self) {
        self.session.poll(Instant::now());
        while let Some(completion) = self.session.next() {
            let outcome = match completion.outcome {
                Outcome::Large { .. } => continue,
                Outcome::Failed(error) => Err(error.kind),
                Outcome::Part(reply) | Outcome::Reply(reply) => Ok(Answer {
                    status: reply.head.status,
                    cas: reply.head.item.cas,
                    value: reply.value.bytes().to_vec(),
                    line: String::from_utf8_lossy(reply.line).into_owned(),
                }),
            };
            self.done.push((completion.ticket, outcome));
        }
    }

    fn submit(&mut self, command: &Command<'_>, data: Data<'_>) -> Ticket {
        self.drive(|host| host.session.accepts());
        self.session.submit(command, data, Instant::now() + TIMEOUT).unwrap()
    }

    /// Runs one command to its end.
    fn run(&mut self, command: Command<'_>, data: Data<'_>) -> Result<Answer, Kind> {
        let ticket = self.submit(&command, data);
        self.drive(|host| host.session.is_clean());
        let (answered, outcome) = self.done.remove(0);
        assert_eq!(answered, ticket);
        self.done.clear();
        outcome
    }

    fn status(&mut self, command: Command<'_>) -> Status {
        self.run(command, Data::None).expect("no error").status
    }

    fn store(&mut self, mode: Mode, name: &str, value: &[u8]) -> Result<Answer, Kind> {
        self.run(store(mode, name, value.len()), Data::Copied(value))
    }

    fn value(&mut self, name: &str) -> Vec<u8> {
        self.run(Command::Get { key: key(name), cas: false }, Data::None).expect("no error").value
    }
}

fn key(name: &str) -> Key<'_> {
    Key::new(name.as_bytes(), false).unwrap()
}

fn store(mode: Mode, name: &str, size: usize) -> Command<'_> {
    Command::Store(Store { mode, key: key(name), size, client_flags: 7, ttl: 0, cas: None, returns_cas: false })
}

fn arithmetic(direction: Direction, delta: u64) -> Command<'static> {
    Command::Arithmetic(Arithmetic { key: key("n"), direction, delta })
}

#[test]
fn every_command_over_tcp_and_over_a_unix_socket() {
    for server in [Memcached::tcp(), Memcached::unix()] {
        let mut host = Host::connected(server.address());
        assert_eq!(host.status(Command::Get { key: key("k"), cas: true }), Status::Miss);
        assert_eq!(host.store(Mode::Replace, "k", b"x").unwrap().status, Status::NotStored);
        assert_eq!(host.store(Mode::Add, "k", b"b").unwrap().status, Status::Done);
        assert_eq!(host.store(Mode::Add, "k", b"x").unwrap().status, Status::NotStored);
        assert_eq!(host.store(Mode::Append, "k", b"c").unwrap().status, Status::Done);
        assert_eq!(host.store(Mode::Prepend, "k", b"a").unwrap().status, Status::Done);
        assert_eq!(host.value("k"), b"abc");
        assert_eq!(host.status(Command::Touch { key: key("k"), ttl: 100 }), Status::Done);
        for cas in [false, true] {
            let found = host.run(Command::GetAndTouch { key: key("k"), ttl: 100, cas }, Data::None).unwrap();
            assert_eq!((found.status, found.cas.is_some()), (Status::Hit, cas));
        }
        assert_eq!(host.status(Command::Delete { key: key("k") }), Status::Done);
        assert_eq!(host.status(Command::Delete { key: key("k") }), Status::NotFound);
        assert_eq!(host.status(arithmetic(Direction::Increment, 1)), Status::NotFound);
        assert_eq!(host.store(Mode::Set, "n", b"5").unwrap().status, Status::Done);
        assert_eq!(host.run(arithmetic(Direction::Increment, 10), Data::None).unwrap().value, b"15");
        assert_eq!(host.run(arithmetic(Direction::Decrement, 99), Data::None).unwrap().value, b"0");
        let stats = host.run(Command::Stats(StatsKind::default()), Data::None).unwrap();
        assert!(stats.line.starts_with("STAT "), "{stats:?}");
        assert_eq!(host.status(Command::NoOp), Status::NoOp);
        assert_eq!(host.status(Command::FlushAll { delay: 0 }), Status::Done);
        assert_eq!(host.status(Command::Get { key: key("n"), cas: false }), Status::Miss);
        assert_eq!(host.run(store(Mode::Set, "word", 1), Data::Copied(b"x")).unwrap().status, Status::Done);
        let count = Arithmetic { key: key("word"), direction: Direction::Increment, delta: 1 };
        assert_eq!(host.run(Command::Arithmetic(count), Data::None), Err(Kind::Server));
    }
}

#[test]
fn every_flag_is_taken_that_this_version_is_said_to_take() {
    let server = Memcached::unix();
    let mut host = Host::connected(server.address());
    let version = host.session.capabilities().version().unwrap();
    let flags = [
        Flag::ReturnCas,
        Flag::CompareCas(1),
        Flag::ReturnClientFlags,
        Flag::ClientFlags(1),
        Flag::HitBefore,
        Flag::LastAccess,
        Flag::RemainingTtl,
        Flag::Size,
        Flag::Invalidate,
        Flag::NoBump,
        Flag::Value,
        Flag::StoreMode(Mode::Append),
        Flag::Direction(Direction::Decrement),
        Flag::Vivify(60),
        Flag::Recache(30),
        Flag::Ttl(60),
        Flag::Delta(1),
    ];
    for verb in [Verb::Get, Verb::Store, Verb::Delete, Verb::Arithmetic] {
        for flag in flags {
            host.run(store(Mode::Set, "n", 1), Data::Copied(b"5")).unwrap();
            let size = (verb == Verb::Store).then_some(1);
            let data = if verb == Verb::Store { Data::Copied(b"5") } else { Data::None };
            let command = Command::Meta(MetaCommand { verb, key: key("n"), size, flags: &[flag] });
            if flag.since(verb).is_some_and(|since| since <= version) {
                let answer = host.run(command, data);
                assert!(answer.is_ok(), "{verb:?} {flag:?} on {version}: {answer:?}");
            } else {
                let refused = host.session.submit(&command, data, Instant::now() + TIMEOUT);
                assert!(matches!(refused, Err(Refused::Unsupported(_))), "{verb:?} {flag:?} on {version}");
            }
        }
    }
}

#[test]
fn values_of_every_size_come_back_as_they_were() {
    let server = Memcached::tcp();
    let mut host = Host::connected(server.address());
    for size in [0, 1, 2000, LARGE - 1, LARGE, LARGE + 1, 65_535, 65_536, 70_000, 300_000, 1_000_000] {
        let value: Arc<Vec<u8>> = Arc::new((0..size).map(|at| (at % 253) as u8).collect());
        assert_eq!(host.store(Mode::Set, "copied", &value).unwrap().status, Status::Done);
        host.run(store(Mode::Set, "shared", size), Data::Shared(value.clone())).unwrap();
        assert!(host.value("copied") == *value && host.value("shared") == *value, "size {size}");
    }
}

#[test]
fn large_values_and_small_ones_of_many_keys_come_back_in_one_go() {
    let server = Memcached::tcp();
    let mut host = Host::connected(server.address());
    let names: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    let value_of = |number: usize| vec![number as u8; [10, 30_000, 90_000][number % 3]];
    for (number, name) in names.iter().enumerate() {
        host.store(Mode::Set, name, &value_of(number)).unwrap();
    }
    let keys = names.join(" ");
    host.submit(&Command::GetMany { keys: keys.as_bytes(), cas: false, ttl: None }, Data::None);
    host.drive(|host| host.session.is_clean());
    assert_eq!(host.done.len(), 61);
    for (number, (_, answer)) in host.done[..60].iter().enumerate() {
        assert!(answer.as_ref().unwrap().value == value_of(number), "key {number}");
    }
}

#[test]
fn thousands_in_flight_do_not_deadlock_and_keep_their_order() {
    let server = Memcached::unix();
    let mut host = Host::connected(server.address());
    host.store(Mode::Set, "k", &[b'v'; 8000]).unwrap();
    let tickets: Vec<Ticket> =
        (0..20_000).map(|_| host.submit(&Command::Get { key: key("k"), cas: false }, Data::None)).collect();
    host.drive(|host| host.session.is_clean());
    assert!(host.done.iter().map(|(ticket, _)| *ticket).eq(tickets));
    assert!(host.done.iter().all(|(_, answer)| answer.as_ref().unwrap().value == [b'v'; 8000]));
}

#[test]
fn quiet_commands_fail_and_succeed_in_their_places() {
    let server = Memcached::unix();
    let mut host = Host::connected(server.address());
    host.store(Mode::Set, "b", b"x").unwrap();
    let too_large = vec![b'x'; 2 << 20];
    let deadline = Instant::now() + TIMEOUT;
    let session = &mut host.session;
    session.submit_quiet(&store(Mode::Set, "a", 1), Data::Copied(b"x"), deadline).unwrap();
    session.submit_quiet(&Command::Delete { key: key("absent") }, Data::None, deadline).unwrap();
    session.submit_quiet(&Command::Delete { key: key("b") }, Data::None, deadline).unwrap();
    session.submit_quiet(&store(Mode::Set, "c", 2 << 20), Data::Shared(Arc::new(too_large)), deadline).unwrap();
    host.submit(&Command::NoOp, Data::None);
    host.drive(|host| host.session.is_clean());
    let outcomes: Vec<_> = host.done.drain(..).map(|(_, outcome)| outcome.map(|answer| answer.status)).collect();
    assert_eq!(outcomes[..2], [Ok(Status::Done), Ok(Status::NotFound)]);
    assert_eq!(outcomes[3..], [Err(Kind::TooLarge), Ok(Status::NoOp)]);
    assert_eq!(host.value("a"), b"x");
}

#[test]
fn a_value_too_large_for_the_server_leaves_the_connection_usable() {
    let server = Memcached::tcp();
    let mut host = Host::connected(server.address());
    assert_eq!(host.store(Mode::Set, "k", &vec![b'x'; 4 << 20]), Err(Kind::TooLarge));
    assert_eq!(host.store(Mode::Set, "k", b"small").unwrap().status, Status::Done);
    assert_eq!(host.value("k"), b"small");
}

#[test]
fn a_server_that_is_not_there_and_one_that_goes_away() {
    let mut server = Memcached::tcp();
    let mut host = Host::connected(server.address());
    host.submit(&Command::NoOp, Data::None);
    host.drive(|host| host.session.is_clean());
    server.stop();
    host.session.submit(&Command::NoOp, Data::None, Instant::now() + TIMEOUT).unwrap();
    while host.session.failure().is_none() {
        host.wait();
        host.turn();
    }
    assert_eq!(host.done.pop().unwrap().1, Err(Kind::Closed));

    host.session.connect(vec![server.address()], Instant::now(), TIMEOUT);
    while host.session.failure().is_none() {
        host.wait();
        host.turn();
    }
    assert_eq!(host.session.failure().unwrap().kind, Kind::Connect);
}
