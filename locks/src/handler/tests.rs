//! Loading scripts, and doing without them.

use super::*;
use crate::call::Names;
use pinyon_proto::resp::ServerError;
use pinyon_proto::ServerVersion;

fn handler() -> Handler {
    handler_of(HandlerKind::Script)
}

fn handler_of(kind: HandlerKind) -> Handler {
    let mut handler = Handler::new(kind, LockKeys::new("ns").unwrap(), Duration::from_secs(15), false);
    let version = Some(ServerVersion { major: 7, minor: 0, patch: 15 });
    handler.meet(&ServerInfo { version, ..ServerInfo::default() });
    handler
}

fn commands(handler: &mut Handler) -> Vec<(u64, Command)> {
    std::iter::from_fn(|| handler.next_command()).collect()
}

fn lock_and_unlock() -> [Call; 2] {
    let attempt = Attempt { client: "0123.ab.0".into(), owner: 1, number: 1 };
    let names: Names = [b"a".as_slice().into()].into();
    let ttl = Duration::from_secs(10);
    let lock = Call::Lock { attempt: attempt.clone(), names: names.clone(), ttl, wait: true, nested: false };
    [lock, Call::Unlock { attempt, names, tombstone: false, rest: None }]
}

fn error(code: &str, message: &str) -> Value {
    Value::Error(ServerError { code: code.into(), message: message.into() })
}

#[test]
fn a_lock_is_not_sent_again_behind_its_unlock() {
    let mut handler = handler();
    let [lock, unlock] = lock_and_unlock();
    handler.begin(1, lock);
    handler.begin(2, unlock);
    let jobs: Vec<u64> = commands(&mut handler).into_iter().map(|(job, _)| job).collect();
    handler.reply(jobs[0], error("ERR", "Function not found"));
    assert!(commands(&mut handler).is_empty(), "the unlock is carried out by now, if others have loaded it");
    assert!(matches!(handler.next_answer(), Some((1, Ok(ScriptAnswer::Cancelled)))));
    assert!(handler.next_answer().is_none());
}

#[test]
fn a_lock_that_waits_for_its_slot_does_not_survive_its_unlock() {
    let mut handler = handler();
    let [lock, unlock] = lock_and_unlock();
    handler.begin(1, lock);
    let (job, _) = commands(&mut handler).remove(0);
    handler.reply(job, error("TRYAGAIN", "Multiple keys request during rehashing of slot"));
    assert!(handler.is_waiting());
    handler.begin(2, unlock);
    assert_eq!(commands(&mut handler).len(), 1);
    assert!(matches!(handler.next_answer(), Some((1, Ok(ScriptAnswer::Cancelled)))));
    assert!(handler.next_answer().is_none());
    handler.try_again();
    assert!(commands(&mut handler).is_empty());
}

#[test]
fn functions_that_are_loaded_but_not_found_are_the_answer() {
    let mut handler = handler();
    let missing = || error("ERR", "Function not found");
    for id in 1..=3 {
        let [lock, _] = lock_and_unlock();
        handler.begin(id, lock);
        let (call, _) = commands(&mut handler).remove(0);
        handler.reply(call, missing());
        let [(load, _), (call, _)] = commands(&mut handler).try_into().expect("a load, and the call");
        handler.reply(load, Value::Bytes(b"pinyon".as_slice().into()));
        handler.reply(call, missing());
        assert!(matches!(handler.next_answer(), Some((of, Err(ScriptError::NotLoaded))) if of == id));
        assert!(commands(&mut handler).is_empty());
    }
}

/// The server refuses all scripts. Returns what became of the lock that was asked for.
fn refused(handler: &mut Handler, refusal: (&str, &str)) -> Option<Result<ScriptAnswer, ScriptError>> {
    let [lock, _] = lock_and_unlock();
    handler.begin(1, lock);
    let mut sent = commands(handler);
    let missing = if refusal.0 == "NOPERM" { refusal } else { ("ERR", "Function not found") };
    handler.reply(sent.remove(0).0, error(missing.0, missing.1));
    loop {
        sent.extend(commands(handler));
        if sent.is_empty() || handler.is_plain() {
            return handler.next_answer().map(|(_, answer)| answer);
        }
        handler.reply(sent.remove(0).0, error(refusal.0, refusal.1));
    }
}

#[test]
fn scripts_are_given_up_only_for_refusals_that_are_about_them() {
    for (code, message, is_plain) in [
        ("BUSY", "Redis is busy running a script.", false),
        ("NOREPLICAS", "Not enough good replicas to write.", false),
        ("MISCONF", "Redis is configured to save RDB snapshots", false),
        ("LOADING", "Redis is loading the dataset in memory", false),
        ("ERR", "something odd", false),
        ("ERR", "unknown command 'EVALSHA'", true),
        ("NOPERM", "this user has no permissions to run the 'fcall' command", true),
    ] {
        let mut handler = handler_of(HandlerKind::Auto);
        let answer = refused(&mut handler, (code, message));
        assert_eq!((handler.is_plain(), handler.take_warning().is_some()), (is_plain, is_plain), "{message}");
        assert_eq!(matches!(answer, Some(Err(_))), !is_plain, "{message}: {answer:?}");
        if is_plain {
            continue;
        }
        let [lock, _] = lock_and_unlock();
        handler.begin(2, lock);
        let loads = commands(&mut handler);
        assert_eq!(loads.len(), script::loading_scripts().len(), "{message}: it tries again");
        for (job, _) in loads {
            handler.reply(job, Value::Bytes([b'a'; 40].as_slice().into()));
        }
        let [(_, call)] = commands(&mut handler).try_into().expect("the call");
        assert_eq!(call.iter().next(), Some(&b"EVALSHA"[..]), "{message}");
    }
}

#[test]
fn the_next_connection_is_asked_for_scripts_again_and_its_reason_is_told_once() {
    let mut handler = handler_of(HandlerKind::Auto);
    let refusal = ("NOPERM", "this user has no permissions to run the 'fcall' command");
    for warns in [true, false] {
        refused(&mut handler, refusal);
        assert_eq!((handler.is_plain(), handler.take_warning().is_some()), (true, warns));
        handler.meet(&handler.server.clone());
        assert!(!handler.is_plain());
    }
}

#[test]
fn only_so_many_calls_wait_for_a_slot() {
    let mut handler = handler();
    let [_, unlock] = lock_and_unlock();
    for id in 0..=MOST_WAITING as u64 {
        handler.begin(id, unlock.clone());
    }
    for (job, _) in commands(&mut handler) {
        handler.reply(job, error("TRYAGAIN", "Multiple keys request during rehashing of slot"));
    }
    assert!(matches!(handler.next_answer(), Some((id, Err(ScriptError::TryAgain(_)))) if id == MOST_WAITING as u64));
    assert!(handler.next_answer().is_none());
}
