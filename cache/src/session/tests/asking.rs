//! Requests and their replies when everything goes well.

use super::host::{delete, echo, get, get_many, incr, key, set, statuses, values, Event, Host};
use pinyon_proto::{Command, Flag, MetaCommand, StatsKind, Status, Verb};

#[test]
fn get_set_delete_and_incr_as_meta_commands() {
    let mut host = Host::connected("1.6.18");
    let stored = host.submit_value(set("k", 5), b"hello");
    let hit = host.submit(get("k"));
    let miss = host.submit(get("absent"));
    let deleted = host.submit(delete("k"));
    let absent = host.submit(delete("k"));
    let number = host.submit(incr("n"));
    assert_eq!(
        host.sent(),
        "ms k 5 O0\r\nhello\r\nmg k f v O1\r\nmg absent f v O2\r\nmd k O3\r\nmd k O4\r\nma n v O5\r\n"
    );
    let events = host.answer(b"HD O0\r\nVA 5 f0 O1\r\nhello\r\nEN O2\r\nHD O3\r\nNF O4\r\nVA 2 O5\r\n42\r\n");
    assert_eq!(
        statuses(&events),
        [
            (stored, Status::Done),
            (hit, Status::Hit),
            (miss, Status::Miss),
            (deleted, Status::Done),
            (absent, Status::NotFound),
            (number, Status::Hit),
        ]
    );
    assert_eq!(events[1].answer().value, b"hello");
    assert_eq!(events[5].answer().value, b"42");
    assert!(host.session.is_clean());
}

#[test]
fn get_set_delete_and_incr_in_classic_text() {
    let mut host = Host::connected("1.5.22");
    let stored = host.submit_value(set("k", 5), b"hello");
    let hit = host.submit(get("k"));
    let miss = host.submit(get("absent"));
    let deleted = host.submit(delete("k"));
    let number = host.submit(incr("n"));
    let touched = host.submit(Command::Touch { key: key("k"), ttl: 9 });
    assert_eq!(host.sent(), "set k 0 0 5\r\nhello\r\nget k\r\nget absent\r\ndelete k\r\nincr n 1\r\ntouch k 9\r\n");
    let events = host.answer(b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\nEND\r\nNOT_FOUND\r\n42\r\nTOUCHED\r\n");
    assert!(matches!(&events[1], Event::Part(ticket, answer) if *ticket == hit && answer.value == b"hello"));
    assert_eq!(events[4].ticket(), deleted);
    assert_eq!(
        statuses(&events),
        [
            (stored, Status::Done),
            (hit, Status::Hit),
            (hit, Status::End),
            (miss, Status::End),
            (deleted, Status::NotFound),
            (number, Status::Hit),
            (touched, Status::Done),
        ]
    );
    assert_eq!(events[5].answer().number, Some(42));
    assert!(host.session.is_clean());
}

#[test]
fn many_keys_are_asked_for_in_one_line_and_the_missing_are_passed_over() {
    for version in ["1.6.18", "1.5.22"] {
        let mut host = Host::connected(version);
        let many = host.submit(get_many("a b c d e"));
        let none = host.submit(get_many("x y"));
        assert_eq!(host.sent(), "get a b c d e\r\nget x y\r\n");
        let events = host.answer(b"VALUE b 0 1\r\nB\r\nVALUE c 0 0\r\n\r\nVALUE e 7 1\r\nE\r\nEND\r\nEND\r\n");
        assert_eq!(values(&events), [(many, &b"B"[..]), (many, b""), (many, b"E"), (many, b""), (none, b"")]);
        let indices: Vec<usize> = events[..3].iter().map(|event| event.answer().index).collect();
        assert_eq!(indices, [1, 2, 4]);
        assert!(matches!(events[3], Event::Reply(..)), "END ends it");
        assert!(host.session.is_clean());
    }
}

#[test]
fn a_value_that_looks_like_replies_is_a_value() {
    let mut host = Host::connected("1.6.18");
    let hit = host.submit(get("k"));
    let next = host.submit(get("next"));
    let events = host.answer(b"VA 16 f0 O0\r\nEN O1\r\nHD O1\r\n\r\n\r\nEN O1\r\n");
    assert_eq!(values(&events), [(hit, &b"EN O1\r\nHD O1\r\n\r\n"[..]), (next, b"")]);
}

#[test]
fn statistics_come_line_by_line() {
    let mut host = Host::connected("1.6.18");
    let stats = host.submit(Command::Stats(StatsKind::default()));
    let events = host.answer(b"STAT pid 17\r\nSTAT uptime 5\r\nEND\r\n");
    assert_eq!(statuses(&events), [(stats, Status::Stat), (stats, Status::Stat), (stats, Status::End)]);
    assert_eq!(events[0].answer().line, b"STAT pid 17");
    assert_eq!(events[1].answer().line, b"STAT uptime 5");
}

#[test]
fn a_version_is_handed_out_as_a_line() {
    let mut host = Host::connected("1.6.18");
    let version = host.submit(Command::Version);
    let barrier = host.submit(Command::NoOp);
    assert_eq!(host.sent(), "version\r\nmn\r\n");
    let events = host.answer(b"VERSION 1.6.18\r\nMN\r\n");
    assert_eq!(statuses(&events), [(version, Status::Version), (barrier, Status::NoOp)]);
    assert_eq!(events[0].answer().line, b"VERSION 1.6.18");
}

#[test]
fn a_meta_command_is_answered() {
    let mut host = Host::connected("1.6.18");
    let flags = [Flag::RemainingTtl, Flag::Value];
    let hit = host.submit(Command::Meta(MetaCommand { verb: Verb::Get, key: key("k"), size: None, flags: &flags }));
    assert_eq!(host.sent(), "mg k t v O0\r\n");
    let events = host.answer(b"VA 1 t-1 O0\r\nx\r\n");
    assert_eq!(values(&events), [(hit, &b"x"[..])]);
}

#[test]
fn opaques_go_round_after_65536_exchanges() {
    let mut host = Host::connected("1.6.18");
    for _ in 0..65_540 {
        let ticket = host.submit(get("k"));
        let request = host.sent();
        assert_eq!(request, format!("mg k f v{}\r\n", echo(ticket)));
        let events = host.answer(format!("EN{}\r\n", echo(ticket)).as_bytes());
        assert_eq!(statuses(&events), [(ticket, Status::Miss)]);
    }
}
