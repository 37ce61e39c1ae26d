//! The blocking client without a host language, done as `bench/pinyon_bench/instructions/callgrind.py` describes it.
//!
//! Usage: `instructions /path/to/memcached.socket`

use std::convert::Infallible;
use std::os::unix::process::parent_id;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_core::blocking::{execute, scatter, Batch, Host, Outcomes, Timer, Work};
use pinyon_core::fleet::{Access, Choice, Fleet, Options};
use pinyon_core::ring::Rule;
use pinyon_core::{parse_servers, Data, Error, Limits, Refused, Reply, Session, Ticket};
use pinyon_proto::{Command, Key, Mode, Status, Store};

const ROUNDS: usize = 5;
const MORE: usize = 3;
const KEYS: usize = 100;
const VALUE: [u8; 36] = [b'v'; 36];
const TIMEOUT: Duration = Duration::from_secs(30);
const LIMITS: Limits = Limits { exchanges: 4096, unsent: 64 * 1024, value: 1024 * 1024 };
const OPTIONS: Options = Options {
    timeout: TIMEOUT,
    connect_timeout: TIMEOUT,
    max_connections: 64,
    limits: LIMITS,
    gutter_ttl: 10,
    events: false,
    slow_after: None,
};

fn main() {
    let server = std::env::args().nth(1).expect("the server's socket");
    let servers = parse_servers([server.as_str()]).expect("a server");
    let fleet = Fleet::new(servers, Vec::new(), Rule::default(), OPTIONS, Access::default()).expect("no TLS");
    let client = Client { fleet: Arc::new(fleet), keys: (0..KEYS).map(|number| format!("{number:036}")).collect() };
    let line = client.keys.join(" ");
    client.set_in_batch(KEYS);
    count("get", 100, |times| (0..times).for_each(|number| client.get(number % KEYS)));
    count("set", 100, |times| (0..times).for_each(|number| client.set(number % KEYS)));
    count("get_many:100", 10, |times| (0..times).for_each(|_| client.get_many(&line)));
    count("batch:set", 500, |times| client.set_in_batch(times));
}

fn count(operation: &str, few: usize, run: impl Fn(usize)) {
    run(few);
    for _ in 0..ROUNDS {
        for times in [few, MORE * few] {
            mark();
            run(times);
        }
    }
    mark();
    println!("core:{operation}\t{}", (MORE - 1) * few);
}

fn mark() {
    let _ = parent_id();
}

struct Client {
    fleet: Arc<Fleet>,
    keys: Vec<String>,
}

impl Client {
    fn get(&self, number: usize) {
        let key = &self.keys[number];
        let command = Command::Get { key: key_of(key), cas: false };
        let mut read = |reply: Reply<'_>| assert_eq!(reply.value.bytes(), VALUE);
        execute(&self.fleet, &NoLanguage, key.as_bytes(), true, &command, &Data::None, &mut read).expect("a value");
    }

    fn set(&self, number: usize) {
        let key = &self.keys[number];
        let mut check = |reply: Reply<'_>| assert_eq!(reply.head.status, Status::Done);
        execute(&self.fleet, &NoLanguage, key.as_bytes(), true, &store(key), &Data::Copied(&VALUE), &mut check)
            .expect("stored");
    }

    fn get_many(&self, line: &str) {
        let mut work = ManyGets { line, values: 0 };
        let mut timer = Timer::start(Instant::now(), TIMEOUT);
        let failures = scatter(&self.fleet, &NoLanguage, &[Choice::regardless(0)], "get", &mut timer, &mut work)
            .expect("no interrupt");
        assert!(failures.is_empty() && work.values == KEYS);
    }

    fn set_in_batch(&self, times: usize) {
        let mut batch = Batch::new(self.fleet.clone(), true);
        for key in self.keys.iter().cycle().take(times) {
            batch
                .submit(&NoLanguage, key.as_bytes(), &store(key), &Data::Copied(&VALUE), &mut AllStored)
                .expect("submitted");
        }
        batch.finish(&NoLanguage, &mut AllStored).expect("stored");
    }
}

fn key_of(text: &str) -> Key<'_> {
    Key::new(text.as_bytes(), false).expect("a key")
}

fn store(key: &str) -> Command<'_> {
    Command::Store(Store { mode: Mode::Set, key: key_of(key), size: VALUE.len(), client_flags: 0, ttl: 0, cas: None })
}

struct ManyGets<'a> {
    line: &'a str,
    values: usize,
}

impl Work for ManyGets<'_> {
    fn submit(&mut self, _: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused> {
        let command = Command::GetMany { keys: self.line.as_bytes(), cas: false };
        session.submit(&command, Data::None, deadline).map(drop)
    }

    fn reply(&mut self, _: usize, _: Ticket, reply: Reply<'_>) {
        self.values += usize::from(reply.value.bytes() == VALUE);
    }

    fn failed(&mut self, _: usize, _: Ticket, error: Error) {
        panic!("{error:?}");
    }
}

struct AllStored;

impl Outcomes for AllStored {
    fn reply(&mut self, _: usize, _: Ticket, reply: Reply<'_>) {
        assert_eq!(reply.head.status, Status::Done);
    }

    fn failed(&mut self, _: usize, _: Ticket, error: Error) {
        panic!("{error:?}");
    }
}

/// No lock to give up, no signals.
struct NoLanguage;

impl Host for NoLanguage {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Infallible> {
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}
