mod anew;
mod bad_days;
mod behind;
#[cfg(feature = "interleavings")]
mod interleavings;
mod many;
mod schedules;
mod sharing;
mod unreadable;

use crate::operations::{Finding, Win};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::{Head, Item, Status};

use super::patience::LONGEST_PAUSE;
use super::*;
use crate::operations::Policy;
use crate::operations::{Found, FoundTags};
use pinyon_net::invalid::InvalidArgument;

const WIN: Win = Win { cas: 7, keep: false };
const WON: Found<&str> = Found { finding: Finding::Won(Some(WIN)), value: None, cas: None, tags: FoundTags::NONE };
const FILLING: Found<&str> = Found { finding: Finding::Filling, value: None, cas: None, tags: FoundTags::NONE };
const DAY: i64 = 24 * 60 * 60;

/// Values are texts. Followers get them in a different form, so that a copy is recognizable.
#[derive(Debug, PartialEq)]
enum Texts {}

impl LeaseTypes for Texts {
    type Value = &'static str;
    type Shared = (&'static str, &'static str);
    type Error = &'static str;
    type Signal = Woken;
}

#[derive(Clone, Default)]
pub struct Woken(Rc<Cell<bool>>);

impl Signal for Woken {
    fn wake(self) {
        assert!(!self.0.replace(true), "a follower is woken once");
    }
}

/// The callers of one client, and the time.
struct Process {
    flights: Arc<Flights<Texts>>,
    now: Instant,
    callers: usize,
}

struct Caller {
    machine: GetOrSet<Texts>,
    now: Instant,
}

impl Process {
    fn new() -> Self {
        Self { flights: Arc::default(), now: Instant::now(), callers: 0 }
    }

    fn caller(&mut self) -> Caller {
        self.caller_at(flight_key("key"))
    }

    fn caller_at(&mut self, flight_key: FlightKey) -> Caller {
        self.callers += 1;
        self.caller_named(flight_key, self.callers)
    }

    fn caller_named(&self, flight_key: FlightKey, name: usize) -> Caller {
        let machine = GetOrSet::new(self.flights.clone(), flight_key, name, terms(), name as u64, self.now);
        Caller { machine, now: self.now }
    }

    /// A caller that leads, and another that waits for it.
    fn leader_and_follower(&mut self) -> (Caller, Caller, Woken) {
        let (mut leader, mut follower) = (self.caller(), self.caller());
        assert_eq!(leader.begin(), ASK);
        let woken = follower.follow();
        (leader, follower, woken)
    }
}

impl Caller {
    fn begin(&mut self) -> String {
        said(&self.machine.begin(self.now))
    }

    fn next(&mut self, outcome: StepOutcome<Texts>) -> String {
        said(&self.machine.next(outcome, self.now))
    }

    fn found(&mut self, found: Found<&'static str>) -> String {
        self.next(StepOutcome::Found(found))
    }

    fn failed(&mut self, error: &'static str) -> String {
        self.next(StepOutcome::Failed { error, is_outage: false })
    }

    /// Begins, and registers as a follower.
    fn follow(&mut self) -> Woken {
        assert_eq!(self.begin(), "follow for 12s");
        let woken = Woken::default();
        assert!(self.machine.follow(woken.clone()));
        woken
    }
}

const ASK: &str = "ask: Lease { lease: 5, recache: 40 }";
const GIVE_BACK: &str = "give back: GiveBack(Win { cas: 7, keep: false })";

const RENEW: &str = "ask: Renew { lease: 5, recache: 40, cas: 7 }";
const UNREADABLE: Found<&str> =
    Found { finding: Finding::Unreadable, value: None, cas: Some(7), tags: FoundTags::NONE };

