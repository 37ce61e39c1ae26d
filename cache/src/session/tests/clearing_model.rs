//! Clears against a model: processes with several connections to one server, in random order. Requests and replies travel when
//! the schedule says so, time passes, and the server evicts the generation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::generations::{connected, manner, TTL};
use super::host::{get, set, Event, Host, TIMEOUT};
use super::memcached::Memcached;
use crate::session::{Manner, Ticket};
use pinyon_net::error::Kind;
use pinyon_net::fake_clock::{clock, pass};

const PROCESSES: usize = 2;
const CONNECTIONS: usize = 2;
const STORED: &str = "n:!!!!!!!!!!!k";

#[derive(Clone, Debug)]
enum Step {
    Set(usize),
    Get(usize),
    Clear(usize),
    /// The requests of a connection arrive, and are carried out.
    Serve(usize),
    /// The replies to a connection arrive.
    Answer(usize),
    /// The clear of a connection's process does not arrive.
    Fail(usize),
    Pass(u64),
    Evict,
}

fn step() -> impl Strategy<Value = Step> {
    let connection = || 0..PROCESSES * CONNECTIONS;
    prop_oneof![
        3 => connection().prop_map(Step::Set),
        4 => connection().prop_map(Step::Get),
        1 => connection().prop_map(Step::Clear),
        6 => connection().prop_map(Step::Serve),
        6 => connection().prop_map(Step::Answer),
        1 => connection().prop_map(Step::Fail),
        1 => (0..1500u64).prop_map(Step::Pass),
        1 => Just(Step::Evict),
    ]
}

/// What a caller asked, and when: the number of the step, and the time.
#[derive(Clone, Debug)]
struct Call {
    kind: Asked,
    since: (usize, Instant),
}

#[derive(Clone, Debug, PartialEq)]
enum Asked {
    Set(String),
    Get,
    Clear,
}

#[derive(Clone, Debug)]
struct Cleared {
    process: usize,
    submitted: usize,
    completed: (usize, Instant),
}

struct Connection {
    host: Host,
    calls: HashMap<Ticket, Call>,
    /// Replies on their way.
    replies: Vec<u8>,
    requests: Vec<u8>,
}

struct World {
    ttl: Duration,
    manners: Vec<Arc<Manner>>,
    connections: Vec<Connection>,
    server: Memcached,
    /// The step in which each value was surely stored.
    stored: HashMap<String, usize>,
    clears: Vec<Cleared>,
    values: usize,
    step: usize,
}

impl World {
    fn new(ttl: Duration) -> Self {
        let manners: Vec<_> = (0..PROCESSES).map(|_| manner(ttl)).collect();
        let connection = |number: usize| Connection {
            host: connected("1.6.18", &manners[number / CONNECTIONS]),
            calls: HashMap::new(),
            replies: Vec::new(),
            requests: Vec::new(),
        };
        let connections = (0..PROCESSES * CONNECTIONS).map(connection).collect();
        let (server, stored, clears) = Default::default();
        Self { ttl, manners, connections, server, stored, clears, values: 0, step: 0 }
    }

    fn run(&mut self, step: &Step) {
        self.step += 1;
        let since = (self.step, clock());
        match *step {
            Step::Set(on) => {
                self.values += 1;
                self.submit(on, Call { kind: Asked::Set(format!("{:05}", self.values)), since });
            }
            Step::Get(on) => self.submit(on, Call { kind: Asked::Get, since }),
            Step::Clear(on) => self.submit(on, Call { kind: Asked::Clear, since }),
            Step::Serve(on) => self.serve(on),
            Step::Answer(on) => self.answer(on),
            Step::Fail(on) => {
                let process = on / CONNECTIONS;
                self.manners[process].generations().unwrap().owe();
                // The caller was told, so from now on the process does not see what was stored before.
                self.clears.push(Cleared {
                    process,
                    submitted: self.step,
                    completed: (self.step, clock() + 1000 * TTL),
                });
            }
            Step::Pass(time) => pass(Duration::from_millis(time)),
            Step::Evict => drop(self.server.items.remove("n:!generation")),
        }
    }

    fn submit(&mut self, on: usize, call: Call) {
        let Connection { host, calls, requests, .. } = &mut self.connections[on];
        let ticket = match &call.kind {
            Asked::Set(value) => host.submit_value(set(STORED, 5), value.as_bytes()),
            Asked::Get => host.submit(get(STORED)),
            Asked::Clear => host.session.submit_clearing(host.now + TIMEOUT).unwrap(),
        };
        calls.insert(ticket, call);
        requests.extend(host.sent().into_bytes());
    }

    fn serve(&mut self, on: usize) {
        let Connection { requests, replies, .. } = &mut self.connections[on];
        let answers = self.server.serve(&std::mem::take(requests));
        replies.extend(answers);
    }

    fn answer(&mut self, on: usize) {
        let replies = std::mem::take(&mut self.connections[on].replies);
        for event in self.connections[on].host.answer(&replies) {
            let call = self.connections[on].calls.remove(&event.ticket()).unwrap();
            match event {
                Event::Failed(_, error) => {
                    assert_eq!(error.kind, Kind::Outdated);
                    self.submit(on, call);
                }
                Event::Reply(_, answer) => self.check(on, call, &answer.value),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn check(&mut self, on: usize, call: Call, value: &[u8]) {
        let process = on / CONNECTIONS;
        match call.kind {
            Asked::Set(value) => drop(self.stored.insert(value, self.step)),
            Asked::Clear => {
                let completed = (self.step, clock());
                self.clears.push(Cleared { process, submitted: call.since.0, completed });
            }
            Asked::Get if value.is_empty() => {}
            Asked::Get => {
                let Some(stored) = self.stored.get(std::str::from_utf8(value).unwrap()) else { return };
                let hides = |cleared: &&Cleared| {
                    let is_known = match cleared.process == process {
                        true => cleared.completed.0 < call.since.0,
                        false => cleared.completed.0 < call.since.0 && cleared.completed.1 + self.ttl <= call.since.1,
                    };
                    *stored < cleared.submitted && is_known
                };
                let hidden = self.clears.iter().find(hides);
                assert!(hidden.is_none(), "{value:?} of step {stored} is read in {} after {hidden:?}", call.since.0);
            }
        }
    }

    /// Everything arrives, until nothing is under way.
    fn finish(&mut self) {
        for _ in 0..100 {
            for on in 0..self.connections.len() {
                self.serve(on);
                self.answer(on);
            }
        }
        for Connection { host, calls, .. } in &self.connections {
            assert!(calls.is_empty() && host.session.is_clean(), "{calls:?} {:?}", host.session.failure());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_value_from_before_a_clear_is_read_after_it(
        steps in proptest::collection::vec(step(), 0..150), asks_each_time: bool,
    ) {
        let mut world = World::new(if asks_each_time { Duration::ZERO } else { TTL });
        steps.iter().for_each(|step| world.run(step));
        world.finish();
    }
}
