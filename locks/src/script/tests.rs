//! What each call sends, and what a reply means.

use super::super::keys::names;
use super::*;
use crate::call::Said;

fn a(text: &str) -> Attempt {
    Attempt::parse(text.as_bytes()).unwrap()
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().into())
}

fn error(code: &str, message: &str) -> ScriptError {
    ScriptError::of(ServerError { code: code.into(), message: message.into() })
}

fn lock() -> Call {
    let ttl = Duration::from_secs(10);
    Call::Lock { attempt: a("c.1.0:1:ff"), names: names(["b", "a"]).unwrap(), ttl, wait: true, nested: true }
}

fn words(call: &Call, throughput: bool, via: &Via) -> Vec<String> {
    let mut out = Command::default();
    encode(call, &LockKeys::new("n").unwrap(), Duration::from_secs(30), throughput, via, &mut out);
    out.iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect()
}

#[test]
fn a_call_is_one_command() {
    let expected = "FCALL pinyon_lock_8 3 {n}:#f {n}:l:a {n}:l:b c.1.0:1:ff 10000 30000 wnt";
    assert_eq!(words(&lock(), true, &Via::functions()).join(" "), expected);
    let held = vec![
        (a("c:1:1"), names(["a", "b"]).unwrap(), Duration::from_millis(7)),
        (a("c:1:2"), names(["c"]).unwrap(), Duration::ZERO),
    ];
    let expected = "FCALL pinyon_extend_8 4 {n}:#f {n}:l:a {n}:l:b {n}:l:c 2 c:1:1 7 2 c:1:2 1 1";
    assert_eq!(words(&Call::Extend { held }, false, &Via::functions()).join(" "), expected);
    let shas = Via::scripts(&(0..RULES.len()).map(|n| bytes(&n.to_string())).collect::<Vec<_>>()).unwrap();
    let call = Call::ForceRelease { names: names(["a"]).unwrap(), token: None };
    assert_eq!(words(&call, false, &shas).join(" "), "EVALSHA 10 2 {n}:#f {n}:l:a  ");
}

#[test]
fn a_number_is_the_usual_answer() {
    let read = |number| decode(&lock(), Value::Integer(number)).unwrap();
    assert_eq!(read(1 << 52), ScriptAnswer::Granted { token: 1 << 52 });
    assert_eq!(read(-1), ScriptAnswer::Queued { pttl: None });
    assert_eq!(read(-2), ScriptAnswer::Queued { pttl: Some(Duration::ZERO) });
    assert_eq!(read(-1002), ScriptAnswer::Queued { pttl: Some(Duration::from_secs(1)) });
}

#[test]
fn replies_of_the_wrong_shape_are_errors() {
    let array = |items: &[i64]| Value::Array(items.iter().map(|n| Value::Integer(*n)).collect());
    for reply in [array(&[]), array(&[2]), array(&[2, 5]), array(&[7]), Value::Null, bytes("OK")] {
        assert!(matches!(decode(&lock(), reply), Err(ScriptError::Unexpected(_))));
    }
    let unlock = Call::Unlock { attempt: a("c:1:1"), names: names(["a"]).unwrap(), tombstone: false, rest: None };
    for reply in [Value::Integer(-1), array(&[1]), Value::Null] {
        assert!(matches!(decode(&unlock, reply), Err(ScriptError::Unexpected(_))));
    }
    let busy = vec![Value::Integer(2), Value::Integer(-1), bytes("somebody's 1"), Value::Integer(-1)];
    let ScriptAnswer::Busy { first: Some(first), .. } = decode(&lock(), Value::Array(busy)).unwrap() else {
        panic!("busy")
    };
    assert_eq!(first.holder.attempt.to_string(), "a value of another program (\"somebody\\'s 1\")");
    for (last, told) in [
        (None, Said::Untold),
        (Some(Value::Null), Said::Nothing),
        (Some(bytes("nightly\n")), Said::Remark("nightly\u{fffd}".into())),
    ] {
        let reply = [Value::Integer(2), Value::Integer(-1), bytes("c:1:1 5"), Value::Integer(-1)];
        let reply = Value::Array(reply.into_iter().chain(last).collect());
        assert!(
            matches!(decode(&lock(), reply), Ok(ScriptAnswer::Busy { first: Some(first), .. }) if first.said == told)
        );
    }
    let none = Value::Array(Vec::new());
    assert!(decode(&Call::Inspect { names: names(["a"]).unwrap(), remarks: false }, none.clone()).is_err());
    assert!(decode(&Call::Extend { held: vec![(a("c:1:1"), names(["a"]).unwrap(), Duration::ZERO)] }, none).is_err());
}

