//! Bounds, whatever a host submits or a server sends; and the server's own errors.

use std::sync::Arc;

use super::host::{delete, echo, failures, get, get_many, set, statuses, Event, Host, TIMEOUT};
use crate::session::{Data, Limits, Refused};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Kind, Sent};
use pinyon_proto::{Command, Flag, MetaCommand, Status, Verb};

fn with_limits(change: impl FnOnce(&mut Limits)) -> Host {
    let mut limits = Limits::default();
    change(&mut limits);
    Host::connected_within("1.6.18", limits)
}

#[test]
fn a_full_queue_refuses_until_a_reply_makes_room() {
    let mut host = with_limits(|limits| limits.exchanges = 2);
    let first = host.submit(get("a"));
    host.submit(get("b"));
    assert!(!host.session.accepts());
    assert!(matches!(host.session.submit(&get("c"), Data::None, host.now), Err(Refused::Full)));
    assert!(matches!(host.session.submit_quiet(&delete("c"), Data::None, host.now), Err(Refused::Full)));
    assert_eq!(host.sent(), "mg a f v O0\r\nmg b f v O1\r\n", "nothing of what was refused is sent");
    assert_eq!(statuses(&host.answer(b"EN O0\r\n")), [(first, Status::Miss)]);
    assert!(host.session.accepts());
    let third = host.submit(get("c"));
    assert_eq!(host.sent(), format!("mg c f v{}\r\n", echo(third)));
}

#[test]
fn abandoned_exchanges_keep_their_place_in_the_queue() {
    let mut host = with_limits(|limits| limits.exchanges = 1);
    let abandoned = host.submit(get("a"));
    host.session.abandon(abandoned);
    assert!(!host.session.accepts(), "or a server that never answers could be sent to without end");
    host.answer(b"EN O0\r\n");
    assert!(host.session.accepts());
}

#[test]
fn what_a_server_does_not_take_is_not_piled_up() {
    let mut host = with_limits(|limits| limits.unsent = 100);
    host.peer.make_room(0);
    let mut taken = 0;
    while host.session.submit(&get("k"), Data::None, host.now + TIMEOUT).is_ok() {
        host.turn();
        taken += 1;
    }
    assert!((1..20).contains(&taken));
    host.peer.make_room(usize::MAX);
    host.turn();
    assert!(host.session.accepts());
}

#[test]
fn a_value_over_the_limit_is_refused_before_anything_is_sent() {
    let mut host = with_limits(|limits| limits.value = 10);
    for data in [Data::Copied(&[b'x'; 11]), Data::Shared(Arc::new([b'x'; 11]))] {
        let refused = host.session.submit(&set("k", 11), data, host.now + TIMEOUT);
        assert!(matches!(refused, Err(Refused::TooLarge { size: 11, limit: 10 })));
    }
    assert!(host.session.is_clean());
    host.submit_value(set("k", 10), &[b'x'; 10]);
    assert_eq!(host.sent(), "ms k 10 O0\r\nxxxxxxxxxx\r\n");
}

#[test]
fn what_the_version_cannot_do_is_refused_before_anything_is_sent() {
    let mut host = Host::connected("1.6.18");
    let changed = Command::Meta(MetaCommand {
        verb: Verb::Get,
        key: super::host::key("k"),
        size: None,
        flags: &[Flag::CompareCas(1)],
    });
    let Err(Refused::Unsupported(unsupported)) = host.session.submit(&changed, Data::None, host.now + TIMEOUT) else {
        panic!("it was taken")
    };
    assert_eq!(unsupported.since, pinyon_proto::ServerVersion::parse(b"1.6.40"));
    assert!(host.session.is_clean());
}

#[test]
fn a_stored_value_over_the_limit_breaks_the_connection_before_it_is_received() {
    for (command, head) in [(get("k"), "VA 11 f0 O0\r\n"), (get_many("k"), "VALUE k 0 11\r\n")] {
        let mut host = with_limits(|limits| limits.value = 10);
        let ticket = host.submit(command);
        assert_eq!(failures(&host.answer(head.as_bytes())), [(ticket, Kind::TooLarge, Sent::Maybe)]);
        assert!(host.failure().1.contains("11 bytes, more than the client's limit (max_value_size) of 10"));
    }
}

#[test]
fn a_value_over_the_limit_is_refused_with_its_key_before_it_is_sent() {
    let limits = Limits { value: 10, ..Limits::default() };
    assert_eq!(limits.check_value(10, || unreachable!("it is not too large")), Ok(()));
    let refused = limits.check_value(11, || "'k'".to_owned()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::ValueTooLarge);
    assert!(refused.message.starts_with("the value of 'k' has 11 bytes, more than the client's limit"), "{refused}");
}

