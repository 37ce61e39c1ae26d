//! What each command on one key sends, and what each reply means, on old and new servers.

use pinyon_proto::{encode, Capabilities, Direction, Item, Key, Mode, Opaque, ServerVersion};

use super::single::{finished, on, store, value, GET};
use super::stage::{Stage, CLASSIC, META};
use crate::calls::{self, Asks, Takes, ALL};
use crate::operations::{Answer, Beside, Compared, Fact, Found, FoundTags, Initial, Request};
use crate::operations::{Finding, Win};
use pinyon_net::error::Kind;

const CAS: Request = Request::Get(Beside::Cas);
const COMPARE: Request =
    Request::Store { mode: Mode::Set, size: 5, client_flags: 7, ttl: 60, cas: Some(9), returns_cas: false };
const INCREMENT: Request = Request::Arithmetic { direction: Direction::Increment, delta: 2, initial: None };
const INITIAL: Initial = Initial { number: 10, ttl: 60, client_flags: 2 };
const COUNT: Request = Request::Arithmetic { direction: Direction::Decrement, delta: 1, initial: Some(INITIAL) };
const MARK_STALE: Request = Request::MarkStale { ttl: Some(30), cas: None };
const LEASE: Request = Request::Lease { lease: 20, recache: 5 };
const GIVE_BACK: Request = Request::GiveBack(Win { cas: 9, keep: false });
const GIVE_BACK_STALE: Request = Request::GiveBack(Win { cas: 9, keep: true });

/// Plays a request on one server of this version, and checks what is sent and what the reply means.
#[track_caller]
fn means(version: &'static str, request: Request, sent: &str, reply: &str, answer: Answer<super::single::Value>) {
    let mut stage = Stage::new("a", version, on("key", request));
    assert_eq!(stage.begin(), [format!("a: {sent}")]);
    assert!(stage.answer("a", reply).is_empty(), "it is over");
    assert_eq!(finished(stage).unwrap(), answer, "{request:?} answered {reply}");
}

#[test]
fn reads() {
    let get = "mg key f v O*";
    means(META, GET, get, "VA 5 f7 O*|value", Answer::Value(value("value", 7)));
    means(META, GET, get, "EN O*", Answer::Missing);
    means(META, CAS, "mg key f c v O*", "VA 1 c9 f0 O*|v", Answer::ValueAnd(value("v", 0), Fact::Cas(9)));
    means(META, Request::GetAndTouch { ttl: 60, cas: false }, "mg key f v T60 O*", "EN O*", Answer::Missing);
    let touched = Answer::ValueAnd(value("v", 0), Fact::Cas(9));
    means(META, Request::GetAndTouch { ttl: 60, cas: true }, "mg key f c v T60 O*", "VA 1 c9 f0 O*|v", touched);
    for (ttl, left) in [("30", Some(30)), ("-1", None)] {
        let answer = Answer::ValueAnd(value("v", 0), Fact::Ttl(left));
        means(META, Request::Get(Beside::Ttl), "mg key f t v O*", &format!("VA 1 f0 t{ttl} O*|v"), answer);
    }
}

#[test]
fn reads_in_classic_text() {
    means(CLASSIC, GET, "get key", "VALUE key 7 5|value|END", Answer::Value(value("value", 7)));
    means(CLASSIC, GET, "get key", "END", Answer::Missing);
    means(CLASSIC, CAS, "gets key", "VALUE key 7 1 9|v|END", Answer::ValueAnd(value("v", 7), Fact::Cas(9)));
}

#[test]
fn a_placeholder_is_a_miss() {
    means(META, CAS, "mg key f c v O*", "VA 0 c1 f0 W O*|", Answer::Missing);
    means(META, GET, "mg key f v O*", "VA 0 f0 Z O*|", Answer::Missing);
    means(META, GET, "mg key f v O*", "VA 0 f0 O*|", Answer::Value(value("", 0)));
    means(META, GET, "mg key f v O*", "VA 0 f7 Z O*|", Answer::Value(value("", 7)));
    means(META, CAS, "mg key f c v O*", "VA 0 c1 f0 Z O*|", Answer::Missing);
}

#[test]
fn stores() {
    means(META, store(Mode::Set), "ms key 5 F7 T60 O*|value", "HD O*", Answer::Done(true));
    means(META, store(Mode::Set), "ms key 5 F7 T60 O*|value", "NS O*", Answer::Done(false));
    let replies = [("STORED", Compared::Stored), ("EXISTS", Compared::Changed), ("NOT_FOUND", Compared::Gone)];
    for version in [META, CLASSIC] {
        for mode in [Mode::Add, Mode::Append, Mode::Replace] {
            let sent = format!("{} key 7 60 5|value", mode.name());
            means(version, store(mode), &sent, "STORED", Answer::Done(true));
            means(version, store(mode), &sent, "NOT_STORED", Answer::Done(false));
        }
        for (word, compared) in replies {
            means(version, COMPARE, "cas key 7 60 5 9|value", word, Answer::Compared(compared));
        }
    }
}

