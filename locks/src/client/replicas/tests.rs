//! A client that wants a replica to have its locks, on a server whose answers the test writes.

use super::*;
use crate::client::link::COMMANDS;
use crate::client::tests::Host;
use crate::handler::HandlerKind;
use crate::keys;
use crate::machine::Renewal;
use crate::names::Mode;
use crate::tests::in_memory::{settings, InMemory, GREETING, PATIENCE};
use pinyon_net::connection::peer::Ending;

const HELD: &str = "*1\r\n:1\r\n";
const LOST: &str = "*1\r\n:0\r\n";

fn wanting(replicas: u32, handler: HandlerKind) -> Host {
    Host::with(InMemory::default(), Setup { replicas, ..settings(handler) })
}

/// The server accepts the connection that waits for replicas.
fn greet(host: &mut Host) {
    host.answer_on(CONFIRMATIONS, "");
    assert_eq!(host.sent(), ["HELLO", "PING"]);
    host.answer_on(CONFIRMATIONS, GREETING[0].1);
}

/// A client with a grant that waits for its replica, and the number of the lock.
fn waiting() -> (Host, u64) {
    let mut host = wanting(1, HandlerKind::Script);
    let number = host.lock("lock", true);
    assert_eq!(host.greet(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
    host.answer("*1\r\n:4999\r\n:5000\r\n");
    greet(&mut host);
    assert_eq!(host.sent(), ["FCALL pinyon_extend_8", "WAIT"]);
    assert!(host.told.is_empty(), "{:?}", host.told);
    (host, number)
}

/// The failure that the waiter was told, after its lock was released.
fn failure(host: &mut Host) -> String {
    let told = format!("{:?}", host.told);
    assert!(told.contains("Failed"), "{told}");
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"], "nothing stays locked");
    told
}

#[test]
fn a_grant_counts_once_the_replica_has_it() {
    let (mut host, number) = waiting();
    host.answer_on(CONFIRMATIONS, HELD);
    assert!(host.told.is_empty(), "{:?}", host.told);
    host.answer_on(CONFIRMATIONS, ":1\r\n");
    assert!(matches!(host.told[..], [("lock", Outcome::Granted { token: 5000, .. })]), "{:?}", host.told);
    host.release("lock", number);
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
    assert_eq!(host.opened().len(), 2);
}

#[test]
fn grants_that_come_meanwhile_share_the_next_wait() {
    let (mut host, _) = waiting();
    for (owner, name) in [(2, "b"), (3, "c")] {
        host.lock_of(owner, name, "later", false);
    }
    assert_eq!(host.sent().len(), 2);
    host.answer(":5001\r\n:5002\r\n");
    assert!(host.sent().is_empty(), "a wait is under way");
    host.answer_on(CONFIRMATIONS, &[HELD, ":2\r\n"].concat());
    assert_eq!(host.told.len(), 1);
    let sent = host.commands();
    assert_eq!((sent.len(), &*sent[1][0]), (2, "WAIT"), "{sent:?}");
    assert!(sent[0].iter().any(|part| part == "{n}:l:b") && sent[0].iter().any(|part| part == "{n}:l:c"), "{sent:?}");
    host.answer_on(CONFIRMATIONS, "*2\r\n:1\r\n:1\r\n:1\r\n");
    assert_eq!(host.told.len(), 3, "{:?}", host.told);
}

#[test]
fn a_wait_lasts_as_long_as_the_attempt_and_no_longer_than_an_answer_may_take() {
    let mut host = wanting(2, HandlerKind::Script);
    host.lock("lock", false);
    host.greet();
    host.let_pass(Duration::from_millis(2500));
    host.answer("*1\r\n:4999\r\n:5000\r\n");
    greet(&mut host);
    assert_eq!(host.commands()[1], ["WAIT", "2", "450"], "and a little less, for the answer");
}

#[test]
fn too_few_replicas_fail_the_attempt_and_release_the_lock() {
    let (mut host, _) = waiting();
    host.answer_on(CONFIRMATIONS, HELD);
    host.let_pass(PATIENCE);
    host.answer_on(CONFIRMATIONS, ":0\r\n");
    let told = failure(&mut host);
    assert!(told.contains("redis1") && told.contains("only 0 of 1 replicas acknowledged the lock in time"), "{told}");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_longer() {
    let (mut host, _) = waiting();
    host.let_pass(PATIENCE);
    host.expire();
    let told = failure(&mut host);
    assert!(told.contains("only 0 of 1"), "{told}");
    host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
    assert_eq!(host.told.len(), 1, "{:?}", host.told);
}

#[test]
fn a_lock_that_is_gone_by_then_is_not_believed() {
    let (mut host, _) = waiting();
    host.answer_on(CONFIRMATIONS, &[LOST, ":1\r\n"].concat());
    let told = failure(&mut host);
    assert!(told.contains("lost before enough replicas had it"), "{told}");
}

#[test]
fn a_server_that_does_not_let_one_wait_is_quoted() {
    let (mut host, _) = waiting();
    host.answer_on(CONFIRMATIONS, &[HELD, "-NOPERM no permissions to run the 'wait' command\r\n"].concat());
    let told = failure(&mut host);
    assert!(told.contains("no permissions to run the 'wait' command") && told.contains("permit WAIT"), "{told}");
}

#[test]
fn a_wait_that_came_before_the_write_proves_nothing() {
    let (mut host, _) = waiting();
    host.answer_on(CONFIRMATIONS, "-ERR Function not found\r\n:1\r\n");
    assert!(host.told.is_empty(), "{:?}", host.told);
    assert_eq!(host.sent(), ["FUNCTION", "FCALL pinyon_extend_8", "WAIT"]);
    host.answer_on(CONFIRMATIONS, &["$14\r\npinyon_locks_8\r\n", HELD].concat());
    assert!(host.told.is_empty(), "{:?}", host.told);
    host.answer_on(CONFIRMATIONS, ":1\r\n");
    assert!(matches!(host.told[..], [("lock", Outcome::Granted { .. })]), "{:?}", host.told);
}

#[test]
fn a_broken_connection_is_replaced_and_the_wait_begins_anew() {
    for lane in [CONFIRMATIONS, COMMANDS] {
        let (mut host, _) = waiting();
        host.end_on(lane, Ending::Reset);
        while host.opened().len() < 3 {
            host.await_due();
        }
        if lane == COMMANDS {
            host.answer("");
            host.greet();
        }
        greet(&mut host);
        assert_eq!(host.sent(), ["FCALL pinyon_extend_8", "WAIT"]);
        host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
        assert!(matches!(host.told[..], [("lock", Outcome::Granted { .. })]), "{:?}", host.told);
    }
}

#[test]
fn whoever_gives_up_or_closes_is_not_kept_waiting() {
    let (mut host, number) = waiting();
    host.cancel(number);
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
    host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
    assert!(host.told.is_empty(), "{:?}", host.told);

    let (mut host, _) = waiting();
    host.close();
    assert!(failure(&mut host).contains("the client was closed"));
}

#[test]
fn an_upgrade_has_a_time_of_its_own_though_that_of_the_lock_is_over() {
    let mut host = wanting(1, HandlerKind::Script);
    let names = keys::names(["a"]).unwrap().to_read();
    let (ttl, wait) = (Duration::from_secs(600), Duration::from_secs(3));
    let request =
        LockRequest { names, owner: 1, ttl, wait: Some(wait), renewal: Renewal::Never, reentrant: false, rare: None };
    let number = host.request("lock", request).unwrap();
    host.greet();
    host.answer("*1\r\n:4999\r\n:5000\r\n");
    greet(&mut host);
    host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
    assert!(matches!(host.told.pop(), Some(("lock", Outcome::Granted { .. }))));
    host.let_pass(2 * wait);
    host.sent();
    host.begin(|client, now| client.change(number, &[], Mode::Write, wait, "upgrade", now));
    assert_eq!(host.sent(), ["FCALL pinyon_change_8"]);
    host.answer(":5001\r\n");
    assert_eq!(host.sent(), ["FCALL pinyon_extend_8", "WAIT"]);
    host.expire();
    assert!(host.told.is_empty(), "{:?}", host.told);
    host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
    assert!(matches!(host.told[..], [("upgrade", Outcome::Granted { token: 5001, .. })]), "{:?}", host.told);
}

#[test]
fn an_owner_that_waits_for_replicas_does_not_acquire_again_meanwhile() {
    let (mut host, number) = waiting();
    host.cannot_lock(1, "a", "again");
    assert!(matches!(host.told.pop(), Some(("again", Outcome::Failed(MachineFailure::AlreadyHeld)))));
    host.answer_on(CONFIRMATIONS, &[HELD, ":1\r\n"].concat());
    assert_eq!(host.lock("again", true), number);
    assert_eq!(host.told.len(), 2, "{:?}", host.told);
}

#[test]
fn plain_commands_are_waited_for_once_they_are_carried_out() {
    let mut host = wanting(1, HandlerKind::Pure);
    host.lock("lock", false);
    let mut results = Vec::new();
    let mut reply = |command: &[String], holder: &str| -> String {
        let reply = match &*command[0] {
            "MULTI" => {
                results.clear();
                return "+OK\r\n".into();
            }
            "EXEC" => return format!("*{}\r\n{}", results.len(), results.concat()),
            "WATCH" | "UNWATCH" => return "+OK\r\n".into(),
            "TIME" => return "*2\r\n$10\r\n1704067200\r\n$1\r\n0\r\n".into(),
            "MGET" => format!("*{}\r\n{}$4\r\n9999\r\n", command.len() - 1, holder.repeat(command.len() - 2)),
            "INCR" => ":10000\r\n".into(),
            "PEXPIRE" => ":1\r\n".into(),
            _ => "+OK\r\n".into(),
        };
        results.push(reply.clone());
        reply
    };
    let mut commands = Vec::new();
    for (_, answer) in GREETING {
        commands = host.commands().split_off(1);
        host.answer(answer);
    }
    for _ in 0..9 {
        if host.opened().len() == 2 {
            break;
        }
        commands.extend(host.commands());
        for command in commands.drain(..) {
            host.answer(&reply(&command, "$-1\r\n"));
        }
        host.answer("");
    }
    greet(&mut host);
    let mut sent = Vec::new();
    for _ in 0..9 {
        for command in host.commands() {
            sent.push(command[0].clone());
            if command[0] != "WAIT" {
                host.answer_on(CONFIRMATIONS, &reply(&command, "$5\r\nc:1:1\r\n"));
            }
        }
    }
    assert_eq!(sent, ["WATCH", "MGET", "TIME", "MULTI", "PEXPIRE", "EXEC", "WAIT"]);
    assert!(host.told.is_empty(), "{:?}", host.told);
    host.answer_on(CONFIRMATIONS, ":1\r\n");
    assert!(matches!(host.told[..], [("lock", Outcome::Granted { .. })]), "{:?}", host.told);
}
