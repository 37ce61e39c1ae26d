//! The order of waiters.

use std::time::Duration;

use pinyon_locks::call::{Call, Pushed, Said, ScriptAnswer};

use crate::lab::{attempt, is_granted, is_queued, lock, names, outlast_short, token, who, woken, Lab, LONG, SHORT};

#[test]
fn the_answer_to_whoever_does_not_wait_says_why_the_name_is_taken() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    let remark = Call::Remark { attempt: attempt("x"), remark: Some("nightly".into()), ttl: LONG };
    let all_say = |lab: &mut Lab, expected: Said| {
        for answer in lab.call_servers(&lock("y", "a", false, false)).0 {
            let Ok(ScriptAnswer::Busy { first: Some(first), .. }) = answer else { panic!("{answer:?}") };
            assert_eq!(first.said, expected);
        }
    };
    all_say(&mut lab, Said::Nothing);
    lab.call(&remark);
    all_say(&mut lab, Said::Remark("nightly".into()));
}

#[test]
fn a_lock_takes_all_names_or_none() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "a b"));
    let ScriptAnswer::Busy { pttl: Some(pttl), first: Some(in_the_way) } = lab.try_lock("y", "b c") else {
        panic!("not busy")
    };
    let holder = in_the_way.holder;
    assert_eq!((who(&holder.attempt).as_str(), holder.token), ("x", Some(first)));
    assert!(pttl <= LONG && pttl > LONG / 2);
    assert_eq!(lab.holder("c"), "");
    assert!(token(lab.try_lock("z", "c d")) > first);
    lab.unlock("x", "a b");
    lab.unlock("z", "c d");
    lab.assert_nothing_left();
}

#[test]
fn waiters_have_their_turn_in_order_and_nobody_overtakes() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    for waiter in ["z", "y", "x2", "x3"] {
        assert!(is_queued(&lab.lock(waiter, "a")));
    }
    assert_eq!(lab.waiting("a"), ["z", "y", "x2", "x3"]);
    for (holder, next) in [("x", "z"), ("z", "y"), ("y", "x2"), ("x2", "x3")] {
        assert_eq!(lab.unlock(holder, "a"), [next]);
        assert_eq!(lab.holder("a"), next);
    }
    assert!(lab.unlock("x3", "a").is_empty());
    lab.assert_nothing_left();
}

#[test]
fn only_a_waiter_whose_whole_set_is_free_is_woken() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("x2", "b");
    lab.lock("y", "a b");
    assert!(lab.unlock("x", "a").is_empty());
    assert_eq!(lab.holder("a"), "");
    assert_eq!(lab.unlock("x2", "b"), ["y"]);
    assert_eq!((lab.holder("a"), lab.holder("b")), ("y".into(), "y".into()));
}

#[test]
fn a_waiter_for_one_name_is_woken_though_another_waits_for_that_and_more() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("x2", "b");
    lab.lock("y", "a");
    lab.lock("z", "a b");
    assert_eq!(lab.unlock("x", "a"), ["y"]);
    assert!(lab.unlock("y", "a").is_empty());
    assert_eq!(lab.unlock("x2", "b"), ["z"]);
}

#[test]
fn behind_a_waiter_for_more_it_has_its_turn_when_that_is_through_or_gone() {
    let mut lab = Lab::new();
    for leaves in ["takes its turn", "gives up", "dies", "expires"] {
        lab.lock("x", "a");
        lab.lock("x2", "b");
        lab.lock("z", "a b");
        lab.lock("y", "a");
        assert!(lab.unlock("x", "a").is_empty(), "a is z's next");
        let woken = match leaves {
            "takes its turn" => {
                assert_eq!(lab.unlock("x2", "b"), ["z"]);
                lab.unlock("z", "a b")
            }
            "gives up" => lab.unlock("z", "a b"),
            "dies" => {
                lab.disconnect(&"z".into());
                lab.unlock("x2", "b")
            }
            _ => {
                lab.expire_waiter(&attempt("z"));
                assert!(is_granted(&lab.poll("y", "a")));
                vec!["y".into()]
            }
        };
        assert_eq!(woken, ["y"], "{leaves}");
        lab.unlock("y", "a");
        lab.unlock("x2", "b");
        lab.connect(&"z".into());
        lab.assert_nothing_left();
    }
}

