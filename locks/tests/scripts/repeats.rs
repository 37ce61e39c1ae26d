//! Calls that are sent twice, arrive late or are lost, and locks that are taken away.

use std::time::Duration;

use pinyon_locks::call::{Attempt, Call, FirstHolder, Holder, Pushed, Said, ScriptAnswer};
use pinyon_locks::keys::LockKeys;
use pinyon_locks::script;
use pinyon_proto::resp::{Command, Value};

use crate::lab::{attempt, bytes, is_queued, lock, names, outlast_short, token, who, woken, Lab, LONG, SHORT};

#[test]
fn a_lock_exists_for_its_whole_ttl_whatever_a_client_s_clock_says() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    lab.unlock("x", "a");
    for pttl in lab.each(|keys| keys.lock(b"a"), b"PTTL", &[]) {
        let Value::Integer(pttl) = pttl else { panic!("{pttl:?}") };
        assert!((90_000..=100_000).contains(&pttl), "{pttl}");
    }
    // None of the sent bytes depend on a clock.
    let sent = |lab: &mut Lab| {
        let mut command = Command::default();
        let world = &lab.worlds[0];
        let call = lock("x", "a", true, false);
        script::encode(&call, &world.keys, LONG, false, &world.via, &mut command);
        command
    };
    let before = sent(&mut lab);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(sent(&mut lab), before);
}

#[test]
fn a_call_that_is_sent_again_changes_nothing() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "a b"));
    assert_eq!(token(lab.lock("x", "a b")), first);
    assert_eq!(token(lab.poll("x", "a b")), first);
    lab.lock("y", "a");
    lab.lock("z", "a");
    let records = |lab: &mut Lab| lab.each(|keys| keys.waiters(), b"HGET", &[b"y:0:1"]);
    let before: Vec<_> = records(&mut lab).into_iter().map(|record| bytes(record).unwrap()).collect();
    assert!(is_queued(&lab.lock("y", "a")));
    let after = records(&mut lab).into_iter().map(|record| bytes(record).unwrap());
    for (before, after) in before.iter().zip(after) {
        assert_eq!(before[16..], after[16..], "the same ticket");
    }
    assert_eq!(lab.waiting("a"), ["y", "z"]);
    assert_eq!(lab.unlock("x", "a b"), ["y"]);
    assert!(lab.unlock("x", "a b").is_empty());
    assert_eq!(lab.holder("a"), "y");
}

#[test]
fn a_cancelled_attempt_is_not_granted_when_it_arrives_late() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    for who in ["y", "z"] {
        lab.call(&Call::Unlock { attempt: attempt(who), names: names("a"), tombstone: true, rest: None });
        assert_eq!(lab.lock(who, "a"), ScriptAnswer::Cancelled);
        assert_eq!(lab.poll(who, "a"), ScriptAnswer::Cancelled);
    }
    assert!(lab.unlock("x", "a").is_empty());
    assert_eq!(lab.lock("y", "a"), ScriptAnswer::Cancelled, "though it is free");
    for pttl in lab.each(|keys| keys.tombstone(&attempt("y")), b"PTTL", &[]) {
        assert!(matches!(pttl, Value::Integer(50_000..=60_000)), "{pttl:?}");
    }
}

#[test]
fn a_cancelled_adoption_takes_nothing_when_it_arrives_late() {
    let mut lab = Lab::new();
    lab.lock("x", "a b");
    lab.call(&Call::Unlock { attempt: attempt("y"), names: names("a b"), tombstone: true, rest: None });
    let from = attempt("x").into();
    let late = Call::Adopt { attempt: attempt("y"), names: names("a b"), ttl: LONG, from };
    assert_eq!(lab.call(&late).0, ScriptAnswer::Cancelled);
    assert_eq!((lab.holder("a"), lab.holder("b")), ("x".into(), "x".into()));
}

#[test]
fn a_lock_whose_names_stay_locked_is_not_granted_when_it_arrives_late() {
    let mut lab = Lab::new();
    lab.lock("x2", "a");
    let rest = Some(LONG);
    lab.call(&Call::Unlock { attempt: attempt("x2"), names: names("a"), tombstone: true, rest });
    assert_eq!(lab.lock("x2", "a"), ScriptAnswer::Cancelled, "it does not wait for them");
    lab.call(&Call::ForceRelease { names: names("a"), token: None });
    assert_eq!(lab.lock("x2", "a"), ScriptAnswer::Cancelled, "though they are free");
}

