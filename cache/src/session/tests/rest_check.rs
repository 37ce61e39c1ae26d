//! A connection that has rested is asked for a sign of life before it is used.

use std::time::Duration;

use super::host::{get, values, Host, TIMEOUT};
use super::peer::Ending;
use crate::session::RESTED;
use pinyon_net::error::Kind;

const SECOND: Duration = Duration::from_secs(1);

fn rested(version: &str, rest: Duration) -> Host {
    let mut host = Host::connected(version);
    host.pass(rest);
    host.session.ask_after(rest, host.now, TIMEOUT);
    host
}

#[test]
fn after_a_rest_it_asks_and_is_ready_once_it_is_answered() {
    for (version, request, answer) in
        [("1.6.18", "mn\r\n", &b"MN\r\n"[..]), ("1.4.25", "version\r\n", b"VERSION 1.4.25\r\n")]
    {
        let mut host = rested(version, RESTED);
        assert!(!host.session.accepts());
        assert_eq!(host.sent(), request);
        assert!(host.answer(answer).is_empty());
        assert!(host.session.is_clean() && host.session.accepts());
    }
    let mut host = rested("1.6.18", RESTED);
    host.answer(b"MN\r\n");
    let ticket = host.submit(get("k"));
    assert_eq!(values(&host.answer(b"VA 1 f0 O0\r\nv\r\n")), [(ticket, &b"v"[..])]);
}

#[test]
fn after_a_moment_it_asks_nothing() {
    let mut host = rested("1.6.18", RESTED - Duration::from_millis(1));
    assert!(host.session.accepts());
    assert_eq!(host.sent(), "");
}

#[test]
fn without_an_answer_it_is_lost_after_a_part_of_the_time() {
    let mut host = rested("1.6.18", 300 * SECOND);
    host.pass(TIMEOUT / 4 - Duration::from_millis(1));
    host.turn();
    assert!(host.session.failure().is_none());
    host.pass(Duration::from_millis(1));
    host.turn();
    let (kind, message) = host.failure();
    assert_eq!(kind, Kind::Lost);
    assert!(message.contains("had been idle"), "{message}");
}

#[test]
fn an_answer_that_is_read_late_counts() {
    let mut host = rested("1.6.18", RESTED);
    host.sent();
    host.peer.reply(b"MN\r\n");
    host.pass(SECOND);
    host.turn();
    assert!(host.session.accepts());
}

#[test]
fn a_connection_that_ends_instead_is_lost_too() {
    let mut host = rested("1.6.18", RESTED);
    host.peer.end(Ending::Closed);
    host.turn();
    assert_eq!(host.failure().0, Kind::Lost);
}

#[test]
fn an_error_is_a_sign_of_life() {
    let mut host = rested("1.6.18", RESTED);
    host.answer(b"SERVER_ERROR out of memory\r\n");
    assert!(host.session.accepts());
}
