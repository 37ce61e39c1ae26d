//! Waiting for a notification.

use pinyon_locks::call::{Call, ScriptAnswer};

use crate::lab::{attempt, is_granted, is_queued, names, woken, Lab, LONG};

#[test]
fn parked_waiters_come_back_when_they_are_notified() {
    let mut lab = Lab::new();
    let park = |who| Call::Park { attempt: attempt(who), names: names("a b"), ttl: LONG };
    let notify = |who, on, most| Call::Notify { attempt: attempt(who), names: names(on), most };
    assert_eq!(lab.call(&park("x")).0, ScriptAnswer::NotHeld);
    for parked in ["x", "y", "z"] {
        assert!(is_granted(&lab.lock(parked, "a b")));
        assert!(is_queued(&lab.call(&park(parked)).0));
        assert!(is_queued(&lab.call(&park(parked)).0), "the same again");
    }
    assert_eq!(lab.holder("a"), "");
    assert_eq!(lab.call(&notify("x2", "a b", 1)).0, ScriptAnswer::NotHeld);
    lab.lock("x2", "a b");
    lab.lock("x3", "a b");
    assert_eq!(lab.call(&notify("x2", "a", 1)).0, ScriptAnswer::Notified { moved: 0 }, "these wait for both");
    assert_eq!(lab.call(&notify("x2", "a b", 1)).0, ScriptAnswer::Notified { moved: 1 });
    assert_eq!(lab.waiting("b"), ["x3", "x"], "it queues up again");
    assert_eq!(lab.poll("y", "a b"), ScriptAnswer::Queued { pttl: None });
    assert_eq!(lab.call(&notify("x2", "a b", 0)).0, ScriptAnswer::Notified { moved: 2 });
    for (holder, next) in [("x2", "x3"), ("x3", "x"), ("x", "y"), ("y", "z")] {
        assert_eq!(lab.unlock(holder, "a b"), [next]);
    }
    lab.unlock("z", "a b");
    lab.assert_nothing_left();
}

#[test]
fn parking_lets_the_next_have_its_turn() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    let (answer, pushes) = lab.call(&Call::Park { attempt: attempt("x"), names: names("a"), ttl: LONG });
    assert!(is_queued(&answer));
    assert_eq!(woken(&pushes), ["y"]);
    lab.unlock("x", "a");
    lab.unlock("y", "a");
    lab.assert_nothing_left();
}

#[test]
fn a_parked_waiter_may_want_its_names_back_by_itself() {
    let mut lab = Lab::new();
    let unpark = |who| Call::Unpark { attempt: attempt(who), names: names("a"), ttl: LONG };
    let park = |who| Call::Park { attempt: attempt(who), names: names("a"), ttl: LONG };
    lab.lock("x", "a");
    lab.call(&park("x"));
    assert!(is_granted(&lab.call(&unpark("x")).0));
    assert!(is_granted(&lab.call(&unpark("x")).0), "the same again");
    lab.call(&park("x"));
    lab.lock("y", "a");
    assert!(is_queued(&lab.call(&unpark("x")).0));
    assert_eq!(lab.unlock("y", "a"), ["x"]);
    lab.unlock("x", "a");
    lab.assert_nothing_left();
}

#[test]
fn a_notification_is_not_lost_on_the_dead() {
    let mut lab = Lab::new();
    for parked in ["x", "y", "z"] {
        lab.lock(parked, "a");
        lab.call(&Call::Park { attempt: attempt(parked), names: names("a"), ttl: LONG });
    }
    lab.disconnect(&"x".into());
    lab.expire_waiter(&attempt("y"));
    lab.lock("z2", "a");
    let notify = Call::Notify { attempt: attempt("z2"), names: names("a"), most: 1 };
    assert_eq!(lab.call(&notify).0, ScriptAnswer::Notified { moved: 1 });
    assert_eq!(lab.unlock("z2", "a"), ["z"]);
    lab.unlock("z", "a");
    lab.assert_nothing_left();
}

#[test]
fn names_that_look_like_two_are_not_taken_for_two() {
    let mut lab = Lab::new();
    lab.lock("x", "a\x01b");
    lab.call(&Call::Park { attempt: attempt("x"), names: names("a\x01b"), ttl: LONG });
    lab.lock("y", "a b");
    let notify = |on| Call::Notify { attempt: attempt("y"), names: names(on), most: 0 };
    assert_eq!(lab.call(&notify("a b")).0, ScriptAnswer::Notified { moved: 0 });
    lab.lock("y", "a\x01b");
    assert_eq!(lab.call(&notify("a\x01b")).0, ScriptAnswer::Notified { moved: 1 });
}