#[test]
fn a_forced_release_is_told_to_the_holder_and_lets_the_next_have_its_turn() {
    let mut lab = Lab::new();
    let force = |on, token| Call::ForceRelease { names: names(on), token };
    let first = token(lab.lock("x", "a b"));
    lab.lock("y", "b");
    assert_eq!(lab.call(&force("a b", Some(first + 1))), (ScriptAnswer::ForceReleased { released: 0 }, Vec::new()));
    let (answer, pushes) = lab.call(&force("a b c", Some(first)));
    assert_eq!(answer, ScriptAnswer::ForceReleased { released: 2 });
    assert_eq!(pushes[0], Pushed::ForceReleased { attempt: attempt("x") });
    assert_eq!(woken(&pushes), ["y"]);
    assert_eq!(lab.call(&force("b", None)).0, ScriptAnswer::ForceReleased { released: 1 });
    lab.assert_nothing_left();
}

#[test]
fn what_is_extended_is_all_of_an_attempt_s_names_or_nothing() {
    let mut lab = Lab::new();
    for (who, on) in [("x", "a b"), ("y", "c d")] {
        lab.call(&Call::Lock { attempt: attempt(who), names: names(on), ttl: SHORT, wait: true, nested: false });
    }
    lab.delete(&names("c")[0]);
    let held = [("x", "a b"), ("y", "c d"), ("z", "e")].map(|(who, on)| (attempt(who), names(on), LONG));
    assert_eq!(lab.call(&Call::Extend { held: held.into() }).0, ScriptAnswer::Extended(vec![true, false, false]));
    outlast_short();
    assert_eq!((lab.holder("b"), lab.holder("d")), ("x".into(), String::new()));
}

#[test]
fn what_is_left_of_a_lock_makes_room_when_it_is_sent_again() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "a b"));
    lab.lock("y", "a");
    lab.delete(&names("b")[0]);
    let (answer, pushes) = lab.call(&lock("x", "a b", true, false));
    assert!(is_queued(&answer));
    assert_eq!(woken(&pushes), ["y"]);
    assert_eq!(lab.unlock("y", "a"), ["x"]);
    lab.delete(&names("b")[0]);
    assert!(token(lab.lock("x", "a b")) > first);
    assert_eq!(lab.holder("a"), "x");
}

#[test]
fn a_lost_queue_is_made_again_in_the_same_order_and_lost_waiters_are_told() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a b");
    lab.lock("z", "a");
    lab.delete_queue();
    assert!(is_queued(&lab.poll("z", "a")));
    assert!(is_queued(&lab.poll("y", "a b")));
    assert_eq!(lab.waiting("a"), ["y", "z"]);
    lab.delete_waiters();
    assert_eq!(lab.poll("y", "a b"), ScriptAnswer::Unknown);
    assert!(is_queued(&lab.lock("z", "a")), "in a new place");
    assert_eq!(lab.unlock("x", "a"), ["z"]);
}

#[test]
fn locks_of_the_pure_handler_are_seen_and_its_waiters_hear_what_is_free() {
    let mut lab = Lab::new();
    lab.connect(&"p".into());
    assert!(lab.set_nx(&names("a")[0], &attempt("p"), LONG));
    let ScriptAnswer::Busy { first: Some(first), .. } = lab.try_lock("x", "a") else { panic!("not busy") };
    let holder = first.holder;
    assert_eq!((who(&holder.attempt).as_str(), holder.token), ("p", None));
    lab.lock("y", "a");
    assert_eq!(lab.unlock("p", "a"), ["y"]);
    lab.lock("x", "b c");
    lab.lock("z", "b");
    lab.pure_waits();
    let unlock = |who, on| Call::Unlock { attempt: attempt(who), names: names(on), tombstone: false, rest: None };
    let (_, pushes) = lab.call(&unlock("x", "b c"));
    assert_eq!(woken(&pushes), ["z"]);
    assert_eq!(pushes[1..], [Pushed::Freed { names: vec![b"c"[..].into()] }], "b is z's");
    let (_, pushes) = lab.call(&unlock("y", "a"));
    assert_eq!(pushes, [Pushed::Freed { names: vec![b"a"[..].into()] }]);
}

#[test]
fn when_everything_is_lost_tokens_go_on_from_the_clock() {
    let mut lab = Lab::new();
    let floor = |lab: &Lab| u64::try_from(lab.now().as_millis()).unwrap() * 4096;
    let servers = |lab: &mut Lab, call: &Call| -> Vec<u64> {
        let answers = lab.call_servers(call).0.into_iter();
        let number = |answer| match answer {
            ScriptAnswer::Opened { counter: number } | ScriptAnswer::Granted { token: number } => number,
            other => panic!("{other:?}"),
        };
        answers.map(|answer| number(answer.unwrap())).collect()
    };
    let near = |lab: &Lab, number: u64| assert!(number.abs_diff(floor(lab)) < 5000 * 4096, "{number}");
    lab.flush();
    lab.connect(&"x".into());
    for opened in servers(&mut lab, &Call::Open { seen: 0 }) {
        near(&lab, opened);
    }
    let before = servers(&mut lab, &lock("x", "a", true, false));
    lab.flush();
    std::thread::sleep(Duration::from_millis(2));
    let after = servers(&mut lab, &lock("x", "a", true, false));
    for (before, after) in before.iter().zip(&after) {
        assert!(after > before);
        near(&lab, *after);
    }
    for (after, next) in after.iter().zip(servers(&mut lab, &lock("x2", "b", true, false))) {
        assert_eq!(next, after + 1, "only what is missing is made up for");
    }
    lab.flush();
    for queued in lab.call_servers(&Call::Poll { attempt: attempt("x"), names: names("a"), ttl: LONG, nested: false }).0
    {
        assert_eq!(queued, Ok(ScriptAnswer::Unknown));
    }
}

