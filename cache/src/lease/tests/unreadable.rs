//! Values that a caller cannot read: one caller makes a new one.

use super::*;
use crate::operations::{Finding, RENEWALS};

#[test]
fn a_value_that_cannot_be_read_is_made_by_one_caller() {
    let mut process = Process::new();
    let (mut leader, mut follower, woken) = process.leader_and_follower();
    assert_eq!(leader.found(UNREADABLE), RENEW);
    assert_eq!(leader.found(WON), "make");
    assert_eq!(leader.next(StepOutcome::Value("new")), "store at 7 for 90");
    assert_eq!(leader.next(StepOutcome::Done), "share");
    assert!(!woken.0.get());
    assert_eq!(leader.next(StepOutcome::Shared(("leader", "new"))), "return new");
    assert!(woken.0.get());
    assert_eq!(follower.next(StepOutcome::Done), "copy leader new");
}

#[test]
fn whoever_cannot_read_a_value_waits_for_the_caller_that_makes_a_new_one() {
    let mut caller = Process::new().caller();
    caller.begin();
    assert_eq!(caller.found(UNREADABLE), RENEW);
    let stale = Found { finding: Finding::Stale, ..hit("perhaps the old one") };
    for found in [FILLING, stale] {
        assert!(caller.found(found).starts_with("pause"));
        assert_eq!(caller.next(StepOutcome::Done), ASK);
    }
    assert_eq!(caller.found(hit("new")), "return new");
}

#[test]
fn whoever_cannot_read_what_others_keep_storing_makes_a_value() {
    let mut caller = Process::new().caller();
    caller.begin();
    for _ in 0..RENEWALS {
        assert_eq!(caller.found(UNREADABLE), RENEW);
    }
    assert_eq!(caller.found(UNREADABLE), "make");
    assert_eq!(caller.failed("no"), "give back: GiveBack(Win { cas: 7, keep: true })", "the old value stays");
}

#[test]
fn a_forked_process_stores_what_it_makes_of_a_value_that_it_cannot_read() {
    pinyon_net::fork::pretended::fork();
    let mut caller = Process::new().caller();
    caller.begin();
    for _ in 0..RENEWALS {
        assert_eq!(caller.found(UNREADABLE), RENEW);
    }
    assert_eq!(caller.found(UNREADABLE), "make");
    assert_eq!(caller.next(StepOutcome::Value("new")), "store at 7 for 90");
}

#[test]
fn a_value_that_cannot_be_read_and_has_no_token_is_made_but_not_stored() {
    let mut caller = Process::new().caller();
    caller.begin();
    assert_eq!(caller.found(Found { cas: None, ..UNREADABLE }), "make");
    assert_eq!(caller.next(StepOutcome::Value("new")), "return new");
}

#[test]
fn a_host_may_find_only_at_the_end_that_it_cannot_read_the_value() {
    let mut process = Process::new();
    let (mut leader, mut follower, _) = process.leader_and_follower();
    assert_eq!(leader.found(hit("old")), "share");
    assert_eq!(leader.next(StepOutcome::Shared(("leader", "old"))), "return old");
    assert_eq!(said(&leader.machine.unreadable(leader.now)), RENEW, "it leads again");
    assert_eq!(follower.next(StepOutcome::Done), "copy leader old");
    assert_eq!(follower.next(StepOutcome::Value("old")), "return old");
    assert_eq!(said(&follower.machine.unreadable(follower.now)), "follow for 12s");
    assert_eq!(leader.found(won_beside("old")), "share");
    assert_eq!(leader.next(StepOutcome::Shared(("leader", "old"))), "make");
    assert_eq!(follower.next(StepOutcome::Done), "copy leader old");
    assert_eq!(follower.next(StepOutcome::Value("old")), "return old");
    assert_eq!(said(&follower.machine.unreadable(follower.now)), ASK, "what was told is the old value");
    assert!(follower.found(Found { finding: Finding::Stale, ..hit("old") }).starts_with("pause"));
    assert_eq!(leader.next(StepOutcome::Value("new")), "store at 7 for 90");
    assert_eq!(leader.next(StepOutcome::Done), "return new");
    assert_eq!(follower.next(StepOutcome::Done), ASK);
    assert_eq!(follower.found(hit("new")), "return new");
}
