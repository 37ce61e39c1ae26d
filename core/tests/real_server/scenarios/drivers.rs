//! The two drivers, as clients of a scenario.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_core::blocking::{self, known, run, Broken, Failure, NoHost};
use pinyon_core::directory::Directory;
use pinyon_core::driven::{Polled, Wake};
use pinyon_core::operations::BorrowedKey;
use pinyon_core::settings::{CacheSettings, Password, ServerTexts};
use pinyon_core::shared::{Finished, Shared, Waiter};
use pinyon_core::{Data, Error};
use serde_json::{json, Value};

use super::call::{operation, outcome, request, wire, Op};
use crate::playing::{ensure, Client, Outcome, Raised};

/// A client whose servers can be looked at.
pub trait CacheClient: Client {
    fn directory(&self) -> &Directory;
}

fn afterwards() -> Vec<Value> {
    vec![
        json!({"call": ["set", "after", "right"], "returns": true}),
        json!({"call": ["get", "after"], "returns": "right"}),
        json!({"call": ["get_many", ["after", "missing"]], "returns": {"after": "right"}}),
    ]
}

/// Every error names its server and command.
fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
    let Raised { server, command, text, .. } = raised;
    ensure(**server == *address, || "another server".into())?;
    let asked = if call[0] == "batch" { &call[1][0] } else { &call[0] };
    let asked = asked.as_str().unwrap().replace("gets", "get");
    ensure(*command == asked, || "another command".into())?;
    ensure(text.starts_with(&format!("{server}: {command}: ")), || "its text names no server and command".into())
}

fn directory(scenario: &Value) -> Directory {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let given = &scenario["client"];
    let mut settings = CacheSettings {
        servers: text(&scenario["address"]).map(|address| ServerTexts(vec![address])),
        username: text(&given["username"]),
        password: text(&given["password"]).map(Password::from),
        slow_after: given["slow_after"].as_f64(),
        ..CacheSettings::default()
    };
    settings.timeout = given["timeout"].as_f64().unwrap_or(settings.timeout);
    settings.connect_timeout = given["connect_timeout"].as_f64().unwrap_or(settings.connect_timeout);
    settings.build(true).expect("settings that make sense").directory
}

/// Each call waits in a thread.
pub struct Blocking(Directory);

impl Client for Blocking {
    const PROTOCOL: &'static str = "memcached";
    const SHARES: bool = false;
    const LIMITS: &'static [&'static str] = &["timeout"];

    fn connected(scenario: &Value) -> Self {
        Self(directory(scenario))
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        let directory = &self.0;
        std::thread::scope(|threads| {
            let running: Vec<_> = calls.iter().map(|call| threads.spawn(move || waited_for(directory, call))).collect();
            running.into_iter().map(|call| call.join().expect("it does not panic")).collect()
        })
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn afterwards(_: &Value) -> Vec<Value> {
        afterwards()
    }

    fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
        check_place(call, address, raised)
    }
}

impl CacheClient for Blocking {
    fn directory(&self) -> &Directory {
        &self.0
    }
}

fn waited_for(directory: &Directory, call: &[Value]) -> Outcome {
    if call[0] == "batch" {
        return match batch(directory, &call[1..]) {
            Ok(()) => Outcome::default(),
            Err(Failure::Error(error)) => error.into(),
            Err(Failure::Interrupted(never)) => match never {},
        };
    }
    let mut operation = operation(call);
    let Ok(()) = run(directory, &NoHost, &mut operation);
    outcome(operation, call)
}

/// Commands done quietly together. Each that failed is known by its key.
fn batch(directory: &Directory, commands: &[Value]) -> Result<(), Failure<std::convert::Infallible>> {
    let mut batch = blocking::Batch::new(known(directory, &NoHost)?, true);
    for command in commands {
        let (key, request, data) = request(command.as_array().unwrap()).expect("a command of a batch");
        let sent = BorrowedKey { wire: wire(key), routed: key.as_bytes() };
        let data = data.as_deref().map_or(Data::None, Data::Copied);
        batch.submit(&NoHost, &sent, request, &data, key)?;
    }
    for unsuccessful in batch.finish(&NoHost)? {
        assert_eq!(unsuccessful.tag, commands[0][1], "it names the key");
        if let Broken::Failed(error) = unsuccessful.why {
            return Err(Error { command: unsuccessful.command, ..error }.into());
        }
    }
    Ok(())
}

/// All calls are those of one event loop.
pub struct Loop {
    directory: Arc<Directory>,
    polled: Polled<Shared<Op, Caller>>,
}

/// Who waits, by the index of the call.
struct Caller(usize);

impl Waiter for Caller {
    fn is_gone(&self) -> bool {
        false
    }
}

impl Client for Loop {
    const PROTOCOL: &'static str = "memcached";
    const SHARES: bool = true;
    const LIMITS: &'static [&'static str] = &["timeout"];

    fn connected(scenario: &Value) -> Self {
        let directory = Arc::new(directory(scenario));
        Self { polled: Polled::new(Shared::new(directory.clone(), 1)).unwrap(), directory }
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        // In a loop all commands are sent together, and so a batch's are like any others.
        let unwrapped = |call: &&[Value]| match call[0] == "batch" {
            true => call[1].as_array().unwrap().clone(),
            false => call.to_vec(),
        };
        let calls: Vec<Vec<Value>> = calls.iter().map(unwrapped).collect();
        for (index, call) in calls.iter().enumerate() {
            self.polled.begin(|machine, now| machine.start(operation(call), Caller(index), now)).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(30);
        let mut outcomes: Vec<_> = calls.iter().map(|_| None).collect();
        while outcomes.iter().any(Option::is_none) {
            assert_ne!(self.polled.wait(until).unwrap(), Wake::Deadline, "nothing happens any more");
            while let Some(Finished { operation, waiter: Caller(index) }) = self.polled.next_finished() {
                outcomes[index] = Some(outcome(operation, &calls[index]));
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// A loop goes on while its callers rest.
    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.polled.wait(until).unwrap() != Wake::Deadline {}
    }

    fn afterwards(_: &Value) -> Vec<Value> {
        afterwards()
    }

    fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
        check_place(call, address, raised)
    }
}

impl CacheClient for Loop {
    fn directory(&self) -> &Directory {
        &self.directory
    }
}
