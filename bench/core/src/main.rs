//! The blocking client without a host language, counted as `bench/pinyon_bench/instructions/callgrind.py` describes.
//!
//! Usage: `instructions /path/to/memcached.socket`

use std::os::unix::process::parent_id;
use std::sync::Arc;

use pinyon_cache::blocking::{run, Batch};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{Answer, AsBytes, Beside, BorrowedKey, Bytes, Fetch, Keys, Policy, Request, Single};
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::Data;
use pinyon_net::host::NoHost;
use pinyon_net::settings::ServerTexts;
use pinyon_proto::{Key, KeyRules, Mode};

const ROUNDS: usize = 5;
const MORE: usize = 3;
const KEYS: usize = 100;
const VALUE: [u8; 36] = [b'v'; 36];

fn main() {
    let server = std::env::args().nth(1).expect("the server's socket");
    let servers = Some(ServerTexts(vec![server]));
    let settings = CacheSettings { servers, timeout: 30.0, connect_timeout: 30.0, ..CacheSettings::default() };
    let fleet = settings.build(false).expect("settings that make sense").directory;
    let client = Client { fleet: fleet.into(), keys: (0..KEYS).map(|number| format!("{number:036}")).collect() };
    client.set_in_batch(KEYS);
    count("get", 100, |times| (0..times).for_each(|number| client.get(number % KEYS)));
    count("set", 100, |times| (0..times).for_each(|number| client.set(number % KEYS)));
    count("get_many:100", 10, |times| (0..times).for_each(|_| client.get_many()));
    count("batch:set", 500, |times| client.set_in_batch(times));
}

fn count(operation: &str, few: usize, run: impl Fn(usize)) {
    run(few);
    for _ in 0..ROUNDS {
        for times in [few, MORE * few] {
            mark();
            run(times);
        }
    }
    mark();
    println!("core:{operation}\t{}", (MORE - 1) * few);
}

fn mark() {
    let _ = parent_id();
}

struct Client {
    fleet: Arc<Directory>,
    keys: Vec<String>,
}

const POLICY: Policy =
    Policy { failover: true, miss: false, unreadable_is_miss: false, near: true, tagged_is_miss: false };

impl Client {
    fn get(&self, number: usize) {
        let key = &self.keys[number];
        let answer = self.ask(key, Request::Get(Beside::Nothing), Data::None);
        assert!(matches!(answer, Answer::Value(Bytes { bytes, .. }) if bytes == VALUE));
    }

    fn set(&self, number: usize) {
        assert_eq!(self.ask(&self.keys[number], STORE, Data::Copied(&VALUE)), Answer::Done(true));
    }

    fn ask(&self, key: &str, request: Request, data: Data<'_>) -> Answer<Bytes> {
        let mut single = Single::new(request, borrowed(key), data, AsBytes, POLICY);
        run(&self.fleet, &NoHost, &mut single).expect("no interrupt");
        single.take_answer().expect("an answer")
    }

    fn get_many(&self) {
        let mut keys = Keys::with_capacity(KEYS);
        let rules = KeyRules::default();
        self.keys.iter().for_each(|key| keys.push(&rules, key.as_bytes()).expect("a key"));
        let mut fetch = Fetch::new(keys, Request::Get(Beside::Nothing), AsBytes, POLICY);
        run(&self.fleet, &NoHost, &mut fetch).expect("no interrupt");
        let found = fetch.finish().found;
        assert!(found.len() == KEYS && found.iter().all(|one| one.value.bytes == VALUE));
    }

    fn set_in_batch(&self, times: usize) {
        let mut batch = Batch::new(self.fleet.clone(), true);
        for key in self.keys.iter().cycle().take(times) {
            batch.submit(&NoHost, &borrowed(key), STORE, &Data::Copied(&VALUE), ()).expect("submitted");
        }
        assert!(batch.finish(&NoHost).expect("no interrupt").is_empty());
    }
}

const STORE: Request =
    Request::Store { mode: Mode::Set, size: VALUE.len(), client_flags: 0, ttl: 0, cas: None, returns_cas: false };

fn borrowed(key: &str) -> BorrowedKey<'_> {
    BorrowedKey { wire: Key::new(key.as_bytes(), false).expect("a key"), routed: key.as_bytes() }
}
