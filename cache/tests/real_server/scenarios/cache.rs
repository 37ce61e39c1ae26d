//! A scenario's client of memcached, on any way to carry out calls.

use std::time::Duration;

use pinyon_cache::dialect::{Dialect, Plain};
use pinyon_net::Sent;
use serde_json::{json, Value};

use crate::playing::{self, ensure, Client, Outcome, Raised};
use crate::server::Memcached;

pub trait Cache: Sized {
    /// Whether simultaneous callers share a connection.
    const SHARES: bool;
    /// The end of a call's name that errors of it do not have.
    const UNNAMED: &'static str;

    fn connected(scenario: &Value) -> Self;

    /// Carries out calls that are no batches, all at the same time.
    fn together(&mut self, calls: &[&[Value]]) -> Vec<Outcome>;

    /// Carries out a quiet batch. Returns its first failure.
    fn batch(&mut self, commands: &[Value]) -> Outcome;

    /// Does nothing for this time.
    fn rest(&mut self, time: Duration);
}

pub fn play_all<C: Cache>() {
    let servers = [Memcached::tcp(), Memcached::guarded()];
    playing::play_all::<C>(servers.each_ref().map(|server| server.address().to_string()));
}

impl<C: Cache> Client for C {
    const PROTOCOL: &'static str = "memcached";
    const SHARES: bool = C::SHARES;
    const LIMITS: &'static [&'static str] = &["timeout"];

    fn connected(scenario: &Value) -> Self {
        C::connected(scenario)
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        match calls {
            [[name, commands @ ..]] if name == "batch" => vec![self.batch(commands)],
            calls => self.together(calls),
        }
    }

    fn rest(&mut self, time: Duration) {
        Cache::rest(self, time);
    }

    fn afterwards(_: &Value) -> Vec<Value> {
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
        let asked = asked.as_str().unwrap().trim_end_matches(C::UNNAMED).replace("gets", "get");
        ensure(*command == asked, || "another command".into())?;
        ensure(text.starts_with(&format!("{server}: {command}: ")), || "its text names no server and command".into())
    }
}

/// Carries out each call in a thread of its own.
pub fn in_threads(calls: &[&[Value]], run: impl Fn(&[Value]) -> Outcome + Sync) -> Vec<Outcome> {
    let run = &run;
    std::thread::scope(|threads| {
        let running: Vec<_> = calls.iter().map(|call| threads.spawn(move || run(call))).collect();
        running.into_iter().map(|call| call.join().expect("it does not panic")).collect()
    })
}

/// A stored value. Each character of a text is a byte.
pub fn decoded(client_flags: u32, bytes: &[u8]) -> Outcome {
    let value = match Dialect::Pinyon.decode(client_flags, bytes) {
        Ok(Plain::Text(text)) => json!(text),
        Ok(Plain::Integer(number)) => json!(number),
        Ok(Plain::Bytes(bytes)) => bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
        Ok(other) => panic!("no scenario has {other:?}"),
        Err(why) => {
            let (kind, server) = (why.kind, "".into());
            return Raised { kind, sent: Sent::Yes, server, command: "", text: why.message }.into();
        }
    };
    Outcome { value, raised: None }
}
