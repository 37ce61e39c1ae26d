//! Requests on two pools, each a server. The value `x` is not converted, and `stop` interrupts.

use std::sync::Arc;

use pinyon_cache::blocking::{run, run_on_both};
use pinyon_cache::migration::{Counts, Crossing, Failing, Next, OnePool, Pools, Progress, Side, Unconverted, Wanted};
use pinyon_cache::operations::{
    Answer, AnyOperation, AsBytes, Beside, Bytes, DataBlock, Fact, Fetched, Mode, OwnedData, OwnedKey, Policy, Request,
    Single,
};
use pinyon_cache::settings::{CacheParts, CacheSettings};
use pinyon_net::host::NoHost;
use pinyon_net::settings::{Given, NamedSettings};

use super::server::Memcached;

const NOBODY: &str = "127.0.0.1:1";

struct Both {
    pools: [CacheParts; 2],
    counts: Arc<Counts>,
}

/// A request's keys and value.
struct Asked<'b> {
    both: &'b Both,
    keys: Vec<&'b str>,
    value: &'b str,
}

impl Pools for Asked<'_> {
    type Key = OwnedKey;
    type Data = OwnedData;
    type Values = AsBytes;

    fn key(&self, side: Side, index: usize) -> OwnedKey {
        OwnedKey::new(&self.both.pools[side as usize].keys, self.keys[index].as_bytes()).unwrap()
    }

    fn data(&self) -> OwnedData {
        OwnedData::Copied(self.value.into())
    }

    fn blocks(&mut self) -> Vec<DataBlock<OwnedData>> {
        self.keys.iter().map(|_| DataBlock { data: self.data(), size: self.value.len(), client_flags: 0 }).collect()
    }

    fn values(&self, _side: Side) -> AsBytes {
        AsBytes
    }

    fn policy(&self, side: Side) -> Policy {
        self.both.pools[side as usize].policy
    }

    fn convert(&mut self, value: &Bytes) -> Result<DataBlock<OwnedData>, Unconverted> {
        match &*value.bytes {
            b"x" => Err(Unconverted::Refused),
            b"stop" => Err(Unconverted::Interrupted),
            bytes => Ok(DataBlock { size: bytes.len(), data: OwnedData::Copied(bytes.into()), client_flags: 0 }),
        }
    }
}

type Outcome<'b> = Vec<(Side, OnePool<Asked<'b>>)>;

fn store(mode: Mode, value: &str) -> Request {
    Request::Store { mode, size: value.len(), client_flags: 0, ttl: 0, cas: None, returns_cas: false }
}

impl Both {
    fn new(old: &str, new: &str) -> Self {
        let parts = |server: &str| {
            let mut settings = CacheSettings::default();
            settings.set("servers", Given::Text(server)).unwrap();
            settings.set("timeout", Given::Number(20.0)).unwrap();
            settings.build(false).unwrap()
        };
        Self { pools: [parts(old), parts(new)], counts: Arc::default() }
    }

    fn crossing<'b>(&'b self, wanted: Wanted, keys: &[&'b str], value: &'b str) -> Crossing<Asked<'b>> {
        let asked = Asked { both: self, keys: keys.to_vec(), value };
        Crossing::new(asked, wanted, keys.len(), self.counts.clone(), None)
    }

    fn run<'b>(&'b self, wanted: Wanted, keys: &[&'b str], value: &'b str) -> Option<Outcome<'b>> {
        let mut crossing = self.crossing(wanted, keys, value);
        let [old, new] = &self.pools;
        let Ok(is_over) = run_on_both(&old.directory, &new.directory, &NoHost, &mut crossing);
        is_over.then(|| crossing.finish().1)
    }

    fn ask(&self, key: &str, request: Request, value: &str) -> Option<Answer<Bytes>> {
        self.run(Wanted::One(request), &[key], value).map(answer)
    }

    fn get_many<'b>(&'b self, keys: &[&'b str], failing: Failing) -> [Fetched<Bytes, std::convert::Infallible>; 2] {
        let over = self.run(Wanted::GetMany { each: GET, failing }, keys, "").expect("it is not interrupted");
        let fetched: Vec<_> = over.into_iter().map(|(_, operation)| fetched(operation)).collect();
        fetched.try_into().expect("one of each pool")
    }

    /// A request on one pool.
    fn alone(&self, side: Side, key: &str, request: Request, value: &str) -> Answer<Bytes> {
        let CacheParts { directory, keys, policy, .. } = &self.pools[side as usize];
        let (key, data) = (OwnedKey::new(keys, key.as_bytes()).unwrap(), OwnedData::<Vec<u8>>::Copied(value.into()));
        let mut single = Single::new(request, key, data, AsBytes, *policy);
        let Ok(()) = run(directory, &NoHost, &mut single);
        single.finish().unwrap()
    }

    fn only_old_has(&self, key: &str, value: &str) {
        assert_eq!(self.alone(Side::Old, key, store(Mode::Set, value), value), Answer::Done(true));
        self.alone(Side::New, key, Request::Delete, "");
    }

    /// Checks how many seconds these keys live in the new pool.
    fn live_in_new(&self, keys: &[&str], seconds: std::ops::RangeInclusive<u32>) {
        for key in keys {
            let answer = self.alone(Side::New, key, Request::Get(Beside::Ttl), "");
            let Answer::ValueAnd(_, Fact::Ttl(Some(left))) = answer else { panic!("{key}: {answer:?}") };
            assert!(seconds.contains(&left), "{key}: {left}");
        }
    }

    /// The values in the old pool and in the new one.
    fn in_pools(&self, key: &str) -> [Option<String>; 2] {
        [Side::Old, Side::New].map(|side| text(&self.alone(side, key, Request::Get(Beside::Nothing), "")))
    }
}

