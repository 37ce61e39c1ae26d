//! Reading many keys: how they share lines, what is asked for again, and the result when servers fail.

use pinyon_proto::KeyRules;

use super::single::GET;
use super::stage::{fleet, key_of, keys, letter, Stage, CLASSIC, META};
use crate::operations::{AsBytes, Beside, Fetch, Fetched, Keys, Operation, Policy, Request, Unanswered};
use pinyon_net::error::{Error, Kind, Sent};

type Outcome = Fetched<super::single::Value, std::convert::Infallible>;

fn fetch(names: &[&str], policy: Policy) -> Fetch<AsBytes> {
    Fetch::new(keys(names), GET, AsBytes, policy)
}

fn finished(stage: Stage<Fetch<AsBytes>>) -> Outcome {
    assert!(stage.is_over());
    stage.operation.finish()
}

fn found(outcome: &Outcome) -> Vec<(usize, &str)> {
    let mut found: Vec<_> = outcome.found.iter().map(|one| (one.index, text(&one.value.bytes))).collect();
    found.sort_unstable();
    found
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn told(error: &Error) -> (Kind, Sent, &str, &str) {
    (error.kind, error.sent, letter(&error.server), error.command)
}

/// The keys that no server answered, each with its failure.
fn unanswered(outcome: &Outcome) -> Vec<(u32, Kind, Sent, &str)> {
    let mut all = Vec::new();
    for Unanswered { keys, error } in &outcome.unanswered {
        all.extend(keys.iter().map(|key| (*key, error.kind, error.sent, letter(&error.server))));
    }
    all.sort_unstable_by_key(|one| one.0);
    all
}

/// Keys for two servers: some of `a`, some of `b`.
fn of_two(policy: Policy) -> (Stage<Fetch<AsBytes>>, String, String) {
    let fleet = fleet("a,b", &[]);
    let (of_a, of_b) = (key_of(&fleet, "a", 0), key_of(&fleet, "b", 0));
    let operation = fetch(&[&of_a, &of_b], policy);
    (Stage::with(fleet, META, operation), of_a, of_b)
}

const NO_FAILOVER: Policy =
    Policy { failover: false, miss: false, unreadable_is_miss: false, near: false, tagged_is_miss: false };

#[test]
fn the_keys_of_a_server_share_a_line_and_each_server_is_asked_at_once() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "b", 0), key_of(&fleet, "a", 1)];
    let mut stage = Stage::with(fleet, META, fetch(&[&names[0], &names[1], &names[2]], Policy::default()));
    assert_eq!(stage.begin(), [format!("a: get {} {}", names[0], names[2]), format!("b: get {}", names[1])]);
    assert!(stage.answer("a", &format!("VALUE {} 0 1|x|END", names[2])).is_empty());
    assert!(stage.answer("b", &format!("VALUE {} 0 1|y|END", names[1])).is_empty());
    let mut outcome = finished(stage);
    assert_eq!(found(&outcome), [(1, "y"), (2, "x")]);
    assert!(outcome.failures.raised().is_none() && outcome.failures.of_servers().is_empty());
}

#[test]
fn cas_tokens_come_where_they_are_wanted() {
    let mut stage =
        Stage::new("a", META, Fetch::new(keys(&["k", "l"]), Request::Get(Beside::Cas), AsBytes, Policy::default()));
    assert_eq!(stage.begin(), ["a: gets k l"]);
    stage.answer("a", "VALUE k 0 1 9|x|END");
    assert_eq!(finished(stage).found[0].cas, Some(9));
}

#[test]
fn a_line_also_sets_the_ttl_and_is_not_sent_twice() {
    let gat = |names: &[&str]| {
        Fetch::new(keys(names), Request::GetAndTouch { ttl: 60, cas: false }, AsBytes, Policy::default())
    };
    for version in [META, "1.5.22"] {
        let mut stage = Stage::new("a", version, gat(&["k", "l"]));
        assert_eq!(stage.begin(), ["a: gat 60 k l"]);
        assert!(stage.answer("a", "VALUE l 0 1|x|END").is_empty());
        assert_eq!(found(&finished(stage)), [(1, "x")]);
    }
    let mut doubted = Stage::new("a", META, gat(&["k", "l"]));
    doubted.begin();
    assert_eq!(doubted.answer("a", "VALUE k 0 0||END"), ["a: mg k f v T60 O*"], "it may be a placeholder");
    let fleet = fleet("a,b", &[]);
    let name = key_of(&fleet, "a", 0);
    let mut lost = Stage::with(fleet, META, gat(&[&name]));
    lost.begin();
    assert!(lost.close("a").is_empty(), "it was sent");
    let raised = finished(lost).failures.raised().unwrap();
    assert_eq!((raised.kind, raised.sent, raised.command), (Kind::Closed, Sent::Maybe, "gat_many"));
}