#[test]
fn a_store_that_returns_its_cas_token() {
    let replace =
        |cas| Request::Store { mode: Mode::Replace, size: 5, client_flags: 7, ttl: 60, cas, returns_cas: true };
    means(META, replace(None), "ms key 5 F7 T60 MR c O*|value", "HD c12 O*", Answer::Number(12));
    means(META, replace(None), "ms key 5 F7 T60 MR c O*|value", "NS c0 O*", Answer::Done(false));
    means(META, replace(Some(9)), "ms key 5 F7 T60 C9 MR c O*|value", "HD c12 O*", Answer::Number(12));
    let changed = Answer::Compared(Compared::Changed);
    means(META, replace(Some(9)), "ms key 5 F7 T60 C9 MR c O*|value", "EX c0 O*", changed);
    means(CLASSIC, replace(None), "replace key 7 60 5|value", "STORED", Answer::Done(true));
}

#[test]
fn what_changes_an_item_or_not() {
    for (request, sent) in [
        (Request::Delete, "md key O*"),
        (Request::Touch { ttl: 60 }, "mg key T60 O*"),
        (MARK_STALE, "md key I T30 O*"),
        (Request::MarkStale { ttl: None, cas: Some(9) }, "md key I C9 O*"),
        (GIVE_BACK, "md key C9 O*"),
        (GIVE_BACK_STALE, "md key I C9 O*"),
    ] {
        let miss = if sent.starts_with("mg") { "EN O*" } else { "NF O*" };
        means(META, request, sent, "HD O*", Answer::Done(true));
        means(META, request, sent, miss, Answer::Done(false));
    }
    means(META, GIVE_BACK, "md key C9 O*", "EX O*", Answer::Done(false));
    means(CLASSIC, Request::Delete, "delete key", "DELETED", Answer::Done(true));
    means(CLASSIC, Request::Delete, "delete key", "NOT_FOUND", Answer::Done(false));
    means(CLASSIC, Request::Touch { ttl: 60 }, "touch key 60", "TOUCHED", Answer::Done(true));
}

#[test]
fn numbers() {
    means(META, INCREMENT, "ma key v D2 O*", "VA 2 O*|12", Answer::Number(12));
    means(META, INCREMENT, "ma key v D2 O*", "NF O*", Answer::Missing);
    means(META, COUNT, "ma key v MD O*", "VA 2 O*|10", Answer::Number(10));
    means(CLASSIC, INCREMENT, "incr key 2", "12", Answer::Number(12));
    means(CLASSIC, INCREMENT, "incr key 2", "NOT_FOUND", Answer::Missing);
}

#[test]
fn a_missing_counter_is_stored_as_a_number() {
    let mut stage = Stage::new("a", META, on("key", COUNT));
    assert_eq!(stage.begin(), ["a: ma key v MD O*"]);
    assert_eq!(stage.answer("a", "NF O*"), ["a: add key 2 60 2|10"]);
    assert!(stage.answer("a", "STORED").is_empty());
    assert_eq!(finished(stage).unwrap(), Answer::Number(10));

    let mut stage = Stage::new("a", CLASSIC, on("key", COUNT));
    assert_eq!(stage.begin(), ["a: decr key 1"]);
    assert_eq!(stage.answer("a", "NOT_FOUND"), ["a: add key 2 60 2|10"]);
    assert!(stage.answer("a", "STORED").is_empty());
    assert_eq!(finished(stage).unwrap(), Answer::Number(10));
}

#[test]
fn a_counter_that_another_caller_has_made_meanwhile_is_counted() {
    let mut stage = Stage::new("a", META, on("key", COUNT));
    stage.begin();
    stage.answer("a", "NF O*");
    assert_eq!(stage.answer("a", "NOT_STORED"), ["a: ma key v MD O*"]);
    stage.answer("a", "VA 1 O*|9");
    assert_eq!(finished(stage).unwrap(), Answer::Number(9));
}

#[test]
fn a_value_that_the_server_refuses_is_named_by_its_key_and_size() {
    let mut stage = Stage::new("a", META, on("key", store(Mode::Set)));
    stage.begin();
    stage.answer("a", "SERVER_ERROR object too large for cache");
    let error = finished(stage).unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge);
    assert!(error.message.starts_with("the value of \"key\" has 5 bytes, more than the server stores"), "{error}");
    assert!(error.message.contains("raise its option -I"), "{error}");
}

