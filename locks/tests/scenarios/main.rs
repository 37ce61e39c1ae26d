//! The scenarios of `scenarios/` about locks, with both drivers. See the README there.

mod call;
mod drivers;
mod faults;
mod player;
#[path = "../../../net/tests/playing/mod.rs"]
mod playing;
#[path = "../../../net/tests/ports/mod.rs"]
mod ports;
mod reading;
#[path = "../real_redis/server.rs"]
#[allow(dead_code)]
mod server;

use drivers::{Loop, Threads};
use player::play_all;

#[test]
fn every_scenario_in_threads() {
    play_all::<Threads>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<Loop>();
}
