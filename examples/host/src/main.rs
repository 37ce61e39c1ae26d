//! A front end in plain Rust. It does everything that a front end does with the core, and shows how.
//!
//! - [`cache`], [`locks`]: what its users see. They make operations and convert the outcomes.
//! - [`making`], [`migrating`]: calls that the core leads through several operations.
//! - [`ways`]: how it waits, in threads and in an event loop of its own.
//! - [`raised`]: its errors.
//!
//! Usage: `host MEMCACHED REDIS_URL` runs the scenarios against two servers. Nothing else may use them: memcached is
//! flushed. The tests start servers of their own.

mod cache;
mod cache_scenarios;
mod lock_scenarios;
mod locks;
mod making;
mod making_scenarios;
mod migrating;
mod migrating_scenarios;
mod raised;
#[cfg(test)]
mod tests;
mod ways;

use std::sync::Arc;

use pinyon_cache::directory::Directory;
use pinyon_locks::Setup;

use cache::{Cache, Way};
use locks::{LockWay, Locks, LocksOnLoop, Threads};
use migrating::Migrating;
use ways::{Blocking, OnLoop};

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

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (memcached, redis) = (arguments.next(), arguments.next());
    let (Some(memcached), Some(redis)) = (memcached, redis) else { panic!("usage: host MEMCACHED REDIS_URL") };
    for (way, cache_way, lock_way) in WAYS {
        run_cache_scenarios(&memcached, way, cache_way);
        run_lock_scenarios(&redis, way, lock_way);
    }
}

fn run_cache_scenarios(servers: &str, way: &str, make: MakeWay) {
    let mut cache = Cache::new(&[("servers", servers), ("timeout", "20")], make).expect("a server");
    for (name, scenario) in cache_scenarios::SCENARIOS.iter().chain(making_scenarios::SCENARIOS) {
        println!("{way}: {name}");
        scenario(&mut cache);
    }
    let compressing = [("servers", servers), ("compression", "zstd")];
    let mut compressing = Cache::new(&compressing, make).expect("settings that make sense");
    let foreign = [("servers", servers), ("dialect", "dalli")];
    let mut foreign = Cache::new(&foreign, make).expect("settings that make sense");
    cache_scenarios::compressed_and_foreign(&mut compressing, &mut foreign);
    let pool = |settings: &[(&str, &str)]| Cache::new(settings, make).expect("settings that make sense");
    let old = pool(&[("servers", servers), ("namespace", "old:"), ("dialect", "dalli")]);
    let new = pool(&[("servers", servers), ("namespace", "new:")]);
    let mut both = Migrating::new(old, new);
    migrating_scenarios::play(&mut both);
    both.close();
    let mut nobody = Cache::new(&[("servers", "127.0.0.1:1")], make).expect("settings that make sense");
    cache_scenarios::server_down(&mut nobody);
    for mut cache in [cache, compressing, foreign, nobody] {
        cache.close();
    }
}

fn run_lock_scenarios(url: &str, way: &str, make: MakeLockWay) {
    let settings = [("url", url), ("ttl", "0.5"), ("timeout", "20"), ("command_timeout", "20")];
    let [locks, other] = [(); 2].map(|()| Locks::new(&settings, make).expect("a server"));
    for (name, scenario) in lock_scenarios::SCENARIOS {
        println!("{way}: {name}");
        scenario(&locks, &other);
    }
    let tagged = Locks::new(&[("url", url), ("hash_tags", "names")], make).expect("settings that make sense");
    lock_scenarios::hash_tags(&tagged);
    [locks, other, tagged].iter().for_each(Locks::close);
}
