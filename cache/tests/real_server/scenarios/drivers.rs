//! The two drivers, as clients of a scenario.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::blocking::{self, run, Failure};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{AnyOperation, BorrowedKey, Broken, OwnedKey, Request, SentData, SentKey, Unsuccessful};
use pinyon_cache::settings::{CacheSettings, NearChoice};
use pinyon_cache::shared::{Batch, Finished, Shared, Waiter};
use pinyon_net::driven::{Polled, Wake};
use pinyon_net::host::NoHost;
use pinyon_net::settings::{Password, ServerTexts, Supplied};
use pinyon_net::Error;
use serde_json::Value;

use super::cache::{in_threads, Cache};
use super::call::{operation, outcome, owned, request, Op};
use crate::playing::Outcome;
use crate::TIMEOUT;

/// A command of a batch.
pub type QuietCommand = (OwnedKey, Request, Option<Vec<u8>>);

/// A client that supports quiet batches, and whose servers can be inspected.
pub trait CacheClient: Cache {
    fn directory(&self) -> &Arc<Directory>;

    /// Carries out a quiet batch. An error means that a command was refused at once.
    fn carry_out_quietly(&mut self, commands: Vec<QuietCommand>) -> Result<Vec<Unsuccessful<OwnedKey>>, Error>;
}

fn directory(scenario: &Value) -> Arc<Directory> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let given = &scenario["client"];
    let mut settings = CacheSettings {
        servers: text(&scenario["address"]).map(|address| ServerTexts(vec![address])),
        username: text(&given["username"]).map(Supplied::Fixed),
        password: text(&given["password"]).map(Password::from).map(Supplied::Fixed),
        slow_after: given["slow_after"].as_f64(),
        near: (given["near"] == true).then_some(NearChoice::Usual),
        ..CacheSettings::default()
    };
    settings.timeout = given["timeout"].as_f64().unwrap_or(settings.timeout);
    settings.connect_timeout = given["connect_timeout"].as_f64().unwrap_or(TIMEOUT.as_secs_f64());
    settings.protocol = text(&given["protocol"]).unwrap_or(settings.protocol);
    settings.build(true).expect("settings that make sense").directory.into()
}

/// Each call waits in its own thread.
pub struct Blocking(Arc<Directory>);

impl Cache for Blocking {
    const SHARES: bool = false;
    const UNNAMED: &'static str = "";

    fn connected(scenario: &Value) -> Self {
        Self(directory(scenario))
    }

    fn together(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        in_threads(calls, |call| waited_for(&self.0, call))
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn batch(&mut self, commands: &[Value]) -> Outcome {
        batch(self, commands)
    }
}

impl CacheClient for Blocking {
    fn directory(&self) -> &Arc<Directory> {
        &self.0
    }

    fn carry_out_quietly(&mut self, commands: Vec<QuietCommand>) -> Result<Vec<Unsuccessful<OwnedKey>>, Error> {
        let mut batch = blocking::Batch::new(self.0.clone(), true);
        for (key, request, data) in commands {
            let sent = BorrowedKey { wire: key.wire(), routed: key.routed() };
            batch.submit(&NoHost, &sent, request, &data.data(), key.clone()).map_err(error)?;
        }
        batch.finish(&NoHost).map_err(error)
    }
}

fn error(failure: Failure<Infallible>) -> Error {
    match failure {
        Failure::Error(error) => error,
        Failure::Interrupted(never) => match never {},
    }
}

fn waited_for(directory: &Directory, call: &[Value]) -> Outcome {
    let mut operation = operation(call);
    let Ok(()) = run(directory, &NoHost, &mut operation);
    outcome(operation, call)
}

/// The outcome of a call that is a batch: the first failure.
fn batch(client: &mut impl CacheClient, commands: &[Value]) -> Outcome {
    let command = |command: &Value| {
        let (key, request, data) = request(command.as_array().unwrap()).expect("a command of a batch");
        (owned(key), request, data)
    };
    let unsuccessful = match client.carry_out_quietly(commands.iter().map(command).collect()) {
        Ok(unsuccessful) => unsuccessful,
        Err(error) => return error.into(),
    };
    for one in unsuccessful {
        assert_eq!(one.key.wire().wire(), commands[one.number][1].as_str().unwrap().as_bytes());
        if let Broken::Failed(error) = one.why {
            assert_eq!(error.command, one.command);
            return error.into();
        }
    }
    Outcome::default()
}

/// All calls run in one event loop.
pub struct Loop {
    directory: Arc<Directory>,
    polled: Polled<Shared<Op, Caller>>,
}

/// A waiter, identified by the index of its call.
struct Caller(usize);

impl Waiter for Caller {
    fn is_gone(&self) -> bool {
        false
    }
}

impl Loop {
    fn next_finished(&mut self) -> Finished<Op, Caller> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(finished) = self.polled.next_finished() {
                return finished;
            }
            assert_ne!(self.polled.wait(until).unwrap(), Wake::Deadline, "nothing happens any more");
        }
    }
}

impl Cache for Loop {
    const SHARES: bool = true;
    const UNNAMED: &'static str = "";

    fn connected(scenario: &Value) -> Self {
        let directory = directory(scenario);
        Self { polled: Polled::new(Shared::new(directory.clone(), 1)).unwrap(), directory }
    }

    fn together(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        for (index, call) in calls.iter().enumerate() {
            self.polled.begin(|machine, now| machine.start(operation(call), Caller(index), now)).unwrap();
        }
        let mut outcomes: Vec<_> = calls.iter().map(|_| None).collect();
        while outcomes.iter().any(Option::is_none) {
            let Finished { operation, waiter: Caller(index) } = self.next_finished();
            outcomes[index] = Some(outcome(operation, calls[index]));
        }
        outcomes.into_iter().flatten().collect()
    }

    /// The loop continues while its callers pause.
    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.polled.wait(until).unwrap() != Wake::Deadline {}
    }

    fn batch(&mut self, commands: &[Value]) -> Outcome {
        batch(self, commands)
    }
}

impl CacheClient for Loop {
    fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    fn carry_out_quietly(&mut self, commands: Vec<QuietCommand>) -> Result<Vec<Unsuccessful<OwnedKey>>, Error> {
        let mut batch = Batch::new(true);
        for command in commands {
            let submit =
                |machine: &mut Shared<_, _>, now| machine.submit_quietly(&mut batch, command, || Caller(0), now);
            self.polled.begin(submit).unwrap()?;
        }
        let mut outcome = batch.leave(());
        while outcome.is_none() {
            let AnyOperation::Quiet(run) = self.next_finished().operation else { unreachable!("it is all there is") };
            let (_, left) = batch.over(*run);
            outcome = left.map(|((), unsuccessful)| unsuccessful);
        }
        Ok(outcome.unwrap_or_default())
    }
}
