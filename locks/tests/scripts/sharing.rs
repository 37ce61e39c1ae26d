//! Names that several locks have at once: readers, and pools of permits.

use pinyon_locks::call::{Call, Pushed, ScriptAnswer};
use pinyon_locks::keys::LockKeys;
use pinyon_proto::resp::Value;

use crate::lab::{attempt, is_granted, is_queued, names, outlast_short, token, woken, Lab, LONG, SHORT};

fn busy(answer: &ScriptAnswer) -> bool {
    matches!(answer, ScriptAnswer::Busy { .. })
}

fn short(who: &str, on: &str) -> Call {
    Call::Lock { attempt: attempt(who), names: names(on), ttl: SHORT, wait: true, nested: false }
}

fn unlock(who: &str, on: &str, tombstone: bool) -> Call {
    Call::Unlock { attempt: attempt(who), names: names(on), tombstone, rest: None }
}

/// How many parts the key has, with those that are over.
fn parts(lab: &mut Lab, name: &str) -> Vec<Value> {
    let name = &names(name)[0];
    lab.each(|keys| keys.lock(name), b"ZCARD", &[])
}

#[test]
fn readers_read_together_and_a_writer_is_alone() {
    let mut lab = Lab::new();
    for reader in ["x", "y", "z"] {
        assert!(is_granted(&lab.lock(reader, "r:a")), "{reader}");
    }
    assert!(busy(&lab.try_lock("x.9", "a")), "they keep a writer out");
    assert!(is_queued(&lab.lock("x2", "a")));
    assert_eq!(lab.unlock("x", "r:a"), [] as [&str; 0]);
    assert_eq!(lab.unlock("y", "r:a"), [] as [&str; 0]);
    assert_eq!(lab.unlock("z", "r:a"), ["x2"], "the last of them lets it in");
    assert!(busy(&lab.try_lock("y", "r:a")), "and it keeps them out");
    lab.unlock("x2", "a");
    lab.assert_nothing_left();
}

#[test]
fn who_comes_first_goes_first_and_readers_side_by_side_together() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    for (who, on) in [("y", "r:a"), ("z", "r:a"), ("x2", "a"), ("y2", "r:a"), ("z2", "r:a")] {
        assert!(is_queued(&lab.lock(who, on)), "{who}");
    }
    assert_eq!(lab.unlock("x", "a"), ["y", "z"]);
    assert!(busy(&lab.try_lock("x3", "r:a")), "a writer that waits keeps later readers back");
    assert_eq!(lab.unlock("y", "r:a"), [] as [&str; 0]);
    assert_eq!(lab.unlock("z", "r:a"), ["x2"]);
    assert_eq!(lab.unlock("x2", "a"), ["y2", "z2"]);
    lab.unlock("y2", "r:a");
    lab.unlock("z2", "r:a");
    lab.assert_nothing_left();
}

#[test]
fn more_readers_than_one_look_sees_are_granted_together() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    let readers: Vec<String> = (1..=70).map(|owner| format!("y{owner}")).collect();
    for reader in &readers {
        assert!(is_queued(&lab.lock(reader, "r:a")));
    }
    assert_eq!(lab.unlock("x", "a").len(), readers.len());
    for reader in &readers {
        lab.unlock(reader, "r:a");
    }
    lab.assert_nothing_left();
}

#[test]
fn a_reader_that_waits_for_another_name_lets_readers_pass_but_no_writer() {
    let mut lab = Lab::new();
    lab.lock("x", "b");
    lab.lock("y", "a");
    assert!(is_queued(&lab.lock("z", "b r:a")));
    assert!(is_queued(&lab.lock("z2", "r:a")));
    assert!(is_queued(&lab.lock("z3", "a")));
    assert_eq!(lab.unlock("y", "a"), ["z2"]);
    assert!(is_queued(&lab.poll("z3", "a")));
    assert_eq!(lab.unlock("x", "b"), ["z"], "it reads beside the other");
    lab.unlock("z2", "r:a");
    assert_eq!(lab.unlock("z", "b r:a"), ["z3"]);
    lab.unlock("z3", "a");
    lab.assert_nothing_left();
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "a");
    assert!(is_queued(&lab.lock("z", "r:a")));
    assert_eq!(lab.unlock("y", "a"), ["z"]);
    for reader in ["x", "z"] {
        lab.unlock(reader, "r:a");
    }
    lab.assert_nothing_left();
}

