//! The scenarios of `scenarios/` for memcached, with both drivers. See the README there.

mod call;
mod drivers;

use crate::playing;
use crate::server::Memcached;
pub use drivers::{Blocking, CacheClient, Loop};

#[test]
fn every_scenario_by_waiting() {
    play_all::<Blocking>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<Loop>();
}

fn play_all<C: CacheClient>() {
    let servers = [Memcached::tcp(), Memcached::guarded()];
    playing::play_all::<C>(servers.each_ref().map(|server| server.address().to_string()));
}
