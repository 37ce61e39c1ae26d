//! Conditional stores that the server may refuse: what is sent, and what waits for the server's limit.

use std::sync::Arc;

use pinyon_proto::{Command, Key, Lease, Mode, Status, Store};

use super::host::{echo, failures, get, key, set, statuses, Event, Host, TIMEOUT};
use crate::session::{Data, Refused, Ticket};
use pinyon_net::error::{Kind, Sent};

const LARGE: usize = 711;

const QUESTION: &str = "stats settings\r\n";

fn store(mode: Mode, size: usize, cas: Option<u64>) -> Store<'static> {
    Store { mode, key: key("k"), size, client_flags: 0, ttl: 0, cas, returns_cas: false }
}

/// An `add` under a key that has no classic text.
fn encoded(size: usize) -> Command<'static> {
    Command::Store(Store { key: Key::new(b"YSBi", true).unwrap(), ..store(Mode::Add, size, None) })
}

fn submit(host: &mut Host, command: Command<'_>, size: usize) -> Ticket {
    host.submit_value(command, &vec![b'x'; size])
}

fn told(limit: usize) -> Vec<u8> {
    format!("STAT maxbytes 67108864\r\nSTAT item_size_max {limit}\r\nEND\r\n").into_bytes()
}

#[test]
fn a_store_with_a_condition_leaves_in_classic_text_between_meta_commands() {
    for (mode, cas, size, line) in [
        (Mode::Add, None, 3, "add k 0 0 3"),
        (Mode::Add, None, LARGE, "add k 0 0 711"),
        (Mode::Replace, None, 3, "replace k 0 0 3"),
        (Mode::Append, None, 3, "append k 0 0 3"),
        (Mode::Prepend, None, 3, "prepend k 0 0 3"),
        (Mode::Set, Some(7), 3, "cas k 0 0 3 7"),
    ] {
        let mut host = Host::connected("1.6.18");
        let before = host.submit(get("a"));
        let stored = submit(&mut host, Command::Store(store(mode, size, cas)), size);
        let after = host.submit(get("b"));
        let sent = host.sent();
        assert_eq!(sent, format!("mg a f v O0\r\n{line}\r\n{}\r\nmg b f v O2\r\n", "x".repeat(size)));
        let refused = "SERVER_ERROR object too large for cache\r\n";
        let events = host.answer(format!("EN O0\r\n{refused}EN O2\r\n").as_bytes());
        assert_eq!(statuses(&events[..1]), [(before, Status::Miss)]);
        assert_eq!(failures(&events[1..2]), [(stored, Kind::TooLarge, Sent::Yes)]);
        assert_eq!(statuses(&events[2..]), [(after, Status::Miss)]);
    }
}

#[test]
fn plain_sets_and_what_has_no_classic_text_are_meta_commands() {
    let mut host = Host::connected("1.6.18");
    submit(&mut host, encoded(3), 3);
    submit(&mut host, set("a", LARGE), LARGE);
    let sent = host.sent();
    assert!(sent.starts_with("ms YSBi 3 b ME O0\r\nxxx\r\nms a 711 O1\r\n"), "{sent}");
}

#[test]
fn without_tokens_a_lease_is_fulfilled_by_a_plain_set() {
    let mut host = Host::connected("1.6.18");
    let fulfil = Command::Store(store(Mode::Set, 3, Some(u64::MAX)));
    submit(&mut host, fulfil, 3);
    assert_eq!(host.sent(), "cas k 0 0 3 18446744073709551615\r\nxxx\r\n", "a server with tokens has no such token");
    host.answer(b"EXISTS\r\n");
    host.submit(Command::Lease(Lease { key: key("k"), lease: 10, recache: 0 }));
    host.sent();
    host.answer(b"VA 0 f0 c0 W O1\r\n\r\n");
    submit(&mut host, fulfil, 3);
    assert_eq!(host.sent(), "ms k 3 O2\r\nxxx\r\n");
}

