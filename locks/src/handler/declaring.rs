//! Servers that refuse keys which a script has not declared.

use super::*;
use pinyon_proto::resp::ServerError;
use pinyon_proto::ServerVersion;

fn handler() -> Handler {
    let keys = LockKeys::new("ns").unwrap();
    let mut handler = Handler::new(HandlerKind::Script, keys, Duration::from_secs(15), false);
    let version = Some(ServerVersion { major: 7, minor: 0, patch: 15 });
    handler.meet(&ServerInfo { version, ..ServerInfo::default() });
    handler
}

fn commands(handler: &mut Handler) -> Vec<(u64, Command)> {
    std::iter::from_fn(|| handler.next_command()).collect()
}

fn lock_and_unlock() -> [Call; 2] {
    let attempt = Attempt::parse(b"0123.ab.0:1:1").unwrap();
    let names = crate::keys::names(["a"]).unwrap();
    let (ttl, unlock) = (
        Duration::from_secs(10),
        Call::Unlock { attempt: attempt.clone(), names: names.clone(), tombstone: false, rest: None },
    );
    [Call::Lock { attempt, names, ttl, wait: true, nested: false }, unlock]
}

fn error(code: &str, message: &str) -> Value {
    Value::Error(ServerError { code: code.into(), message: message.into() })
}

fn shown(commands: &[(u64, Command)]) -> Vec<String> {
    let words = |command: &Command| -> Vec<String> {
        command.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    };
    commands.iter().map(|(_, command)| words(command).join(" ")).collect()
}

const STRICTLY: &str = "FCALL pinyon_lock_8 7 {ns}:#p {ns}:#w {ns}:#n {ns}:#q {ns}:#x:0123.ab.0:1:1 {ns}:#f {ns}:l:a \
                        0123.ab.0:1:1 10000 15000 w";

#[test]
fn a_server_that_wants_all_keys_declared_gets_them_whatever_its_words() {
    for (code, words) in [
        ("ERR", "Error running script (call to f): @user_script:2: script tried accessing undeclared key, key: k"),
        ("ERR", "Script attempted to access a key that was not declared in KEYS"),
        ("ERR", "Undeclared key access in a Lua script"),
        (
            "ERR",
            "bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array",
        ),
    ] {
        let mut handler = handler();
        let [lock, unlock] = lock_and_unlock();
        handler.begin(1, lock.clone());
        handler.begin(2, Call::Inspect { names: [b"a".as_slice().into()].into(), remarks: false });
        let early = commands(&mut handler);
        assert_eq!(early.len(), 2);
        early.iter().for_each(|(job, _)| handler.reply(*job, error(code, words)));
        let again = commands(&mut handler);
        assert_eq!(shown(&again[..1]), [STRICTLY], "{words}");
        assert_eq!(again.len(), 2, "what was refused before is sent again, too");
        handler.reply(again[0].0, Value::Integer(5000));
        assert!(matches!(handler.next_answer(), Some((1, Ok(ScriptAnswer::Granted { token: 5000 })))));
        // Without a tombstone it needs none.
        handler.begin(3, unlock);
        assert!(shown(&commands(&mut handler))[0].starts_with("FCALL pinyon_unlock_8 6 {ns}:#p "));
    }
}

#[test]
fn a_server_that_takes_no_script_although_all_keys_are_declared_gets_plain_commands() {
    let mut handler = handler();
    handler.kind = HandlerKind::Auto;
    let [lock, _] = lock_and_unlock();
    handler.begin(1, lock);
    let undeclared = || error("ERR", "script tried accessing undeclared key");
    for _ in ["few", "strictly"] {
        let (job, _) = commands(&mut handler).remove(0);
        handler.reply(job, undeclared());
    }
    let loads = commands(&mut handler);
    loads.iter().for_each(|(job, _)| handler.reply(*job, Value::Bytes(b"sha".as_slice().into())));
    let (job, _) = commands(&mut handler).remove(0);
    handler.reply(job, undeclared());
    assert!(handler.is_plain());
    assert!(handler.take_warning().unwrap().contains("undeclared key; permit scripts to use keys"));
}

#[test]
fn a_cluster_refuses_a_call_for_a_moving_slot_before_it_begins() {
    let mut handler = handler();
    let cluster = ServerInfo { mode: "cluster".into(), ..handler.server.clone() };
    handler.meet(&cluster);
    let [_, unlock] = lock_and_unlock();
    handler.begin(1, unlock);
    let asked = commands(&mut handler);
    let all = "FCALL pinyon_unlock_8 6 {ns}:#q {ns}:#w {ns}:#n {ns}:#p {ns}:#f {ns}:l:a 0123.ab.0:1:1";
    assert_eq!(shown(&asked), [all]);
    let words = "Script attempted to access a non local key in a cluster node script: pinyon_unlock_8";
    handler.reply(asked[0].0, error("ERR", words));
    assert!(handler.next_answer().is_none() && handler.is_waiting());
    handler.try_again();
    assert_eq!(shown(&commands(&mut handler)), [all]);
}
