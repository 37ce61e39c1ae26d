//! Replies that do not match: the connection breaks, and nothing of them is handed out.

use super::host::{delete, failures, get, get_many, incr, key, set, statuses, values, Event, Host};
use pinyon_net::error::{Kind, Sent};
use pinyon_proto::{Command, Flag, MetaCommand, StatsKind, Status, Verb};

/// Feeds bytes that do not match, whole and byte by byte: everything in flight fails, and nothing is handed out.
fn assert_refused(version: &str, commands: &[Command<'_>], bytes: &[u8], why: &str) {
    for width in [usize::MAX, 1] {
        let mut host = Host::connected(version);
        host.peer.behave(super::peer::Faults { receive_width: Some(width), ..Default::default() });
        let tickets: Vec<_> = commands.iter().map(|command| host.submit(*command)).collect();
        host.turn();
        let events = host.answer(bytes);
        let expected: Vec<_> = tickets.iter().map(|ticket| (*ticket, Kind::Protocol, Sent::Maybe)).collect();
        assert_eq!(failures(&events), expected, "{}", bytes.escape_ascii());
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Protocol);
        assert!(message.contains(why), "{}: {message}", bytes.escape_ascii());
    }
}

#[test]
fn a_reply_with_another_opaque_is_never_handed_out() {
    let why = "the reply belongs to another request";
    for reply in ["VA 5 f0 O1\r\nwrong\r\n", "VA 5 f0\r\nwrong\r\n", "HD O1\r\n", "HD\r\n", "EN O7\r\n", "EN\r\n"] {
        assert_refused("1.6.18", &[get("k")], reply.as_bytes(), why);
    }
    for reply in ["HD O1\r\n", "HD\r\n", "NF O1\r\n", "NF\r\n", "EX\r\n"] {
        assert_refused("1.6.18", &[delete("k")], reply.as_bytes(), why);
    }
    for reply in ["VA 1 O1\r\n5\r\n", "VA 1\r\n5\r\n", "NF\r\n", "NS\r\n"] {
        assert_refused("1.6.18", &[incr("k")], reply.as_bytes(), why);
    }
}

#[test]
fn a_miss_without_opaque_is_taken_from_servers_that_send_it_so() {
    for version in ["1.6.10", "1.6.17"] {
        let mut host = Host::connected(version);
        let miss = host.submit(get("k"));
        assert_eq!(statuses(&host.answer(b"EN\r\n")), [(miss, Status::Miss)], "{version}");
        assert_refused(version, &[get("k")], b"EN O1\r\n", "the reply belongs to another request");
        assert_refused(version, &[get("k")], b"HD\r\n", "the reply belongs to another request");
    }
    for version in ["1.6.18", "1.6.45"] {
        assert_refused(version, &[get("k")], b"EN\r\n", "the reply belongs to another request");
    }
}

#[test]
fn swapped_replies_are_not_handed_out() {
    assert_refused("1.6.18", &[get("a"), get("b")], b"VA 1 f0 O1\r\nB\r\nVA 1 f0 O0\r\nA\r\n", "another request");
    assert_refused("1.5.22", &[get("a"), get("b")], b"VALUE b 0 1\r\nB\r\nEND\r\n", "was not asked for");
    assert_refused("1.5.22", &[get_many("a b")], b"VALUE c 0 1\r\nC\r\nEND\r\n", "was not asked for");
}

#[test]
fn a_key_that_was_not_asked_for_breaks_the_connection_after_the_good_ones() {
    for stranger in ["c", "ab", "a", "bb", "", "a b", "A"] {
        let mut host = Host::connected("1.6.18");
        let many = host.submit(get_many("a b"));
        let next = host.submit(get("c"));
        host.turn();
        let bytes = format!("VALUE a 0 1\r\nA\r\nVALUE {stranger} 0 1\r\nX\r\nEND\r\n");
        let events = host.answer(bytes.as_bytes());
        assert_eq!(values(&events[..1]), [(many, &b"A"[..])], "{stranger}");
        assert_eq!(failures(&events[1..]), [(many, Kind::Protocol, Sent::Maybe), (next, Kind::Protocol, Sent::Maybe)]);
    }
}

#[test]
fn keys_in_another_order_break_the_connection() {
    let mut host = Host::connected("1.6.18");
    let many = host.submit(get_many("a b"));
    let events = host.answer(b"VALUE b 0 1\r\nB\r\nVALUE a 0 1\r\nA\r\nEND\r\n");
    assert_eq!(values(&events[..1]), [(many, &b"B"[..])]);
    assert_eq!(failures(&events[1..]), [(many, Kind::Protocol, Sent::Maybe)]);
}

