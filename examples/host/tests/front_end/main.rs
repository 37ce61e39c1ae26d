//! What users of the front end may expect, against servers that the tests start.

mod cache;
mod locks;
mod making;
#[path = "../../../../cache/tests/real_server/server.rs"]
#[allow(dead_code)]
mod memcached;
mod migrating;
#[path = "../../../../locks/tests/real_redis/server.rs"]
#[allow(dead_code)]
mod redis;

use std::sync::Arc;

use pinyon_cache::directory::Directory;
use pinyon_host::cache::{Cache, Way};
use pinyon_host::locks::{LockWay, Locks, LocksOnLoop, Threads};
use pinyon_host::making::Makings;
use pinyon_host::migrating::Migrating;
use pinyon_host::ways::{Blocking, OnLoop};
use pinyon_locks::Setup;

type MakeWay = fn(Arc<Directory>, usize) -> Box<dyn Way>;
type MakeLockWay = fn(Setup) -> Box<dyn LockWay>;

/// The ways to wait, by name.
const WAYS: [(&str, MakeWay, MakeLockWay); 2] = [
    ("waiting", |directory, _| Box::new(Blocking(directory)), |setup| Box::new(Threads::new(setup))),
    (
        "in an event loop",
        |directory, connections| Box::new(OnLoop::new(directory, connections)),
        |setup| Box::new(LocksOnLoop::new(setup)),
    ),
];

fn run_cache_scenarios(servers: &str, way: &str, make: MakeWay) {
    let mut all = Cache::new(&[("servers", servers), ("timeout", "20")], make).expect("a server");
    for (name, scenario) in cache::SCENARIOS {
        println!("{way}: {name}");
        scenario(&mut all);
    }
    let makings = Makings::default();
    for (name, scenario) in making::SCENARIOS {
        println!("{way}: {name}");
        scenario(&mut all, &makings);
    }
    let compressing = [("servers", servers), ("compression", "zstd")];
    let mut compressing = Cache::new(&compressing, make).expect("settings that make sense");
    let foreign = [("servers", servers), ("dialect", "dalli")];
    let mut foreign = Cache::new(&foreign, make).expect("settings that make sense");
    cache::compressed_and_foreign(&mut compressing, &mut foreign);
    let pool = |settings: &[(&str, &str)]| Cache::new(settings, make).expect("settings that make sense");
    let old = pool(&[("servers", servers), ("namespace", "old:"), ("dialect", "dalli")]);
    let new = pool(&[("servers", servers), ("namespace", "new:")]);
    let mut both = Migrating::new(old, new);
    migrating::play(&mut both);
    both.close();
    let mut nobody = Cache::new(&[("servers", "127.0.0.1:1")], make).expect("settings that make sense");
    cache::server_down(&mut nobody);
    for mut cache in [all, compressing, foreign, nobody] {
        cache.close();
    }
}

fn run_lock_scenarios(url: &str, way: &str, make: MakeLockWay) {
    let settings = [("url", url), ("ttl", "0.5"), ("timeout", "20"), ("command_timeout", "20")];
    let [one, other] = [(); 2].map(|()| Locks::new(&settings, make).expect("a server"));
    for (name, scenario) in locks::SCENARIOS {
        println!("{way}: {name}");
        scenario(&one, &other);
    }
    let tagged = Locks::new(&[("url", url), ("hash_tags", "names")], make).expect("settings that make sense");
    locks::hash_tags(&tagged);
    [one, other, tagged].iter().for_each(Locks::close);
}

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
