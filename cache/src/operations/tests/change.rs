//! Storing and deleting many keys: what counts as done, what is retried, and what is never sent twice.

use std::time::Instant;

use super::stage::{fleet, key_of, keys, letter, Stage, CLASSIC, META};
use crate::operations::{Change, Changed, DataBlock, End, Next, Operation, Policy, Request};
use pinyon_net::error::{Error, Kind, Sent};

type Op = Change<Option<Vec<u8>>>;

const NO_FAILOVER: Policy =
    Policy { failover: false, miss: false, unreadable_is_miss: false, near: false, tagged_is_miss: false };

fn store(names: &[&str], policy: Policy) -> Op {
    let block = |name: &&str| DataBlock { data: Some(name.as_bytes().to_vec()), size: name.len(), client_flags: 7 };
    Change::store(keys(names), names.iter().map(block).collect(), 60, policy)
}

fn delete(names: &[&str], policy: Policy) -> Op {
    Change::each(keys(names), Request::Delete, policy)
}

fn finished(stage: Stage<Op>) -> Changed {
    assert!(stage.is_over());
    stage.operation.finish()
}

fn unattributed() -> End {
    let error = Error::new(Kind::Server, &"a:11211".into(), "out of memory").of("set", Sent::Maybe);
    End::Failed { error, in_time: true }
}

#[test]
fn each_key_is_stored_by_a_command_of_its_own_the_later_ones_quietly() {
    let mut stage = Stage::new("a", META, store(&["k", "l", "m", "n", "o"], Policy::default()));
    let sent = stage.begin().remove(0);
    let lines: Vec<_> = sent.trim_start_matches("a: ").split('|').collect();
    assert_eq!(lines[..2], ["ms k 1 F7 T60 O*", "k"]);
    assert_eq!(lines[6..], ["ms n 1 F7 T60 O* q", "n", "ms o 1 F7 T60 O* q", "o", "mn"]);
    assert!(stage.answer("a", "HD O*|NS O*|HD O*|MN").is_empty());
    let mut changed = finished(stage);
    assert_eq!(changed.done, [true, false, true, true, true]);
    assert!(changed.failures.raised().is_none(), "what a server does not store is no failure");
}

#[test]
fn a_deletion_counts_where_there_was_something() {
    let mut stage = Stage::new("a", META, delete(&["k", "l", "m"], Policy::default()));
    assert_eq!(stage.begin(), ["a: md k O*|md l O*|md m O*"]);
    assert!(stage.answer("a", "HD O*|NF O*|HD O*").is_empty());
    let mut changed = finished(stage);
    assert_eq!(changed.done, [true, false, true]);
    assert!(changed.failures.raised().is_none());
}

#[test]
fn a_ttl_is_set_where_there_is_an_item() {
    let touch = || Change::<Option<Vec<u8>>>::each(keys(&["k", "l", "m"]), Request::Touch { ttl: 60 }, NO_FAILOVER);
    for (version, sent, replies) in [
        (META, "a: mg k T60 O*|mg l T60 O*|mg m T60 O*", "HD O*|EN O*|HD O*"),
        (CLASSIC, "a: touch k 60|touch l 60|touch m 60", "TOUCHED|NOT_FOUND|TOUCHED"),
    ] {
        let mut stage = Stage::new("a", version, touch());
        assert_eq!(stage.begin(), [sent]);
        assert!(stage.answer("a", replies).is_empty());
        let mut changed = finished(stage);
        assert_eq!(changed.done, [true, false, true]);
        assert!(changed.failures.raised().is_none());
    }
    let mut lost = Stage::new("a", META, touch());
    lost.begin();
    assert!(lost.time_out("a").is_empty(), "it was sent, and is not sent again");
    let raised = finished(lost).failures.raised().unwrap();
    assert_eq!((raised.kind, raised.sent, raised.command), (Kind::Timeout, Sent::Maybe, "touch_many"));
}

#[test]
fn what_was_sent_is_not_sent_again_and_what_was_not_goes_on() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "b", 0)];
    let mut stage = Stage::with(fleet, META, store(&[&names[0], &names[1]], Policy::default()));
    stage.unreachable.push(("b", Kind::Connect));
    let sent = stage.begin().remove(0);
    assert!(sent.contains(&names[0]) && sent.contains(&names[1]), "{sent}: those of b went on to a");
    assert_eq!(stage.events(), ["retry set_many on b", "down b", "retry set_many on b"]);
    assert!(stage.time_out("a").is_empty());
    let mut changed = finished(stage);
    assert_eq!(changed.done, [false, false]);
    let raised = changed.failures.raised().unwrap();
    assert_eq!((raised.kind, raised.sent, letter(&raised.server)), (Kind::Timeout, Sent::Maybe, "a"));
    assert_eq!(raised.command, "set_many");
}

#[test]
fn what_others_did_stays_done() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "b", 0)];
    let mut stage = Stage::with(fleet, META, delete(&[&names[0], &names[1]], NO_FAILOVER));
    stage.begin();
    stage.close("a");
    stage.answer("b", "HD O*");
    let mut changed = finished(stage);
    assert_eq!(changed.done, [false, true]);
    let failures = changed.failures.of_servers();
    assert_eq!(
        failures.iter().map(|error| (error.kind, error.sent)).collect::<Vec<_>>(),
        [(Kind::Closed, Sent::Maybe)]
    );
}

/// Begins the operation, so that it asks for both keys.
fn begun(mut operation: Op) -> Op {
    operation.begin(&fleet("a", &[]), Instant::now());
    operation
}

