//! Makers that go on behind callers that have the old value already.

use super::*;
use crate::lease::Behind;

const KEEP: Win = Win { cas: 7, keep: true };
const GIVE_BACK_OLD: &str = "give back: GiveBack(Win { cas: 7, keep: true })";

fn patient() -> Terms {
    terms().behind("soft_timeout", 0.2, Behind::Can).unwrap()
}

impl Process {
    fn caller_with(&mut self, terms: Terms) -> Caller {
        self.callers += 1;
        let (flights, now) = (self.flights.clone(), self.now);
        let machine = GetOrSet::new(flights, flight_key("key"), self.callers, terms, 1, now);
        Caller { machine, now }
    }

    /// A caller that has won beside an old value.
    fn winner(&mut self, terms: Terms) -> Caller {
        let mut caller = self.caller_with(terms);
        assert_eq!(caller.begin(), ASK);
        assert_eq!(caller.found(Found { finding: Finding::Won(Some(KEEP)), ..won_beside("old") }), "share");
        assert_eq!(caller.next(StepOutcome::Shared(("leader's", "old"))), "make within 200ms");
        caller
    }

    /// What goes on behind such a caller, which has the old value.
    fn behind(&mut self, terms: Terms) -> Caller {
        let mut caller = self.winner(terms);
        assert_eq!(caller.next(StepOutcome::Late), "return old one");
        assert_eq!(caller.machine.value(), Some(&"old"));
        caller
    }
}

#[test]
fn a_caller_that_waits_too_long_has_the_old_value_and_the_new_one_is_stored_behind_it() {
    let mut behind = Process::new().behind(patient());
    assert_eq!(behind.next(StepOutcome::Value("made")), "store at 7 for 90");
    assert_eq!(behind.machine.value(), Some(&"made"));
    assert_eq!(behind.next(StepOutcome::Stored(true)), "return made");
    assert_eq!(behind.machine.suppressed(), None);
    assert_eq!(behind.machine.leave(), None);
}

#[test]
fn a_maker_that_is_quick_enough_is_waited_for() {
    let mut caller = Process::new().winner(patient());
    assert_eq!(caller.next(StepOutcome::Value("made")), "store at 7 for 90");
    assert_eq!(caller.next(StepOutcome::Stored(true)), "return made");
    let mut caller = Process::new().winner(patient());
    assert_eq!(caller.failed("no database"), GIVE_BACK_OLD);
    assert_eq!(caller.next(StepOutcome::Done), "raise no database");
}

#[test]
fn without_an_old_value_or_with_one_that_it_cannot_read_a_caller_waits() {
    let mut caller = Process::new().caller_with(patient());
    caller.begin();
    assert_eq!(caller.found(WON), "make");
    let mut caller = Process::new().caller_with(patient());
    caller.begin();
    assert_eq!(caller.found(UNREADABLE), RENEW);
    caller.found(won_beside("unreadable"));
    assert_eq!(caller.next(StepOutcome::Shared(("leader's", "unreadable"))), "make");
}

#[test]
fn those_who_come_while_it_is_made_behind_ask_the_server() {
    let mut process = Process::new();
    let mut behind = process.behind(patient());
    assert_eq!(process.flights.followers(), [0; 0], "there is nobody to follow");
    let mut same = Caller {
        machine: GetOrSet::new(process.flights.clone(), flight_key("key"), 1, terms(), 1, process.now),
        now: process.now,
    };
    assert_eq!(same.begin(), ASK, "the caller itself may ask again, too");
    let mut other = process.caller();
    other.follow();
    assert_eq!(behind.next(StepOutcome::Value("made")), "store at 7 for 90");
    assert_eq!(behind.next(StepOutcome::Stored(true)), "return made");
    assert_eq!(same.found(Found { finding: Finding::Stale, ..hit("old") }), "share", "its flight is its own");
}

#[test]
fn those_who_follow_have_the_old_value_before_it_is_made() {
    let mut process = Process::new();
    let mut caller = process.caller_with(patient());
    caller.begin();
    let mut follower = process.caller();
    let woken = follower.follow();
    caller.found(won_beside("old"));
    caller.next(StepOutcome::Shared(("leader's", "old")));
    assert!(woken.0.get());
    assert_eq!(follower.next(StepOutcome::Done), "copy leader's old");
}

#[test]
fn a_failure_behind_is_told_and_raised_to_nobody() {
    let mut behind = Process::new().behind(patient());
    assert_eq!(behind.failed("no database"), GIVE_BACK_OLD, "the next caller tries again");
    assert_eq!(behind.machine.suppressed(), Some("no database"));
    assert_eq!(behind.next(StepOutcome::Done), "return old");
    let mut behind = Process::new().behind(patient().stale_on_error(3).unwrap());
    assert_eq!(behind.failed("no database"), "store at 7 for 43");
    assert_eq!(behind.machine.suppressed(), Some("no database"));
    assert_eq!(behind.next(StepOutcome::Stored(true)), "return old");
}

#[test]
fn a_value_that_cannot_be_stored_behind_is_told_too() {
    for (is_outage, last) in [(true, "return made"), (false, GIVE_BACK_OLD)] {
        let mut behind = Process::new().behind(patient());
        behind.next(StepOutcome::Value("made"));
        assert_eq!(behind.next(StepOutcome::Failed { error: "too large", is_outage }), last);
        assert_eq!(behind.machine.suppressed(), Some("too large"));
    }
}

#[test]
fn a_maker_that_is_ended_behind_gives_its_lease_back_unless_it_is_another_process() {
    assert_eq!(Process::new().behind(patient()).machine.leave(), Some(KEEP));
    let mut behind = Process::new().behind(patient());
    pinyon_net::fork::pretended::fork();
    assert_eq!(behind.machine.leave(), None);
    let mut behind = Process::new().behind(patient());
    pinyon_net::fork::pretended::fork();
    assert_eq!(behind.next(StepOutcome::Value("made")), "return made", "its parent stores");
}
