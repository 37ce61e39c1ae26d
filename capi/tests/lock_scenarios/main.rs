//! The scenarios of `scenarios/` about locks, through the C interface: in threads, and in an event loop.

mod call;
mod candidate;
mod drivers;
#[path = "../../../locks/tests/scenarios/faults.rs"]
mod faults;
#[path = "../kept/mod.rs"]
mod kept;
mod leaders;
#[path = "../../../locks/tests/scenarios/player.rs"]
#[allow(clippy::useless_conversion)] // the core has another type for failures there
mod player;
#[path = "../../../net/tests/playing/mod.rs"]
#[allow(dead_code)] // Other protocols need more of it.
mod playing;
#[path = "../polling/mod.rs"]
mod polling;
#[path = "../../../net/tests/ports/mod.rs"]
mod ports;
#[path = "../../../locks/tests/scenarios/reading.rs"]
mod reading;
#[path = "../../../locks/tests/real_redis/server.rs"]
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
