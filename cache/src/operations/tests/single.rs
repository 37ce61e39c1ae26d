//! A request about one key: which server gets it, what is retried, and what is reported.

use std::convert::Infallible;
use std::time::Instant;

use pinyon_proto::{Direction, Head, Mode};

use super::stage::{fleet, key_of, letter, owned, Stage, CLASSIC, META};
use crate::operations::{
    Answer, AsBytes, Beside, Bytes, Fact, Failed, Operation, OwnedKey, Policy, Request, Single, Values,
};
use pinyon_net::error::{Error, Kind, Sent};

pub type Value = Bytes;
pub type Op = Single<OwnedKey, Option<Vec<u8>>, AsBytes>;

pub const GET: Request = Request::Get(Beside::Nothing);

pub fn store(mode: Mode) -> Request {
    Request::Store { mode, size: 5, client_flags: 7, ttl: 60, cas: None, returns_cas: false }
}

pub fn value(text: &str, client_flags: u32) -> Value {
    Bytes { bytes: text.into(), client_flags }
}

pub fn on(key: &str, request: Request) -> Op {
    with(key, request, Policy::default())
}

pub fn with(key: &str, request: Request, policy: Policy) -> Op {
    let data = matches!(request, Request::Store { .. }).then(|| b"value".to_vec());
    Single::new(request, owned(key), data, AsBytes, policy)
}

pub fn finished(stage: Stage<Op>) -> Result<Answer<Value>, Error> {
    assert!(stage.is_over());
    stage.operation.finish().map_err(|failed| match failed {
        Failed::Error(error) => *error,
        Failed::Unreadable { error, .. } => match error {},
    })
}

fn failure(stage: Stage<Op>) -> (Kind, Sent, String, &'static str) {
    let error = finished(stage).unwrap_err();
    (error.kind, error.sent, letter(&error.server).to_owned(), error.command)
}

/// Three servers; the key belongs to `a`.
fn on_a(request: Request, policy: Policy) -> (Stage<Op>, String) {
    let fleet = fleet("a,b,c", &[]);
    let key = key_of(&fleet, "a", 0);
    (Stage::with(fleet, META, with(&key, request, policy)), key)
}

fn other_server(sent: &[String]) -> String {
    let [line] = sent else { panic!("{sent:?}: one server is asked") };
    letter(line).to_owned()
}

const NO_FAILOVER: Policy =
    Policy { failover: false, miss: false, unreadable_is_miss: false, near: false, tagged_is_miss: false };
const MISS: Policy =
    Policy { failover: false, miss: true, unreadable_is_miss: false, near: false, tagged_is_miss: false };

#[test]
fn a_read_that_was_sent_is_tried_again_elsewhere_and_its_failure_is_told() {
    let (mut stage, key) = on_a(GET, Policy::default());
    assert_eq!(stage.begin(), [format!("a: mg {key} f v O*")]);
    let sent = stage.time_out("a");
    let other = other_server(&sent);
    assert_ne!(other, "a");
    assert_eq!(stage.events(), ["down a", "retry get on a"]);
    assert!(stage.answer(&other, "VA 1 f0 O*|v").is_empty());
    assert_eq!(finished(stage).unwrap(), Answer::Value(value("v", 0)));
}

#[test]
fn a_connection_that_closed_is_tried_again_on_its_own_server_first() {
    let (mut stage, key) = on_a(GET, Policy::default());
    stage.begin();
    assert_eq!(stage.close("a"), [format!("a: mg {key} f v O*")], "one lost connection does not mark it down");
    assert_eq!(stage.events(), ["retry get on a"]);
}

#[test]
fn what_changes_something_is_never_sent_twice() {
    let count = Request::Arithmetic { direction: Direction::Increment, delta: 1, initial: None };
    let touching = [Request::Touch { ttl: 1 }, Request::GetAndTouch { ttl: 1, cas: false }];
    let storing = [Mode::Set, Mode::Add, Mode::Append].map(store);
    for request in [&storing[..], &touching, &[count, Request::Delete]].concat() {
        let (mut stage, _) = on_a(request, Policy::default());
        stage.begin();
        assert!(stage.time_out("a").is_empty(), "{request:?} was sent");
        assert_eq!(stage.events(), ["down a"]);
        let (kind, sent, server, _) = failure(stage);
        assert_eq!((kind, sent, &*server), (Kind::Timeout, Sent::Maybe, "a"), "{request:?}");
    }
}

