//! Owners that hold locks and ask for more.

use pinyon_locks::call::ScriptAnswer;

use crate::lab::{attempt, is_granted, is_queued, who, Lab};

#[test]
fn nested_attempts_overtake() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("z", "c");
    lab.lock("y", "a b");
    assert!(is_granted(&lab.nested("z.2", "b")), "free, though y waits for it");
    lab.nested("z.3", "a");
    lab.nested("z2", "a");
    assert_eq!(lab.waiting("a"), ["z.3", "z2", "y"]);
    assert_eq!(lab.unlock("x", "a"), ["z.3"]);
    assert_eq!(lab.unlock("z.3", "a"), ["z2"]);
    assert!(lab.unlock("z.2", "b").is_empty());
    assert_eq!(lab.unlock("z2", "a"), ["y"]);
}

#[test]
fn of_nested_waiters_the_first_that_fits_is_next_and_plain_ones_wait_for_them_all() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("x2", "b");
    lab.nested("y", "a b");
    lab.nested("y2", "a");
    lab.lock("z", "a");
    assert_eq!(lab.unlock("x", "a"), ["y2"]);
    assert!(lab.unlock("y2", "a").is_empty(), "y waits before z");
    assert_eq!(lab.unlock("x2", "b"), ["y"]);
    assert_eq!(lab.unlock("y", "a b"), ["z"]);
}

#[test]
fn a_nested_waiter_behind_more_than_are_looked_at_is_found_by_its_own_poll() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("x2", "b");
    for number in 1..=64 {
        lab.nested(&format!("y{number}"), "a b");
    }
    lab.nested("z", "a");
    assert!(lab.unlock("x", "a").is_empty());
    assert!(is_granted(&lab.poll("z", "a")));
}

#[test]
fn a_cycle_of_owners_that_wait_for_each_other_is_told() {
    let mut lab = Lab::new();
    let cycle = |answer: ScriptAnswer| match answer {
        ScriptAnswer::Deadlock { cycle } => cycle.iter().map(who).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for (owner, name) in [("x", "a"), ("y", "b"), ("z", "c")] {
        lab.lock(owner, name);
    }
    assert_eq!(cycle(lab.nested("x.2", "a")), ["x"], "of one");
    assert!(is_queued(&lab.nested("x.2", "b")));
    assert_eq!(cycle(lab.nested("y.2", "a")), ["x", "y"], "of two");
    assert!(is_queued(&lab.nested("y.2", "c")));
    assert_eq!(cycle(lab.nested("z.2", "a d")), ["x", "y", "z"], "of three");
    assert_eq!(lab.waiting("d"), Vec::<String>::new());
    assert!(is_queued(&lab.lock("x2", "a")), "another owner of x's client is not in it");
    assert_eq!(lab.unlock("z", "c"), ["y.2"]);
    assert_eq!(lab.unlock("y.2", "c"), Vec::<String>::new());
    assert_eq!(lab.unlock("y", "b"), ["x.2"]);
}

#[test]
fn who_has_stopped_waiting_is_not_in_a_cycle_until_it_asks_again() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "b");
    lab.nested("x.2", "b");
    lab.unlock("x.2", "b");
    assert!(is_queued(&lab.nested("y.2", "a")));
    lab.unlock("y.2", "a");
    lab.nested("x.3", "b");
    lab.expire_waiter(&attempt("x.3"));
    assert!(is_queued(&lab.nested("y.3", "a")));
    assert!(matches!(lab.poll("x.3", "b"), ScriptAnswer::Deadlock { cycle } if cycle.len() == 2));
    assert_eq!(lab.waiting("b"), Vec::<String>::new());
    assert_eq!(lab.unlock("x", "a"), ["y.3"]);
}
