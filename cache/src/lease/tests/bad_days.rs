//! Makers that fail beside an old value, and what a maker says about storing.

use super::*;
use crate::lease::Made;

const KEEP: Win = Win { cas: 7, keep: true };
const GIVE_BACK_STALE: &str = "give back: GiveBack(Win { cas: 7, keep: true })";

fn keeping() -> Terms {
    terms().stale_on_error(3).unwrap()
}

fn caller_with(terms: Terms, policy: Policy) -> Caller {
    let flight_key = FlightKey { policy, ..flight_key("key") };
    let now = Instant::now();
    let mut caller = Caller { machine: GetOrSet::new(Arc::default(), flight_key, 1, terms, 1, now), now };
    caller.begin();
    caller
}

/// A caller whose maker has failed beside an old value.
fn failed_beside_old(policy: Policy) -> Caller {
    let mut caller = caller_with(keeping(), policy);
    assert_eq!(caller.found(Found { finding: Finding::Won(Some(KEEP)), ..won_beside("old") }), "share");
    assert_eq!(caller.next(StepOutcome::Shared(("leader's", "old"))), "make");
    assert_eq!(caller.failed("no database"), "store at 7 for 43", "it is due in 3 seconds");
    caller
}

/// The stored ttl of a value that was made with this.
fn stored(terms: Terms, made: Made) -> Result<String, String> {
    let mut caller = caller_with(terms, Policy::default());
    caller.found(WON);
    caller.machine.made_with(made).map_err(|refused| refused.message)?;
    Ok(caller.next(StepOutcome::Value("made")))
}

#[test]
fn a_maker_that_fails_beside_an_old_value_has_it_stored_again_and_returned() {
    let mut caller = failed_beside_old(Policy::default());
    assert_eq!(caller.machine.value(), Some(&"old"));
    assert_eq!(caller.next(StepOutcome::Stored(true)), "return old");
    assert_eq!(caller.machine.suppressed(), Some("no database"));
    assert_eq!(caller.machine.suppressed(), None, "it is told once");
    assert_eq!(caller.machine.leave(), None);
}

#[test]
fn the_old_value_is_returned_whatever_comes_of_storing_it_again() {
    let miss = Policy { miss: true, ..Policy::default() };
    for (policy, outcome, gives_back) in [
        (Policy::default(), StepOutcome::Failed { error: "down", is_outage: true }, false),
        (Policy::default(), StepOutcome::Failed { error: "unwritable", is_outage: false }, true),
        (Policy::default(), StepOutcome::Stored(false), false),
        (miss, StepOutcome::Stored(false), true),
    ] {
        let mut caller = failed_beside_old(policy);
        let mut said = caller.next(outcome);
        if gives_back {
            assert_eq!(said, GIVE_BACK_STALE);
            said = caller.next(StepOutcome::Failed { error: "down", is_outage: true });
        }
        assert_eq!(said, "return old");
        assert_eq!(caller.machine.suppressed(), Some("no database"));
    }
}

#[test]
fn without_an_old_value_or_the_terms_for_it_the_error_is_raised() {
    let mut caller = caller_with(keeping(), Policy::default());
    caller.found(WON);
    assert_eq!(caller.failed("no database"), GIVE_BACK);
    assert_eq!(caller.next(StepOutcome::Done), "raise no database");
    assert_eq!(caller.machine.suppressed(), None);
    let mut caller = caller_with(terms(), Policy::default());
    caller.found(won_beside("old"));
    caller.next(StepOutcome::Shared(("leader's", "old")));
    assert_eq!(caller.failed("no database"), GIVE_BACK);
}

#[test]
fn an_old_value_that_the_caller_cannot_read_is_none() {
    let mut caller = caller_with(keeping(), Policy::default());
    assert_eq!(caller.found(UNREADABLE), RENEW);
    assert_eq!(caller.found(won_beside("unreadable")), "share");
    assert_eq!(caller.next(StepOutcome::Shared(("leader's", "unreadable"))), "make");
    assert_eq!(caller.failed("no database"), GIVE_BACK);
    assert_eq!(caller.next(StepOutcome::Done), "raise no database");
}

#[test]
fn a_child_that_was_forked_while_the_value_was_made_returns_the_old_one_and_stores_nothing() {
    let mut caller = caller_with(keeping(), Policy::default());
    caller.found(won_beside("old"));
    caller.next(StepOutcome::Shared(("leader's", "old")));
    pinyon_net::fork::pretended::fork();
    assert_eq!(caller.failed("no database"), "return old");
}

