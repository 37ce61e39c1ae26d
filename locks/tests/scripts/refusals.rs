//! Refusals by the server, and how they are interpreted.

use pinyon_locks::call::{Call, ScriptAnswer};
use pinyon_locks::script::{Missing, ScriptError};

use crate::lab::{attempt, lock, names, Lab, LONG};

fn both(lab: &mut Lab, call: &Call, is_so: impl Fn(&Result<ScriptAnswer, ScriptError>) -> bool) {
    for answer in lab.call_servers(call).0 {
        assert!(is_so(&answer), "{answer:?}");
    }
}

#[test]
fn scripts_that_are_not_loaded_are_missed() {
    let mut lab = Lab::new();
    lab.redis.run(&[b"FUNCTION", b"FLUSH"]);
    lab.redis.run(&[b"SCRIPT", b"FLUSH"]);
    both(&mut lab, &lock("x", "a", true, false), |answer| *answer == Err(ScriptError::NotLoaded));
}

#[test]
fn without_memory_nothing_is_taken_but_all_is_given_back() {
    let mut lab = Lab::new();
    lab.lock("x", "a b");
    lab.lock("y", "a");
    lab.redis.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    both(&mut lab, &lock("z", "c", true, false), |answer| matches!(answer, Err(ScriptError::OutOfMemory(_))));
    let held = vec![(attempt("x"), names("a b"), LONG)];
    assert_eq!(lab.call(&Call::Extend { held }).0, ScriptAnswer::Extended(vec![true]));
    assert_eq!(lab.unlock("x", "a b"), ["y"]);
    lab.unlock("y", "a");
    lab.assert_nothing_left();
}

#[test]
fn a_replica_does_not_lock() {
    let mut lab = Lab::new();
    lab.redis.run(&[b"REPLICAOF", b"127.0.0.1", b"1"]);
    both(&mut lab, &lock("x", "a", true, false), |answer| matches!(answer, Err(ScriptError::ReadOnly(_))));
}

#[test]
fn a_missing_permission_is_named_and_nothing_is_left_locked() {
    let mut lab = Lab::new();
    lab.lock("x", "a");
    lab.lock("y", "a");
    let missing = |lab: &mut Lab, rules: &[&[u8]], call: &Call| {
        let answers = lab.call_restricted(rules, call).into_iter();
        let missing = |answer: Result<ScriptAnswer, ScriptError>| match answer {
            Err(ScriptError::Forbidden { missing, .. }) => missing,
            other => panic!("{other:?}"),
        };
        answers.map(missing).collect::<Vec<_>>()
    };
    let take = lock("x", "b", true, false);
    for rule in [b"-incr", b"-psetex".as_slice()] {
        assert_eq!(missing(&mut lab, &[rule], &take), vec![Missing::Inside; 4]);
    }
    let commands = ["fcall", "evalsha", "fcall", "evalsha"].map(|command| Missing::Command(command.into()));
    assert_eq!(missing(&mut lab, &[b"-fcall", b"-evalsha"], &take), commands);
    assert_eq!(missing(&mut lab, &[b"resetkeys", b"~other:*"], &take), vec![Missing::Keys; 4]);
    assert_eq!(lab.holder("b"), "");
    let unlock = Call::Unlock { attempt: attempt("x"), names: names("a"), tombstone: false, rest: None };
    assert_eq!(missing(&mut lab, &[b"resetchannels"], &unlock), vec![Missing::Channels; 4]);
    lab.delete(&names("a")[0]);
    let counter = lab.model.counter().unwrap();
    lab.set_counter(counter + 10);
    assert!(matches!(lab.poll("y", "a"), ScriptAnswer::Granted { .. }), "the waiter is still there");
}
