//! The scenarios of `scenarios/` on memcached's side, through both drivers: see the README there.

mod call;
mod drivers;
mod player;

use std::sync::Mutex;

use crate::server::Memcached;
pub use call::Outcome;
pub use drivers::{Blocking, Client, Loop};
use player::{play, Player};

/// How many are played at the same time: mostly they wait.
const AT_ONCE: usize = 32;

#[test]
fn every_scenario_by_waiting() {
    play_all::<Blocking>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<Loop>();
}

fn play_all<C: Client>() {
    let (memcached, guarded) = (Memcached::tcp(), Memcached::guarded());
    let (player, scenarios) = Player::begin(&memcached.address(), &guarded.address());
    let scenarios: Vec<_> = scenarios.into_iter().filter(|scenario| C::SHARES || scenario["shared"] == false).collect();
    assert!(scenarios.len() > 300, "they were read");
    let left = Mutex::new(scenarios.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| loop {
                let Some(scenario) = left.lock().unwrap().next() else { return };
                if let Err(why) = play::<C>(&player, scenario) {
                    failed.lock().unwrap().push(format!("{}: {why}", scenario["name"]));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
}