#[test]
fn what_the_dead_leave_behind_goes_while_others_wait_for_other_names() {
    let mut lab = Lab::new();
    for number in 1..=10 {
        let name = format!("gone-{number}");
        lab.lock(&format!("x.{number}"), &name);
        lab.lock(&format!("y.{number}"), &name);
        lab.expire_waiter(&attempt(&format!("y.{number}")));
    }
    lab.lock("x2.100", "p");
    lab.call(&Call::Park { attempt: attempt("x2.100"), names: names("p"), ttl: LONG });
    lab.expire_waiter(&attempt("x2.100"));
    lab.lock("z", "a");
    for number in 1..400 {
        let waiter = format!("z2.{number}");
        lab.lock(&waiter, "a");
        lab.unlock(&waiter, "a");
    }
    lab.unlock("z", "a");
    for number in 1..=10 {
        lab.delete(&names(&format!("gone-{number}"))[0]);
    }
    lab.assert_nothing_left();
}

#[test]
fn a_waiter_with_a_short_life_does_not_shorten_that_of_others() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    lab.waiter_ttl = Duration::from_millis(10);
    lab.lock("z", "a");
    for key in [LockKeys::queue, LockKeys::waiters] {
        for pttl in lab.each(key, b"PTTL", &[]) {
            assert!(matches!(pttl, Value::Integer(190_000..=200_000)), "{pttl:?}");
        }
    }
}

fn foreign(value: Option<&str>) -> Holder {
    Holder { attempt: Attempt::foreign(value.map(str::as_bytes)), token: None }
}

#[test]
fn a_value_of_somebody_else_s_is_respected_and_shown() {
    for (command, value) in [("SET", Some("do not touch")), ("LPUSH", None), ("SADD", None)] {
        let mut lab = Lab::new();
        lab.connect(&"x".into());
        lab.each(|keys| keys.lock(b"a"), command.as_bytes(), &[b"do not touch"]);
        for answer in lab.call_servers(&lock("x", "a", false, true)).0 {
            let holder = foreign(value);
            let said = if value.is_some() { Said::Nothing } else { Said::Untold };
            let first = Some(FirstHolder { holder, age: None, said }.into());
            assert_eq!(answer, Ok(ScriptAnswer::Busy { pttl: None, first }), "{command}");
        }
        for answer in lab.call_servers(&lock("x", "a", true, true)).0 {
            assert_eq!(answer, Ok(ScriptAnswer::Queued { pttl: None }), "{command}");
        }
        for answer in lab.call_servers(&Call::Inspect { names: names("a b"), remarks: false }).0 {
            let Ok(ScriptAnswer::Inspected(each)) = answer else { panic!("{answer:?}") };
            assert_eq!([&each[0].holder, &each[1].holder], [&Some(foreign(value)), &None], "{command}");
        }
        lab.connect(&"y".into());
        lab.call_servers(&lock("y", "a", true, false));
        let leave = Call::Unlock { attempt: attempt("y"), names: names("a"), tombstone: false, rest: None };
        assert!(lab.call_servers(&leave).0.iter().all(|left| *left == Ok(ScriptAnswer::Released { released: 0 })));
        let force = Call::ForceRelease { names: names("a"), token: None };
        let (answers, pushes) = lab.call_servers(&force);
        assert_eq!(answers, vec![Ok(ScriptAnswer::ForceReleased { released: 1 }); lab.worlds.len()]);
        assert_eq!(woken(&pushes[0]), ["x"]);
    }
}

#[test]
fn a_value_of_somebody_else_s_may_have_words_and_a_ttl() {
    let mut lab = Lab::new();
    lab.each(|keys| keys.lock(b"a"), b"SET", &[b"closed until noon", b"EX", b"100"]);
    for answer in lab.call_servers(&Call::Inspect { names: names("a"), remarks: false }).0 {
        let Ok(ScriptAnswer::Inspected(each)) = answer else { panic!("{answer:?}") };
        assert_eq!((&each[0].holder, each[0].age), (&Some(foreign(Some("closed until noon"))), None));
    }
    assert!(lab.call_servers(&lock("x", "a", false, false)).0.iter().all(Result::is_ok));
}
