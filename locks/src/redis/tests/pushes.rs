//! Pushes from the server, in both protocols.

use pinyon_proto::resp::{ServerError, Value};

use super::host::{array, bytes, push, pushes, replies, status, Host};
use crate::redis::RespEvent;
use pinyon_net::error::Kind;

/// A confirmation in RESP3.
fn confirmation(kind: &str, channel: &str, count: usize) -> Vec<u8> {
    format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:{count}\r\n", kind.len(), channel.len()).into_bytes()
}

fn confirmed(kind: &str, channel: &str, count: i64) -> Value {
    Value::Array(vec![bytes(kind), bytes(channel), Value::Integer(count)])
}

#[test]
fn pushes_come_anywhere_between_replies() {
    let mut host = Host::connected();
    let tickets = [host.submit("GET a"), host.submit("GET b")];
    host.turn();
    let arriving = [push("message c 1"), b"$1\r\na\r\n".to_vec(), push("message c 2"), b"$1\r\nb\r\n".to_vec()];
    let events = host.answer(&[arriving.concat(), push("message c 3")].concat());
    assert_eq!(
        pushes(&[events[0].clone(), events[2].clone(), events[4].clone()]),
        ["message c 1", "message c 2", "message c 3"]
    );
    assert_eq!(replies(&[events[1].clone(), events[3].clone()]), [(tickets[0], bytes("a")), (tickets[1], bytes("b"))]);
    assert_eq!(pushes(&host.answer(&push("invalidate k"))), ["invalidate k"], "at rest, too");
}

#[test]
fn a_subscription_is_answered_by_its_last_confirmation() {
    let mut host = Host::connected();
    let before = host.submit("GET a");
    let subscribed = host.submit("SUBSCRIBE x y");
    let after = host.submit("GET b");
    host.turn();
    assert!(!host.session.is_subscriber_only());
    let arriving = [b"+a\r\n".to_vec(), confirmation("subscribe", "x", 1), push("message x early")].concat();
    let events = host.answer(&arriving);
    assert_eq!(replies(&events[..1]), [(before, status("a"))]);
    assert_eq!(pushes(&events[1..]), ["message x early"]);
    let events = host.answer(&[confirmation("subscribe", "y", 2), b"+b\r\n".to_vec()].concat());
    assert_eq!(replies(&events), [(subscribed, confirmed("subscribe", "y", 2)), (after, status("b"))]);

    let unsubscribed = host.submit("unsubscribe x");
    let events = host.answer(&confirmation("unsubscribe", "x", 1));
    assert_eq!(replies(&events), [(unsubscribed, confirmed("unsubscribe", "x", 1))]);
}

#[test]
fn a_subscription_that_is_refused_is_answered_by_the_error() {
    let mut host = Host::connected();
    let (refused, after) = (host.submit("SUBSCRIBE x"), host.submit("GET b"));
    let events = host.answer(b"-NOPERM no permissions to access one of the channels\r\n+b\r\n");
    let error = ServerError { code: "NOPERM".into(), message: "no permissions to access one of the channels".into() };
    assert_eq!(replies(&events), [(refused, Value::Error(error)), (after, status("b"))]);
}

#[test]
fn an_abandoned_subscription_is_confirmed_to_nobody() {
    let mut host = Host::connected();
    let subscription = host.submit("SSUBSCRIBE x");
    host.session.abandon(subscription);
    assert!(host.answer(&confirmation("ssubscribe", "x", 1)).is_empty());
    assert_eq!(pushes(&host.answer(&push("smessage x 1"))), ["smessage x 1"]);
    assert_eq!(pushes(&host.answer(&push("sunsubscribe x"))), ["sunsubscribe x"], "the server may do so by itself");
}

#[test]
fn a_reply_in_place_of_a_confirmation_breaks_the_connection() {
    let mut host = Host::connected();
    host.submit("SUBSCRIBE x");
    host.answer(b"+OK\r\n");
    let (kind, message) = host.failure();
    assert_eq!(kind, Kind::Protocol);
    assert!(message.ends_with("expected the confirmation of a subscription: received \"OK\""), "{message}");
}

#[test]
fn with_resp2_messages_to_a_subscribed_connection_are_pushes() {
    let mut host = Host::connected_by_resp2();
    let plain = host.submit("LRANGE l 0 -1");
    let events = host.answer(&array("message not one"));
    let list = Value::Array(vec![bytes("message"), bytes("not"), bytes("one")]);
    assert_eq!(replies(&events), [(plain, list)]);

    let subscribed = host.submit("SUBSCRIBE x");
    assert!(host.session.is_subscriber_only());
    let mut arriving = confirmation("subscribe", "x", 1);
    arriving[0] = b'*';
    let events = host.answer(&[arriving, array("message x 1"), array("pmessage * x 2")].concat());
    assert_eq!(replies(&events[..1]), [(subscribed, confirmed("subscribe", "x", 1))]);
    assert_eq!(pushes(&events[1..]), ["message x 1", "pmessage * x 2"]);

    let ping = host.submit("PING");
    let events = host.answer(&[array("message x 3"), array("pong ")].concat());
    assert_eq!(pushes(&events[..1]), ["message x 3"]);
    assert_eq!(replies(&events[1..]), [(ping, Value::Array(vec![bytes("pong"), bytes("")]))]);

    assert!(host.answer(&array("pong ")).iter().all(|event| !matches!(event, RespEvent::Reply(..))));
    assert_eq!(host.failure().0, Kind::Protocol, "other arrays are replies still");
}
