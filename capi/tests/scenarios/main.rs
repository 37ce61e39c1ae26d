//! The scenarios of `scenarios/` for memcached, through the C interface: in threads, and in an event loop.

#[path = "../../../cache/tests/real_server/scenarios/cache.rs"]
mod cache;
#[path = "../kept/mod.rs"]
mod kept;
#[path = "../../../net/tests/playing/mod.rs"]
mod playing;
#[path = "../polling/mod.rs"]
mod polling;
#[path = "../../../cache/tests/real_server/server.rs"]
#[allow(dead_code)]
mod server;

mod calls;
mod looping;
mod reading;
mod waiting;

use cache::play_all;

#[test]
fn every_scenario_by_waiting() {
    play_all::<waiting::Waiting>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<looping::Looping>();
}
