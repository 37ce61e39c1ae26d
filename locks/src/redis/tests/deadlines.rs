//! Exchanges whose deadline passes.

use std::time::Duration;

use super::host::{bytes, failures, replies, Host, TIMEOUT};
use crate::redis::Ticket;
use pinyon_net::error::{Kind, Sent};

fn submit_within(host: &mut Host, timeout: Duration) -> Ticket {
    host.session.submit(&[b"GET", b"k"], host.now + timeout).unwrap()
}

#[test]
fn the_earliest_deadline_is_waited_for() {
    let mut host = Host::connected();
    submit_within(&mut host, TIMEOUT);
    let soon = submit_within(&mut host, TIMEOUT / 2);
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT / 2));
    host.session.abandon(soon);
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT), "nobody waits for the other");
}

#[test]
fn an_exchange_that_is_too_late_fails_by_itself() {
    let mut host = Host::connected();
    let (late, other) = (submit_within(&mut host, TIMEOUT / 2), submit_within(&mut host, TIMEOUT));
    host.turn();
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), [(late, Kind::Timeout, Sent::Maybe)]);
    assert!(host.turn().is_empty(), "once");
    let events = host.answer(b"$4\r\nlate\r\n$2\r\nok\r\n");
    assert_eq!(replies(&events), [(other, bytes("ok"))], "the late reply is dropped");
}

#[test]
fn a_server_that_answers_nobody_any_more_is_left() {
    let mut host = Host::connected();
    let tickets = [submit_within(&mut host, TIMEOUT / 2), submit_within(&mut host, TIMEOUT)];
    host.turn();
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), [(tickets[0], Kind::Timeout, Sent::Maybe)]);
    assert!(host.session.failure().is_none(), "it may still answer the other");
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), [(tickets[1], Kind::Timeout, Sent::Maybe)]);
    assert_eq!(host.failure(), (Kind::Timeout, "redis1:6379: the server did not answer in time".into()));
}

#[test]
fn an_idle_connection_has_no_deadline() {
    let mut host = Host::connected();
    host.pass(TIMEOUT * 1000);
    assert!(host.turn().is_empty() && host.session.failure().is_none());

    let abandoned = submit_within(&mut host, TIMEOUT);
    host.session.abandon(abandoned);
    host.pass(TIMEOUT * 2);
    assert!(host.turn().is_empty() && host.session.failure().is_none(), "nobody was disappointed");
}

#[test]
fn what_could_not_be_sent_in_time_was_not_sent() {
    let mut host = Host::connected();
    let length = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len();
    host.peer.make_room(length + 1);
    let tickets = [(); 3].map(|()| submit_within(&mut host, TIMEOUT));
    host.turn();
    host.pass(TIMEOUT);
    assert_eq!(
        failures(&host.turn()),
        [
            (tickets[0], Kind::Timeout, Sent::Maybe),
            (tickets[1], Kind::Timeout, Sent::Maybe),
            (tickets[2], Kind::Timeout, Sent::No),
        ]
    );
}

#[test]
fn what_could_not_be_sent_in_time_may_still_be_where_others_keep_the_connection() {
    let mut host = Host::connected();
    host.peer.make_room(1);
    let tickets = [(); 2].map(|()| submit_within(&mut host, TIMEOUT / 2));
    submit_within(&mut host, TIMEOUT);
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), tickets.map(|ticket| (ticket, Kind::Timeout, Sent::Maybe)));
}

#[test]
fn an_abandoned_exchange_is_not_heard_of_though_it_expired() {
    let mut host = Host::connected();
    let (late, other) = (submit_within(&mut host, TIMEOUT / 2), submit_within(&mut host, TIMEOUT));
    host.pass(TIMEOUT / 2);
    host.session.poll(host.now);
    host.session.abandon(late);
    assert!(host.turn().is_empty());
    host.session.abandon(other);
    assert!(host.answer(b"$-1\r\n$-1\r\n").is_empty());
    assert!(!host.session.is_busy());
}
