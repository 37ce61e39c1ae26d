//! Commands and their replies, in order.

use pinyon_proto::resp::{ServerError, Value};

use super::host::{bytes, replies, status, Host, TIMEOUT};
use crate::redis::RespEvent;
use pinyon_net::connection::peer::Faults;
use pinyon_net::error::Kind;

#[test]
fn replies_come_in_the_order_of_their_commands() {
    let mut host = Host::connected();
    let set = host.submit("SET k v");
    let get = host.submit("GET k");
    let count = host.submit("INCR n");
    assert_eq!(host.sent(), ["SET k v", "GET k", "INCR n"], "in one send");
    let events = host.answer(b"+OK\r\n$1\r\nv\r\n:1\r\n");
    assert_eq!(replies(&events), [(set, status("OK")), (get, bytes("v")), (count, Value::Integer(1))]);
    assert!(!host.session.is_busy());
}

#[test]
fn an_error_is_a_reply_and_disturbs_no_neighbour() {
    let mut host = Host::connected();
    let (first, second) = (host.submit("LPUSH k v"), host.submit("GET other"));
    let error = ServerError { code: "WRONGTYPE".into(), message: "Operation against a key".into() };
    let events = host.answer(b"-WRONGTYPE Operation against a key\r\n_\r\n");
    assert_eq!(replies(&events), [(first, Value::Error(error)), (second, Value::Null)]);
}

#[test]
fn any_bytes_can_be_sent() {
    let mut host = Host::connected();
    host.sent();
    host.session.submit(&[b"SET", b"\r\n", b"\x00\xff"], host.now + TIMEOUT).unwrap();
    host.session.poll(host.now);
    assert_eq!(host.peer.take_received(), b"*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$2\r\n\x00\xff\r\n");
}

#[test]
fn the_reply_to_an_abandoned_exchange_is_dropped() {
    let mut host = Host::connected();
    let tickets = [host.submit("GET a"), host.submit("GET b"), host.submit("GET c")];
    host.turn();
    host.session.abandon(tickets[1]);
    let events = host.answer(b"$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
    assert_eq!(replies(&events), [(tickets[0], bytes("a")), (tickets[2], bytes("c"))]);
    assert!(!host.session.is_busy());

    let last = host.submit("GET d");
    host.session.abandon(last);
    assert_eq!(host.session.wants().until, None);
    assert_eq!(host.sent(), ["GET a", "GET b", "GET c", "GET d"], "it is sent all the same");
    assert!(host.answer(b"$1\r\nd\r\n").is_empty());
    assert!(host.session.failure().is_none());
}

#[test]
fn a_reply_is_read_however_it_drips() {
    for width in [1, 2, 3, 7, 1000] {
        let mut host = Host::connected();
        host.peer.behave(Faults {
            send_width: Some(width),
            receive_width: Some(width),
            hiccup: Some(std::io::ErrorKind::Interrupted),
            ..Faults::default()
        });
        let long = "x".repeat(3000);
        let (first, second) = (host.submit(&format!("SET k {long}")), host.submit("GET k"));
        let events = host.answer(format!("+OK\r\n$3000\r\n{long}\r\n").as_bytes());
        assert_eq!(replies(&events), [(first, status("OK")), (second, bytes(&long))]);
    }
}

#[test]
fn a_large_reply_is_received_in_few_polls() {
    let mut host = Host::connected();
    let large = "x".repeat(10 << 20);
    let get = host.submit("GET k");
    host.turn();
    host.peer.reply(format!("${}\r\n{large}\r\n", large.len()).as_bytes());
    let mut polls = 0;
    let event = loop {
        polls += 1;
        match host.turn().pop() {
            Some(event) => break event,
            None => assert!(polls < 60, "it takes ever more polls"),
        }
    };
    let RespEvent::Reply(ticket, value) = event else { panic!("{event:?}") };
    assert!(ticket == get && value == bytes(&large));
}

#[test]
fn what_nobody_asked_for_breaks_the_connection() {
    for (answer, quoted) in [("+OK\r\n", "OK"), ("$3\r\nabc\r\n", "abc"), ("-ERR why\r\n", "ERR why")] {
        let mut host = Host::connected();
        assert!(host.answer(answer.as_bytes()).is_empty());
        let expected = format!("redis1:6379: the server sent a reply that no request asked for: received \"{quoted}\"");
        assert_eq!(host.failure(), (Kind::Protocol, expected));
    }
}

#[test]
fn what_is_not_resp_breaks_the_connection_and_fails_all() {
    let mut host = Host::connected();
    let tickets = [host.submit("GET a"), host.submit("GET b")];
    let events = host.answer(b"$1\r\na\r\noh no\r\n");
    assert_eq!(replies(&events[..1]), [(tickets[0], bytes("a"))]);
    assert!(matches!(&events[1], RespEvent::Failed(ticket, error) if *ticket == tickets[1]
        && error.kind == Kind::Protocol && error.message == "unexpected reply: received \"oh no\\r\\n\""));
}
