//! What Sentinels say, and a client that one of them leads to its server.

use super::*;
use crate::client::tests::{Host, REPLICA};
use crate::observed::LockEventKind;
use pinyon_net::connection::peer::Ending;

const SENTINEL: &str =
    "%3\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n+PONG\r\n";
const SUBSCRIBED: &str = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
const LANE: usize = FIRST_LANE;

fn names(host: &str) -> String {
    format!("*2\r\n${}\r\n{host}\r\n$4\r\n6379\r\n", host.len())
}

fn switch(service: &str, to: &str) -> String {
    let text = format!("{service} 10.0.0.1 6379 {to} 6379");
    format!(">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n${}\r\n{text}\r\n", text.len())
}

fn tcp(host: &str) -> Endpoint {
    Endpoint::Tcp { host: host.into(), port: 6379 }
}

/// A client that its Sentinel has led to this server.
fn led_to(primary: &str) -> Host {
    let mut host = Host::watched_by(["10.0.0.9"]);
    host.lock("lock", false);
    host.answer_on(LANE, "");
    assert_eq!(host.sent(), ["HELLO", "PING"]);
    host.answer_on(LANE, SENTINEL);
    assert_eq!(host.sent(), ["SENTINEL", "SUBSCRIBE"]);
    host.answer_on(LANE, &[&names(primary), SUBSCRIBED].concat());
    host.answer("");
    host
}

