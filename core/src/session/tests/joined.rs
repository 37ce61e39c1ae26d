//! Gets that share a `get` line: each hears of its own key, whatever becomes of the others.

use super::host::{delete, echo, failures, get, key, statuses, values, Event, Host, TIMEOUT};
use super::peer::Faults;
use crate::error::{Kind, Sent};
use crate::session::{Limits, Ticket, KEYS_PER_LINE, LARGE};
use pinyon_proto::{Key, Status};

fn joined<const COUNT: usize>(host: &mut Host, names: [&str; COUNT]) -> [Ticket; COUNT] {
    names.map(|name| host.submit_joined_get(name))
}

#[test]
fn gets_of_one_turn_leave_as_one_line() {
    let mut host = Host::connected("1.6.18");
    let [a, b, c] = joined(&mut host, ["a", "b", "c"]);
    assert_eq!(host.sent(), "get a b c\r\n");
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nVALUE c 7 2\r\nCC\r\nEND\r\n");
    assert_eq!(values(&events), [(a, &b"A"[..]), (b, b""), (c, b"CC")]);
    assert_eq!(statuses(&events), [(a, Status::Hit), (b, Status::Miss), (c, Status::Hit)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_value_is_handed_out_before_the_line_has_ended() {
    let mut host = Host::connected("1.6.18");
    let [a, _, c, d] = joined(&mut host, ["a", "b", "c", "d"]);
    assert_eq!(values(&host.answer(b"VALUE a 0 1\r\nA\r\n")), [(a, &b"A"[..])]);
    let events = host.answer(b"VALUE c 0 1\r\nC\r\n");
    assert_eq!(values(&events).last(), Some(&(c, &b"C"[..])));
    assert_eq!(statuses(&host.answer(b"END\r\n")), [(d, Status::Miss)]);
}

#[test]
fn the_same_key_may_be_asked_for_twice() {
    let mut host = Host::connected("1.6.18");
    let [first, second] = joined(&mut host, ["a", "a"]);
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nVALUE a 0 1\r\nA\r\nEND\r\n");
    assert_eq!(values(&events), [(first, &b"A"[..]), (second, b"A")]);
}

#[test]
fn whatever_else_is_submitted_comes_after_the_line() {
    let mut host = Host::connected("1.6.18");
    let [a, b] = joined(&mut host, ["a", "b"]);
    let loud = host.submit(get("c"));
    let next = host.submit_joined_get("d");
    let quiet = host.submit_quiet(delete("e"));
    let last = host.submit_joined_get("f");
    let requests = format!("get a b\r\nmg c f v{}\r\nget d\r\nmd e{} q\r\nmn\r\nget f\r\n", echo(loud), echo(quiet));
    assert_eq!(host.sent(), requests);
    let replies = format!("VALUE b 0 1\r\nB\r\nEND\r\nEN{}\r\nEND\r\nMN\r\nVALUE f 0 1\r\nF\r\nEND\r\n", echo(loud));
    let events = host.answer(replies.as_bytes());
    let expected = [(a, &b""[..]), (b, b"B"), (loud, b""), (next, b""), (quiet, b""), (last, b"F")];
    assert_eq!(values(&events), expected);
    assert!(host.session.is_clean());
}

#[test]
fn a_line_takes_so_many_keys_and_no_more() {
    let mut host = Host::connected("1.6.18");
    let names: Vec<String> = (0..=KEYS_PER_LINE).map(|number| format!("k{number}")).collect();
    let tickets: Vec<Ticket> = names.iter().map(|name| host.submit_joined_get(name)).collect();
    assert_eq!(host.sent(), format!("get {}\r\nget {}\r\n", names[..KEYS_PER_LINE].join(" "), names[KEYS_PER_LINE]));
    let events = host.answer(b"END\r\nEND\r\n");
    assert_eq!(statuses(&events), tickets.iter().map(|ticket| (*ticket, Status::Miss)).collect::<Vec<_>>());
}

#[test]
fn keys_sent_as_base64_go_alone() {
    let mut host = Host::connected("1.6.18");
    host.submit_joined_get("a");
    let encoded = host.session.submit_joined_get(Key::new(b"AAEC", true).unwrap(), host.now + TIMEOUT).unwrap();
    assert_eq!(host.sent(), format!("get a\r\nmg AAEC b f v{}\r\n", echo(encoded)));
}

#[test]
fn a_key_that_nobody_asked_for_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let [a, b] = joined(&mut host, ["a", "b"]);
    host.sent();
    let failed = failures(&host.answer(b"VALUE c 0 1\r\nC\r\nEND\r\n"));
    assert_eq!(failed, [(a, Kind::Protocol, Sent::Maybe), (b, Kind::Protocol, Sent::Maybe)]);
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn a_key_out_of_its_order_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let [a, b] = joined(&mut host, ["a", "b"]);
    let events = host.answer(b"VALUE b 0 1\r\nB\r\nVALUE a 0 1\r\nA\r\nEND\r\n");
    assert_eq!(values(&events), [(a, &b""[..]), (b, b"B")]);
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn a_value_behind_the_last_key_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let [a] = joined(&mut host, ["a"]);
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nVALUE a 0 1\r\nA\r\nEND\r\n");
    assert_eq!(values(&events), [(a, &b"A"[..])]);
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn an_error_concerns_the_keys_that_were_not_answered() {
    let mut host = Host::connected("1.6.18");
    let [a, b, c] = joined(&mut host, ["a", "b", "c"]);
    let next = host.submit_joined_get("d");
    host.sent();
    assert_eq!(values(&host.answer(b"VALUE a 0 1\r\nA\r\n")), [(a, &b"A"[..])]);
    let events = host.answer(b"SERVER_ERROR out of memory writing get response\r\n");
    let failed = failures(&events).into_iter().map(|(ticket, kind, _)| (ticket, kind)).collect::<Vec<_>>();
    assert_eq!(failed, [(b, Kind::Server), (c, Kind::Server), (next, Kind::Server)]);
    assert!(host.session.is_clean());
}

#[test]
fn one_that_is_abandoned_leaves_the_others_their_replies() {
    let mut host = Host::connected("1.6.18");
    let [a, b, c] = joined(&mut host, ["a", "b", "c"]);
    host.session.abandon(b);
    host.sent();
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nVALUE b 0 1\r\nB\r\nVALUE c 0 1\r\nC\r\nEND\r\n");
    assert_eq!(values(&events), [(a, &b"A"[..]), (c, b"C")]);
    assert!(host.session.is_clean());
}

#[test]
fn each_has_a_deadline_of_its_own() {
    let mut host = Host::connected("1.6.18");
    let short = host.session.submit_joined_get(key("a"), host.now + TIMEOUT / 2).unwrap();
    let long = host.submit_joined_get("b");
    host.sent();
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), [(short, Kind::Timeout, Sent::Maybe)]);
    assert_eq!(values(&host.answer(b"VALUE a 0 1\r\nA\r\nVALUE b 0 1\r\nB\r\nEND\r\n")), [(long, &b"B"[..])]);
    assert!(host.session.is_clean());
}

#[test]
fn a_large_value_behind_a_miss_is_received_into_its_place() {
    let mut host = Host::connected("1.6.18");
    let [a, b, c] = joined(&mut host, ["a", "b", "c"]);
    host.sent();
    let value = vec![b'x'; LARGE * 3];
    let mut reply = format!("VALUE b 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\nVALUE c 0 1\r\nC\r\nEND\r\n");
    host.peer.behave(Faults { receive_width: Some(5000), ..Faults::default() });
    let events = host.answer(&reply);
    let replies: Vec<Event> = events.into_iter().filter(|event| !matches!(event, Event::Large(..))).collect();
    assert_eq!(values(&replies), [(a, &b""[..]), (b, &value[..]), (c, b"C")]);
    assert!(host.session.is_clean());
}

#[test]
fn a_full_queue_counts_every_key() {
    let mut host = Host::connected_within("1.6.18", Limits { exchanges: 2, ..Limits::default() });
    joined(&mut host, ["a", "b"]);
    assert!(!host.session.accepts());
}