#[test]
fn pushes_of_the_namespace_are_told_apart() {
    let keys = LockKeys::new("n").unwrap();
    let read = |channel: &str, payload: &str| pushed(&keys, &[bytes("message"), bytes(channel), bytes(payload)]);
    let granted = Pushed::Granted { attempt: a("c:1:2"), token: 7 };
    assert_eq!(read("{n}:#c:c", "g c:1:2 7"), Some(granted));
    assert_eq!(read("{n}:#c:c", "l c:1:2"), Some(Pushed::ForceReleased { attempt: a("c:1:2") }));
    assert_eq!(read("{n}:#c:c", "c c:1:2"), Some(Pushed::Contested { attempt: a("c:1:2") }));
    assert_eq!(read("{n}:#c:c", "p c:1:2"), Some(Pushed::Look { attempt: a("c:1:2") }));
    let freed = Pushed::Freed { names: vec![b"a"[..].into(), b"g b"[..].into()] };
    assert_eq!(read("{n}:#freed", "a\0g b"), Some(freed));
    for (channel, payload) in [("{m}:#freed", "a"), ("{n}:#c:c", "g c:1:2"), ("{n}:#c:c", "g x 7"), ("{n}:x", "")] {
        assert_eq!(read(channel, payload), None);
    }
    assert_eq!(pushed(&keys, &[bytes("subscribe"), bytes("{n}:#c:c"), Value::Integer(1)]), None);
}

#[test]
fn errors_say_what_is_to_be_done() {
    assert_eq!(error("NOSCRIPT", "No matching script. Please use EVAL."), ScriptError::NotLoaded);
    assert_eq!(error("ERR", "Function not found"), ScriptError::NotLoaded);
    let moved = |asking| ScriptError::Moved { slot: 3999, address: "127.0.0.1:6381".into(), asking };
    assert_eq!(error("MOVED", "3999 127.0.0.1:6381"), moved(false));
    assert_eq!(error("ASK", "3999 127.0.0.1:6381"), moved(true));
    let replica = "You can't write against a read only replica. script: pinyon_lock_8, on @user_function:29.";
    assert!(matches!(error("READONLY", replica), ScriptError::ReadOnly(_)));
    let wrapped = "Error running script (call to f_5f): @user_script:4: @user_script: 4: -READONLY You can't";
    assert!(matches!(error("ERR", wrapped), ScriptError::ReadOnly(_)));
    assert!(matches!(error("ERR", "Error running script (call to f_5f): boom"), ScriptError::Other(_)));
}

#[test]
fn refusals_of_all_servers_say_which_permission_is_missing() {
    let vectors: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../../../vectors/redis-refusals.json")).unwrap();
    for vector in vectors {
        let (code, message) = vector["error"].as_str().unwrap().split_once(' ').unwrap();
        let ScriptError::Forbidden { missing, .. } = error(code, message) else { panic!("{vector}") };
        let expected = match vector["missing"].as_str().unwrap() {
            "command" => Missing::Command(vector["command"].as_str().unwrap().into()),
            "inside" => Missing::Inside,
            "keys" => Missing::Keys,
            "channels" => Missing::Channels,
            "database" => Missing::Database,
            other => panic!("{other}"),
        };
        assert_eq!(missing, expected, "{vector}");
    }
}
