//! Deadlines, by a clock that the test sets.

use std::time::Duration;

use super::host::{echo, failures, get, get_many, set, statuses, values, Host, TIMEOUT};
use super::peer::Ending;
use crate::session::Data;
use pinyon_net::error::{Kind, Sent};
use pinyon_proto::Status;

const TICK: Duration = Duration::from_millis(1);

#[test]
fn an_exchange_fails_at_its_deadline_and_not_before() {
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("k"));
    host.pass(TIMEOUT - TICK);
    assert!(host.turn().is_empty());
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(ticket, Kind::Timeout, Sent::Maybe)]);
}

#[test]
fn what_was_not_sent_by_its_deadline_was_certainly_not_executed() {
    let mut host = Host::connected("1.6.18");
    host.peer.make_room(20);
    let half = host.submit(get("half-sent-key"));
    let unsent = host.submit(get("unsent"));
    host.pass(TIMEOUT);
    assert_eq!(failures(&host.turn()), [(half, Kind::Timeout, Sent::Maybe), (unsent, Kind::Timeout, Sent::No)]);
}

#[test]
fn what_was_not_sent_by_its_deadline_may_still_be_where_others_keep_the_connection() {
    let mut host = Host::connected("1.6.18");
    host.peer.make_room(1);
    let half = host.session.submit(&get("half-sent-key"), Data::None, host.now + TICK).unwrap();
    let unsent = host.session.submit(&get("unsent"), Data::None, host.now + TICK).unwrap();
    host.submit(get("later"));
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(half, Kind::Timeout, Sent::Maybe), (unsent, Kind::Timeout, Sent::Maybe)]);
}

#[test]
fn a_late_reply_is_dropped_while_others_still_wait() {
    let mut host = Host::connected("1.6.18");
    let soon = host.session.submit(&get("soon"), Data::None, host.now + TICK).unwrap();
    let later = host.submit(get("later"));
    host.turn();
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(soon, Kind::Timeout, Sent::Maybe)]);
    assert!(host.session.is_ready(), "somebody still waits");
    let events = host.answer(b"VA 4 f0 O0\r\nLATE\r\nVA 5 f0 O1\r\nLATER\r\n");
    assert_eq!(values(&events), [(later, &b"LATER"[..])]);
    assert!(host.session.is_clean());
}

#[test]
fn when_nobody_waits_any_more_the_connection_is_closed() {
    let mut host = Host::connected("1.6.18");
    let first = host.session.submit(&get("a"), Data::None, host.now + TICK).unwrap();
    let second = host.session.submit(&get("b"), Data::None, host.now + 2 * TICK).unwrap();
    let abandoned = host.submit(get("c"));
    host.session.abandon(abandoned);
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(first, Kind::Timeout, Sent::Maybe)]);
    assert!(host.session.is_ready());
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(second, Kind::Timeout, Sent::Maybe)]);
    assert_eq!(host.failure().0, Kind::Timeout);
}

#[test]
fn the_next_deadline_is_what_it_wants_to_be_woken_for() {
    let mut host = Host::connected("1.6.18");
    let start = host.now;
    host.session.submit(&get("a"), Data::None, start + 9 * TICK).unwrap();
    let soonest = host.session.submit(&get("b"), Data::None, start + 4 * TICK).unwrap();
    assert_eq!(host.session.wants().until, Some(start + 4 * TICK));
    host.pass(4 * TICK);
    assert_eq!(host.turn()[0].ticket(), soonest);
    assert_eq!(host.session.wants().until, Some(start + 9 * TICK));
}

#[test]
fn a_reply_that_has_come_is_handed_out_however_late_it_is_looked() {
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("k"));
    host.turn();
    host.pass(TIMEOUT);
    let events = host.answer(b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(values(&events), [(ticket, &b"x"[..])]);
}

#[test]
fn of_replies_in_one_look_those_that_are_missing_are_late() {
    let mut host = Host::connected("1.6.18");
    let (first, second) = (host.submit(get("a")), host.submit(get("b")));
    host.turn();
    host.pass(2 * TIMEOUT);
    let events = host.answer(b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(values(&events[..1]), [(first, &b"x"[..])]);
    assert_eq!(failures(&events[1..]), [(second, Kind::Timeout, Sent::Maybe)]);
}

#[test]
fn a_server_that_drips_does_not_outlast_the_deadline() {
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("k"));
    let reply = format!("VA 1000 f0{}\r\n{}\r\n", echo(ticket), "x".repeat(1000));
    let mut elapsed = Duration::ZERO;
    for byte in reply.bytes() {
        let events = host.answer(&[byte]);
        if elapsed >= TIMEOUT {
            assert_eq!(failures(&events), [(ticket, Kind::Timeout, Sent::Maybe)]);
            return;
        }
        assert!(events.is_empty());
        host.pass(10 * TICK);
        elapsed += 10 * TICK;
    }
    panic!("it was waited for to the end");
}

#[test]
fn the_keys_of_a_late_multi_key_reply_are_dropped() {
    let mut host = Host::connected("1.6.18");
    let many = host.session.submit(&get_many("a b"), Data::None, host.now + TICK).unwrap();
    let other = host.submit(get("c"));
    assert_eq!(values(&host.answer(b"VALUE a 0 1\r\nA\r\n")), [(many, &b"A"[..])]);
    host.pass(TICK);
    assert_eq!(failures(&host.turn()), [(many, Kind::Timeout, Sent::Maybe)]);
    let events = host.answer(b"VALUE b 0 1\r\nB\r\nEND\r\nEN O1\r\n");
    assert_eq!(statuses(&events), [(other, Status::Miss)]);
}

#[test]
fn abandoning_what_has_just_expired_takes_its_failure_back() {
    let mut host = Host::connected("1.6.18");
    let expired = host.session.submit(&get("a"), Data::None, host.now + TICK).unwrap();
    host.submit(get("b"));
    host.pass(TICK);
    host.session.poll(host.now);
    host.session.abandon(expired);
    assert!(host.turn().is_empty());
}

#[test]
fn an_expired_exchange_fails_once_though_the_connection_breaks_too() {
    let mut host = Host::connected("1.6.18");
    let soon = host.session.submit(&set("a", 1), Data::Copied(b"x"), host.now + TICK).unwrap();
    let later = host.submit(get("b"));
    host.turn();
    host.pass(TICK);
    host.peer.end(Ending::Closed);
    let events = failures(&host.turns());
    assert_eq!(events, [(soon, Kind::Closed, Sent::Maybe), (later, Kind::Closed, Sent::Maybe)]);
}