#[test]
fn the_server_that_a_sentinel_names_gets_the_calls() {
    let mut host = led_to("10.0.0.1");
    assert_eq!(host.opened(), ["10.0.0.9:26379", "10.0.0.1:6379"]);
    assert_eq!(host.greet(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
}

#[test]
fn a_switch_leads_to_the_new_primary_which_gets_the_calls_under_way() {
    let mut host = led_to("10.0.0.1");
    let calls = host.greet();
    host.answer_on(LANE, &switch("other", "10.0.0.3"));
    assert_eq!(host.opened().len(), 2, "another service's");
    host.answer_on(LANE, &switch("main", "10.0.0.2"));
    assert_eq!(host.sent(), ["SENTINEL"], "one question before the word is believed");
    host.answer_on(LANE, &names("10.0.0.2"));
    assert_eq!(host.opened().last().unwrap(), "10.0.0.2:6379");
    let line = "10.0.0.9:26379/main: the primary is 10.0.0.2:6379 now, and no longer 10.0.0.1:6379";
    let [connected, switched] = &std::mem::take(&mut host.events)[..] else { panic!("two events") };
    assert_eq!((connected.kind, &*connected.line), (LockEventKind::Connected, "10.0.0.1:6379 is connected"));
    assert_eq!((switched.kind, &*switched.line), (LockEventKind::Switched, line));
    assert_eq!((&*switched.server, switched.previous.as_deref()), ("10.0.0.2:6379", Some("10.0.0.1:6379")));
    host.answer("");
    assert_eq!(host.greet(), calls);
    assert_eq!(host.kinds(), [LockEventKind::Connected], "the switch is told once");
}

#[test]
fn a_sentinel_that_is_lost_and_found_is_told_once_each() {
    let mut host = led_to("10.0.0.1");
    host.greet();
    host.kinds();
    host.end_on(LANE, Ending::Closed);
    assert_eq!(host.kinds(), [LockEventKind::SentinelDown]);
    host.pass_to_next_try();
    host.answer_on(LANE, "");
    assert_eq!(host.kinds(), [], "it has not answered yet");
    host.answer_on(LANE, SENTINEL);
    let [event] = &host.events[..] else { panic!("{:?}", host.events) };
    assert_eq!((event.kind, &*event.server), (LockEventKind::SentinelUp, "10.0.0.9:26379"));
}

#[test]
fn a_sentinel_without_resp3_is_asked_again_on_a_new_connection() {
    let info = "$41\r\nredis_version:5.0.14\r\nredis_mode:sentinel\r\n";
    let accepts = |host: &mut Host, primary: &str| {
        host.answer_on(LANE, "");
        host.answer_on(LANE, "-ERR unknown command 'HELLO'\r\n+PONG\r\n");
        host.answer_on(LANE, &[info, "$0\r\n\r\n+PONG\r\n"].concat());
        assert_eq!(host.sent(), ["HELLO", "PING", "INFO", "INFO", "PING", "SENTINEL", "SUBSCRIBE"]);
        host.answer_on(LANE, &[&names(primary), "*3", &SUBSCRIBED[2..]].concat());
        host.answer("");
    };
    let mut host = Host::watched_by(["10.0.0.9"]);
    host.lock("lock", false);
    accepts(&mut host, "10.0.0.1");
    let calls = host.greet();
    host.answer_on(LANE, &["*3", &switch("main", "10.0.0.2")[2..]].concat());
    accepts(&mut host, "10.0.0.2");
    let sentinel = "10.0.0.9:26379";
    assert_eq!(host.opened(), [sentinel, "10.0.0.1:6379", sentinel, "10.0.0.2:6379"]);
    assert_eq!(host.greet(), calls);
}

#[test]
fn a_broken_connection_leads_back_to_the_sentinel() {
    let mut host = led_to("10.0.0.1");
    host.greet();
    host.end_on(super::COMMANDS, Ending::Closed);
    assert_eq!(host.sent(), ["SENTINEL"]);
    host.answer_on(LANE, &names("10.0.0.2"));
    assert_eq!(host.opened().last().unwrap(), "10.0.0.2:6379");
}

#[test]
fn a_server_that_calls_itself_a_replica_is_not_believed() {
    let mut host = led_to("10.0.0.1");
    assert_eq!(host.sent(), ["HELLO", "PING"]);
    host.answer(REPLICA);
    let told = format!("{:?}", host.events);
    assert!(told.contains("it is a replica, although its Sentinels name it"), "{told}");
    assert!(!host.sent().iter().any(|command| command.starts_with("FCALL")));
}

#[test]
fn a_server_that_becomes_a_replica_is_left_for_whom_the_sentinel_names() {
    let mut host = led_to("10.0.0.1");
    host.greet();
    host.answer("-READONLY You can't write against a read only replica.\r\n-READONLY no\r\n");
    assert_eq!(host.sent(), ["ROLE"]);
    host.answer("*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.2\r\n:6379\r\n$9\r\nconnected\r\n:9\r\n");
    assert_eq!(host.sent(), ["SENTINEL"]);
    host.answer_on(LANE, &names("10.0.0.2"));
    host.answer("");
    assert_eq!(host.greet(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
    assert_eq!(host.opened().last().unwrap(), "10.0.0.2:6379");
}

#[test]
fn what_a_sentinel_answers_without_a_primary_is_told() {
    for (reply, why) in [
        ("*-1\r\n", "does not know the service 'main'"),
        ("-NOPERM no permissions\r\n", "permit SENTINEL and SUBSCRIBE"),
        ("+OK\r\n", "does not name a primary"),
        ("*2\r\n$1\r\na\r\n$1\r\n0\r\n", "whose address cannot be read"),
    ] {
        let mut host = Host::watched_by(["10.0.0.9"]);
        host.lock("lock", false);
        host.answer_on(LANE, SENTINEL);
        host.answer_on(LANE, reply);
        let told = format!("{:?}", host.events);
        assert!(told.contains(why) && told.contains("10.0.0.9:26379/main"), "{told}");
        let is_over = host.told.iter().any(|(_, outcome)| format!("{outcome:?}").contains("Refused"));
        assert_eq!(is_over, reply.contains("NOPERM") || reply.contains("*-1"), "{:?}", host.told);
    }
    let mut host = Host::watched_by(["10.0.0.9"]);
    host.lock("lock", false);
    host.answer_on(LANE, "%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n+PONG\r\n");
    assert!(format!("{:?}", host.told).contains("this is no Sentinel"), "{:?}", host.told);
}

#[test]
fn a_majority_of_all_sentinels_decides() {
    let (one, other) = (Vote::Names(tcp("10.0.0.1")), Vote::Names(tcp("10.0.0.2")));
    let (awaited, silent) = (Vote::Awaited, Vote::None("cannot be asked (refused)".into()));
    let verdict_of = |votes: &[&Vote]| {
        let sentinels: Vec<Endpoint> = (1..=votes.len()).map(|number| tcp(&format!("s{number}"))).collect();
        verdict("main", sentinels.iter().zip(votes.iter().copied()))
    };
    let primary = Verdict::Primary(tcp("10.0.0.1"));
    assert_eq!(verdict_of(&[&one]), primary);
    assert_eq!(verdict_of(&[&one, &awaited, &one]), primary);
    assert_eq!(verdict_of(&[&one, &other, &one]), primary);
    assert_eq!(verdict_of(&[&one, &awaited, &awaited]), Verdict::Awaited);
    assert_eq!(verdict_of(&[&one, &other, &awaited]), Verdict::Awaited);
    assert_eq!(verdict_of(&[&one, &silent, &awaited]), Verdict::Awaited);
    assert_eq!(verdict_of(&[&silent, &silent, &awaited]), Verdict::Awaited, "it says why, too");
    assert_eq!(verdict_of(&[&one, &one]), primary);
    for none in [&[&one, &other][..], &[&one, &silent, &silent], &[&silent], &[&one, &one, &other, &other]] {
        let Verdict::None(why) = verdict_of(none) else { panic!("{none:?}") };
        assert!(why.contains("same primary of 'main': s1:6379 "), "{why}");
    }
}
