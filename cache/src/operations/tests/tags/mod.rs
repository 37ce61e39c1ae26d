//! What operations ask about tags, and what it costs, on servers in memory. Who reads what, `scenarios/tags.json` says.

mod model;

use std::sync::Arc;
use std::time::Duration;

use pinyon_proto::KeyRules;

use crate::fleet::{Access, Fleet};
use crate::operations::tests::stage::{keys, owned};
use crate::operations::tests::world::{self, Any, World};
use crate::operations::{
    Answer, AnyOperation, AsBytes, Beside, Bytes, Change, Fact, Failed, Fetch, Finding, Found, Mode, OwnedKey, Policy,
    ReadTags, Request, Several, Single, Tagging, Tags,
};
use crate::tags::{KnownTags, TAGGED};
use pinyon_net::error::Kind;
use pinyon_net::fake_clock::{clock, pass};

const TTL: Duration = Duration::from_secs(1);
const LEASE: Request = Request::Lease { lease: 10, recache: 0 };

type One = Single<OwnedKey, Option<Vec<u8>>, AsBytes>;

fn named(known: &KnownTags, names: &[&str]) -> Tags {
    Tags::new(Some(known), names.iter().map(|name| name.as_bytes())).unwrap()
}

fn single(request: Request, key: &str, data: Option<&str>) -> One {
    Single::new(request, owned(key), data.map(|data| data.as_bytes().to_vec()), AsBytes, Policy::default())
}

fn store(mode: Mode, cas: Option<u64>, value: &str) -> Request {
    Request::Store { mode, size: value.len(), client_flags: 16, ttl: 0, cas, returns_cas: false }
}

fn set(known: &KnownTags, key: &str, value: &str, tags: &[&str]) -> One {
    let tagging = Tagging::Named(named(known, tags));
    single(store(Mode::Set, None, value), key, Some(value)).with_tags(Some(tagging))
}

fn get(key: &str) -> One {
    single(Request::Get(Beside::Nothing), key, None)
}

fn invalidate(known: &KnownTags, tags: &[&str]) -> Any {
    Change::invalidate(known, &named(known, tags)).into()
}

fn answer(operation: Any) -> Answer<Bytes> {
    let AnyOperation::Single(mut single) = operation else { panic!("it is about one key") };
    match single.take_answer() {
        Ok(answer) => answer,
        Err(Failed::Error(error)) => panic!("{error:?}"),
        Err(Failed::Unreadable { error, .. }) => match error {},
    }
}

fn error(operation: Any) -> pinyon_net::error::Error {
    let AnyOperation::Single(mut single) = operation else { panic!("it is about one key") };
    match single.take_answer() {
        Err(Failed::Error(error)) => *error,
        other => panic!("{other:?}"),
    }
}

fn value(text: &str) -> Answer<Bytes> {
    Answer::Value(bytes(text))
}

fn bytes(text: &str) -> Bytes {
    Bytes { bytes: text.into(), client_flags: 16 }
}

fn found(operation: Any) -> Found<Bytes> {
    match answer(operation) {
        Answer::Lease(found) => *found,
        other => panic!("{other:?}"),
    }
}

/// What a client knows of tags, with room for so many.
fn known(ttl: Duration, remembered: usize) -> Arc<KnownTags> {
    KnownTags::new(KeyRules::default(), ttl).with(clock, remembered).into()
}

/// The servers as a process sees them.
fn fleet(tags: Option<&Arc<KnownTags>>) -> Fleet {
    world::fleet(Access { tags: tags.cloned(), ..Access::default() })
}

/// Processes that know this.
fn world(tags: &[Arc<KnownTags>]) -> World {
    World::new(tags.iter().map(|tags| fleet(Some(tags))).collect())
}

/// Two processes.
fn two(ttl: Duration) -> (World, [Arc<KnownTags>; 2]) {
    let both = [known(ttl, 100), known(ttl, 100)];
    (world(&both), both)
}

#[test]
fn every_way_to_read_understands_tags() {
    let (mut world, [own, _]) = two(TTL);
    world.run(0, set(&own, "k", "value", &["t"]));
    let requests =
        [Request::Get(Beside::Cas), Request::Get(Beside::Ttl), Request::Get(Beside::Metadata { bumps: true }), LEASE];
    for request in requests {
        let read = answer(world.run(1, single(request, "k", None)));
        assert_eq!(read.value(), Some(&bytes("value")), "{request:?}");
    }
    let read = answer(world.run(1, single(Request::Get(Beside::Ttl), "k", None)));
    assert_eq!(read, Answer::ValueAnd(bytes("value"), Fact::Ttl(None)));
    world.run(1, invalidate(&known(TTL, 1), &["t"]));
    pass(TTL);
    for request in &requests[..3] {
        assert_eq!(answer(world.run(1, single(*request, "k", None))), Answer::Missing, "{request:?}");
    }
    let invalid = found(world.run(1, single(LEASE, "k", None)));
    assert_eq!((invalid.finding, invalid.value), (Finding::Unreadable, None));
}