fn answer(over: Outcome<'_>) -> Answer<Bytes> {
    match over.into_iter().next() {
        Some((_, AnyOperation::Single(mut single))) => single.take_answer().unwrap(),
        _ => unreachable!("it is about one key"),
    }
}

fn fetched(operation: OnePool<Asked<'_>>) -> Fetched<Bytes, std::convert::Infallible> {
    match operation {
        AnyOperation::Fetch(fetch) => fetch.finish(),
        _ => unreachable!("it reads many keys"),
    }
}

fn text(answer: &Answer<Bytes>) -> Option<String> {
    answer.value().map(|value| String::from_utf8(value.bytes.clone()).unwrap())
}

fn pools(servers: &[Memcached; 2]) -> Both {
    Both::new(&servers[0].address().to_string(), &servers[1].address().to_string())
}

const GET: Request = Request::Get(Beside::Nothing);

#[test]
fn what_changes_while_a_value_is_moved_is_not_undone() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let both = pools(&servers);
    let changes = [(Request::Delete, "", None), (store(Mode::Set, "later"), "later", Some("later"))];
    for ((change, value, expected), after) in changes.into_iter().flat_map(|change| (1..=6).map(move |n| (change, n))) {
        both.only_old_has("key", "value");
        let mut crossing = both.crossing(Wanted::One(GET), &["key"], "");
        let (mut next, mut ran) = (crossing.begin(), 0);
        while let Next::Run(side, mut operation) = next {
            let Ok(()) = run(&both.pools[side as usize].directory, &NoHost, &mut operation);
            ran += 1;
            if ran == after {
                both.ask("key", change, value);
            }
            next = crossing.ran(operation);
        }
        if ran < after {
            both.ask("key", change, value);
        }
        let read = text(&answer(crossing.finish().1));
        assert!(read.is_none() || read.as_deref() == Some("value") || read.as_deref() == expected, "{read:?}");
        assert_eq!(both.in_pools("key"), [None, expected.map(str::to_owned)], "after {after} of {ran}");
        both.ask("key", Request::Delete, "");
    }
}

#[test]
fn a_value_that_is_not_converted_stays() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let both = pools(&servers);
    both.only_old_has("key", "x");
    assert_eq!(both.ask("key", GET, "").as_ref().and_then(text), Some("x".into()));
    assert_eq!(both.counts.progress(), Progress { old: 1, refused: 1, ..Progress::default() });
    let added = both.alone(Side::New, "key", store(Mode::Add, "free"), "free");
    assert_eq!(added, Answer::Done(true), "the lease was given back");
    both.only_old_has("key", "stop");
    assert_eq!(both.ask("key", GET, ""), None, "it was interrupted");
}