#[test]
fn a_single_classic_get_takes_its_own_key_alone() {
    let why = "the reply has a key that was not asked for";
    assert_refused("1.5.22", &[get("k")], b"VALUE kk 0 1\r\nx\r\nEND\r\n", why);
    assert_refused(
        "1.5.22",
        &[Command::GetAndTouch { key: key("k"), ttl: 1, cas: false }],
        b"VALUE x 0 1\r\nx\r\nEND\r\n",
        why,
    );
}

#[test]
fn a_duplicate_reply_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let first = host.submit(get("a"));
    let second = host.submit(get("b"));
    let events = host.answer(b"VA 1 f0 O0\r\nA\r\nVA 1 f0 O0\r\nA\r\n");
    assert_eq!(values(&events[..1]), [(first, &b"A"[..])]);
    assert_eq!(failures(&events[1..]), [(second, Kind::Protocol, Sent::Maybe)]);
}

#[test]
fn what_nobody_asked_for_breaks_the_connection() {
    for unasked in [&b"VA 1 f0 O0\r\nA\r\n"[..], b"EN", b"\0", b"SERVER_ERROR shutting down\r\n", b"END\r\n"] {
        let mut host = Host::connected("1.6.18");
        assert!(host.answer(unasked).is_empty());
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Protocol);
        assert!(message.contains("the server sent a reply that no request asked for"), "{message}");
    }
}

#[test]
fn what_follows_the_last_reply_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let miss = host.submit(get("a"));
    let events = host.answer(b"EN O0\r\nEN O1\r\n");
    assert_eq!(statuses(&events), [(miss, Status::Miss)]);
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn replies_of_another_form_are_refused() {
    for (command, reply) in [
        (get("k"), "END\r\n"),
        (get("k"), "NF O0\r\n"),
        (delete("k"), "VA 1 O0\r\nx\r\n"),
        (delete("k"), "DELETED\r\n"),
        (incr("k"), "5\r\n"),
        (get_many("k"), "EN\r\n"),
        (Command::NoOp, "HD O0\r\n"),
        (Command::Version, "MN\r\n"),
        (Command::Stats(StatsKind::default()), "OK\r\n"),
        (Command::FlushAll { delay: 0 }, "END\r\n"),
    ] {
        assert_refused("1.6.18", &[command], reply.as_bytes(), "expected ");
    }
}

#[test]
fn a_wrong_length_breaks_the_connection_and_its_value_is_not_handed_out() {
    let why = "a value is longer than its length says";
    assert_refused("1.6.18", &[get("k")], b"VA 3 f0 O0\r\nhello\r\n", why);
    assert_refused("1.6.18", &[get("k")], b"VA 4 f0 O0\r\nhello\r\n", why);
    assert_refused("1.5.22", &[get("k")], b"VALUE k 0 3\r\nhello\r\nEND\r\n", why);

    let mut host = Host::connected("1.6.18");
    let short = host.submit(get("a"));
    let next = host.submit(get("b"));
    let events = host.answer(b"VA 7 f0 O0\r\nhello\r\nVA 1 f0 O1\r\nB\r\n");
    assert!(!events.iter().any(Event::hands_out_something) || events.is_empty(), "{events:?}");
    assert_eq!(failures(&events).first(), Some(&(short, Kind::Protocol, Sent::Maybe)));
    assert_eq!(failures(&events).last(), Some(&(next, Kind::Protocol, Sent::Maybe)));
}

#[test]
fn a_conditional_get_without_change_has_no_value() {
    let mut host = Host::connected("1.6.45");
    let flags = [Flag::CompareCas(7), Flag::Value];
    let same = host.submit(Command::Meta(MetaCommand { verb: Verb::Get, key: key("k"), size: None, flags: &flags }));
    assert_eq!(statuses(&host.answer(b"HD O0\r\n")), [(same, Status::Done)]);
}

#[test]
fn after_a_refusal_nothing_more_is_read() {
    let mut host = Host::connected("1.6.18");
    host.submit_value(set("a", 1), b"x");
    let events = host.answer(b"HD O9\r\nHD O0\r\n");
    assert_eq!(events.len(), 1);
    assert!(host.answer(b"HD O0\r\n").is_empty());
    assert!(!host.session.accepts() && !host.session.is_clean());
}