fn fetched(operation: Any) -> Vec<(usize, Bytes)> {
    let AnyOperation::Fetch(fetch) = operation else { panic!("it reads many keys") };
    let mut fetched = fetch.finish();
    assert_eq!(fetched.failures.raised().map(|error| error.message), None);
    let mut found: Vec<_> = fetched.found.into_iter().map(|found| (found.index, found.value)).collect();
    found.sort_by_key(|(index, _)| *index);
    found
}

fn fetch(names: &[&str]) -> Any {
    Fetch::new(keys(names), Request::Get(Beside::Nothing), AsBytes, Policy::default()).into()
}

#[test]
fn many_keys_share_the_questions_about_their_tags() {
    let (mut world, [own, _]) = two(TTL);
    let names: Vec<_> = (0..10).map(|number| format!("k{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (number, name) in names.iter().enumerate() {
        let tags: &[&str] = if number % 2 == 0 { &["t", "even"] } else { &["t"] };
        world.run(0, set(&own, name, name, tags));
    }
    let all: Vec<_> = names.iter().map(|name| bytes(name)).enumerate().collect();
    world.commands();
    assert_eq!(fetched(world.run(1, fetch(&names))), all);
    assert_eq!(world.commands(), 12, "ten keys and two tags");
    assert_eq!(fetched(world.run(1, fetch(&names))), all);
    assert_eq!(world.commands(), 10);
    world.run(0, invalidate(&own, &["even"]));
    pass(TTL);
    let odd: Vec<_> = all.into_iter().filter(|(index, _)| index % 2 == 1).collect();
    assert_eq!(fetched(world.run(1, fetch(&names))), odd);
}

#[test]
fn several_requests_understand_tags_each_by_itself() {
    let (mut world, [own, _]) = two(TTL);
    let singles =
        || (0..20).map(|number| set(&own, &format!("k{number}"), &number.to_string(), &[&format!("t{number}")]));
    world.run(0, Several::new(singles().collect()));
    for process in [0, 1] {
        let all = (0..20).map(|number| get(&format!("k{number}"))).collect();
        let AnyOperation::Several(several) = world.run(process, Several::new(all)) else { panic!() };
        for (number, mut single) in several.finish().into_iter().enumerate() {
            assert_eq!(single.take_answer().ok(), Some(value(&number.to_string())));
        }
    }
}

#[test]
fn a_lease_asks_for_the_tags_at_the_same_time() {
    let (mut world, [own, other]) = two(TTL);
    world.run(1, invalidate(&other, &["t", "u"]));
    let mut asked = world.begin(0, single(LEASE, "k", None).with_tags(Some(Tagging::Named(named(&own, &["t", "u"])))));
    for server in [0, 1] {
        world.serve(&mut asked, server);
    }
    for server in [0, 1] {
        world.answer(&mut asked, server);
    }
    assert!(asked.is_over(), "one round trip");
    assert!(found(asked.operation).tags.given.is_some());
}

#[test]
fn tags_are_read_alone_without_taking_a_lease() {
    let (mut world, [own, other]) = two(TTL);
    let read =
        found(world.run(0, single(LEASE, "k", None).with_tags(Some(Tagging::Named(named(&own, &["t", "u"])).alone()))));
    let Some(tags) = read.tags.given else { panic!("{:?}", read.finding) };
    assert_eq!((read.finding, read.value), (Finding::Filling, None));
    assert_eq!(answer(world.run(0, get("k"))), Answer::Missing);
    assert!(matches!(found(world.run(1, single(LEASE, "k", None))).finding, Finding::Won(_)), "nobody has the lease");
    let set = |tags: ReadTags| single(store(Mode::Set, None, "v"), "k", Some("v")).with_tags(Some(Tagging::Read(tags)));
    world.run(0, set(tags.clone()));
    assert_eq!(answer(world.run(1, get("k"))), value("v"));
    world.run(1, invalidate(&other, &["u"]));
    world.run(0, set(tags));
    assert_eq!(answer(world.run(1, get("k"))), Answer::Missing, "it was made before the invalidation");
}

#[test]
fn a_large_value_has_tags_too() {
    let (mut world, [own, _]) = two(TTL);
    let large = "v".repeat(100_000);
    world.run(0, set(&own, "k", &large, &["t"]));
    assert_eq!(answer(world.run(1, get("k"))), value(&large));
    assert_eq!(fetched(world.run(1, fetch(&["k"]))), [(0, bytes(&large))]);
}

#[test]
fn a_client_without_tags_reads_what_is_stored() {
    let (mut world, [own, _]) = two(TTL);
    world.run(0, set(&own, "k", "value", &["t"]));
    world.fleets.push(fleet(None));
    let Answer::Value(Bytes { bytes, client_flags }) = answer(world.run(2, get("k"))) else { panic!() };
    assert_eq!((client_flags, &bytes[..2]), (16 | TAGGED, &b"\xc1T"[..]));
    let refused = error(world.run(2, set(&own, "k", "value", &["t"])));
    assert_eq!((refused.kind, refused.message.contains("dialect")), (Kind::Usage, true), "{refused}");
    // The flag of another client, on a value that has no tags.
    let foreign =
        Request::Store { mode: Mode::Set, size: 1, client_flags: TAGGED, ttl: 0, cas: None, returns_cas: false };
    world.run(0, single(foreign, "f", Some("v")));
    assert_eq!(answer(world.run(0, get("f"))), Answer::Value(Bytes { bytes: b"v".into(), client_flags: TAGGED }));
}

#[test]
fn where_a_value_is_moved_from_one_with_tags_counts_as_missing() {
    let (mut world, [own, _]) = two(TTL);
    world.run(0, set(&own, "k", "value", &["t"]));
    let policy = Policy { tagged_is_miss: true, ..Policy::default() };
    let read = Single::new(Request::Get(Beside::Nothing), owned("k"), None, AsBytes, policy);
    assert_eq!(answer(world.run(0, read)), Answer::Missing);
    let many = Fetch::new(keys(&["k"]), Request::Get(Beside::Nothing), AsBytes, policy);
    assert_eq!(fetched(world.run(0, many)), []);
}

#[test]
fn what_is_stored_under_the_key_of_a_tag_is_no_generation() {
    let (mut world, [own, _]) = two(TTL);
    world.run(0, single(store(Mode::Set, None, "text"), "!tag:t", Some("text")));
    let failure = error(world.run(0, set(&own, "k", "value", &["t"])));
    assert_eq!((failure.kind, failure.message.contains("\"t\"")), (Kind::Unreadable, true), "{failure}");
    world.run(0, invalidate(&own, &["t"]));
    world.run(0, set(&own, "k", "value", &["t"]));
    assert_eq!(answer(world.run(1, get("k"))), value("value"));
}

#[test]
fn names_that_no_tag_can_have_are_refused() {
    let known = KnownTags::new(KeyRules::default(), TTL);
    let refused = |names: &[&[u8]]| Tags::new(Some(&known), names.iter().copied()).unwrap_err().message;
    assert!(refused(&[b""]).contains("at least one byte"));
    assert!(refused(&[b"a b"]).contains("\"a b\""));
    assert!(refused(&[&[b'x'; 256]]).contains("255"));
    let many: Vec<_> = (0..65).map(|number| format!("t{number}")).collect();
    assert!(refused(&many.iter().map(|name| name.as_bytes()).collect::<Vec<_>>()).contains("64 tags"));
    assert!(Tags::new(None, [&b"t"[..]]).unwrap_err().message.contains("dialect"));
    assert_eq!(named(&known, &["b", "a", "b"]).iter().len(), 2);
}

/// The commands that servers carry out for each call: the table in docs/namespaces.md.
#[test]
fn the_table_of_costs_is_true() {
    let (mut world, [own, other]) = two(TTL);
    let mut cost = |process, operation: Any| {
        world.commands();
        world.run(process, operation);
        world.commands()
    };
    assert_eq!(cost(0, set(&own, "k", "v", &["t"]).into()), 3, "a tag that was never used");
    assert_eq!(cost(0, set(&own, "k", "v", &["t"]).into()), 1, "known");
    assert_eq!(cost(0, get("k").into()), 1);
    pass(TTL);
    assert_eq!(cost(0, get("k").into()), 2, "asked for");
    pass(TTL);
    assert_eq!(cost(0, set(&own, "k", "v", &["t"]).into()), 2, "asked for");
    assert_eq!(cost(0, set(&own, "k", "v", &[]).into()), 1, "no tags");
    assert_eq!(cost(0, get("k").into()), 1);
    let lease = || single(LEASE, "l", None).with_tags(Some(Tagging::Named(named(&own, &["t"]))));
    assert_eq!(cost(0, lease().into()), 1, "known");
    pass(TTL);
    assert_eq!(cost(0, lease().into()), 2, "asked for");
    let alone = || single(LEASE, "l", None).with_tags(Some(Tagging::Alone(named(&own, &["t"]))));
    assert_eq!(cost(0, alone().into()), 0, "known");
    pass(TTL);
    assert_eq!(cost(0, alone().into()), 1, "asked for");
    assert_eq!(cost(1, invalidate(&other, &["t", "u"])), 2, "one for each tag");
}
