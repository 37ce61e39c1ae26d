//! Bounds on a session's memory.

use pinyon_proto::resp;

use super::host::{failures, replies, status, Host, TIMEOUT};
use crate::redis::{RespLimits, RespRefused, SessionSettings};
use pinyon_net::error::{Kind, Sent};

fn limited(limits: RespLimits) -> Host {
    Host::connected_with(SessionSettings { limits, ..SessionSettings::default() })
}

#[test]
fn a_full_queue_takes_no_more_until_a_reply_has_come() {
    let mut host = limited(RespLimits { exchanges: 2, ..RespLimits::default() });
    let first = host.submit("GET a");
    host.submit("GET b");
    assert!(!host.session.accepts());
    assert_eq!(host.session.submit(&[b"GET", b"c"], host.now + TIMEOUT), Err(RespRefused::Full));
    assert_eq!(replies(&host.answer(b"+a\r\n")), [(first, status("a"))]);
    host.submit("GET c");
}

#[test]
fn what_cannot_be_sent_is_not_gathered_without_end() {
    let mut host = limited(RespLimits { unsent: 100, ..RespLimits::default() });
    host.peer.make_room(0);
    host.submit(&format!("SET k {}", "v".repeat(100)));
    host.turn();
    assert_eq!(host.session.submit(&[b"GET", b"c"], host.now + TIMEOUT), Err(RespRefused::Full));
    host.peer.make_room(usize::MAX);
    host.turn();
    host.submit("GET c");
}

#[test]
fn a_command_has_a_largest_size() {
    let mut host = limited(RespLimits { command: 10, ..RespLimits::default() });
    host.submit("SET key 1234");
    let refused = host.session.submit(&[b"SET", b"key", b"12345"], host.now + TIMEOUT).unwrap_err();
    assert_eq!(refused, RespRefused::TooLarge { size: 11, limit: 10 });
    let error = refused.into_error(host.session.name(), "SET");
    assert_eq!((error.kind, error.sent), (Kind::TooLarge, Sent::No));
    assert_eq!(error.to_string(), "redis1:6379: SET: the command has 11 bytes, more than the limit of 10");
    host.sent();
    assert_eq!(replies(&host.answer(b"+OK\r\n")).len(), 1, "nothing of what was refused was sent");
}

#[test]
fn what_could_not_be_answered_in_order_is_refused() {
    let mut host = Host::connected();
    for command in ["UNSUBSCRIBE", "subscribe", "MONITOR", "Hello 2", "RESET", "CLIENT REPLY OFF", "PSYNC ? -1"] {
        let parts: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let refused = host.session.submit(&parts, host.now + TIMEOUT).unwrap_err();
        assert!(matches!(refused, RespRefused::Unanswerable(_)), "{command}: {refused:?}");
        assert_eq!(refused.into_error(host.session.name(), "").kind, Kind::Usage);
    }
    assert!(matches!(host.session.submit(&[], host.now), Err(RespRefused::Unanswerable(_))));
    assert!(!host.session.is_busy());
    host.submit("CLIENT ID");
}

#[test]
fn a_reply_has_a_largest_size() {
    let reply = resp::Limits { bulk: 200, elements: 20, depth: 2 };
    for answer in ["$201\r\n", "*21\r\n", "*1\r\n*1\r\n*1\r\n", ">21\r\n"] {
        let mut host = limited(RespLimits { reply, ..RespLimits::default() });
        let ticket = host.submit("GET a");
        let events = host.answer(answer.as_bytes());
        assert_eq!(failures(&events), [(ticket, Kind::Protocol, Sent::Maybe)], "{answer}");
    }
}

#[test]
fn a_host_that_takes_nothing_makes_the_server_wait() {
    let mut host = Host::connected();
    let flood = b">2\r\n+message\r\n+x\r\n".repeat(100_000);
    host.peer.reply(&flood);
    for _ in 0..100 {
        host.session.poll(host.now);
    }
    assert!(!host.peer.is_drained(), "all of it was taken in");
    assert_eq!(host.turns().len(), 100_000);
}
