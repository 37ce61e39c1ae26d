//! The scenarios of `scenarios/` for memcached, with both drivers. See the README there.

mod cache;
mod call;
mod drivers;

pub use drivers::{Blocking, CacheClient, Loop};

#[test]
fn every_scenario_by_waiting() {
    cache::play_all::<Blocking>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    cache::play_all::<Loop>();
}
