//! A value that is made whatever is stored, and takes its place.

use super::*;
use crate::lease::Made;
use crate::operations::ReadTags;

fn caller_with(process: &Process, terms: Terms, policy: Policy) -> Caller {
    let (flights, flight_key) = (process.flights.clone(), FlightKey { policy, ..flight_key("key") });
    Caller { machine: GetOrSet::new(flights, flight_key, 9, terms, 1, process.now), now: process.now }
}

/// A caller that makes a value anew, and has been told to.
fn making(process: &Process, terms: Terms) -> Caller {
    let mut caller = caller_with(process, terms, Policy::default());
    assert_eq!(said(&caller.machine.begin_anew()), "make");
    caller
}

#[test]
fn a_value_is_made_and_set_without_a_question() {
    let mut caller = making(&Process::new(), terms());
    assert_eq!(caller.next(StepOutcome::Value("new")), "set for 90");
    assert_eq!((caller.machine.value(), caller.machine.tags()), (Some(&"new"), None));
    assert_eq!(caller.machine.leave(), None, "it has no lease");
    let mut caller = making(&Process::new(), terms());
    caller.next(StepOutcome::Value("new"));
    assert_eq!(caller.next(StepOutcome::Stored(true)), "return new");
}

#[test]
fn terms_by_which_others_get_the_old_value_do_not_concern_it() {
    let behind = terms().behind("soft_timeout", 0.0, Behind::Can).unwrap();
    let mut caller = making(&Process::new(), behind);
    assert_eq!(caller.next(StepOutcome::Value("new")), "set for 90", "before it returns");
    let mut caller = making(&Process::new(), terms().stale_on_error(3).unwrap());
    assert_eq!(caller.failed("no database"), "raise no database");
    assert_eq!(caller.machine.suppressed(), None);
}

#[test]
fn its_maker_says_how_long_it_is_kept() {
    let stored = |made| {
        let mut caller = making(&Process::new(), terms());
        caller.machine.made_with(made).unwrap();
        caller.next(StepOutcome::Value("new"))
    };
    assert_eq!(stored(Made { ttl: Some(500), stale: Some(5), store: true }), "set for 505");
    assert_eq!(stored(Made { store: false, ..Made::default() }), "return new");
    let spread = terms().jitter(0.5).unwrap();
    let ttls: std::collections::HashSet<_> = (0..50)
        .map(|chance| {
            let mut machine =
                GetOrSet::<Texts>::new(Arc::default(), flight_key("key"), 1, spread, chance, Instant::now());
            machine.begin_anew();
            said(&machine.next(StepOutcome::Value("new"), Instant::now()))
        })
        .collect();
    assert!(ttls.len() > 10, "{ttls:?}");
}

#[test]
fn a_store_that_fails_is_raised_unless_the_policy_forgives_it() {
    for is_outage in [false, true] {
        let mut caller = making(&Process::new(), terms());
        caller.next(StepOutcome::Value("new"));
        assert_eq!(caller.next(StepOutcome::Failed { error: "failed", is_outage }), "raise failed");
    }
    let mut caller = caller_with(&Process::new(), terms(), Policy { miss: true, ..Policy::default() });
    caller.machine.begin_anew();
    caller.next(StepOutcome::Value("new"));
    assert_eq!(caller.next(StepOutcome::Stored(false)), "return new");
}

#[test]
fn others_of_the_process_neither_wait_for_it_nor_keep_it_waiting() {
    let mut process = Process::new();
    let (mut leader, _follower, woken) = process.leader_and_follower();
    leader.found(WON);
    let mut anew = making(&process, terms());
    assert_eq!(process.flights.followers(), [1]);
    anew.next(StepOutcome::Value("new"));
    assert_eq!(anew.next(StepOutcome::Stored(true)), "return new");
    assert!(!woken.0.get(), "the leader goes on");
    assert_eq!(leader.next(StepOutcome::Value("old")), "store at 7 for 90", "under the token that has changed");
    let alone = Process::new();
    let _anew = making(&alone, terms());
    assert_eq!(alone.caller_named(flight_key("key"), 9).begin(), ASK, "nobody follows it, and its maker may ask");
}

#[test]
fn tags_are_read_before_the_value_is_made() {
    const READ: &str = "read tags: Lease { lease: 5, recache: 40 }";
    let asked = |policy| {
        let mut caller = caller_with(&Process::new(), terms(), policy);
        assert_eq!(said(&caller.machine.begin_tagged_anew()), READ);
        caller
    };
    let tags = ReadTags::pretended(b"tags");
    let mut caller = asked(Policy::default());
    let given = FoundTags { given: Some(tags.clone()), ..FoundTags::NONE };
    assert_eq!(caller.found(Found { tags: given, ..FILLING }), "make");
    assert_eq!(caller.next(StepOutcome::Value("new")), "set for 90");
    assert_eq!(caller.machine.tags(), Some(&tags));
    let mut caller = asked(Policy::default());
    assert_eq!(caller.failed("down"), "raise down");
    let mut caller = asked(Policy { miss: true, ..Policy::default() });
    assert_eq!(caller.found(WON), "make", "the policy forgives that they were not read");
    assert_eq!(caller.next(StepOutcome::Value("new")), "return new", "and without them it is not stored");
}

#[test]
fn a_child_that_is_forked_while_it_is_made_leaves_the_store_to_its_parent() {
    let mut child = making(&Process::new(), terms());
    pinyon_net::fork::pretended::fork();
    assert_eq!(child.next(StepOutcome::Value("new")), "return new");
}

#[test]
fn a_caller_that_cannot_read_it_goes_on_as_any_other() {
    let mut caller = making(&Process::new(), terms());
    caller.next(StepOutcome::Value("new"));
    caller.next(StepOutcome::Stored(true));
    assert_eq!(said(&caller.machine.unreadable(caller.now)), ASK);
    assert_eq!(caller.found(Found { finding: Finding::Unreadable, value: None, ..hit("new") }), RENEW);
    assert_eq!(caller.found(WON), "make");
    assert_eq!(caller.next(StepOutcome::Value("newer")), "store at 7 for 90", "under its lease");
}
