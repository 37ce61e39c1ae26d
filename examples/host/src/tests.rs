//! The scenarios against servers that the tests start.

#[path = "../../../cache/tests/real_server/server.rs"]
#[allow(dead_code)]
mod memcached;
#[path = "../../../locks/tests/real_redis/server.rs"]
#[allow(dead_code)]
mod redis;

use super::*;

#[test]
fn caches_do_the_same_both_ways() {
    let servers = [(); 2].map(|()| memcached::Memcached::tcp());
    let servers = servers.each_ref().map(|server| server.address().to_string());
    for (way, make, _) in WAYS {
        run_cache_scenarios(&servers.join(","), way, make);
    }
}

#[test]
fn locks_do_the_same_both_ways() {
    let server = redis::Redis::start("");
    for (way, _, make) in WAYS {
        run_lock_scenarios(&format!("unix://{}", server.address()), way, make);
    }
}