#[test]
fn stores_that_share_an_error_are_each_sent_once_more_by_themselves() {
    let mut operation = begun(store(&["k", "l"], Policy::default()));
    assert_eq!(operation.over(0, unattributed()), Next::Again);
    assert_eq!(operation.over(1, unattributed()), Next::Again);
    let mut stage = Stage::new("a", META, operation);
    assert_eq!(stage.begin(), ["a: ms k 1 F7 T60 O*|k|ms l 1 F7 T60 O*|l"]);
    assert!(stage.answer("a", "SERVER_ERROR out of memory|HD O*").is_empty());
    let mut changed = finished(stage);
    assert_eq!(changed.done, [false, true]);
    assert!(changed.failures.raised().is_none());

    let mut insisting = begun(store(&["k"], Policy::default()));
    assert_eq!(insisting.over(0, unattributed()), Next::Again);
    let mut insisting = begun(insisting);
    assert_eq!(insisting.over(0, unattributed()), Next::Nothing, "it is insisted on once");
    assert_eq!(begun(store(&["k"], Policy::default())).over(0, late(unattributed())), Next::Nothing);
}

#[test]
fn of_many_stores_all_that_may_be_meant_by_an_error_are_sent_again() {
    let names = ["k", "l", "m", "n", "o"];
    let mut stage = Stage::new("a", META, store(&names, Policy::default()));
    stage.begin();
    let again = stage.answer("a", "HD O*|HD O*|HD O*|SERVER_ERROR out of memory|MN").remove(0);
    assert_eq!(again, "a: ms n 1 F7 T60 O*|n|ms o 1 F7 T60 O*|o");
    stage.answer("a", "HD O*|SERVER_ERROR out of memory");
    assert_eq!(finished(stage).done, [true, true, true, true, false]);
}

#[test]
fn a_store_that_a_server_refuses_is_not_done_and_no_failure() {
    let mut stage = Stage::new("a", META, store(&["k", "l"], Policy::default()));
    stage.begin();
    assert!(stage.answer("a", "SERVER_ERROR out of memory storing object|HD O*").is_empty());
    let mut changed = finished(stage);
    assert!(changed.failures.raised().is_none());
    assert_eq!(changed.done.iter().filter(|done| **done).count(), 1);
}

#[test]
fn a_deletion_that_a_server_refuses_is_a_failure() {
    let mut stage = Stage::new(
        "a",
        META,
        delete(
            &["k"],
            Policy { failover: false, miss: true, unreadable_is_miss: false, near: false, tagged_is_miss: false },
        ),
    );
    stage.begin();
    assert!(stage.answer("a", "SERVER_ERROR not now").is_empty());
    let raised = finished(stage).failures.raised().unwrap();
    assert_eq!((raised.kind, raised.command), (Kind::Server, "delete_many"));
    let mut in_doubt = begun(delete(&["k"], Policy::default()));
    assert_eq!(in_doubt.over(0, unattributed()), Next::Nothing, "it may have been done");
}

#[test]
fn a_refused_store_is_raised_before_an_outage_only_where_it_is_a_failure() {
    let fleet = fleet("a,b", &[]);
    let names = [key_of(&fleet, "a", 0), key_of(&fleet, "b", 0)];
    let mut stage = Stage::with(fleet, META, delete(&[&names[0], &names[1]], NO_FAILOVER));
    stage.begin();
    stage.close("a");
    stage.answer("b", "CLIENT_ERROR no");
    assert_eq!(finished(stage).failures.raised().unwrap().kind, Kind::Server);
}

#[test]
fn the_gutter_keeps_nothing_long() {
    let fleet = fleet("a,b", &["g"]);
    let key = key_of(&fleet, "a", 0);
    let mut stage = Stage::with(fleet, META, store(&[&key], Policy::default()));
    stage.unreachable.push(("a", Kind::Connect));
    assert_eq!(stage.begin(), [format!("g: ms {key} {} F7 T10 O*|{key}", key.len())]);
}

#[test]
fn the_keys_of_a_server_that_left_are_asked_again() {
    let mut stage = Stage::new("a", META, delete(&["k", "l"], Policy::default()));
    stage.begin();
    assert_eq!(stage.withdraw("a"), ["a: md k O*|md l O*"]);
    assert_eq!(stage.events(), [""; 0]);
}

#[test]
fn after_their_time_keys_are_not_tried_again() {
    let mut stage = Stage::new("a,b", META, store(&["k"], Policy::default()));
    stage.in_time = false;
    stage.unreachable.extend([("a", Kind::Connect), ("b", Kind::Connect)]);
    assert!(stage.begin().is_empty());
    let raised = finished(stage).failures.raised().unwrap();
    assert_eq!((raised.kind, raised.sent), (Kind::Connect, Sent::No));
}

fn late(end: End) -> End {
    match end {
        End::Failed { error, .. } => End::Failed { error, in_time: false },
        end => end,
    }
}

#[test]
fn a_touch_that_takes_the_right_to_renew_puts_it_back() {
    let touching = |failing: bool| {
        let touch = Change::<Option<Vec<u8>>>::each(keys(&["k", "l"]), Request::Touch { ttl: 60 }, NO_FAILOVER);
        let mut stage = Stage::new("a", META, touch);
        stage.begin();
        assert_eq!(stage.answer("a", "HD X W O*|HD O*"), ["a: mg k f c h l s t u O*"]);
        if failing {
            assert!(stage.close("a").is_empty());
        } else {
            assert_eq!(stage.answer("a", "HD f0 c9 h1 l0 s1 t60 Z X O*"), ["a: md k I C9 O*"]);
            assert!(stage.answer("a", "EX O*").is_empty(), "another caller has changed it");
        }
        finished(stage)
    };
    for failing in [false, true] {
        let mut changed = touching(failing);
        assert_eq!(changed.done, [true, true]);
        assert!(changed.failures.raised().is_none());
    }
}