#[test]
fn a_writer_s_token_is_higher_than_all_before_and_readers_have_the_writer_s() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "a"));
    lab.unlock("x", "a");
    let readers = ["y", "z"].map(|reader| token(lab.lock(reader, "r:a")));
    assert_eq!(readers, [first, first]);
    lab.unlock("y", "r:a");
    lab.unlock("z", "r:a");
    assert!(token(lab.lock("x.2", "a r:b")) > first);
}

#[test]
fn a_dead_reader_s_part_ends_with_its_ttl_and_the_others_stay() {
    let mut lab = Lab::new();
    assert!(is_granted(&lab.call(&short("x", "r:a")).0));
    lab.lock("y", "r:a");
    outlast_short();
    assert_eq!(
        lab.call(&Call::Extend { held: vec![(attempt("x"), names("r:a"), LONG)] }).0,
        ScriptAnswer::Extended(vec![false])
    );
    assert!(is_queued(&lab.lock("z", "a")));
    assert_eq!(lab.unlock("y", "r:a"), ["z"]);
    lab.unlock("z", "a");
    lab.assert_nothing_left();
}

#[test]
fn a_key_ends_with_the_last_of_its_readers() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.call(&short("y", "r:a"));
    lab.unlock("x", "r:a");
    assert!(busy(&lab.try_lock("z", "a")));
    outlast_short();
    assert!(is_granted(&lab.try_lock("z", "a")), "the reader with the long ttl has gone");
}

#[test]
fn a_reader_with_a_long_ttl_keeps_the_key_and_one_with_a_short_ttl_does_not_end_it() {
    let mut lab = Lab::new();
    lab.call(&short("x", "r:a"));
    lab.lock("y", "r:a");
    lab.lock("y", "r:b r:c");
    lab.call(&short("x", "r:b r:c"));
    outlast_short();
    for name in ["a", "b", "c"] {
        assert!(busy(&lab.try_lock("z", name)), "{name} is read still");
    }
    assert_eq!(lab.call(&unlock("x", "r:a", false)).0, ScriptAnswer::Released { released: 0 }, "it was over");
    lab.unlock("y", "r:a");
    lab.unlock("y", "r:b r:c");
    lab.assert_nothing_left();
}

#[test]
fn the_dead_are_removed_when_some_readers_have_come() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    for owner in 1..=5 {
        lab.call(&short(&format!("y{owner}"), "r:a"));
    }
    outlast_short();
    assert_eq!(parts(&mut lab, "a"), vec![Value::Integer(6); 4]);
    let only_x_is_left = |lab: &mut Lab| parts(lab, "a") == vec![Value::Integer(1); 4];
    let gone = (0..1000).any(|_| {
        lab.lock("z", "r:a");
        lab.unlock("z", "r:a");
        only_x_is_left(&mut lab)
    });
    assert!(gone, "{:?}", parts(&mut lab, "a"));
}

#[test]
fn the_dead_are_removed_when_a_reader_goes_before_others() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.call(&short("y", "r:a"));
    lab.lock("z", "r:a");
    outlast_short();
    lab.unlock("x", "r:a");
    assert_eq!(parts(&mut lab, "a"), vec![Value::Integer(1); 4]);
}

#[test]
fn readers_are_kept_out_by_whoever_was_there_before_on_any_of_their_names() {
    let mut lab = Lab::new();
    lab.lock("x", "b");
    assert!(busy(&lab.try_lock("y", "r:a r:b")), "b is written");
    assert!(is_granted(&lab.try_lock("z", "a")), "and a is free");
    assert!(busy(&lab.try_lock("y", "r:a r:c")), "a is written");
    assert!(is_granted(&lab.try_lock("x.2", "c")), "and c is free");
    lab.unlock("x.2", "c");
    lab.unlock("z", "a");
    lab.unlock("x", "b");
    assert!(is_granted(&lab.lock("x", "r:b")) && is_granted(&lab.lock("y", "r:a r:b")), "one is read, one is free");
    assert!(is_queued(&lab.lock("z", "b")));
    assert!(busy(&lab.try_lock("x2", "r:a r:b")), "a writer waits for b");
    assert_eq!(lab.unlock("x", "r:b"), [] as [&str; 0]);
    assert_eq!(lab.unlock("y", "r:a r:b"), ["z"]);
    lab.unlock("z", "b");
    assert!(is_granted(&lab.lock("x", "r:a b")) && busy(&lab.try_lock("y", "r:b")), "not all of them are read");
    lab.unlock("x", "r:a b");
    lab.assert_nothing_left();
}

