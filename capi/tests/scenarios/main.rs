//! The scenarios of `scenarios/` for memcached, through the C interface: in threads, and in an event loop.

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

use server::Memcached;

fn play_all<C: playing::Client>() {
    let servers = [Memcached::tcp(), Memcached::guarded()];
    playing::play_all::<C>(servers.each_ref().map(|server| server.address().to_string()));
}

#[test]
fn every_scenario_by_waiting() {
    play_all::<waiting::Waiting>();
}

#[test]
fn every_scenario_in_an_event_loop() {
    play_all::<looping::Looping>();
}