#[test]
fn what_a_server_knows_of_an_item() {
    let mut stage = Stage::new("a", META, on("key", Request::Metadata));
    assert_eq!(stage.begin(), ["a: mg key f c h l s t u O*"]);
    stage.answer("a", "HD f7 c9 h1 l3 s5 t-1 O*");
    let Answer::Metadata(item) = finished(stage).unwrap() else { panic!("metadata") };
    assert_eq!((item.client_flags, item.cas, item.hit_before), (7, Some(9), Some(true)));
    assert_eq!((item.last_access, item.size, item.ttl), (Some(3), Some(5), Some(-1)));
    means(META, Request::Metadata, "mg key f c h l s t u O*", "EN O*", Answer::Missing);
}

#[test]
fn a_value_with_what_the_server_knows_of_it() {
    let item = Item {
        cas: Some(9),
        hit_before: Some(false),
        last_access: Some(3),
        ttl: Some(-1),
        won: true,
        stale: true,
        ..Item::default()
    };
    let answer = Answer::ValueAndMetadata((value("v", 0), item).into());
    let reply = "VA 1 f0 c9 h0 l3 t-1 W X O*|v";
    let request = |bumps| Request::Get(Beside::Metadata { bumps });
    means(META, request(true), "mg key f c h l t v O*", reply, answer.clone());
    means(META, request(false), "mg key f c h l t v u O*", reply, answer);
    means(META, request(true), "mg key f c h l t v O*", "EN O*", Answer::Missing);
}

#[test]
fn leases() {
    let found = |finding, value| Answer::Lease(Box::new(Found { finding, value, cas: Some(9), tags: FoundTags::NONE }));
    let win = |keep| Finding::Won(Some(Win { cas: 9, keep }));
    for (reply, answer) in [
        ("VA 1 c9 f0 O*|v", found(Finding::Hit, Some(value("v", 0)))),
        ("VA 1 c9 f0 W O*|v", found(win(true), Some(value("v", 0)))),
        ("VA 1 c9 f0 X Z O*|v", found(Finding::Stale, Some(value("v", 0)))),
        ("VA 0 c9 f0 W O*|", found(win(false), None)),
        ("VA 0 c9 f0 Z O*|", found(Finding::Filling, None)),
        (
            "EN O*",
            Answer::Lease(Box::new(Found {
                finding: Finding::Won(None),
                value: None,
                cas: None,
                tags: FoundTags::NONE,
            })),
        ),
    ] {
        means(META, LEASE, "mg key f c v N20 R5 O*", reply, answer);
    }
}

#[test]
fn a_server_without_tokens_refuses_who_reads_them() {
    for (version, request, reply) in [
        (META, Request::Get(Beside::Cas), "VA 1 f0 c0 O*|v"),
        (META, Request::GetAndTouch { ttl: 60, cas: true }, "VA 1 f0 c0 O*|v"),
        (CLASSIC, Request::Get(Beside::Cas), "VALUE key 0 1 0|v\r\nEND"),
    ] {
        let mut stage = Stage::new("a", version, on("key", request));
        stage.begin();
        stage.answer("a", reply);
        let error = finished(stage).unwrap_err();
        assert_eq!(error.kind, Kind::Unsupported);
        assert!(error.message.starts_with("the server has no CAS tokens, because it was started with -C"), "{error}");
    }
    means(META, GET, "mg key f v O*", "VA 1 f0 c0 O*|v", Answer::Value(value("v", 0)));
}

#[test]
fn a_lease_on_a_server_without_tokens_is_fulfilled_and_given_back_without_one() {
    let won = |keep| Finding::Won(Some(Win { cas: Win::NO_TOKEN, keep }));
    for (reply, keep, give_back) in
        [("VA 0 c0 f0 W O*|", false, "md key O*"), ("VA 1 c0 f0 W O*|v", true, "md key I O*")]
    {
        let mut stage = Stage::new("a", META, on("key", LEASE));
        stage.begin();
        stage.answer("a", reply);
        let Answer::Lease(found) = finished(stage).unwrap() else { panic!("a lease") };
        assert_eq!(found.finding, won(keep));
        means(META, Request::GiveBack(found.win().unwrap()), give_back, "HD O*", Answer::Done(true));
    }
}