#[test]
fn a_caller_that_leaves_while_it_stores_the_old_value_gives_back() {
    assert_eq!(failed_beside_old(Policy::default()).machine.leave(), Some(KEEP));
}

#[test]
fn a_maker_may_say_how_long_its_value_is_kept() {
    let all = Made::default();
    for (made, expected) in [
        (all, "store at 7 for 90"),
        (Made { ttl: Some(20), ..all }, "store at 7 for 50"),
        (Made { ttl: Some(0), ..all }, "store at 7 for 0"),
        (Made { stale: Some(5), ..all }, "store at 7 for 65"),
        (Made { ttl: Some(41), stale: Some(0), ..all }, "store at 7 for 41"),
        (Made { store: false, ..all }, GIVE_BACK),
    ] {
        assert_eq!(stored(terms(), made).as_deref(), Ok(expected), "{made:?}");
    }
    let by_value = Terms::new(None, 30, 10, 5, None).unwrap();
    assert_eq!(stored(by_value, Made { ttl: Some(60), ..all }).as_deref(), Ok("store at 7 for 90"));
    assert_eq!(stored(by_value, Made { store: false, ..all }).as_deref(), Ok(GIVE_BACK));
}

#[test]
fn what_a_maker_says_and_makes_no_sense_is_refused() {
    let all = Made::default();
    for (made, why) in [
        (Made { ttl: Some(-1), ..all }, "ttl must be positive"),
        (Made { stale: Some(-1), ..all }, "stale must be from 0 to 30 days"),
        (Made { stale: Some(31), ..all }, "31 seconds, must be at most that of the call, 30"),
        (Made { ttl: Some(10), ..all }, "must be more than stale and early of the call, 40 seconds together"),
        (Made { ttl: Some(40), stale: Some(0), ..all }, "must be more than stale and early of the call"),
        (Made { ttl: Some(0), stale: Some(5), ..all }, "with a ttl of 0 there is none"),
    ] {
        let refused = stored(terms(), made).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let refused = stored(Terms::new(None, 0, 0, 5, None).unwrap(), all).unwrap_err();
    assert!(refused.contains("the call has no ttl"), "{refused}");
}

#[test]
fn a_value_that_is_not_stored_is_returned_and_the_next_caller_makes_another() {
    let mut caller = caller_with(terms(), Policy::default());
    caller.found(WON);
    caller.machine.made_with(Made { store: false, ..Made::default() }).unwrap();
    assert_eq!(caller.next(StepOutcome::Value("made")), GIVE_BACK);
    assert_eq!(caller.next(StepOutcome::Done), "return made");
}

#[test]
fn jitter_takes_up_to_its_share_off_the_ttl() {
    let spread = |ttl: i64, share: f64| -> Vec<i64> {
        let terms = Terms::new(ttl, 0, 0, 5, None).and_then(|terms| terms.jitter(share)).unwrap();
        (0..1000).map(|chance| terms.ttl_of_item(chance).unwrap()).collect()
    };
    let ttls = spread(1000, 0.1);
    assert!(ttls.iter().all(|ttl| (900..=1000).contains(ttl)), "{ttls:?}");
    assert!(ttls.iter().any(|ttl| *ttl < 910) && ttls.iter().any(|ttl| *ttl > 990), "{ttls:?}");
    assert!(spread(1000, 0.0).iter().all(|ttl| *ttl == 1000));
    assert!(spread(0, 0.9).iter().all(|ttl| *ttl == 0), "what never expires stays so");
    assert!(spread(1, 0.9).iter().all(|ttl| *ttl == 1), "0 would never expire");
    assert!(spread(i64::MAX, 0.5).iter().all(|ttl| *ttl > i64::MAX / 3));
    let early = terms().jitter(0.99).unwrap();
    assert!((0..1000).all(|chance| (41..=90).contains(&early.ttl_of_item(chance).unwrap())), "it is never due at once");
    for share in [-0.1, 1.0, f64::NAN] {
        assert!(terms().jitter(share).unwrap_err().message.contains("jitter must be a share of ttl"), "{share}");
    }
}

#[test]
fn keeping_old_values_needs_some() {
    let refused = Terms::new(60, 0, 0, 5, None).unwrap().stale_on_error(5).unwrap_err();
    assert!(refused.message.contains("needs stale"), "{refused:?}");
    assert!(Terms::new(60, 0, 5, 5, None).unwrap().stale_on_error(5).is_ok());
    assert!(terms().stale_on_error(0).unwrap_err().message.contains("retry_after must be positive"));
}
