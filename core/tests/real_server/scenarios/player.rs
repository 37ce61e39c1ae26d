//! Plays one scenario: its calls, and what must hold whatever it says.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pinyon_core::error::kinds::ErrorKind;
use pinyon_core::Address;
use regex_lite::Regex;
use serde_json::{json, Value};

use super::call::{Outcome, Raised};
use super::drivers::Client;

/// By how much a call may be late, on slow machines too: less than any fault lasts.
const LATE: Duration = Duration::from_secs(10);
/// After what time a server that was healed must be of use again.
const HEALED: Duration = Duration::from_secs(15);

/// The scripted server: each scenario at an address of its own.
pub struct Player {
    process: Child,
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Player {
    /// Begins, and returns all scenarios.
    pub fn begin(memcached: &Address, guarded: &Address) -> (Self, Vec<Value>) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
        let files = ["faults", "logins", "wrong-replies"].map(|name| format!("{folder}/data/memcached-{name}.json"));
        let mut command = Command::new("python3");
        command.arg(format!("{folder}/server.py")).args(["--memcached", &memcached.to_string()]);
        command.args(["--memcached-login", &guarded.to_string()]).args(files);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let Value::Array(scenarios) = line(&mut output) else { panic!("a list of scenarios") };
        let input = process.stdin.take().expect("it is piped");
        (Self { process, talk: Mutex::new(Some((input, output))) }, scenarios)
    }

    /// Heals a server. Returns what has happened there.
    fn heal(&self, name: &str) -> Value {
        let mut talk = self.talk.lock().unwrap();
        let (input, output) = talk.as_mut().expect("it is open");
        writeln!(input, "heal {name}").unwrap();
        line(output)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.talk.lock().map(|mut talk| talk.take()));
        let _ = self.process.wait();
    }
}

fn line(output: &mut impl BufRead) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).expect("a line of JSON")
}

/// Plays a scenario; an error says what is not as it must be.
pub fn play<C: Client>(player: &Player, scenario: &Value) -> Result<(), String> {
    let mut playing = Playing { player, scenario, client: C::connected(scenario), report: None };
    for step in list(&scenario["calls"]) {
        playing.step(step)?;
    }
    playing.heal();
    for step in [
        json!({"call": ["set", "after", "right"], "returns": true, "eventually": true}),
        json!({"call": ["get", "after"], "returns": "right", "eventually": true}),
        json!({"call": ["get_many", ["after", "missing"]], "returns": {"after": "right"}, "eventually": true}),
    ] {
        playing.step(&step)?;
    }
    playing.check_report()
}

struct Playing<'s, C> {
    player: &'s Player,
    scenario: &'s Value,
    client: C,
    report: Option<Value>,
}

impl<C: Client> Playing<'_, C> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(wait) = step["wait_ms"].as_u64() {
            self.client.rest(Duration::from_millis(wait));
        } else if step["server"] == "heal" {
            self.heal();
        } else {
            return self.calls(step);
        }
        Ok(())
    }

    fn calls(&mut self, step: &Value) -> Result<(), String> {
        let steps = step.get("together").map_or(std::slice::from_ref(step), |steps| list(steps));
        let calls: Vec<_> = steps.iter().map(|step| list(&step["call"])).collect();
        let give_up = Instant::now() + HEALED;
        loop {
            let begun = Instant::now();
            let outcomes = self.client.carry_out(&calls);
            let limit = LATE + Duration::from_secs_f64(self.scenario["client"]["timeout"].as_f64().unwrap_or(1.0));
            ensure(begun.elapsed() < limit, || format!("{step} took too long"))?;
            outcomes.iter().try_for_each(|outcome| self.check_values(&outcome.value))?;
            let raised = outcomes.iter().any(|outcome| outcome.raised.is_some());
            if step["eventually"] == true && raised && Instant::now() < give_up {
                self.client.rest(Duration::from_millis(20));
                continue;
            }
            return steps.iter().zip(&outcomes).try_for_each(|(step, outcome)| self.check(step, outcome));
        }
    }

    fn check(&self, step: &Value, Outcome { value, raised }: &Outcome) -> Result<(), String> {
        if let Some(raised) = raised {
            return self.check_error(step, raised).map_err(|why| format!("{step}: {why}: {raised:?}"));
        }
        ensure(step.get("raises").is_none(), || format!("{step} returned {value}"))?;
        ensure(step.get("returns").is_none_or(|returns| returns == value), || format!("{step} returned {value}"))
    }

    /// Whether it may be raised here, and says all that it must and nothing that it must not.
    fn check_error(&self, step: &Value, Raised { kind, sent, server, command, text }: &Raised) -> Result<(), String> {
        let hides = self.scenario["client"]["password"].as_str().is_none_or(|password| !text.contains(password));
        ensure(hides, || "it shows the password".into())?;
        let expected = step.get("raises").or(step.get("may_raise")).cloned().unwrap_or_default();
        let expected = if expected.is_array() { list(&expected).to_vec() } else { vec![expected] };
        let above = std::iter::successors(Some(*kind), |kind| kind.parent());
        let names: Vec<_> = above.map(ErrorKind::as_str).collect();
        ensure(expected.iter().any(|name| names.iter().any(|of| name == of)), || "another kind".into())?;
        let says = step["says"].as_str().map(|says| Regex::new(says).unwrap());
        ensure(says.is_none_or(|says| says.is_match(text)), || "it does not say so".into())?;
        ensure(step.get("sent").is_none_or(|expected| expected == sent.as_str()), || "it was sent or not".into())?;
        if names.contains(&"UndecodableValue") {
            return Ok(());
        }
        ensure(**server == *self.scenario["address"].as_str().unwrap(), || "another server".into())?;
        let call = &step["call"];
        let asked = if call[0] == "batch" { &call[1][0] } else { &call[0] };
        let asked = asked.as_str().unwrap().replace("gets", "get");
        ensure(*command == asked, || "another command".into())?;
        ensure(text.starts_with(&format!("{server}: {command}: ")), || "its text names no server and command".into())
    }

    /// Nothing is handed out that never may be.
    fn check_values(&self, value: &Value) -> Result<(), String> {
        let inner: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(items) => items.values().collect(),
            _ => Vec::new(),
        };
        let never = list(&self.scenario["never"]);
        let is_clean = inner.into_iter().chain([value]).all(|each| !never.contains(each));
        ensure(is_clean, || format!("{value} was handed out"))
    }

    fn heal(&mut self) {
        let heal = || self.player.heal(self.scenario["name"].as_str().expect("a name"));
        self.report.get_or_insert_with(heal);
    }

    /// What the server saw until it was healed.
    fn check_report(&self) -> Result<(), String> {
        let (report, after) = (self.report.as_ref().expect("it was healed"), &self.scenario["after"]);
        ensure(list(&report["unexpected"]).is_empty(), || format!("unexpected: {}", report["unexpected"]))?;
        let connections = after.get("connections").is_none_or(|count| *count == report["connections"]);
        ensure(connections, || format!("{} connections", report["connections"]))?;
        let Some(allowed) = after.get("requests") else { return Ok(()) };
        let allowed: Vec<_> = list(allowed).iter().map(|words| Regex::new(words.as_str().unwrap()).unwrap()).collect();
        let was_to_be = |request: &Value| allowed.iter().any(|words| words.is_match(request.as_str().unwrap()));
        ensure(list(&report["requests"]).iter().all(was_to_be), || format!("requests: {}", report["requests"]))
    }
}

fn ensure(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so {
        Ok(())
    } else {
        Err(why())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