#[test]
fn what_was_not_sent_goes_on_to_the_next_server_whatever_it_changes() {
    let (mut stage, key) = on_a(store(Mode::Add), Policy::default());
    stage.unreachable.push(("a", Kind::Connect));
    let sent = stage.begin();
    let other = other_server(&sent);
    assert_eq!(sent, [format!("{other}: add {key} 7 60 5|value")]);
    assert_eq!(stage.events(), ["retry add on a", "down a", "retry add on a"], "it is tried once more itself");
    stage.answer(&other, "STORED");
    assert_eq!(finished(stage).unwrap(), Answer::Done(true));
}

#[test]
fn the_most_that_became_of_its_tries_is_told() {
    let (mut stage, _) = on_a(GET, NO_FAILOVER);
    stage.begin();
    stage.unreachable.push(("a", Kind::Connect));
    assert!(stage.close("a").is_empty());
    let (kind, sent, server, command) = failure(stage);
    assert_eq!((kind, sent, &*server, command), (Kind::Connect, Sent::Maybe, "a", "get"));
}

#[test]
fn after_its_time_nothing_is_tried_again() {
    let (mut stage, _) = on_a(GET, Policy::default());
    stage.begin();
    stage.in_time = false;
    assert!(stage.close("a").is_empty());
    assert_eq!(stage.events(), [""; 0]);
    assert_eq!(failure(stage).0, Kind::Closed);
}

#[test]
fn without_failover_the_server_that_is_down_is_told_with_its_reason() {
    let (mut stage, _) = on_a(GET, NO_FAILOVER);
    stage.begin();
    assert!(stage.time_out("a").is_empty(), "nobody else is asked");
    let Stage { fleet, operation, .. } = stage;
    assert!(matches!(operation.finish(), Err(Failed::Error(error)) if error.kind == Kind::Timeout));

    let key = key_of(&fleet, "a", 0);
    let mut later = Stage::with(fleet, META, with(&key, GET, NO_FAILOVER));
    assert!(later.begin().is_empty());
    let error = finished(later).unwrap_err();
    assert_eq!((error.kind, error.sent, error.command), (Kind::Down, Sent::No, "get"));
    assert!(error.message.contains("did not answer in time"), "{error}");
}

#[test]
fn the_last_failure_is_told_where_nobody_is_left() {
    let (mut stage, _) = on_a(GET, Policy::default());
    stage.unreachable.extend([("a", Kind::Connect), ("b", Kind::Connect), ("c", Kind::Connect)]);
    assert!(stage.begin().is_empty());
    let events = stage.events();
    assert_eq!(events.iter().filter(|event| event.starts_with("down")).count(), 3, "{events:?}");
    assert_eq!(events.iter().filter(|event| event.starts_with("retry")).count(), 5, "{events:?}: each was tried twice");
    assert_eq!(failure(stage).0, Kind::Connect);
}

#[test]
fn a_probe_that_is_answered_brings_the_server_back() {
    let fleet = fleet("a,b,c", &[]);
    let key = key_of(&fleet, "a", 0);
    let mut stage = Stage::with(fleet, META, on(&key, GET));
    stage.begin();
    let other = other_server(&stage.time_out("a"));
    stage.answer(&other, "EN O*");
    assert_eq!(stage.events(), ["down a", "retry get on a"]);
    let mut probing = Stage::with(stage.fleet, META, on(&key, GET));
    probing.now += super::stage::SECOND;
    assert_eq!(probing.begin(), [format!("a: mg {key} f v O*")], "its back-off is shorter than a second");
    probing.answer("a", "EN O*");
    assert_eq!(probing.events(), ["up a"]);
}

#[test]
fn a_probe_that_fails_sends_its_operation_on() {
    let (mut stage, key) = on_a(GET, Policy::default());
    stage.begin();
    let other = other_server(&stage.time_out("a"));
    stage.answer(&other, "EN O*");
    stage.events();
    let mut probing = Stage::with(stage.fleet, META, on(&key, GET));
    probing.now += super::stage::SECOND;
    probing.begin();
    probing.now = Instant::now();
    assert_eq!(probing.time_out("a"), [format!("{other}: mg {key} f v O*")]);
    assert_eq!(probing.events(), ["retry get on a"]);
}

#[test]
fn the_gutter_keeps_nothing_long() {
    let fleet = fleet("a,b", &["g"]);
    let key = key_of(&fleet, "a", 0);
    let mut stage = Stage::with(fleet, META, on(&key, store(Mode::Set)));
    stage.unreachable.push(("a", Kind::Connect));
    assert_eq!(stage.begin(), [format!("g: ms {key} 5 F7 T10 O*|value")]);
}