#[test]
fn many_keys_are_deleted_wherever_they_are() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let both = pools(&servers);
    both.only_old_has("old", "value");
    both.only_old_has("both", "value");
    both.alone(Side::New, "both", store(Mode::Set, "newer"), "newer");
    both.alone(Side::New, "new", store(Mode::Set, "newer"), "newer");
    let over = both.run(Wanted::ChangeMany(Request::Delete), &["old", "nothing", "both", "new"], "").unwrap();
    let Some((_, AnyOperation::Change(change))) = over.into_iter().next() else { unreachable!("it deletes many keys") };
    assert_eq!(change.finish().done, [true, false, true, true]);
    for key in ["old", "both", "new"] {
        assert_eq!(both.in_pools(key), [None, None]);
    }
    let nobody = Both::new(NOBODY, &servers[1].address().to_string());
    nobody.alone(Side::New, "new", store(Mode::Set, "newer"), "newer");
    let over = nobody.run(Wanted::ChangeMany(Request::Delete), &["new"], "").unwrap();
    let Some((_, AnyOperation::Change(change))) = over.into_iter().next() else { unreachable!("it deletes many keys") };
    assert_eq!(&*change.finish().failures.raised().expect("the old pool fails").server, NOBODY);
    assert_eq!(text(&nobody.alone(Side::New, "new", GET, "")), Some("newer".into()), "the old pool comes first");
}

#[test]
fn many_keys_are_touched_in_the_new_pool() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let both = pools(&servers);
    both.only_old_has("old", "value");
    both.alone(Side::New, "new", store(Mode::Set, "newer"), "newer");
    let touch = Request::Touch { ttl: 1000 };
    let over = both.run(Wanted::ChangeMany(touch), &["old", "nothing", "new"], "").unwrap();
    let Some((_, AnyOperation::Change(change))) = over.into_iter().next() else { unreachable!("it changes many keys") };
    let mut touched = change.finish();
    assert_eq!((touched.done, touched.failures.raised().is_none()), (vec![true, false, true], true));
    both.live_in_new(&["old", "new"], 900..=1000);
    let nobody = Both::new(&servers[0].address().to_string(), NOBODY);
    let over = nobody.run(Wanted::ChangeMany(touch), &["old"], "").unwrap();
    let Some((_, AnyOperation::Change(change))) = over.into_iter().next() else { unreachable!("it changes many keys") };
    let raised = change.finish().failures.raised().expect("the new pool fails");
    assert_eq!((&*raised.server, raised.command), (NOBODY, "touch_many"));
}

#[test]
fn many_values_get_a_ttl_in_the_new_pool() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let both = pools(&servers);
    both.only_old_has("old", "value");
    both.alone(Side::New, "new", store(Mode::Set, "newer"), "newer");
    let wanted = Wanted::GetMany { each: Request::GetAndTouch { ttl: 1000, cas: false }, failing: Failing::Ends };
    let over = both.run(wanted, &["old", "nothing", "new"], "").unwrap();
    let found = over.into_iter().flat_map(|(_, operation)| fetched(operation).found);
    let mut found: Vec<_> = found.map(|one| (one.index, String::from_utf8(one.value.bytes).unwrap())).collect();
    found.sort_unstable();
    assert_eq!(found, [(0, "value".to_owned()), (2, "newer".to_owned())]);
    both.live_in_new(&["old", "new"], 900..=1000);
}

#[test]
fn failures_of_the_new_pool_are_told_as_the_host_wants_them() {
    let server = Memcached::tcp();
    let both = Both::new(&server.address().to_string(), NOBODY);
    assert_eq!(both.alone(Side::Old, "key", store(Mode::Set, "value"), "value"), Answer::Done(true));
    let [_, mut new] = both.get_many(&["key", "other"], Failing::Ends);
    assert_eq!(&*new.failures.raised().expect("it is raised").server, NOBODY);
    let [old, mut new] = both.get_many(&["key", "other"], Failing::BesideValues);
    assert_eq!(old.found.iter().map(|one| one.index).collect::<Vec<_>>(), [0]);
    let servers: Vec<_> = new.failures.of_servers().into_iter().map(|error| error.server.to_string()).collect();
    assert_eq!((servers, new.failures.raised().is_none()), (vec![NOBODY.to_owned()], true));
    let [old, new] = both.get_many(&["key", "other"], Failing::OfKeys);
    let failed: Vec<_> = new.unanswered.iter().flat_map(|one| one.keys.iter().copied()).collect();
    assert_eq!((old.found.len(), failed), (0, vec![0, 1]), "the old pool is not asked for them");
    let over = both.run(Wanted::SetMany { ttl: 0 }, &["key"], "newer").unwrap();
    let Some((_, AnyOperation::Change(change))) = over.into_iter().next() else { unreachable!("it stores many keys") };
    assert!(change.finish().failures.raised().is_some());
    assert_eq!(text(&both.alone(Side::Old, "key", GET, "")), Some("value".into()), "it is deleted once it was stored");
}
