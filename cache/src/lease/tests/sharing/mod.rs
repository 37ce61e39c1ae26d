//! `namespaces.json`, `tags.json` and `near.json` of `scenarios/` in memory, with a clock that only the scenarios move: who
//! reads what after a clear, an invalidation, an eviction, or another's write.

mod calls;
mod clients;

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use serde_json::Value;

use crate::operations::tests::world::{Running, World, SERVERS};
use clients::Client;
use pinyon_net::fake_clock::pass;

/// What a call returns, or the name of its error.
type Outcome = Result<Value, String>;

/// One scenario.
struct Playing {
    world: World,
    clients: HashMap<String, Client>,
    /// Calls under way, by their names.
    begun: HashMap<String, Begun>,
    kept: HashMap<String, Value>,
}

/// A call under way.
struct Begun {
    by: String,
    call: Value,
    running: Running,
}

#[test]
fn every_scenario_of_namespaces() {
    play(include_str!("../../../../../scenarios/namespaces.json"));
}

#[test]
fn every_scenario_of_tags() {
    play(include_str!("../../../../../scenarios/tags.json"));
}

#[test]
fn every_scenario_of_hot_keys_in_memory() {
    play(include_str!("../../../../../scenarios/near.json"));
}

fn play(file: &str) {
    let file: Value = serde_json::from_str(file).unwrap();
    let scenarios = file["scenarios"].as_array().unwrap();
    assert!(scenarios.len() > 10);
    let fails = |scenario: &&Value| {
        let played = catch_unwind(AssertUnwindSafe(|| {
            let mut playing = Playing::new(&file["client"], scenario);
            playing.play(&scenario["steps"]);
            assert!(playing.begun.is_empty(), "every call ends");
        }));
        played.is_err()
    };
    let failed: Vec<_> = scenarios.iter().filter(fails).map(|scenario| text(&scenario["name"])).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

impl Playing {
    fn new(client: &Value, scenario: &Value) -> Self {
        let (clients, fleets) = clients::of(&[client, &scenario["client"]], &scenario["clients"]);
        Self { world: World::new(fleets), clients, begun: HashMap::new(), kept: HashMap::new() }
    }

    fn play(&mut self, steps: &Value) {
        steps.as_array().unwrap().iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &Value) {
        let Some((kind, what)) = ["pass", "evict", "servers", "together", "ends", "begins", "call"]
            .iter()
            .find_map(|kind| step.get(kind).map(|what| (*kind, what)))
        else {
            panic!("{step} is not a step");
        };
        match kind {
            "pass" => pass(Duration::from_secs_f64(what.as_f64().unwrap())),
            "evict" => self.evict(what),
            "servers" => self.order(text(what)),
            "together" => self.at_once(what.as_array().unwrap()),
            "begins" => self.begin(step, text(what)),
            "ends" => self.end(step, text(what)),
            _ => {
                let by = text(&step["by"]);
                let (outcome, makes) = self.call(by, what);
                self.expect(step, outcome);
                assert!(step["makes"].as_bool().is_none_or(|expected| makes == expected), "{step} makes: {makes}");
            }
        }
    }

    fn expect(&mut self, step: &Value, outcome: Outcome) {
        let expected = match (step.get("raises"), step.get("returns_kept")) {
            (Some(raised), _) => {
                let error = outcome.expect_err(&step.to_string());
                return assert!(raised == "Error" || *raised == error, "{step} raises {error}");
            }
            (None, Some(name)) => Some(&self.kept[text(name)]),
            (None, None) => step.get("returns"),
        };
        let returned = outcome.unwrap_or_else(|error| panic!("{step} raises {error}"));
        assert!(expected.is_none_or(|expected| *expected == returned), "{step} returns {returned}");
        if let Some(several) = step.get("returns_one_of") {
            assert!(several.as_array().unwrap().contains(&returned), "{step} returns {returned}");
        }
        if let Some(name) = step.get("keeps") {
            self.kept.insert(text(name).to_owned(), returned);
        }
    }

    /// Removes what is stored under a key that the scenario names by what it is.
    fn evict(&mut self, what: &Value) {
        let (of, own) = match (what.get("generation_of"), what.get("tag")) {
            (Some(of), _) => (of, "!generation".to_owned()),
            (None, Some(tag)) => (&what["of"], format!("!tag:{}", text(tag))),
            (None, None) => (&what["of"], text(&what["key"]).to_owned()),
        };
        let keys = self.clients[text(of)].keys();
        let prefix = String::from_utf8(keys.namespace().into()).unwrap();
        let generation = if keys.is_clearable() && own != "!generation" { 11 } else { 0 };
        let mut evicted = 0;
        for server in &mut self.world.servers {
            let before = server.items.len();
            server.items.retain(|key, _| {
                key.len() != prefix.len() + generation + own.len() || !(key.starts_with(&prefix) && key.ends_with(&own))
            });
            evicted += before - server.items.len();
        }
        assert!(evicted > 0, "{what} is stored");
    }

    fn order(&mut self, order: &str) {
        match order {
            "stop" => self.world.is_down = true,
            "start" => self.world.is_down = false,
            "catch up" => self.world.catch_up(),
            _ => panic!("servers do not {order}"),
        }
    }

    fn begin(&mut self, step: &Value, name: &str) {
        let by = text(&step["by"]);
        let client = &self.clients[by];
        let mut running = self.world.begin(client.process, client.operation(&step["call"]).unwrap());
        match text(&step["held"]) {
            "request" => {}
            "reply" => self.serve(&mut running),
            other => panic!("no {other} can be held"),
        }
        assert!(!running.is_over(), "{step} is asked of a server");
        let (by, call) = (by.to_owned(), step["call"].clone());
        self.begun.insert(name.to_owned(), Begun { by, call, running });
    }

    fn serve(&mut self, running: &mut Running) {
        (0..SERVERS.len()).for_each(|server| self.world.serve(running, server));
    }

    fn end(&mut self, step: &Value, name: &str) {
        let Begun { by, call, mut running } = self.begun.remove(name).expect("it has begun");
        if step["raises"] == "Timeout" {
            self.world.time_out(&mut running);
        }
        let operation = self.world.finish(running);
        let outcome = self.outcome(&by, &call, operation);
        self.expect(step, outcome);
    }

    /// All are sent before the first is answered, and are carried out in this order.
    fn at_once(&mut self, steps: &[Value]) {
        for (number, step) in steps.iter().enumerate() {
            let mut held = step.clone();
            held["held"] = "request".into();
            self.begin(&held, &number.to_string());
        }
        for number in 0..steps.len() {
            let mut begun = self.begun.remove(&number.to_string()).unwrap();
            self.serve(&mut begun.running);
            self.begun.insert(number.to_string(), begun);
        }
        (0..steps.len()).for_each(|number| self.end(&steps[number], &number.to_string()));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text"))
}
