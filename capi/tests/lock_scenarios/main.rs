//! The scenarios of `scenarios/` about locks, through the C interface: in threads, and in an event loop.

mod call;
mod drivers;
mod faults;
#[path = "../../../core/tests/lock_scenarios/player.rs"]
#[allow(clippy::useless_conversion)] // the core has another type for failures there
mod player;
#[path = "../../../core/tests/playing/mod.rs"]
#[allow(dead_code)] // Other protocols need more of it.
mod playing;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
#[path = "../../../core/tests/real_redis/server.rs"]
#[allow(dead_code)]
mod server;

use std::sync::Mutex;

use pinyon_core::locks::Setup;
use pinyon_core::settings::{Given, LockSettings, NamedSettings, UsualLock};
use serde_json::Value;

use drivers::{Driver, Looping, Threads};
use server::Redis;

/// How many run at the same time. They mostly wait.
const AT_ONCE: usize = 16;

#[test]
fn every_scenario_in_threads() {
    play_all::<Threads>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<Looping>();
}

fn play_all<D: Driver>() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/locks.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).expect("it is JSON");
    let (server, scenarios) = (Redis::start(""), file["scenarios"].as_array().expect("a list of scenarios"));
    assert!(scenarios.len() > 20, "they were read");
    let left = Mutex::new(scenarios.iter().enumerate());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| loop {
                let Some((number, scenario)) = left.lock().unwrap().next() else { return };
                let namespace = format!("scenario{number}");
                if let Err(why) = player::play::<D>(&server, &namespace, &file["client"], scenario) {
                    failed.lock().unwrap().push(format!("{}: {why}", scenario["name"]));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
}

/// The parts of a client. Later settings override earlier ones.
fn settings(url: &str, given: &[&Value]) -> (Setup, UsualLock) {
    let mut settings = LockSettings::default();
    settings.set("url", Given::Text(url)).expect("it is a URL");
    for (name, value) in given.iter().copied().filter_map(Value::as_object).flatten() {
        let value = match value {
            Value::Null => Given::Nothing,
            Value::String(text) => Given::Text(text),
            value => Given::Number(value.as_f64().expect("a number")),
        };
        settings.set(name, value).expect("it makes sense");
    }
    let parts = settings.build().expect("settings that make sense");
    (parts.setup, parts.usual)
}