#[test]
fn an_answer_is_read_later() {
    let length = |text: &str| match text {
        "" => Err("the reader was stopped"),
        "?" => Ok(None),
        text => Ok(Some(text.len())),
    };
    assert_eq!(Answer::Value("four").read(length), Ok(Answer::Value(4)));
    assert_eq!(Answer::ValueAnd("four", Fact::Cas(9)).read(length), Ok(Answer::ValueAnd(4, Fact::Cas(9))));
    assert_eq!(Answer::ValueAnd("four", Fact::Ttl(None)).read(length), Ok(Answer::ValueAnd(4, Fact::Ttl(None))));
    assert_eq!(Answer::Value("").read(length), Err("the reader was stopped"));
    for other in [Answer::Missing, Answer::Done(true), Answer::Compared(Compared::Gone), Answer::Number(7)] {
        assert_eq!(format!("{:?}", other.clone().read(length).unwrap()), format!("{other:?}"));
    }
    let won = Finding::Won(Some(Win { cas: 9, keep: true }));
    assert_eq!(lease(won, Some("four")).read(length), Ok(lease(won, Some(4))));
    assert_eq!(lease(Finding::Stale, Some("")).read(length), Err("the reader was stopped"));
    assert_eq!(lease(Finding::Filling, None).read(length), Ok(lease(Finding::Filling, None)));
}

#[test]
fn a_value_that_cannot_be_read_is_missing_or_has_to_be_made() {
    let unreadable = |_: &str| Ok::<_, ()>(None::<usize>);
    let with_metadata = Answer::ValueAndMetadata(("?", Item::default()).into());
    for answer in
        [Answer::Value("?"), Answer::ValueAnd("?", Fact::Cas(9)), Answer::ValueAnd("?", Fact::Ttl(None)), with_metadata]
    {
        assert_eq!(answer.read(unreadable), Ok(Answer::Missing));
    }
    let win = Some(Win { cas: 9, keep: true });
    for (found, becomes) in [
        (Finding::Hit, Finding::Unreadable),
        (Finding::Stale, Finding::Filling),
        (Finding::Won(win), Finding::Won(win)),
    ] {
        assert_eq!(lease(found, Some("?")).read(unreadable), Ok(lease(becomes, None)));
    }
    let found = Found { finding: Finding::Unreadable, value: None::<usize>, cas: Some(9), tags: FoundTags::NONE };
    assert_eq!(found.renewal(20, 5), Some(Request::Renew { lease: 20, recache: 5, cas: 9 }));
    assert_eq!((found.win(), found.finding.word()), (win, "won"), "after that, it may replace it");
    assert_eq!(Found { finding: Finding::Hit, ..found }.renewal(20, 5), None);
}

fn lease<V>(finding: Finding, value: Option<V>) -> Answer<V> {
    Answer::Lease(Found { finding, value, cas: Some(9), tags: FoundTags::NONE }.into())
}

#[test]
fn the_table_of_calls_says_of_requests_what_they_do() {
    let changes = [Request::GetAndTouch { ttl: 60, cas: false }, Request::Touch { ttl: 60 }, Request::Delete];
    let reads = [GET, CAS, Request::Get(Beside::Ttl), Request::Metadata];
    let stores = [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend].map(store);
    for request in reads.into_iter().chain(changes).chain(stores).chain([COMPARE, INCREMENT, COUNT, GIVE_BACK]) {
        let call = request.call();
        assert_eq!(call.only_reads, request.is_idempotent(), "{}", call.name);
        assert_eq!(call.may_be_joined, request.may_be_joined(), "{}", call.name);
        assert_eq!(call.needs_meta, !is_known_to_classic(request), "{}", call.name);
    }
}

fn is_known_to_classic(request: Request) -> bool {
    let (classic, mut sent) = (Capabilities::of(ServerVersion::parse(b"1.5.22")), Vec::new());
    encode(&request.command(Key::known(b"key", false)), &classic, Opaque(1), false, &mut sent).is_ok()
}

#[test]
fn a_request_is_made_as_the_table_says() {
    for call in ALL {
        let request = Request::of(call);
        let made = request.map(|request| if call.asks == Asks::Key { request.call() } else { request.call_of_many() });
        let depends = call.takes.iter().any(|takes| matches!(takes, Takes::Cas | Takes::Lease | Takes::Tags));
        assert_eq!(made, (call.asks != Asks::Servers && !depends).then_some(call), "{}", call.name);
    }
    assert_eq!(Request::of(&calls::TOUCH).unwrap().with_ttl(60), Request::Touch { ttl: 60 });
    assert_eq!(Request::of(&calls::GATS).unwrap().with_ttl(60), Request::GetAndTouch { ttl: 60, cas: true });
}