fn said(step: &Step<Texts>) -> String {
    match step {
        Step::Ask(request) => format!("ask: {request:?}"),
        Step::Pause(pause) => format!("pause for {pause:?}"),
        Step::Follow(patience) => format!("follow for {patience:?}"),
        Step::Make => "make".to_owned(),
        Step::MakeWithin(time) => format!("make within {time:?}"),
        Step::ReturnOld => "return old one".to_owned(),
        Step::Share => "share".to_owned(),
        Step::Store { cas, ttl } => format!("store at {cas} for {ttl}"),
        Step::Set { ttl } => format!("set for {ttl}"),
        Step::ReadTags(request) => format!("read tags: {request:?}"),
        Step::GiveBack(request) => format!("give back: {request:?}"),
        Step::Copy((by, value)) => format!("copy {by} {value}"),
        Step::Return(value) => format!("return {value}"),
        Step::Raise(error) => format!("raise {error}"),
        Step::Nothing(never) => match *never {},
        Step::Refuse(refusal) => format!("refuse: {refusal:?}"),
    }
}

fn terms() -> Terms {
    Terms::new(60, 30, 10, 5, None).unwrap()
}

fn flight_key(key: &str) -> FlightKey {
    FlightKey { scope: 1, key: key.as_bytes().into(), policy: Policy::default() }
}