#[test]
fn a_line_that_sets_ttls_ends_before_a_server_takes_it_for_garbage() {
    let each = Request::GetAndTouch { ttl: i32::MIN, cas: true };
    for length in [4, 9, 127, 249, 250] {
        let names: Vec<_> = (0..220).map(|index| format!("{index:0length$}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let sent = Stage::new("a", META, Fetch::new(keys(&names), each, AsBytes, Policy::default())).begin().remove(0);
        let lines: Vec<_> = sent.trim_start_matches("a: ").split('|').collect();
        assert!(lines.iter().all(|line| line.len() + 2 <= 1024), "{length}");
        assert_eq!(lines.iter().map(|line| line.split(' ').count() - 2).sum::<usize>(), 220);
    }
}

#[test]
fn the_gutter_keeps_nothing_long() {
    let each = Request::GetAndTouch { ttl: 60, cas: false };
    let fetch = Fetch::new(keys(&["k", "l"]), each, AsBytes, Policy::default());
    let mut stage = Stage::with(fleet("a", &["c"]), META, fetch);
    stage.unreachable.push(("a", Kind::Connect));
    assert_eq!(stage.begin(), ["c: gat 10 k l"]);
}

#[test]
fn a_line_has_200_keys_and_8_kilobytes_at_most() {
    let keys_of_lines = |length: usize, count: usize| {
        let names: Vec<_> = (0..count).map(|index| format!("{index:0length$}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let sent = Stage::new("a", META, fetch(&names, Policy::default())).begin().remove(0);
        let lines = sent.trim_start_matches("a: ").split('|');
        lines.map(|line| line.trim_start_matches("get ").split(' ').count()).collect::<Vec<_>>()
    };
    assert_eq!(keys_of_lines(4, 200), [200]);
    assert_eq!(keys_of_lines(4, 401), [200, 200, 1]);
    assert_eq!(keys_of_lines(127, 64), [64], "64 keys of 128 bytes with their space");
    assert_eq!(keys_of_lines(127, 65), [64, 1]);
    assert_eq!(keys_of_lines(250, 100), [32, 32, 32, 4]);
}

#[test]
fn keys_in_base64_have_commands_of_their_own_amid_the_lines() {
    let mut keys = Keys::default();
    let rules = KeyRules::new(b"", true).unwrap();
    ["a", "with space", "b"].iter().for_each(|key| keys.push(&rules, key.as_bytes()).unwrap());
    let mut stage = Stage::new("a", META, Fetch::new(keys, GET, AsBytes, Policy::default()));
    assert_eq!(stage.begin(), ["a: get a|mg d2l0aCBzcGFjZQ== b f v O*|get b"]);
    stage.answer("a", "END|VA 1 f0 O*|x|END");
    assert_eq!(found(&finished(stage)), [(1, "x")]);
}

#[test]
fn a_value_that_may_be_a_placeholder_is_asked_for_by_itself() {
    let mut stage = Stage::new("a", META, fetch(&["k", "l", "m", "n"], Policy::default()));
    stage.begin();
    let again = stage.answer("a", "VALUE k 0 0||VALUE l 7 0||VALUE m 0 1|x|VALUE n 0 0||END");
    assert_eq!(again, ["a: mg k f v O*|mg n f v O*"]);
    assert!(stage.answer("a", "VA 0 f0 Z O*||VA 0 f0 O*|").is_empty());
    assert_eq!(found(&finished(stage)), [(1, ""), (2, "x"), (3, "")]);

    let mut classic = Stage::new("a", CLASSIC, fetch(&["k"], Policy::default()));
    classic.begin();
    assert_eq!(classic.answer("a", "VALUE k 0 0||END"), ["a: get k"]);
    assert!(classic.answer("a", "VALUE k 0 0||END").is_empty(), "an old server cannot tell");
    assert_eq!(found(&finished(classic)), [(0, "")]);
}

#[test]
fn all_keys_of_a_line_that_failed_are_asked_again_elsewhere() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "a", 1)];
    let mut stage = Stage::with(fleet, META, fetch(&[&names[0], &names[1]], Policy::default()));
    stage.begin();
    assert!(stage.answer("a", &format!("VALUE {} 0 1|x|VALUE {} 0 0|", names[0], names[1])).is_empty());
    assert_eq!(stage.time_out("a"), [format!("b: get {} {}", names[0], names[1])]);
    assert_eq!(stage.events(), ["down a", "retry get_many on a"]);
    stage.answer("b", &format!("VALUE {} 0 1|y|END", names[1]));
    let mut outcome = finished(stage);
    assert_eq!(found(&outcome), [(1, "y")], "nothing of the first try is left");
    assert!(outcome.failures.raised().is_none());
}

#[test]
fn several_lines_that_fail_are_tried_again_with_one_event() {
    let fleet = fleet("a,b", &[]);
    let names: Vec<_> = (0..450).map(|number| format!("key{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::with(fleet, META, fetch(&names, Policy::default()));
    stage.begin();
    stage.time_out("a");
    assert_eq!(stage.events(), ["down a", "retry get_many on a"]);
}

#[test]
fn what_the_other_servers_answered_stays_and_the_failure_is_told() {
    let (mut stage, _, of_b) = of_two(NO_FAILOVER);
    stage.begin();
    assert!(stage.time_out("a").is_empty(), "nobody takes its place");
    stage.answer("b", &format!("VALUE {of_b} 0 1|x|END"));
    let mut outcome = finished(stage);
    assert_eq!(found(&outcome), [(1, "x")]);
    let raised = outcome.failures.raised().unwrap();
    assert_eq!(told(&raised), (Kind::Timeout, Sent::Maybe, "a", "get_many"));
}

#[test]
fn each_server_has_one_failure_with_the_most_that_became_of_its_keys() {
    let fleet = fleet("a,b", &[]);
    let names: Vec<_> = (0..450).map(|number| format!("key{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::with(fleet, META, fetch(&names, NO_FAILOVER));
    stage.unreachable.push(("b", Kind::Connect));
    stage.begin();
    stage.in_time = false;
    stage.close("a");
    let mut failures = finished(stage).failures.of_servers();
    failures.sort_by(|one, other| one.server.cmp(&other.server));
    let told: Vec<_> = failures.iter().map(told).collect();
    assert_eq!(told[0], (Kind::Closed, Sent::Maybe, "a", "get_many"));
    assert_eq!((told.len(), told[1].0, told[1].2), (2, Kind::Connect, "b"));
}

#[test]
fn the_policy_miss_forgives_outages_and_no_refusals() {
    let miss = Policy { failover: false, miss: true, unreadable_is_miss: false, near: false, tagged_is_miss: false };
    let (mut stage, ..) = of_two(miss);
    stage.begin();
    stage.time_out("a");
    stage.answer("b", "END");
    let mut failures = finished(stage).failures;
    assert!(failures.raised().is_none());

    let (mut stage, ..) = of_two(miss);
    stage.begin();
    stage.time_out("a");
    stage.answer("b", "SERVER_ERROR out of memory");
    let mut failures = finished(stage).failures;
    assert_eq!(told(&failures.raised().unwrap()), (Kind::Server, Sent::Yes, "b", "get_many"));
    assert_eq!(failures.of_servers().len(), 1, "the refusal is no server's failure");
}

#[test]
fn a_refusal_is_raised_before_an_outage() {
    let (mut stage, ..) = of_two(NO_FAILOVER);
    stage.begin();
    stage.time_out("a");
    stage.answer("b", "SERVER_ERROR out of memory");
    assert_eq!(finished(stage).failures.raised().unwrap().kind, Kind::Server);
}

#[test]
fn the_keys_of_a_server_that_left_are_asked_of_who_has_them_now() {
    let (mut stage, of_a, _) = of_two(Policy::default());
    stage.begin();
    assert_eq!(stage.withdraw("a"), [format!("a: get {of_a}")]);
    assert_eq!(stage.events(), [""; 0]);
}

#[test]
fn no_keys_ask_nobody() {
    let mut stage = Stage::new("a", META, fetch(&[], Policy::default()));
    assert!(stage.begin().is_empty());
    let mut outcome = finished(stage);
    assert!(outcome.found.is_empty() && outcome.failures.raised().is_none());
}

#[test]
fn each_key_without_an_answer_has_the_failure_of_its_server() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "b", 0), key_of(&fleet, "b", 1), key_of(&fleet, "b", 2)];
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::with(fleet, META, fetch(&names, NO_FAILOVER).named("get"));
    stage.begin();
    stage.time_out("a");
    let again = stage.answer("b", &format!("VALUE {} 0 1|x|VALUE {} 0 0||SERVER_ERROR of it", names[1], names[2]));
    assert_eq!(again, [format!("b: mg {} f v O*", names[2])], "what may be a placeholder");
    stage.answer("b", "VA 0 f0 Z O*|");
    let outcome = finished(stage);
    assert_eq!(found(&outcome), [(1, "x")]);
    let (timeout, refusal) = ((0, Kind::Timeout, Sent::Maybe, "a"), (3, Kind::Server, Sent::Yes, "b"));
    assert_eq!(unanswered(&outcome), [timeout, refusal]);
    assert!(outcome.unanswered.iter().all(|one| one.error.command == "get"));
}

#[test]
fn keys_that_another_server_answered_have_no_failure() {
    let (mut stage, of_a, of_b) = of_two(Policy::default());
    stage.begin();
    assert_eq!(stage.time_out("a"), [format!("b: get {of_a}")]);
    stage.answer("b", &format!("VALUE {of_b} 0 1|x|END|END"));
    let outcome = finished(stage);
    assert_eq!((found(&outcome), unanswered(&outcome)), (vec![(1, "x")], vec![]));
}

#[test]
fn keys_that_no_server_is_left_for_have_the_failure_of_their_last_try() {
    let (mut stage, ..) = of_two(Policy::default());
    stage.begin();
    stage.time_out("a");
    stage.time_out("b");
    let outcome = finished(stage);
    let told = |key| (key, Kind::Timeout, Sent::Maybe, "b");
    assert_eq!(unanswered(&outcome), [told(0), told(1)]);

    let mut refused = Stage::new("a", META, fetch(&["k", "l"], NO_FAILOVER));
    refused.unreachable.push(("a", Kind::Connect));
    refused.begin();
    let told = |key| (key, Kind::Connect, Sent::No, "a");
    assert_eq!(unanswered(&finished(refused)), [told(0), told(1)]);
}

/// Keys that are sent as base64, one command each.
fn in_base64(each: Request) -> Stage<Fetch<AsBytes>> {
    let mut names = Keys::default();
    let rules = KeyRules::new(b"", true).unwrap();
    ["k l", "k m"].iter().for_each(|name| names.push(&rules, name.as_bytes()).unwrap());
    let mut stage = Stage::new("a", META, Fetch::new(names, each, AsBytes, Policy::default()));
    stage.begin();
    stage
}

#[test]
fn each_key_whose_right_to_renew_was_taken_has_it_put_back() {
    let mut stage = in_base64(GET);
    let sent = stage.answer("a", "VA 1 f0 X W O*|v|VA 1 f0 O*|w");
    assert_eq!(sent, ["a: mg ayBs b f c h l s t u O*"]);
    assert_eq!(stage.answer("a", "HD f0 c9 h1 l0 s1 t9 Z X O*"), ["a: md ayBs b I C9 O*"]);
    assert!(!stage.operation.only_reads(3));
    assert!(stage.answer("a", "HD O*").is_empty());
    assert_eq!(found(&finished(stage)), [(0, "v"), (1, "w")]);

    let mut told = in_base64(Request::Get(Beside::Cas));
    assert!(told.answer("a", "VA 1 f0 c9 X W O*|v|VA 1 f0 c8 O*|w").is_empty(), "its caller may store under the token");
}

#[test]
fn a_right_that_cannot_be_put_back_fails_no_key() {
    type Failing = fn(&mut Stage<Fetch<AsBytes>>) -> Vec<String>;
    let failures: [Failing; 3] = [
        |stage| stage.close("a"),
        |stage| stage.time_out("a"),
        |stage| stage.answer("a", "SERVER_ERROR out of memory"),
    ];
    for fail in failures {
        let mut stage = in_base64(GET);
        stage.answer("a", "VA 1 f0 X W O*|v|VA 1 f0 X W O*|w");
        fail(&mut stage);
        if !stage.is_over() {
            fail(&mut stage);
        }
        let mut outcome = finished(stage);
        assert_eq!(found(&outcome), [(0, "v"), (1, "w")]);
        assert!(outcome.failures.raised().is_none() && outcome.unanswered.is_empty());
    }
}