#[test]
fn the_policy_miss_forgives_outages_alone() {
    let lost = |request| {
        let (mut stage, _) = on_a(request, MISS);
        stage.unreachable.push(("a", Kind::Connect));
        stage.begin();
        finished(stage).unwrap()
    };
    assert_eq!(lost(GET), Answer::Missing);
    assert_eq!(lost(store(Mode::Set)), Answer::Done(false));
    assert_eq!(lost(Request::Delete), Answer::Done(false));
    let Answer::Lease(found) = lost(Request::Lease { lease: 1, recache: 0 }) else { panic!("a lease") };
    assert!(found.win().is_none() && found.value.is_none());

    for reply in ["SERVER_ERROR out of memory", "CLIENT_ERROR nonsense", "ERROR"] {
        let (mut stage, _) = on_a(Request::Delete, MISS);
        stage.begin();
        stage.answer("a", reply);
        assert_eq!(failure(stage).0, Kind::Server, "{reply} is an answer");
    }
}

#[test]
fn what_an_error_of_the_server_answers_is_told_and_not_tried_again() {
    let (mut stage, _) = on_a(GET, Policy::default());
    stage.begin();
    assert!(stage.answer("a", "SERVER_ERROR out of memory").is_empty());
    assert_eq!(stage.events(), [""; 0]);
    let (kind, sent, server, command) = failure(stage);
    assert_eq!((kind, sent, &*server, command), (Kind::Server, Sent::Yes, "a", "get"));
}

#[test]
fn a_wrong_reply_is_told_and_not_tried_again() {
    let (mut stage, _) = on_a(GET, Policy::default());
    stage.begin();
    assert!(stage.answer("a", "STORED").is_empty());
    assert_eq!(stage.events(), [""; 0]);
    assert_eq!(failure(stage).0, Kind::Protocol);
}

#[test]
fn a_classic_value_that_may_be_a_placeholder_is_asked_for_by_itself_once() {
    let mut stage = Stage::new("a", CLASSIC, on("key", GET));
    stage.begin();
    assert_eq!(stage.answer("a", "VALUE key 0 0||END"), ["a: get key"]);
    assert!(stage.answer("a", "VALUE key 0 0||END").is_empty());
    assert_eq!(finished(stage).unwrap(), Answer::Value(value("", 0)));

    let mut alone = Stage::new("a", CLASSIC, on("key", GET));
    alone.is_shared = false;
    alone.begin();
    assert!(alone.answer("a", "VALUE key 0 0||END").is_empty());
    let mut flagged = Stage::new("a", CLASSIC, on("key", GET));
    flagged.begin();
    assert!(flagged.answer("a", "VALUE key 7 0||END").is_empty());
}

#[test]
fn a_server_that_leaves_before_it_was_asked_is_replaced_without_a_word() {
    let (mut stage, key) = on_a(store(Mode::Add), Policy::default());
    stage.begin();
    assert_eq!(stage.withdraw("a"), [format!("a: add {key} 7 60 5|value")]);
    assert_eq!(stage.events(), [""; 0]);
}

/// A host that can read no value.
struct Illiterate;

impl Values for Illiterate {
    type Value = Infallible;
    type Error = String;

    fn read(&self, head: &Head, _: crate::session::Value<'_>, server: &str) -> Result<Infallible, String> {
        Err(format!("flags {} of {}", head.item.client_flags, letter(server)))
    }
}

#[test]
fn a_value_that_the_host_cannot_read_is_told_with_its_command() {
    let get = |request| {
        let operation = Single::new(request, owned("key"), None::<Vec<u8>>, Illiterate, Policy::default());
        let mut stage = Stage::new("a", META, operation);
        stage.begin();
        let reply = if request == GET { "VA 1 f7 O*|v" } else { "VA 1 c9 f7 W O*|v" };
        assert!(stage.answer("a", reply).is_empty());
        stage.operation.finish()
    };
    let Err(Failed::Unreadable { error, command }) = get(GET) else { panic!("it could not be read") };
    assert_eq!((&*error, command), ("flags 7 of a", "get"));
    let Ok(Answer::Lease(found)) = get(Request::Lease { lease: 1, recache: 9 }) else { panic!("a lease") };
    assert!(found.value.is_none() && found.win().is_some(), "the winner puts another in its place");
}

const TTL: Request = Request::Get(Beside::Ttl);
const GAT: Request = Request::GetAndTouch { ttl: 60, cas: false };
const TOUCH: Request = Request::Touch { ttl: 60 };
const LOOK_UP: &str = "a: mg key f c h l s t u O*";