#[test]
fn in_a_batch_an_add_is_loud_and_those_around_it_are_quiet() {
    let mut host = Host::connected("1.6.18");
    let first = host.submit_quiet(set("a", 1));
    let data = vec![b'x'; LARGE];
    let large = Command::Store(store(Mode::Add, LARGE, None));
    let large = host.session.submit_quiet(&large, Data::Copied(&data), host.now + TIMEOUT).unwrap();
    let last = host.submit_quiet(set("b", 1));
    host.session.end_quiet_run(host.now + TIMEOUT);
    let events = host.answer(b"MN\r\nNOT_STORED\r\nMN\r\n");
    assert_eq!(statuses(&events), [(first, Status::Done), (large, Status::NotStored), (last, Status::Done)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_server_that_lacks_memory_is_told_what_to_do() {
    for error in ["SERVER_ERROR out of memory storing object", "SERVER_ERROR Out of memory during read"] {
        let mut host = Host::connected("1.6.18");
        let stored = submit(&mut host, set("a", 3), 3);
        host.sent();
        let events = host.answer(format!("{error}\r\n").as_bytes());
        assert_eq!(failures(&events), [(stored, Kind::OutOfMemory, Sent::Yes)]);
        let Event::Failed(_, failure) = &events[0] else { unreachable!() };
        assert!(failure.message.contains("its option -m"), "{failure}");
    }
}

#[test]
fn a_get_that_lacked_memory_is_no_refused_store() {
    let mut host = Host::connected("1.6.18");
    let read = host.submit(get("a"));
    let events = host.answer(b"SERVER_ERROR out of memory writing get response\r\n");
    assert_eq!(failures(&events), [(read, Kind::Server, Sent::Yes)]);
}

#[test]
fn what_has_no_classic_text_waits_for_the_servers_limit_once() {
    let mut host = Host::connected("1.6.18");
    let stored = submit(&mut host, encoded(LARGE), LARGE);
    assert!(!host.session.accepts());
    assert!(matches!(host.session.submit(&get("b"), Data::None, host.now), Err(Refused::Full)));
    assert_eq!(host.sent(), QUESTION);
    assert!(host.answer(&told(1024 * 1024)).is_empty());
    assert!(host.session.accepts());
    assert_eq!(host.sent(), format!("ms YSBi 711 b ME{}\r\n{}\r\n", echo(stored), "x".repeat(LARGE)));
    assert_eq!(statuses(&host.answer(format!("HD{}\r\n", echo(stored)).as_bytes())), [(stored, Status::Done)]);
    assert!(host.session.is_clean());
    let again = submit(&mut host, encoded(LARGE), LARGE);
    assert_eq!(host.sent(), format!("ms YSBi 711 b ME{}\r\n{}\r\n", echo(again), "x".repeat(LARGE)));
}

#[test]
fn what_exceeds_the_servers_limit_is_refused_without_sending_it() {
    let mut host = Host::connected("1.6.18");
    let stored = submit(&mut host, encoded(LARGE), LARGE);
    assert_eq!(host.sent(), QUESTION);
    let events = host.answer(&told(LARGE));
    assert_eq!(failures(&events), [(stored, Kind::TooLarge, Sent::No)]);
    let Event::Failed(_, failure) = &events[0] else { unreachable!() };
    assert!(failure.message.contains("711 bytes, more than the server stores: raise its option -I"), "{failure}");
    assert!(host.session.is_clean());
    let refused = host.session.submit(&encoded(LARGE), Data::Shared(Arc::new([b'x'; LARGE])), host.now + TIMEOUT);
    assert!(matches!(refused, Err(Refused::TooLargeForServer { size: LARGE, limit: LARGE })));
    assert_eq!(host.sent(), "");
}

#[test]
fn a_server_that_does_not_tell_its_limit_decides_itself() {
    for answer in [&b"ERROR\r\n"[..], b"STAT maxbytes 67108864\r\nEND\r\n"] {
        let mut host = Host::connected("1.6.18");
        let stored = submit(&mut host, encoded(LARGE), LARGE);
        assert_eq!(host.sent(), QUESTION);
        assert!(host.answer(answer).is_empty());
        assert!(host.sent().starts_with("ms YSBi 711 b ME"));
        assert_eq!(statuses(&host.answer(format!("HD{}\r\n", echo(stored)).as_bytes())), [(stored, Status::Done)]);
    }
}

#[test]
fn a_store_that_waits_fails_with_its_connection_or_at_its_deadline() {
    let mut host = Host::connected("1.6.18");
    let stored = submit(&mut host, encoded(LARGE), LARGE);
    host.session.close();
    assert_eq!(failures(&host.turns()), [(stored, Kind::Closed, Sent::No)]);

    let mut host = Host::connected("1.6.18");
    let stored = submit(&mut host, encoded(LARGE), LARGE);
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT));
    host.pass(TIMEOUT);
    assert_eq!(failures(&host.turns()), [(stored, Kind::Timeout, Sent::No)]);
}

#[test]
fn a_store_that_waits_can_be_given_up() {
    let mut host = Host::connected("1.6.18");
    let stored = submit(&mut host, encoded(LARGE), LARGE);
    assert_eq!(host.sent(), QUESTION);
    host.session.abandon(stored);
    assert!(host.answer(&told(1024 * 1024)).is_empty());
    assert_eq!(host.sent(), "");
    assert!(host.session.is_clean());
}