#[test]
fn a_reader_that_asks_again_has_its_ttl_anew() {
    let mut lab = Lab::new();
    lab.call(&short("x", "r:a"));
    lab.call(&short("x", "r:b r:c"));
    lab.lock("x", "r:a");
    lab.lock("x", "r:b r:c");
    lab.lock("y", "r:d");
    lab.call(&short("y", "r:d"));
    outlast_short();
    assert_eq!(lab.call(&unlock("x", "r:a", false)).0, ScriptAnswer::Released { released: 1 });
    assert_eq!(lab.call(&unlock("x", "r:b r:c", false)).0, ScriptAnswer::Released { released: 2 });
    assert!(is_granted(&lab.try_lock("z", "d")), "also if it is shorter");
}

#[test]
fn a_reader_that_has_lost_a_name_reads_it_again() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "r:a r:b"));
    lab.delete(&names("a")[0]);
    assert_eq!(lab.call(&unlock("y", "r:a r:b", false)).0, ScriptAnswer::Released { released: 0 });
    assert_eq!(token(lab.lock("x", "r:a r:b")), first);
    assert!(busy(&lab.try_lock("z", "a")) && busy(&lab.try_lock("z", "b")));
    lab.delete(&names("b")[0]);
    assert_eq!(lab.call(&unlock("x", "r:a r:b", false)).0, ScriptAnswer::Released { released: 1 });
    lab.assert_nothing_left();
}

#[test]
fn a_reader_that_was_given_up_does_not_come_after_all() {
    let mut lab = Lab::new();
    lab.lock("y", "r:a");
    lab.call(&unlock("x", "r:a", true));
    assert_eq!(lab.lock("x", "r:a"), ScriptAnswer::Cancelled);
    lab.lock("x.2", "r:a");
    lab.call(&unlock("x.2", "r:a", true));
    assert_eq!(lab.lock("x.2", "r:a"), ScriptAnswer::Cancelled, "also if it was granted already");
    lab.pure_waits();
    let freed = vec![Pushed::Freed { names: names("a").to_vec() }];
    assert_eq!(lab.call(&unlock("y", "r:a", false)).1, freed, "clients with plain commands hear of it");
}

#[test]
fn a_reader_s_token_is_no_small_number_when_the_counter_was_lost() {
    let mut lab = Lab::new();
    lab.each(LockKeys::counter, b"DEL", &[]);
    for answer in lab.call_servers(&crate::lab::lock("x", "r:a", true, false)).0 {
        assert!(token(answer.unwrap()) > 1 << 32);
    }
}

#[test]
fn readers_and_permits_that_nobody_waits_for_look_at_no_queue() {
    let mut lab = Lab::new();
    let mut monitor = lab.monitor();
    for on in ["r:a", "r:a r:b", "2/9:p"] {
        lab.lock("x", on);
        lab.lock("y", on);
        lab.unlock("x", on);
        lab.unlock("y", on);
    }
    lab.redis.run(&[b"ECHO", b"the end"]);
    let lines = monitor.until("the end");
    let inside: Vec<_> = lines.iter().filter(|line| line.contains(" lua] ")).collect();
    assert!(inside.iter().any(|line| line.contains("\"ZADD\"")));
    for line in inside {
        assert!(!["ZRANGEBYLEX", "HGET", "MGET"].iter().any(|command| line.contains(command)), "{line}");
    }
}

#[test]
fn permits_are_never_more_than_the_limit() {
    let mut lab = Lab::new();
    assert!(is_granted(&lab.lock("x", "2/3:p")));
    assert!(is_queued(&lab.lock("y", "2/3:p")));
    assert!(is_queued(&lab.lock("z", "1/3:p")), "one is left, but others wait for it longer");
    assert!(busy(&lab.try_lock("x2", "1/3:p")));
    assert_eq!(lab.unlock("x", "2/3:p"), ["y", "z"]);
    lab.unlock("y", "2/3:p");
    lab.unlock("z", "1/3:p");
    lab.assert_nothing_left();
}

#[test]
fn a_dead_holder_s_permits_come_back_while_others_hold_theirs() {
    let mut lab = Lab::new();
    lab.lock("x", "1/2:p");
    assert!(is_granted(&lab.call(&short("y", "1/2:p")).0));
    outlast_short();
    assert!(is_granted(&lab.try_lock("z", "1/2:p")));
    assert!(busy(&lab.try_lock("z2", "1/2:p")));
    for who in ["x", "z"] {
        lab.unlock(who, "1/2:p");
    }
    lab.assert_nothing_left();
}