fn hit(value: &'static str) -> Found<&'static str> {
    Found { finding: Finding::Hit, value: Some(value), cas: Some(7), tags: FoundTags::NONE }
}

fn won_beside(value: &'static str) -> Found<&'static str> {
    Found { value: Some(value), ..WON }
}

#[test]
fn terms_become_what_the_server_counts() {
    let ends_at = |terms: Result<Terms, InvalidArgument>| terms.unwrap().ttl_of_item(1);
    assert_eq!((terms().lease(), terms().recache(), terms().wait()), (5, 40, Duration::from_secs(12)));
    assert_eq!(ends_at(Ok(terms())), Some(90));
    assert_eq!(ends_at(Terms::new(0, 0, 0, 5, Some(0.0))), Some(0));
    assert_eq!(Terms::new(9, 0, 0, 5, Some(0.25)).unwrap().wait(), Duration::from_millis(250));
    assert_eq!(ends_at(Terms::new(i64::MAX, 30 * DAY, 0, 5, None)), Some(i64::MAX));
    assert_eq!(ends_at(Terms::new(None, 30, 10, 5, None)), None, "each value has its own");
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    let wrong = [
        ((-1, 0, 0, 5, None), "ttl must be positive"),
        ((0, 1, 0, 5, None), "with a ttl of 0 there is none"),
        ((0, 0, 1, 5, None), "with a ttl of 0 there is none"),
        ((9, 0, 9, 5, None), "early must be less than ttl"),
        ((9, -1, 0, 5, None), "stale must be from 0 to 30 days"),
        ((9, 0, 31 * DAY, 5, None), "early must be from 0 to 30 days"),
        ((30 * DAY, 20 * DAY, 20 * DAY, 5, None), "together must be at most 30 days"),
        ((9, 0, 0, 0, None), "lease must be positive"),
        ((9, 0, 0, 5, Some(-1.0)), "wait must be at least 0"),
        ((9, 0, 0, 5, Some(f64::NAN)), "wait must be at least 0"),
        ((9, 0, 0, 5, Some((1_u64 << 31) as f64)), "wait must be at least 0"),
    ];
    for ((ttl, stale, early, lease, wait), why) in wrong {
        let refused = Terms::new(ttl, stale, early, lease, wait).unwrap_err();
        assert!(refused.message.contains(why), "{refused:?}");
    }
}

#[test]
fn replies_are_told_apart() {
    let of = |size: usize, client_flags: u32, marks: &str| {
        let [won, stale, already_won] = ["W", "X", "Z"].map(|mark| marks.contains(mark));
        let item = Item { client_flags, cas: Some(7), won, stale, already_won, ..Item::default() };
        Finding::of(&Head { size: Some(size), item, ..Head::of(Status::Hit) })
    };
    assert_eq!(of(0, 0, "W"), Finding::Won(Some(WIN)));
    assert_eq!(of(0, 0, "XW"), Finding::Won(Some(WIN)));
    assert_eq!(of(0, 0, "Z"), Finding::Filling);
    assert_eq!(of(0, 0, "ZX"), Finding::Filling);
    assert_eq!(of(0, 0, ""), Finding::Hit);
    assert_eq!(of(0, 16, "Z"), Finding::Stale);
    assert_eq!(of(2, 0, "W"), Finding::Won(Some(Win { cas: 7, keep: true })));
    assert_eq!(of(2, 0, "Z"), Finding::Stale);
    assert_eq!(of(2, 0, "ZX"), Finding::Stale);
    assert_eq!(of(2, 0, ""), Finding::Hit);
}

#[test]
fn what_is_there_is_taken_at_once() {
    for finding in [Finding::Hit, Finding::Stale] {
        let mut caller = Process::new().caller();
        caller.begin();
        assert_eq!(caller.found(Found { finding, ..hit("value") }), "return value");
        assert_eq!(caller.machine.leave(), None);
    }
}

#[test]
fn a_winner_makes_and_stores_under_its_token() {
    let mut process = Process::new();
    let mut caller = process.caller();
    caller.begin();
    assert_eq!(caller.found(WON), "make");
    assert_eq!(caller.next(StepOutcome::Value("made")), "store at 7 for 90");
    assert_eq!(caller.machine.value(), Some(&"made"));
    assert_eq!(caller.next(StepOutcome::Stored(true)), "return made", "without followers it shares nothing");
    assert_eq!(caller.machine.leave(), None);
    assert!(process.flights.followers().is_empty());
}

#[test]
fn a_winner_that_fails_gives_back_and_raises_its_own_error() {
    for give_back in [StepOutcome::Done, StepOutcome::Failed { error: "another", is_outage: true }] {
        let mut caller = Process::new().caller();
        caller.begin();
        caller.found(WON);
        assert_eq!(caller.failed("no value"), GIVE_BACK);
        assert_eq!(caller.next(give_back), "raise no value");
        assert_eq!(caller.machine.leave(), None, "nothing is given back twice");
    }
}

#[test]
fn a_value_that_cannot_be_stored_is_given_back_unless_the_server_failed() {
    for (is_outage, expected) in [(false, GIVE_BACK), (true, "raise failed")] {
        let mut caller = Process::new().caller();
        caller.begin();
        caller.found(WON);
        caller.next(StepOutcome::Value("made"));
        assert_eq!(caller.next(StepOutcome::Failed { error: "failed", is_outage }), expected);
    }
}

#[test]
fn a_refused_value_that_the_policy_forgives_is_returned_and_the_lease_given_back() {
    for (miss, expected) in [(true, GIVE_BACK), (false, "return made")] {
        let mut process = Process::new();
        let flight_key = FlightKey { policy: Policy { miss, ..Policy::default() }, ..flight_key("key") };
        let mut caller = process.caller_at(flight_key);
        caller.begin();
        caller.found(WON);
        caller.next(StepOutcome::Value("made"));
        assert_eq!(caller.next(StepOutcome::Stored(false)), expected);
        if miss {
            assert_eq!(caller.next(StepOutcome::Done), "return made");
        }
    }
}

#[test]
fn without_a_token_a_value_is_made_and_neither_stored_nor_given_back() {
    let won = Found { finding: Finding::Won(None), value: None, cas: None, tags: FoundTags::NONE };
    for (outcome, expected) in [
        (StepOutcome::Value("made"), "return made"),
        (StepOutcome::Failed { error: "no value", is_outage: false }, "raise no value"),
    ] {
        let mut caller = Process::new().caller();
        caller.begin();
        assert_eq!(caller.found(won.clone()), "make");
        assert_eq!(caller.next(outcome), expected);
    }
}

#[test]
fn who_leaves_gives_back_until_the_value_is_stored() {
    let mut caller = Process::new().caller();
    caller.begin();
    caller.found(WON);
    assert_eq!(caller.machine.leave(), Some(WIN));
    assert_eq!(caller.machine.leave(), None, "once");
    let mut caller = Process::new().caller();
    caller.begin();
    caller.found(WON);
    caller.next(StepOutcome::Value("made"));
    assert_eq!(caller.machine.leave(), Some(WIN), "nobody knows that it is stored");
}

#[test]
fn followers_ask_nobody_and_get_values_of_their_own() {
    let (mut leader, mut follower, woken) = Process::new().leader_and_follower();
    leader.found(WON);
    leader.next(StepOutcome::Value("made"));
    assert_eq!(leader.next(StepOutcome::Done), "share");
    assert!(!woken.0.get());
    assert_eq!(leader.next(StepOutcome::Shared(("leader's", "made"))), "return made");
    assert!(woken.0.get());
    assert_eq!(follower.next(StepOutcome::Done), "copy leader's made");
    assert_eq!(follower.next(StepOutcome::Value("copy")), "return copy");
}

#[test]
fn a_copy_that_cannot_be_made_is_the_followers_error() {
    let (mut leader, mut follower, _) = Process::new().leader_and_follower();
    leader.found(hit("value"));
    assert_eq!(leader.next(StepOutcome::Shared(("leader's", "value"))), "return value");
    follower.next(StepOutcome::Done);
    assert_eq!(follower.failed("unreadable"), "raise unreadable");
}

#[test]
fn a_value_that_cannot_be_shared_is_the_followers_error_alone() {
    let (mut leader, mut follower, _) = Process::new().leader_and_follower();
    assert_eq!(leader.found(hit("value")), "share");
    assert_eq!(leader.failed("cannot be copied"), "return value");
    assert_eq!(follower.next(StepOutcome::Done), "raise cannot be copied");
}

#[test]
fn followers_are_told_what_the_leader_raises_once_it_has_given_back() {
    let (mut leader, mut follower, woken) = Process::new().leader_and_follower();
    leader.found(WON);
    leader.failed("no value");
    assert!(!woken.0.get());
    leader.next(StepOutcome::Done);
    assert!(woken.0.get());
    assert_eq!(follower.next(StepOutcome::Done), "raise no value");
}

#[test]
fn a_failed_question_is_raised_by_all() {
    let (mut leader, mut follower, _) = Process::new().leader_and_follower();
    assert_eq!(leader.failed("down"), "raise down");
    assert_eq!(follower.next(StepOutcome::Done), "raise down");
}

#[test]
fn a_stale_value_is_handed_out_at_once_and_the_first_answer_stands() {
    let mut process = Process::new();
    let (mut leader, mut follower, woken) = process.leader_and_follower();
    assert_eq!(leader.found(won_beside("old")), "share");
    assert_eq!(leader.machine.value(), Some(&"old"));
    assert_eq!(leader.next(StepOutcome::Shared(("leader's", "old"))), "make");
    assert!(woken.0.get());
    let mut late = process.caller();
    assert_eq!(late.begin(), "copy leader's old", "without waiting");
    assert_eq!(leader.next(StepOutcome::Value("new")), "store at 7 for 90");
    assert_eq!(leader.next(StepOutcome::Done), "return new");
    assert_eq!(follower.next(StepOutcome::Done), "copy leader's old");
}

#[test]
fn a_stale_value_is_handed_out_even_if_the_leader_then_fails() {
    let (mut leader, mut follower, _) = Process::new().leader_and_follower();
    leader.found(won_beside("old"));
    leader.next(StepOutcome::Shared(("leader's", "old")));
    leader.failed("no value");
    leader.next(StepOutcome::Done);
    assert_eq!(follower.next(StepOutcome::Done), "copy leader's old");
}

#[test]
fn one_follower_leads_after_a_leader_that_goes_without_an_answer() {
    let gone: [fn(Caller) -> Option<Caller>; 2] = [
        |mut leader| {
            assert_eq!(leader.machine.leave(), Some(WIN));
            Some(leader)
        },
        |leader| {
            drop(leader);
            None
        },
    ];
    for go in gone {
        let mut process = Process::new();
        let (mut leader, mut follower, woken) = process.leader_and_follower();
        let mut second = process.caller();
        second.follow();
        leader.found(WON);
        let _left = go(leader);
        assert!(woken.0.get());
        assert_eq!(follower.next(StepOutcome::Done), ASK);
        assert_eq!(second.next(StepOutcome::Done), "follow for 12s");
    }
}

#[test]
fn a_leader_that_gives_up_says_nothing_to_followers() {
    let mut process = Process::new();
    let (mut leader, mut follower, _) = process.leader_and_follower();
    leader.now += Duration::from_secs(12);
    assert_eq!(leader.found(FILLING), "refuse: StillBeingMade");
    assert_eq!(follower.next(StepOutcome::Done), ASK);
}

#[test]
fn a_follower_gives_up_when_its_own_patience_is_over() {
    let mut process = Process::new();
    let (leader, mut follower, woken) = process.leader_and_follower();
    follower.now += Duration::from_secs(12);
    assert_eq!(follower.next(StepOutcome::Done), "refuse: StillBeingMade");
    assert!(!woken.0.get());
    assert_eq!(process.flights.followers(), [1], "the leader goes on");
    drop(leader);
    assert!(process.flights.followers().is_empty());
}

#[test]
fn who_registers_too_late_does_not_wait() {
    let mut process = Process::new();
    let (mut leader, mut follower) = (process.caller(), process.caller());
    leader.begin();
    follower.begin();
    leader.found(hit("value"));
    let woken = Woken::default();
    assert!(!follower.machine.follow(woken));
    assert_eq!(follower.next(StepOutcome::Done), ASK, "nobody had registered, so nothing was shared");
}

#[test]
fn nobody_waits_for_itself() {
    let process = Process::new();
    let mut outer = process.caller_named(flight_key("key"), 1);
    outer.begin();
    outer.found(WON);
    assert_eq!(process.caller_named(flight_key("key"), 1).begin(), "refuse: Recursion");
    assert_eq!(process.caller_named(flight_key("other"), 1).begin(), ASK);
    assert_eq!(outer.next(StepOutcome::Value("made")), "store at 7 for 90");
}

#[test]
fn refusals_say_what_to_do() {
    assert_eq!(Refusal::StillBeingMade.kind().as_str(), "LeaseTimeout");
    assert!(Refusal::StillBeingMade.message("'key'").contains("'key' is still being made by another caller"));
    assert_eq!(Refusal::Recursion.kind().as_str(), "UsageError");
    assert!(Refusal::Recursion.message("'key'").starts_with("what makes the value of"));
}

#[test]
fn only_callers_of_one_scope_key_and_policy_follow_each_other() {
    let mut process = Process::new();
    let mut leader = process.caller();
    leader.begin();
    let miss = Policy { miss: true, ..Policy::default() };
    let failover = Policy { failover: false, ..Policy::default() };
    for other in [
        FlightKey { scope: 2, ..flight_key("key") },
        flight_key("other"),
        FlightKey { policy: miss, ..flight_key("key") },
        FlightKey { policy: failover, ..flight_key("key") },
    ] {
        assert_eq!(process.caller_at(other).begin(), ASK);
    }
    assert_eq!(process.caller_at(flight_key("key")).begin(), "follow for 12s");
}

#[test]
fn a_forked_child_leads_although_its_parent_held_every_lock() {
    let mut process = Process::new();
    let (mut leader, mut follower, woken) = process.leader_and_follower();
    let flight = leader.machine.leads.clone().unwrap();
    let held = (process.flights.table(), flight.state());
    pinyon_net::fork::pretended::fork();
    let mut child = process.caller_named(flight_key("key"), 3);
    assert_eq!(child.begin(), ASK);
    assert_eq!(leader.found(hit("value")), "return value", "in the child it has no followers");
    assert_eq!(follower.next(StepOutcome::Done), "follow for 12s", "of the child's leader");
    assert!(!woken.0.get());
    assert_eq!(process.flights.followers(), [0]);
    drop(held);
}

#[test]
fn a_child_that_is_forked_while_the_value_is_made_leaves_the_lease_to_its_parent() {
    let makes = |process: &mut Process| {
        let mut caller = process.caller();
        caller.begin();
        assert_eq!(caller.found(WON), "make");
        caller
    };
    let (mut left, mut failed, mut ended) =
        (makes(&mut Process::new()), makes(&mut Process::new()), makes(&mut Process::new()));
    let mut parent = makes(&mut Process::new());
    assert!(parent.machine.leave().is_some());
    pinyon_net::fork::pretended::fork();
    assert_eq!(left.machine.leave(), None);
    assert_eq!(failed.failed("it failed"), "raise it failed");
    assert_eq!(ended.next(StepOutcome::Value("value")), "return value", "nothing is stored");
}

#[test]
fn in_a_forked_child_those_that_were_forked_with_their_leader_follow_it() {
    let (mut leader, mut follower, woken) = Process::new().leader_and_follower();
    pinyon_net::fork::pretended::fork();
    assert_eq!(leader.found(hit("value")), "share");
    leader.next(StepOutcome::Shared(("leader's", "value")));
    assert!(woken.0.get());
    assert_eq!(follower.next(StepOutcome::Done), "copy leader's value");
}

/// Asks until the caller does anything but pause. `find` returns what it finds, by the time since the beginning.
/// Returns that step, its time, and the number of questions.
fn ask_on(caller: &mut Caller, find: impl Fn(Duration) -> Found<&'static str>) -> (String, Duration, u32) {
    let (begun, mut asked) = (caller.now, 0);
    assert_eq!(caller.begin(), ASK);
    loop {
        asked += 1;
        let elapsed = caller.now - begun;
        match caller.machine.next(StepOutcome::Found(find(elapsed)), caller.now) {
            Step::Pause(pause) => {
                caller.now += pause;
                assert_eq!(caller.next(StepOutcome::Done), ASK);
            }
            step => return (said(&step), elapsed, asked),
        }
    }
}

#[test]
fn a_value_that_comes_is_taken_soon() {
    let mut process = Process::new();
    for caller in 0..100 {
        let come = Duration::from_secs(3);
        let find = |elapsed| if elapsed < come { FILLING } else { hit("value") };
        let (step, elapsed, asked) = ask_on(&mut process.caller_at(flight_key(&caller.to_string())), find);
        assert_eq!(step, "return value");
        assert!(elapsed < come + LONGEST_PAUSE && asked < 25, "{elapsed:?}, {asked}");
    }
}

#[test]
fn the_lease_of_a_maker_that_died_is_won_by_one_that_waits() {
    let ends = Duration::from_secs(6);
    let find = |elapsed| if elapsed < ends { FILLING } else { WON };
    let (step, elapsed, _) = ask_on(&mut Process::new().caller(), find);
    assert!(step == "make" && elapsed < ends + LONGEST_PAUSE);
}

#[test]
fn nobody_waits_for_longer_than_it_wants() {
    for wait in [0.0, 0.001, 3.0] {
        let mut caller = Process::new().caller();
        let terms = Terms::new(60, 30, 10, 5, Some(wait)).unwrap();
        caller.machine = GetOrSet::new(Arc::default(), flight_key("key"), 1, terms, 1, caller.now);
        let (step, elapsed, _) = ask_on(&mut caller, |_| FILLING);
        assert_eq!((step.as_str(), elapsed), ("refuse: StillBeingMade", terms.wait()), "it asks once more at the end");
    }
}

#[test]
fn callers_do_not_ask_in_step() {
    let process = Process::new();
    let first = |name: usize| {
        let mut caller = process.caller_named(flight_key(&name.to_string()), name * 977);
        caller.begin();
        caller.found(FILLING)
    };
    let pauses: std::collections::HashSet<String> = (1..50).map(first).collect();
    assert!(pauses.len() > 20, "{pauses:?}");
}