#[test]
fn a_huge_length_allocates_nothing() {
    for length in ["1048577", "4294967296", "9223372036854775807", "18446744073709551615"] {
        let mut host = Host::connected("1.6.18");
        let ticket = host.submit(get("k"));
        let events = host.answer(format!("VA {length} f0 O0\r\nabc").as_bytes());
        assert_eq!(failures(&events), [(ticket, Kind::TooLarge, Sent::Maybe)]);
    }
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("k"));
    let events = host.answer(b"VA 99999999999999999999 f0 O0\r\nabc");
    assert_eq!(failures(&events), [(ticket, Kind::Protocol, Sent::Maybe)]);
}

#[test]
fn a_line_without_end_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("k"));
    let events = host.answer(&[b'x'; 100_000]);
    assert_eq!(failures(&events), [(ticket, Kind::Protocol, Sent::Maybe)]);
    assert!(host.failure().1.contains("a reply line has no end"));
}

#[test]
fn polling_without_taking_replies_does_not_break_the_connection() {
    let mut host = with_limits(|limits| limits.exchanges = 10_000);
    let tickets: Vec<_> = (0..5000).map(|_| host.submit_after_sending()).collect();
    let replies: String =
        tickets.iter().map(|ticket| format!("VA 20 f0{}\r\n{}\r\n", echo(*ticket), "x".repeat(20))).collect();
    host.peer.reply(replies.as_bytes());
    for _ in 0..20 {
        host.session.poll(host.now);
    }
    assert!(host.session.failure().is_none(), "{:?}", host.session.failure());
    let events = host.turns();
    assert_eq!(events.iter().map(Event::ticket).collect::<Vec<_>>(), tickets);
    assert!(host.session.is_clean());
}

#[test]
fn a_server_error_is_told_and_the_connection_kept() {
    let mut host = Host::connected("1.6.18");
    let stored = host.submit_value(set("a", 1), b"x");
    let next = host.submit(get("b"));
    let events = host.answer(b"SERVER_ERROR out of memory storing object\r\nEN O1\r\n");
    assert_eq!(failures(&events[..1]), [(stored, Kind::OutOfMemory, Sent::Yes)]);
    assert_eq!(statuses(&events[1..]), [(next, Status::Miss)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_value_too_large_for_the_server_is_named_so() {
    for version in ["1.6.18", "1.5.22"] {
        let mut host = Host::connected(version);
        let stored = host.submit_value(set("a", 1), b"x");
        let events = host.answer(b"SERVER_ERROR object too large for cache\r\n");
        assert_eq!(failures(&events), [(stored, Kind::TooLarge, Sent::Yes)]);
        assert!(host.session.is_clean());
    }
}

#[test]
fn a_store_that_is_not_understood_closes_the_connection() {
    for error in ["ERROR", "CLIENT_ERROR bad data chunk"] {
        let mut host = Host::connected("1.6.18");
        let stored = host.submit_value(set("a", 1), b"x");
        let next = host.submit(get("b"));
        let events = host.answer(format!("{error}\r\nERROR\r\nEN O1\r\n").as_bytes());
        assert_eq!(failures(&events), [(stored, Kind::Server, Sent::Yes), (next, Kind::Server, Sent::Maybe)]);
        assert!(!host.session.accepts());
    }
}

#[test]
fn a_command_without_data_that_is_not_understood_leaves_the_connection_open() {
    for error in ["ERROR", "CLIENT_ERROR cannot increment or decrement non-numeric value"] {
        let mut host = Host::connected("1.6.18");
        let counted = host.submit(super::host::incr("a"));
        let next = host.submit(get("b"));
        let events = host.answer(format!("{error}\r\nEN O1\r\n").as_bytes());
        assert_eq!(failures(&events[..1]), [(counted, Kind::Server, Sent::Yes)]);
        assert_eq!(statuses(&events[1..]), [(next, Status::Miss)]);
        let Event::Failed(_, failure) = &events[0] else { unreachable!() };
        assert_eq!(failure.to_string(), format!("cache1:11211: incr: the server answered \"{error}\""));
    }
}

#[test]
fn an_error_among_the_values_of_a_multi_key_get_ends_it() {
    let mut host = Host::connected("1.6.18");
    let many = host.submit(get_many("a b"));
    let next = host.submit(get("c"));
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nSERVER_ERROR out of memory\r\nEN O1\r\n");
    assert!(matches!(&events[0], Event::Part(ticket, answer) if *ticket == many && answer.value == b"A"));
    assert_eq!(failures(&events[1..2]), [(many, Kind::Server, Sent::Yes)]);
    assert_eq!(statuses(&events[2..]), [(next, Status::Miss)]);
}

impl Host {
    fn submit_after_sending(&mut self) -> crate::session::Ticket {
        self.session.poll(self.now);
        self.submit(get("k"))
    }
}