/// A read whose reply gives it the right to renew the item.
fn taking(request: Request, reply: &str) -> (Stage<Op>, Vec<String>) {
    let mut stage = Stage::new("a", META, on("key", request));
    stage.begin();
    let sent = stage.answer("a", reply);
    (stage, sent)
}

#[test]
fn a_read_puts_the_right_to_renew_back_and_keeps_its_answer() {
    let stale = || Answer::Value(value("v", 0));
    for (request, reply, answer) in [
        (GET, "VA 1 f0 X W O*|v", stale()),
        (TTL, "VA 1 f0 t9 X W O*|v", Answer::ValueAnd(value("v", 0), Fact::Ttl(Some(9)))),
        (GAT, "VA 1 f0 X W O*|v", stale()),
        (TOUCH, "HD X W O*", Answer::Done(true)),
        (GET, "VA 0 f0 X W O*|", Answer::Missing),
    ] {
        let (mut stage, sent) = taking(request, reply);
        assert_eq!(sent, [LOOK_UP], "{request:?}");
        assert_eq!(stage.answer("a", "HD f0 c9 h1 l0 s1 t9 Z X O*"), ["a: md key I C9 O*"], "{request:?}");
        assert_eq!(stage.operation.request(), &request);
        assert!(stage.operation.outlives_its_caller() && !stage.operation.may_win());
        assert!(stage.answer("a", "HD O*").is_empty());
        assert_eq!(finished(stage).unwrap(), answer, "{request:?}");
    }
}

#[test]
fn a_right_that_another_caller_has_by_now_is_not_touched() {
    for item in ["HD f0 c9 h1 l0 s1 t9 O*", "HD f0 c9 h1 l0 s1 t9 Z O*", "HD f0 c9 h1 l0 s1 t9 X O*", "EN O*"] {
        let (mut stage, _) = taking(GET, "VA 1 f0 X W O*|v");
        assert!(stage.answer("a", item).is_empty(), "{item}");
        assert_eq!(finished(stage).unwrap(), Answer::Value(value("v", 0)), "{item}");
    }
    let (mut stage, _) = taking(GET, "VA 1 f0 X W O*|v");
    stage.answer("a", "HD f0 c9 h1 l0 s1 t9 Z X O*");
    assert!(stage.answer("a", "EX O*").is_empty(), "its token has changed");
    assert_eq!(finished(stage).unwrap(), Answer::Value(value("v", 0)));
}

#[test]
fn the_look_up_puts_back_what_it_takes_itself() {
    let (mut stage, _) = taking(GET, "VA 1 f0 X W O*|v");
    assert_eq!(stage.answer("a", "HD f0 c10 h1 l0 s1 t9 X W O*"), ["a: md key I C10 O*"]);
}

#[test]
fn a_right_that_cannot_be_put_back_does_not_fail_the_read() {
    type Failing = fn(&mut Stage<Op>) -> Vec<String>;
    let failures: [Failing; 4] = [
        |stage| stage.close("a"),
        |stage| stage.time_out("a"),
        |stage| stage.answer("a", "SERVER_ERROR out of memory"),
        |stage| {
            stage.operation.fail(Error::new(Kind::Closed, &"".into(), "the client was closed"));
            Vec::new()
        },
    ];
    for fail in failures {
        for looks_up in [true, false] {
            let (mut stage, _) = taking(GET, "VA 1 f0 X W O*|v");
            if !looks_up {
                stage.answer("a", "HD f0 c9 h1 l0 s1 t9 Z X O*");
            }
            assert!(fail(&mut stage).is_empty());
            let Ok(Answer::Value(found)) = stage.operation.finish() else { panic!("it has its answer") };
            assert_eq!(found, value("v", 0));
        }
    }
}

#[test]
fn a_caller_that_is_told_the_token_or_the_right_has_it() {
    let cas = Answer::ValueAnd(value("v", 0), Fact::Cas(9));
    for request in [Request::Get(Beside::Cas), Request::GetAndTouch { ttl: 60, cas: true }] {
        let (stage, sent) = taking(request, "VA 1 f0 c9 X W O*|v");
        assert!(sent.is_empty(), "{request:?}");
        assert_eq!(finished(stage).unwrap(), cas);
    }
    let (stage, sent) = taking(Request::Metadata, "HD f0 c9 h1 l0 s1 t9 X W O*");
    assert!(sent.is_empty());
    assert!(matches!(finished(stage), Ok(Answer::Metadata(item)) if item.won));
}
