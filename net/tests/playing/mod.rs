//! Runs the scenarios of `scenarios/` for memcached or for Redis, with any client. See the README there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::{Error, Sent};
use regex_lite::Regex;
use serde_json::{json, Value};

/// How many run at the same time. They mostly wait.
const AT_ONCE: usize = 32;

/// How late a call may be, on slow machines too. Every fault lasts longer.
const LATE: Duration = Duration::from_secs(10);
/// The time within which a healed server must be in use again.
const HEALED: Duration = Duration::from_secs(60);

/// A scenario's client.
pub trait Client: Sized {
    /// The prefix of the scenario files.
    const PROTOCOL: &'static str;
    /// Whether simultaneous callers share a connection.
    const SHARES: bool;
    /// The settings that limit the time of a call.
    const LIMITS: &'static [&'static str];

    fn connected(scenario: &Value) -> Self;

    /// Carries out calls, all at the same time.
    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome>;

    /// Does nothing for this time.
    fn rest(&mut self, time: Duration);

    /// A call that must succeed once the server is healed.
    fn afterwards(scenario: &Value) -> Vec<Value>;

    /// Checks that an error says where it happened.
    fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String>;
}

/// The outcome of a call: its result, or the partial result before the error.
#[derive(Default)]
pub struct Outcome {
    pub value: Value,
    pub raised: Option<Raised>,
}

#[derive(Debug)]
pub struct Raised {
    pub kind: ErrorKind,
    pub sent: Sent,
    pub server: Arc<str>,
    pub command: &'static str,
    pub text: String,
}

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let Error { kind, sent, server, command, .. } = error;
        Self { kind: kind.into(), sent, server, command, text }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        Self::from(Raised::from(error))
    }
}

impl From<Raised> for Outcome {
    fn from(raised: Raised) -> Self {
        Self { value: Value::Null, raised: Some(raised) }
    }
}

/// Runs all scenarios of a protocol. `real`: the addresses of a server, and of one with a login.
pub fn play_all<C: Client>(real: [String; 2]) {
    let (player, scenarios) = Player::begin(C::PROTOCOL, real);
    let is_for = |scenario: &Value| C::SHARES || scenario["shared"] == false;
    let scenarios: Vec<_> = scenarios.into_iter().filter(is_for).collect();
    assert!(scenarios.len() > 100, "they were read");
    play_each(&scenarios, AT_ONCE, |_, scenario| play::<C>(&player, scenario));
}

/// Plays scenarios, so many at the same time, and fails if any does. `play`: plays one, which has this number.
pub fn play_each(scenarios: &[Value], at_once: usize, play: impl Fn(usize, &Value) -> Result<(), String> + Sync) {
    let left = Mutex::new(scenarios.iter().enumerate());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..at_once {
            threads.spawn(|| loop {
                let Some((number, scenario)) = left.lock().unwrap().next() else { return };
                if let Err(why) = play(number, scenario) {
                    failed.lock().unwrap().push(format!("{}: {why}", scenario["name"]));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
}

/// The scripted server. Each scenario has an address of its own.
struct Player {
    process: Child,
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Player {
    /// Starts it, and returns all scenarios.
    fn begin(protocol: &str, [real, guarded]: [String; 2]) -> (Self, Vec<Value>) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
        let files = std::fs::read_dir(format!("{folder}/data")).expect("a folder").map(|file| file.unwrap().path());
        let is_of_protocol = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(protocol);
        let files = files.filter(|path| path.file_name().is_some_and(is_of_protocol));
        let mut command = Command::new("python3");
        command.arg(format!("{folder}/server.py")).args([format!("--{protocol}"), real]);
        command.args([format!("--{protocol}-login"), guarded]).args(files);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let Value::Array(scenarios) = line(&mut output) else { panic!("a list of scenarios") };
        let input = process.stdin.take().expect("it is piped");
        (Self { process, talk: Mutex::new(Some((input, output))) }, scenarios)
    }

    /// Heals a server. Returns what happened there.
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

/// Runs a scenario. An error says what went wrong.
fn play<C: Client>(player: &Player, scenario: &Value) -> Result<(), String> {
    let mut playing = Playing { player, scenario, client: C::connected(scenario), report: None };
    for step in list(&scenario["calls"]) {
        playing.step(step)?;
    }
    playing.heal();
    for mut step in C::afterwards(scenario) {
        step["eventually"] = json!(true);
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
            let limits = C::LIMITS.iter().map(|name| self.scenario["client"][name].as_f64().unwrap_or(1.0));
            let limit = LATE + Duration::from_secs_f64(limits.sum());
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

    /// Checks that this error is allowed here, and that its text is right.
    fn check_error(&self, step: &Value, raised: &Raised) -> Result<(), String> {
        let Raised { kind, sent, text, .. } = raised;
        let hides = self.scenario["client"]["password"].as_str().is_none_or(|password| !text.contains(password));
        ensure(hides, || "it shows the password".into())?;
        let expected = step.get("raises").or(step.get("may_raise")).cloned().unwrap_or_default();
        let expected = if expected.is_array() { list(&expected).to_vec() } else { vec![expected] };
        let above = ErrorKind::ALL.into_iter().filter(|above| kind.is_a(*above));
        let names: Vec<_> = above.map(ErrorKind::as_str).collect();
        ensure(expected.iter().any(|name| names.iter().any(|of| name == of)), || "another kind".into())?;
        let says = step["says"].as_str().map(|says| Regex::new(says).unwrap());
        ensure(says.is_none_or(|says| says.is_match(text)), || "it does not say so".into())?;
        ensure(step.get("sent").is_none_or(|expected| expected == sent.as_str()), || "it was sent or not".into())?;
        let address = self.scenario["address"].as_str().expect("an address");
        let is_of_place = !names.contains(&"UndecodableValue") && !names.contains(&"LockError");
        if is_of_place {
            C::check_place(list(&step["call"]), address, raised)?;
        }
        Ok(())
    }

    /// Checks that no forbidden value was handed out.
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

    /// Checks what the server saw until it was healed.
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

pub fn ensure(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so {
        Ok(())
    } else {
        Err(why())
    }
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
