//! A scenario's client with a faulty server.

use std::time::{Duration, Instant};

use pinyon_locks::settings::UsualLock;
use pinyon_locks::{owners, Limits, StatusQuestion};
use serde_json::{json, Value};

use crate::call::{about, acquire, ended, execute, with, Lock, Over};
use crate::drivers::{Loop, Threads};
use crate::player::Driver;
use crate::playing::{ensure, play_all, Client, Outcome, Raised};
use crate::ports::free_port;
use crate::reading::{settings, texts};
use crate::server::Redis;

#[test]
fn every_faulty_server_in_threads() {
    play::<Threads>();
}

#[test]
fn every_faulty_server_in_an_event_loop() {
    play::<Loop>();
}

fn play<D: Driver>() {
    let guard = "requirepass correct-horse\nuser app on >correct-horse ~* &* +@all\n";
    let servers = ["", guard].map(|configuration| {
        let port = free_port();
        (Redis::start(&format!("{configuration}bind 127.0.0.1\nport {port}\n")), format!("127.0.0.1:{port}"))
    });
    play_all::<Caller<D>>(servers.each_ref().map(|(_, address)| address.clone()));
}

struct Caller<D> {
    driver: D,
    usual: UsualLock,
}

/// A call under way: its latest operation, and the lock that it is about.
struct Under<'c> {
    call: &'c [Value],
    number: usize,
    lock: Option<Lock>,
    is_releasing: bool,
}

impl<D: Driver> Client for Caller<D> {
    const PROTOCOL: &'static str = "redis";
    const SHARES: bool = D::SHARES;
    const LIMITS: &'static [&'static str] = &["timeout", "command_timeout", "connect_timeout"];

    fn connected(scenario: &Value) -> Self {
        let address = scenario["address"].as_str().expect("an address");
        let (setup, usual) = settings(&format!("redis://{address}"), &[&scenario["client"]]);
        Self { driver: D::new(setup), usual }
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        let mut under: Vec<_> = calls.iter().map(|call| Some(self.begin(call))).collect();
        let mut outcomes: Vec<_> = calls.iter().map(|_| None).collect();
        while outcomes.iter().any(Option::is_none) {
            for (outcome, under) in outcomes.iter_mut().zip(&mut under) {
                if let Some(begun) = under {
                    let Some(over) = self.driver.outcome(begun.number) else { continue };
                    *outcome = self.went_on(begun, over);
                    under.take_if(|_| outcome.is_some());
                }
            }
            self.driver.go_on();
        }
        outcomes.into_iter().flatten().collect()
    }

    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.driver.go_on();
        }
    }

    fn afterwards(scenario: &Value) -> Vec<Value> {
        let own = format!("after {}", scenario["address"]);
        vec![json!({"call": ["execute", "ECHO", "right"], "returns": "right"}), json!({"call": ["try_lock", own]})]
    }

    fn check_place(_: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
        let Raised { server, command, text, .. } = raised;
        ensure(**server == *address || text.contains(address), || "it names no server".into())?;
        ensure(text.contains(command), || "its text does not name the command".into())
    }
}

impl<D: Driver> Caller<D> {
    fn begin<'c>(&mut self, call: &'c [Value]) -> Under<'c> {
        let arguments = json!(call[1..]);
        let (lock, asked) = match call[0].as_str() {
            Some("execute") => (None, execute(&texts(&arguments))),
            Some("is_locked") => (None, about(&arguments, StatusQuestion::IsLocked).expect("they are names")),
            Some(method @ ("lock" | "try_lock" | "proceed")) => {
                let at_once = method == "try_lock";
                let settings = if method == "proceed" { json!({"on_failure": method}) } else { Value::Null };
                let asked =
                    acquire(owners::new_owner(), at_once, &arguments, &settings, &self.usual, &Limits::default());
                let (lock, asked) = asked.expect("it makes sense");
                (Some(lock), asked)
            }
            other => panic!("no call {other:?}"),
        };
        Under { call, number: self.driver.begin(asked), lock, is_releasing: false }
    }

    /// The outcome of the whole call, unless steps remain.
    fn went_on(&mut self, under: &mut Under<'_>, over: Over) -> Option<Outcome> {
        let value = match (ended(over), &under.lock) {
            (Err(failure), _) => return Some(Raised::from(failure).into()),
            (Ok(value), None) => value,
            (Ok(_), Some(lock)) if !under.is_releasing && lock.held.token() > 0 => {
                under.is_releasing = true;
                under.number = self.driver.begin(with(lock, "release", &[]).expect("it makes sense"));
                return None;
            }
            (Ok(_), Some(lock)) if under.call[0] == "proceed" => json!(lock.held.token() > 0),
            (Ok(is_held), Some(lock)) if under.call[0] == "lock" && is_held == false => {
                return Some(Raised::from(lock.held.lost_early()).into())
            }
            (Ok(_), Some(lock)) if under.call[0] == "lock" => json!(lock.held.token()),
            (Ok(_), Some(_)) if under.is_releasing => Value::Null,
            (Ok(value), Some(_)) => value,
        };
        Some(Outcome { value, raised: None })
    }
}
