//! The scenarios against servers that the tests start, and what needs a server that is stopped or many operations at once.

#[path = "../../tests/real_server/server.rs"]
#[allow(dead_code)]
mod memcached;
#[path = "../../tests/real_redis/server.rs"]
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

#[test]
fn a_server_that_is_down_is_told_and_may_be_forgiven() {
    for (_, make, _) in WAYS {
        let mut server = memcached::Memcached::tcp();
        let address = server.address().to_string();
        server.stop();
        let mut cache = Cache::new(&[("servers", &address)], None, make).unwrap();
        cache_scenarios::server_down(&mut cache);
    }
}
