//! Runs scenarios, on any way to carry out operations.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use pinyon_locks::settings::UsualLock;
use pinyon_locks::{owners, Limits, Note, Setup, StatusQuestion};
use pinyon_net::error::kinds::ErrorKind;
use regex_lite::Regex;
use serde_json::{json, Value};

use crate::call::{self, Held, Lock, Operation, Over};
use crate::playing::play_each;
use crate::reading::{settings, texts};
use crate::server::Redis;

/// How long an idle client waits for something to happen.
pub const A_MOMENT: Duration = Duration::from_millis(2);

/// A way to carry out operations, as the client of a scenario.
pub trait Driver {
    /// Whether operations that begin together leave together, in order.
    const SHARES: bool;

    fn new(setup: Setup) -> Self;

    /// Begins an operation, and returns its number.
    fn begin(&mut self, operation: Operation) -> usize;

    /// Continues everything under way for a moment.
    fn go_on(&mut self);

    /// Takes the outcome of an operation.
    fn outcome(&mut self, number: usize) -> Option<Over>;

    /// Closes the client. What is under way fails.
    fn close(&mut self);

    fn remaining(&self, held: &Held) -> Option<Duration>;

    /// The name of a lock that was lost.
    fn note(&mut self) -> Option<Note<String>>;
}

#[derive(Debug)]
pub struct Raised {
    pub kind: ErrorKind,
    pub message: String,
    pub cycle: usize,
}

type Outcome = Result<Value, Raised>;

/// The time limit of every step, for slow machines too.
const PATIENCE: Duration = Duration::from_secs(100);

/// How many run at the same time. They mostly wait.
const AT_ONCE: usize = 16;

/// Runs all scenarios, on one server.
pub fn play_all<D: Driver>() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/locks.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).expect("it is JSON");
    let (server, scenarios) = (Redis::start(""), file["scenarios"].as_array().expect("a list of scenarios"));
    assert!(scenarios.len() > 20, "they were read");
    play_each(scenarios, AT_ONCE, |number, scenario| {
        play::<D>(&server, &format!("scenario{number}"), &file["client"], scenario)
    });
}

/// Runs a scenario. An error says what went wrong.
fn play<D: Driver>(server: &Redis, namespace: &str, usual: &Value, scenario: &Value) -> Result<(), String> {
    let own = json!({"namespace": namespace});
    let (setup, usual) = settings(&format!("unix://{}", server.address()), &[usual, &scenario["client"], &own]);
    let namespace = format!("{{{namespace}}}");
    let mut playing: Playing<D> = Playing {
        setup,
        usual,
        namespace,
        clients: BTreeMap::new(),
        owners: HashMap::new(),
        limits: HashMap::new(),
        locks: HashMap::new(),
        begun: HashMap::new(),
        losses: HashMap::new(),
        tickets: HashMap::new(),
    };
    for step in scenario["steps"].as_array().expect("a list of steps") {
        playing.step(step).map_err(|why| format!("{step}: {why}"))?;
    }
    playing.nothing_is_left()
}

struct Playing<D> {
    setup: Setup,
    usual: UsualLock,
    /// As written in the keys.
    namespace: String,
    clients: BTreeMap<char, D>,
    owners: HashMap<String, u64>,
    /// What each client was told of pools of permits.
    limits: HashMap<char, Limits>,
    locks: HashMap<String, Lock>,
    begun: HashMap<String, Begun>,
    /// How many times each lock's listener was told of its loss.
    losses: HashMap<String, usize>,
    tickets: HashMap<String, String>,
}

/// A call under way.
struct Begun {
    client: char,
    number: usize,
    call: Value,
}

/// The course of a call: a question to the server, or an answer at once.
enum Course {
    Asks(Operation),
    Is(Outcome),
}

