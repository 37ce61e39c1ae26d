//! The scenarios of `scenarios/leaders.json`, each on a server that it may stop and start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pinyon_locks::settings::UsualLock;
use pinyon_locks::{Setup, StatusQuestion};
use pinyon_proto::resp::Value as Answer;
use serde_json::{json, Value};

use crate::call::{self, Asked};
use crate::candidate::Candidate;
use crate::drivers::{GivesUp, Loop, Threads};
use crate::playing::play_each;
use crate::reading::settings;
use crate::server::Redis;

/// The time limit of every step, for slow machines too.
const PATIENCE: Duration = Duration::from_secs(100);

/// How many run at the same time. They mostly wait.
const AT_ONCE: usize = 8;

#[test]
fn every_scenario_of_leaders_in_threads() {
    play_all::<Threads>();
}

#[test]
fn every_scenario_of_leaders_in_an_event_loop() {
    play_all::<Loop>();
}

fn play_all<D: GivesUp>() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/leaders.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).expect("it is JSON");
    let scenarios = file["scenarios"].as_array().expect("a list of scenarios");
    assert!(scenarios.len() > 8, "they were read");
    play_each(scenarios, AT_ONCE, |_, scenario| play::<D>(&file["client"], scenario));
}

/// Runs a scenario. An error says what went wrong.
fn play<D: GivesUp>(usual: &Value, scenario: &Value) -> Result<(), String> {
    let server = Redis::start("");
    let own = json!({"namespace": "leaders"});
    let (setup, usual) = settings(&format!("unix://{}", server.address()), &[usual, &scenario["client"], &own]);
    let (clients, candidates) = (BTreeMap::new(), BTreeMap::new());
    let mut playing: Playing<D> = Playing { server, setup, usual, clients, candidates };
    for step in scenario["steps"].as_array().expect("a list of steps") {
        playing.step(step).map_err(|why| format!("{step}: {why}"))?;
    }
    let names: Vec<String> = playing.candidates.keys().cloned().collect();
    for name in names {
        playing.stop(&name)?;
        let candidate = &playing.candidates[&name].1;
        assert_eq!(candidate.tokens().len() * 2, candidate.called.len(), "each election ends once");
    }
    match scenario["name"].as_str().is_some_and(|name| name.contains("closing")) {
        true => Ok(()), // Its lock ends with its ttl.
        false => playing.nothing_is_left(),
    }
}

struct Playing<D> {
    server: Redis,
    setup: Setup,
    usual: UsualLock,
    clients: BTreeMap<String, D>,
    /// With their clients.
    candidates: BTreeMap<String, (String, Candidate)>,
}

impl<D: GivesUp> Playing<D> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(what) = step["server"].as_str() {
            match what {
                "stop" => self.server.stop(),
                "start" => self.server.run(),
                other => panic!("the server cannot {other}"),
            }
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.call(step)?;
            if step.get("returns").is_none_or(|returns| *returns == found) {
                return Ok(());
            }
            if step["eventually"] != true || Instant::now() > until {
                return Err(format!("it returned {found}"));
            }
            self.go_on();
        }
    }

    fn call(&mut self, step: &Value) -> Result<Value, String> {
        let (by, words) = (step["by"].as_str().expect("somebody"), step["call"].as_array().expect("a call"));
        let (method, first) = (words[0].as_str().expect("a method"), words.get(1).unwrap_or(&Value::Null));
        let name = first.as_str().unwrap_or_default();
        Ok(match method {
            "start" => {
                let of = words[2].as_str().expect("a name");
                let mut candidate = Candidate::new(of, words.get(3).unwrap_or(&Value::Null));
                let usual = self.usual;
                candidate.start(self.client(by), &usual);
                self.candidates.insert(name.to_owned(), (by.to_owned(), candidate));
                Value::Null
            }
            "close" => {
                self.client(by).close();
                Value::Null
            }
            "waiting" => self.ask(by, call::about(&json!([name]), StatusQuestion::Waiting))?,
            "has_leader" => self.ask(by, call::about(&json!([name]), StatusQuestion::IsLocked))?,
            "leads" => {
                let status = self.ask(by, call::about(&json!([words[2]]), StatusQuestion::Each))?;
                json!(status["token"].as_u64() == Some(self.candidate(name).token()))
            }
            "force_release" => self.ask(by, call::force_release(first, None))?,
            "told" => json!(self
                .candidates
                .values()
                .any(|(of, candidate)| of == by && candidate.told.iter().any(|line| line.contains(name)))),
            "stop" => {
                self.stop(name)?;
                json!(true)
            }
            "resign" => json!(self.candidate(name).resign()),
            "is_leader" => json!(self.candidate(name).token() > 0),
            "state" => json!(self.candidate(name).state()),
            "called" => self.called(name, usize::MAX),
            "called_at_first" => {
                let first = words[2].as_array().expect("a list").len();
                json!(self.called(name, first) == words[2])
            }
            "is_later" => {
                let other = self.candidate(words[2].as_str().expect("a name")).tokens().pop();
                json!(self.candidate(name).tokens().pop() > other)
            }
            "is_later_than_before" => json!(self.candidate(name).tokens().is_sorted_by(|one, next| one < next)),
            other => panic!("no call {other}"),
        })
    }

    /// Ends a candidate.
    fn stop(&mut self, name: &str) -> Result<(), String> {
        let (of, candidate) = self.candidates.get_mut(name).expect("it was started");
        candidate.stop(self.clients.get_mut(of).expect("it was used"));
        let until = Instant::now() + PATIENCE;
        while self.candidate(name).state() != "stopped" {
            if Instant::now() > until {
                return Err("it does not end".to_owned());
            }
            self.go_on();
        }
        Ok(())
    }

    fn ask(&mut self, by: &str, asked: Result<Asked, crate::player::Raised>) -> Result<Value, String> {
        let number = self.client(by).begin(asked.map_err(|raised| raised.message)?);
        loop {
            if let Some(over) = self.client(by).outcome(number) {
                return over.map_err(|failure| failure.message);
            }
            self.go_on();
        }
    }

    /// Lets all clients and candidates continue.
    fn go_on(&mut self) {
        self.clients.values_mut().for_each(D::go_on);
        for (of, candidate) in self.candidates.values_mut() {
            candidate.go_on(self.clients.get_mut(of).expect("it was used"), &self.usual);
        }
    }

    fn called(&mut self, name: &str, most: usize) -> Value {
        self.candidate(name).called.iter().take(most).map(|(which, _)| json!(which)).collect()
    }

    fn client(&mut self, name: &str) -> &mut D {
        self.clients.entry(name.to_owned()).or_insert_with(|| D::new(self.setup.clone()))
    }

    fn candidate(&mut self, name: &str) -> &mut Candidate {
        &mut self.candidates.get_mut(name).expect("it was started").1
    }

    fn nothing_is_left(&self) -> Result<(), String> {
        let Answer::Array(keys) = self.server.ask(&["KEYS", "{leaders}:*"]) else { panic!("no keys") };
        let text = |key: Answer| match key {
            Answer::Bytes(key) => String::from_utf8(key.into()).expect("a text"),
            other => panic!("no key: {other:?}"),
        };
        let stays = |key: &String| key.ends_with(":#f") || key.ends_with(":#p") || key.contains(":#x:");
        let left: Vec<_> = keys.into_iter().map(text).filter(|key| !stays(key)).collect();
        left.is_empty().then_some(()).ok_or_else(|| format!("this is left: {left:?}"))
    }
}