#[test]
fn where_throughput_goes_before_order_it_does_not_wait_for_that() {
    let mut lab = Lab::new();
    lab.throughput = true;
    lab.lock("x", "a");
    lab.lock("x2", "b");
    lab.lock("z", "a b");
    lab.lock("y", "a");
    assert_eq!(lab.unlock("x", "a"), ["y"]);
    lab.unlock("y", "a");
    assert!(is_granted(&lab.try_lock("x3", "a")), "newcomers take what is free");
    assert!(lab.unlock("x2", "b").is_empty());
    assert_eq!(lab.unlock("x3", "a"), ["z"]);
}

#[test]
fn the_first_sixteen_are_looked_at_where_throughput_goes_before_order() {
    let mut lab = Lab::new();
    lab.throughput = true;
    lab.lock("x", "a");
    lab.lock("x2", "b");
    for number in 1..=16 {
        lab.lock(&format!("z.{number}"), "a b");
    }
    lab.lock("y", "a");
    assert!(lab.unlock("x", "a").is_empty());
    assert!(is_granted(&lab.poll("y", "a")), "its poll looks at itself");
}

#[test]
fn a_name_that_is_free_but_for_its_queue_is_not_for_newcomers() {
    let mut lab = Lab::new();
    lab.lock("x", "b");
    lab.lock("y", "a b");
    assert_eq!(lab.try_lock("z", "a"), ScriptAnswer::busy(None, None));
    assert_eq!(lab.lock("z", "a"), ScriptAnswer::Queued { pttl: None });
    assert_eq!(lab.waiting("a"), ["y", "z"]);
}

#[test]
fn a_newcomer_lets_those_go_first_whose_turn_has_come() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    lab.delete(&names("a")[0]);
    let (answer, pushes) = lab.call(&lock("z", "a", true, false));
    assert!(is_queued(&answer));
    assert_eq!(woken(&pushes), ["y"]);
    lab.disconnect(&"z".into());
    lab.delete(&names("a")[0]);
    assert!(is_granted(&lab.lock("x2", "a")), "z has gone");
}

#[test]
fn a_waiter_whose_client_has_gone_is_passed_over_and_so_is_what_it_blocked() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a b");
    lab.lock("z", "b");
    lab.lock("z2", "a");
    lab.disconnect(&"y".into());
    assert_eq!(lab.unlock("x", "a"), ["z2", "z"]);
    assert_eq!(lab.poll("y", "a b"), ScriptAnswer::Unknown);
    lab.unlock("z", "b");
    lab.unlock("z2", "a");
    lab.assert_nothing_left();
}

#[test]
fn an_expired_waiter_is_passed_over() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.waiter_ttl = SHORT;
    lab.lock("y", "a");
    lab.waiter_ttl = LONG;
    lab.lock("z", "a");
    assert_eq!(lab.waiting("a"), ["y", "z"]);
    outlast_short();
    assert_eq!(lab.waiting("a"), ["z"]);
    assert_eq!(lab.unlock("x", "a"), ["z"]);
    assert_eq!(lab.poll("y", "a"), ScriptAnswer::Unknown);
}

#[test]
fn a_poll_keeps_a_waiter_alive_and_grants_what_has_expired() {
    let mut lab = Lab::new();
    lab.lock("y", "b");
    lab.call(&Call::Lock { attempt: attempt("x"), names: names("a"), ttl: SHORT, wait: true, nested: false });
    lab.waiter_ttl = SHORT;
    lab.lock("y2", "a");
    lab.waiter_ttl = LONG;
    assert!(is_queued(&lab.poll("y2", "a")));
    outlast_short();
    assert!(is_granted(&lab.poll("y2", "a")));
    assert_eq!(lab.unlock("x", "a"), Vec::<String>::new());
    assert_eq!(lab.holder("a"), "y2");
}

#[test]
fn waiters_are_told_when_the_next_lock_ends_earlier_than_the_one_they_have_seen() {
    let lock = |who: &str, on: &str, ttl: Duration| Call::Lock {
        attempt: attempt(who),
        names: names(on),
        ttl,
        wait: true,
        nested: false,
    };
    for (on, told) in [("a", true), ("b c", true), ("d", false)] {
        let mut lab = Lab::new();
        lab.call(&lock("x", on, LONG));
        lab.call(&lock("y", on, if told { SHORT } else { LONG }));
        lab.call(&lock("z", on, LONG));
        let unlock = Call::Unlock { attempt: attempt("x"), names: names(on), tombstone: false, rest: None };
        let (_, pushes) = lab.call_servers(&unlock);
        for pushes in pushes {
            let looks = |push: &Pushed| matches!(push, Pushed::Look { attempt: of } if *of == attempt("z"));
            assert_eq!(pushes.iter().any(looks), told, "{on}: {pushes:?}");
        }
    }
}