#[test]
fn a_permit_and_a_lock_of_one_name_are_two_things() {
    let mut lab = Lab::new();
    assert!(is_granted(&lab.lock("x", "a")));
    assert!(is_granted(&lab.lock("y", "1/1:a")));
    assert!(is_queued(&lab.lock("z", "a 1/1:a")), "names and permits in one request");
    assert_eq!(lab.unlock("x", "a"), [] as [&str; 0]);
    assert!(is_granted(&lab.nested("x.3", "b")));
    assert_eq!(lab.unlock("y", "1/1:a"), ["z"]);
    lab.unlock("z", "a 1/1:a");
    lab.unlock("x.3", "b");
    lab.assert_nothing_left();
}

#[test]
fn the_latest_limit_counts() {
    let mut lab = Lab::new();
    lab.lock("x", "1/1:p");
    assert!(is_queued(&lab.lock("y", "1/1:p")));
    let (answer, pushes) = lab.call(&crate::lab::lock("z", "1/3:p", true, false));
    assert_eq!((woken(&pushes), is_granted(&answer)), (vec!["y".to_owned()], true), "more permits let in who waits");
    assert!(busy(&lab.try_lock("x2", "1/2:p")), "fewer permits take none away");
    lab.unlock("x", "1/1:p");
    assert!(busy(&lab.try_lock("x2", "1/2:p")));
    lab.unlock("y", "1/1:p");
    assert!(is_granted(&lab.try_lock("x2", "1/2:p")));
}

#[test]
fn a_new_limit_lets_in_who_waits_whoever_sets_it() {
    for throughput in [false, true] {
        let mut lab = Lab::new();
        lab.throughput = throughput;
        lab.lock("x", "1/1:p");
        assert!(is_queued(&lab.lock("y", "1/1:p")));
        let (answer, pushes) = lab.call(&crate::lab::lock("z", "3/3:p", false, !throughput));
        assert_eq!((busy(&answer), woken(&pushes)), (true, vec!["y".to_owned()]), "there is room for one more");
    }
}

#[test]
fn what_is_shared_is_extended_and_polled_and_sent_again() {
    let mut lab = Lab::new();
    let on = "b r:a 2/3:p";
    let first = token(lab.lock("x", on));
    assert_eq!(token(lab.lock("x", on)), first, "the same again");
    assert_eq!(token(lab.poll("x", on)), first);
    let held = [("x", on), ("y", "r:a"), ("x", on)].map(|(who, on)| (attempt(who), names(on), LONG));
    assert_eq!(lab.call(&Call::Extend { held: held.into() }).0, ScriptAnswer::Extended(vec![true, false, true]));
    assert!(is_granted(&lab.lock("y", "1/3:p")), "each counts once");
    lab.unlock("y", "1/3:p");
    lab.unlock("x", on);
    lab.assert_nothing_left();
}

#[test]
fn readers_of_a_cycle_see_it() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "b");
    assert!(is_queued(&lab.nested("y.2", "a")), "it waits for the reader");
    assert!(matches!(lab.nested("x.2", "r:b"), ScriptAnswer::Deadlock { .. }));
    assert!(
        matches!(lab.nested("x.3", "a"), ScriptAnswer::Deadlock { .. }),
        "who reads a name cannot wait to write it"
    );
}

#[test]
fn force_takes_a_name_from_all_its_readers() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "r:a 1/2:p");
    lab.lock("z", "a");
    let (answer, pushes) = lab.call(&Call::ForceRelease { names: names("a 1/2:p"), token: None });
    assert_eq!(answer, ScriptAnswer::ForceReleased { released: 2 });
    let told = pushes.iter().filter(|pushed| matches!(pushed, Pushed::ForceReleased { .. })).count();
    assert_eq!((told, woken(&pushes)), (2, vec!["z".to_owned()]));
    lab.unlock("z", "a");
    lab.assert_nothing_left();
}

#[test]
fn the_readers_are_seen() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "r:a");
    let ScriptAnswer::Inspected(state) = lab.call(&Call::Inspect { names: names("a"), remarks: false }).0 else {
        unreachable!()
    };
    assert_eq!(state[0].sharing, [attempt("x"), attempt("y")]);
    assert!(state[0].holder.is_some() && state[0].pttl.is_some());
}

fn change(who: &str, on: &str, wait: bool) -> Call {
    Call::Change { attempt: attempt(who), names: names(on), ttl: LONG, wait, seen: 1 << 52 }
}