impl<D: Driver> Playing<D> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        let begun_at = Instant::now();
        if let Some(label) = step["begins"].as_str() {
            let begun = self.begin(step)?;
            self.begun.insert(label.to_owned(), begun);
            return Ok(());
        }
        if let Some(label) = step["ends"].as_str() {
            let begun = self.begun.remove(label).ok_or("it was not begun")?;
            let outcome = self.end(begun)?;
            return check(step, &outcome);
        }
        loop {
            let outcome = self.call(step)?;
            match check(step, &outcome) {
                Err(_) if step["eventually"] == true && begun_at.elapsed() < PATIENCE => self.go_on(),
                Ok(()) if step["takes"].as_f64().is_some_and(|seconds| begun_at.elapsed().as_secs_f64() < seconds) => {
                    return Err(format!("it took only {:?}", begun_at.elapsed()))
                }
                checked => return checked,
            }
        }
    }

    fn call(&mut self, step: &Value) -> Result<Outcome, String> {
        match self.course(step) {
            Ok(Course::Is(outcome)) => Ok(outcome),
            Ok(Course::Asks(operation)) => {
                let begun = self.asked(step, operation);
                self.end(begun)
            }
            Err(raised) => Ok(Err(raised)),
        }
    }

    fn begin(&mut self, step: &Value) -> Result<Begun, String> {
        match self.course(step) {
            Ok(Course::Asks(operation)) => Ok(self.asked(step, operation)),
            _ => Err("it is over at once".to_owned()),
        }
    }

    fn asked(&mut self, step: &Value, operation: Operation) -> Begun {
        let client = client_of(step);
        Begun { client, number: self.client(client).begin(operation), call: step["call"].clone() }
    }

    fn course(&mut self, step: &Value) -> Result<Course, Raised> {
        let words = step["call"].as_array().expect("a call");
        let (method, first) = (words[0].as_str().expect("a method"), words.get(1).unwrap_or(&Value::Null));
        let rest = Value::Array(words[1..].to_vec());
        let name = first.as_str().unwrap_or_default();
        Ok(match method {
            "acquire" | "try_lock" => {
                let owner = *self.owners.entry(step["by"].to_string()).or_insert_with(owners::new_owner);
                let settings = words.get(3).unwrap_or(&Value::Null);
                let limits = self.limits.entry(client_of(step)).or_default();
                let at_once = method == "try_lock";
                let (lock, operation) = call::acquire(owner, at_once, &words[2], settings, &self.usual, limits)?;
                self.locks.insert(name.to_owned(), lock);
                self.losses.insert(name.to_owned(), 0);
                Course::Asks(operation)
            }
            "adopt" => {
                let owner = *self.owners.entry(step["by"].to_string()).or_insert_with(owners::new_owner);
                let ticket = &self.tickets[words[2].as_str().expect("a ticket")];
                let settings = words.get(3).unwrap_or(&Value::Null);
                let (lock, operation) = call::adopt(owner, ticket, settings, &self.usual, &self.setup)?;
                self.locks.insert(name.to_owned(), lock);
                self.losses.insert(name.to_owned(), 0);
                Course::Asks(operation)
            }
            "close" => {
                self.client(client_of(step)).close();
                Course::Is(Ok(Value::Null))
            }
            "release_all" => Course::Asks(call::release_all()),
            "is_locked" => Course::Asks(call::about(&rest, StatusQuestion::IsLocked)?),
            "waiting" => Course::Asks(call::about(&rest, StatusQuestion::Waiting)?),
            "is_held_by" => Course::Asks(call::about(&json!([words[2]]), StatusQuestion::Each)?),
            "owners" => Course::Asks(call::about(&rest, StatusQuestion::Each)?),
            "force_release" => {
                let token = words.get(2).map(|holder| self.token(holder));
                Course::Asks(call::force_release(first, token)?)
            }
            "allow" | "wait_for_permits" => {
                let permits = words.get(3).map_or(1, |permits| permits.as_i64().expect("a number of permits"));
                let timeout = (method == "wait_for_permits").then(|| words[4].as_f64().expect("a timeout"));
                Course::Asks(call::permits(name, &words[2], permits, timeout)?)
            }
            "execute" => {
                let parts = texts(&rest);
                let parts: Vec<_> = parts.iter().map(|part| part.replace("{namespace}", &self.namespace)).collect();
                Course::Asks(call::execute(&parts))
            }
            "check" => Course::Is(match self.remaining(step, name) {
                Some(_) => Ok(Value::Null),
                None => Err(self.locks[name].held.not_held().into()),
            }),
            "is_certain" => Course::Is(Ok(json!(self.locks[name].held.is_certain()))),
            "is_lost" => Course::Is(Ok(json!(self.remaining(step, name).is_none()))),
            "lasts" => {
                let left = self.remaining(step, name).unwrap_or_default().as_secs_f64();
                Course::Is(Ok(json!((words[2].as_f64().unwrap()..=words[3].as_f64().unwrap()).contains(&left))))
            }
            "losses" => Course::Is(Ok(json!(self.losses[name]))),
            "is_later" => Course::Is(Ok(json!(self.token(first) > self.token(&words[2])))),
            method => Course::Asks(call::with(&self.locks[name], method, words.get(2..).unwrap_or_default())?),
        })
    }

    fn end(&mut self, Begun { client, number, call }: Begun) -> Result<Outcome, String> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(outcome) = self.client(client).outcome(number) {
                return Ok(self.understood(&call, call::ended(outcome).map_err(Raised::from)));
            }
            if Instant::now() > give_up {
                return Err("it never ends".to_owned());
            }
            self.go_on();
        }
    }

    /// Interprets an outcome as that of this call.
    fn understood(&mut self, call: &Value, outcome: Outcome) -> Outcome {
        let name = call[1].as_str().unwrap_or_default();
        match call[0].as_str() {
            Some("is_held_by") => Ok(json!(outcome?["token"].as_u64() == Some(self.token(&call[1])))),
            Some("owners") => Ok(outcome?["owners"].clone()),
            Some("upgrade" | "downgrade") => outcome.map(|_| json!(true)),
            Some("hand_over") => {
                let ticket = call[2].as_str().expect("a name for the ticket");
                self.tickets.insert(ticket.to_owned(), outcome?.as_str().expect("a text").to_owned());
                Ok(json!(true))
            }
            Some(method @ ("acquire" | "try_lock" | "adopt")) => {
                let held = &self.locks[name].held;
                let is_held = outcome.map(|_| held.token() > 0)?;
                if is_held && held.listen(name.to_owned()).is_err() {
                    self.losses.entry(name.to_owned()).and_modify(|count| *count += 1);
                }
                assert!(is_held || method == "try_lock", "what was acquired has a token");
                Ok(json!(is_held))
            }
            _ => outcome,
        }
    }

    /// Lets all clients continue: one may be waiting for another.
    fn go_on(&mut self) {
        for client in self.clients.values_mut() {
            client.go_on();
            while let Some(note) = client.note() {
                if let Note::Lost { listener, .. } = note {
                    self.losses.entry(listener).and_modify(|count| *count += 1);
                }
            }
        }
    }

    fn nothing_is_left(&mut self) -> Result<(), String> {
        let keys = json!({"by": "A", "call": ["execute", "KEYS", "{namespace}:*"]});
        let give_up = Instant::now() + PATIENCE;
        loop {
            let found = self.call(&keys)?.map_err(|raised| raised.message)?;
            // The counter stays. Tombstones, and the mark of waiters without scripts, expire.
            let stays = |key: &String| key.ends_with(":#f") || key.ends_with(":#p") || key.contains(":#x:");
            let left: Vec<_> = texts(&found).into_iter().filter(|key| !stays(key)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(format!("this is left: {left:?}"));
            }
            self.go_on();
        }
    }

    fn client(&mut self, name: char) -> &mut D {
        self.clients.entry(name).or_insert_with(|| D::new(self.setup.clone()))
    }

    fn remaining(&mut self, step: &Value, name: &str) -> Option<Duration> {
        let held = self.locks[name].held.clone();
        self.client(client_of(step)).remaining(&held)
    }

    fn token(&self, name: &Value) -> u64 {
        self.locks[name.as_str().expect("a name")].held.token()
    }
}

/// The first letter names the client; the rest distinguishes its callers.
fn client_of(step: &Value) -> char {
    step["by"].as_str().and_then(|by| by.chars().next()).expect("somebody does it")
}

fn check(step: &Value, outcome: &Outcome) -> Result<(), String> {
    let Raised { kind, message, cycle } = match (outcome, step.get("raises")) {
        (Ok(value), None) if step.get("returns").is_none_or(|returns| returns == value) => return Ok(()),
        (Err(raised), Some(_)) => raised,
        _ => return Err(format!("{outcome:?}")),
    };
    let says = step["says"].as_str().map(|says| Regex::new(says).expect("a regular expression"));
    let is_so = step["raises"] == ErrorKind::as_str(*kind)
        && says.is_none_or(|says| says.is_match(message))
        && step.get("cycle").is_none_or(|expected| expected.as_u64() == Some(*cycle as u64));
    is_so.then_some(()).ok_or_else(|| format!("{outcome:?}"))
}