#[test]
fn who_alone_reads_writes_at_once_with_a_higher_token_and_reads_again() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "b r:a 1/2:p"));
    let second = token(lab.call(&change("x", "a b 1/2:p", false)).0);
    assert!(second > first);
    assert_eq!(token(lab.call(&change("x", "a b 1/2:p", false)).0), second, "the same again");
    assert!(busy(&lab.try_lock("y", "r:a")));
    assert!(is_queued(&lab.lock("y", "r:a")) && is_queued(&lab.lock("z", "a")) && is_queued(&lab.lock("y2", "r:a")));
    let (answer, pushes) = lab.call(&change("x", "b r:a 1/2:p", false));
    assert_eq!((is_granted(&answer), woken(&pushes)), (true, vec!["y".to_owned()]), "the readers before a writer");
    lab.unlock("x", "b r:a 1/2:p");
    assert_eq!(lab.unlock("y", "r:a"), ["z"]);
    assert_eq!(lab.unlock("z", "a"), ["y2"]);
    lab.unlock("y2", "r:a");
    lab.assert_nothing_left();
}

#[test]
fn an_upgrade_goes_before_those_who_wait_and_keeps_newcomers_back() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "r:a");
    assert!(is_queued(&lab.lock("z", "a")));
    assert!(busy(&lab.call(&change("x", "a", false)).0), "it does not wait");
    assert!(is_queued(&lab.call(&change("x", "a", true)).0));
    assert!(busy(&lab.try_lock("z2", "r:a")));
    let cycle = vec![attempt("x"), attempt("y")];
    assert_eq!(lab.call(&change("y", "a", true)).0, ScriptAnswer::Deadlock { cycle }, "neither could go on");
    assert_eq!(lab.unlock("y", "r:a"), ["x"]);
    assert_eq!(lab.unlock("x", "a"), ["z"]);
    lab.unlock("z", "a");
    lab.assert_nothing_left();
}

#[test]
fn an_upgrade_that_is_given_up_lets_the_readers_behind_it_in() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a");
    lab.lock("y", "r:a");
    assert!(is_queued(&lab.call(&change("x", "a", true)).0));
    assert!(is_queued(&lab.lock("z", "r:a")));
    assert_eq!(woken(&lab.call(&change("x", "r:a", false)).1), ["z"]);
    for reader in ["x", "y", "z"] {
        assert_eq!(lab.unlock(reader, "r:a"), [] as [&str; 0]);
    }
    lab.assert_nothing_left();
}

#[test]
fn an_upgrade_of_a_lock_that_has_gone_lets_the_readers_behind_it_in() {
    let mut lab = Lab::new();
    lab.lock("x", "r:a r:b");
    lab.lock("y", "r:a");
    assert!(is_queued(&lab.call(&change("x", "a r:b", true)).0));
    assert!(is_queued(&lab.lock("z", "r:a")));
    lab.delete(&names("b")[0]);
    let (answer, pushes) = lab.call(&change("x", "a r:b", true));
    assert_eq!((answer, woken(&pushes)), (ScriptAnswer::NotHeld, vec!["z".to_owned()]));
}

#[test]
fn an_upgrade_waits_no_longer_than_its_lock_lasts() {
    let mut lab = Lab::new();
    lab.lock("y", "r:a");
    let (x, ttl) = (attempt("x"), SHORT);
    lab.call(&Call::Lock { attempt: x.clone(), names: names("r:a"), ttl, wait: true, nested: false });
    let dying = Call::Change { attempt: x, names: names("a"), ttl, wait: true, seen: 1 << 52 };
    assert!(is_queued(&lab.call(&dying).0));
    assert!(is_queued(&lab.lock("z", "r:a")));
    outlast_short();
    assert!(is_granted(&lab.poll("z", "r:a")));
}

#[test]
fn an_upgrade_that_finds_itself_in_a_cycle_stops_waiting() {
    let mut lab = Lab::new();
    lab.lock("x", "b r:a");
    lab.lock("y", "r:a");
    assert!(is_queued(&lab.call(&change("x", "a b", true)).0));
    assert!(is_queued(&lab.lock("z", "r:a")));
    lab.expire_waiter(&attempt("x"));
    assert!(is_queued(&lab.nested("y.2", "b")), "nobody seems to wait for it");
    let (answer, pushes) = lab.call(&change("x", "a b", true));
    assert!(matches!(answer, ScriptAnswer::Deadlock { .. }), "{answer:?}");
    assert_eq!(woken(&pushes), ["z"]);
}

#[test]
fn a_downgrade_that_comes_too_late_changes_nothing() {
    let mut lab = Lab::new();
    let first = token(lab.lock("x", "r:a"));
    let second = token(lab.call(&change("x", "a", false)).0);
    let late = Call::Change { attempt: attempt("x"), names: names("r:a"), ttl: LONG, wait: false, seen: first };
    assert_eq!(token(lab.call(&late).0), second, "it writes still");
    assert!(busy(&lab.try_lock("y", "r:a")));
    lab.unlock("x", "r:a");
    lab.assert_nothing_left();
}
