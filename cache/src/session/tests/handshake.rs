//! From closed to ready: addresses, the version, and starting anew.

use std::sync::Arc;
use std::time::Duration;

use super::host::{address, delete, echo, get, greeting_of, key, set, statuses, stream_of, Host, GREETING, TIMEOUT};
use super::peer::{Ending, Opening};
use crate::events::{EventKind, Events};
use crate::session::{Data, Limits, Manner, Protocol, Refused, Wants};
use pinyon_net::error::{Kind, Sent};
use pinyon_proto::{Command, Status};

fn unconnected() -> Host {
    Host::new(Limits::default())
}

#[test]
fn a_session_waits_for_what_its_state_needs() {
    let mut host = unconnected();
    assert!(host.session.is_closed() && stream_of(&host.session).is_none());
    assert_eq!(host.session.wants(), Wants { read: false, write: false, until: None });

    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    let until = Some(host.now + TIMEOUT);
    assert_eq!(host.session.wants(), Wants { read: false, write: true, until });
    assert!(stream_of(&host.session).is_some());
    assert!(matches!(host.session.submit(&get("k"), Data::None, host.now), Err(Refused::Full)));

    host.turn();
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until }, "the version is awaited");
    assert!(!host.session.is_ready() && !host.session.accepts());

    host.answer(b"VERSION 1.6.18\r\n");
    assert!(!host.session.is_ready(), "whether it takes meta commands is awaited");
    host.answer(b"MN\r\n");
    assert!(host.session.is_ready() && host.session.accepts() && host.session.is_clean());
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until: None }, "at rest");

    host.submit(get("k"));
    assert_eq!(host.session.wants(), Wants { read: true, write: true, until }, "unsent, it also wants to read");
    assert!(host.session.is_busy() && !host.session.is_clean());
    host.turn();
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until });

    host.session.close();
    assert_eq!(host.session.wants().until, until, "what is in flight is yet to be handed out");
    host.turn();
    assert_eq!(host.session.wants(), Wants { read: false, write: false, until: None }, "broken");
}

#[test]
fn the_second_address_is_tried_when_the_first_is_unreachable_or_refuses() {
    for opening in [Opening::Unreachable, Opening::Refused] {
        let mut host = unconnected();
        host.peer.expect_openings([opening, Opening::After(2)]);
        host.connect(2);
        host.turn();
        host.turn();
        host.greet("1.6.18");
        assert_eq!(host.peer.opened(), [address(0), address(1)]);
    }
}

#[test]
fn an_address_that_refuses_later_gives_way_to_the_next() {
    let mut host = unconnected();
    host.peer.expect_openings([Opening::Refused, Opening::Refused, Opening::AtOnce]);
    host.connect(3);
    host.greet("1.6.18");
    assert_eq!(host.peer.opened().len(), 3);
}

#[test]
fn when_no_address_answers_the_last_failure_is_told() {
    let mut host = unconnected();
    host.peer.expect_openings([Opening::Refused, Opening::Unreachable]);
    host.connect(2);
    let (kind, message) = host.failure();
    assert_eq!(kind, Kind::Connect);
    assert!(message.starts_with("cache1:11211: cannot connect: 127.0.0.1:11212: "), "{message}");
}

#[test]
fn a_name_without_addresses_cannot_be_connected_to() {
    let mut host = unconnected();
    host.connect(0);
    assert_eq!(host.failure(), (Kind::Connect, "cache1:11211: cannot connect: its name has no address".into()));
}

#[test]
fn a_connection_that_is_not_made_in_time_fails() {
    let mut host = unconnected();
    host.peer.expect_openings([Opening::After(usize::MAX)]);
    host.connect(2);
    host.pass(TIMEOUT - Duration::from_millis(1));
    host.turn();
    assert!(host.session.failure().is_none());
    host.pass(Duration::from_millis(1));
    host.turn();
    host.has_failed(Kind::Timeout, "did not accept the connection in time");
}

#[test]
fn a_server_that_accepts_and_stays_silent_fails_in_the_same_time() {
    let mut host = unconnected();
    host.connect(1);
    host.turn();
    host.peer.reply(b"VERS");
    host.pass(TIMEOUT);
    host.turn();
    host.has_failed(Kind::Timeout, "did not answer \"version\" in time");
}

#[test]
fn a_host_that_looks_late_finds_what_came_in_time() {
    let mut host = unconnected();
    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    host.pass(TIMEOUT * 2);
    assert_eq!(host.sent(), GREETING, "the connection was made meanwhile");
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT), "the server has its time to answer");
    host.peer.reply(greeting_of("1.6.18").as_bytes());
    host.pass(TIMEOUT * 2);
    host.turn();
    assert!(host.session.is_clean(), "{:?}", host.session.failure());
}

#[test]
fn a_host_that_looks_late_gives_a_silent_server_its_time_only_once() {
    let mut host = unconnected();
    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    host.pass(TIMEOUT * 2);
    host.turn();
    host.peer.reply(b"VERS");
    host.pass(TIMEOUT);
    host.turn();
    host.has_failed(Kind::Timeout, "did not answer \"version\" in time");
}

#[test]
fn what_is_not_memcached_is_told_by_its_answer() {
    for garbage in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"+OK\r\n", b"END\r\n", b"VERSION\n", &[b'x'; 3000]] {
        let mut host = unconnected();
        host.connect(1);
        host.answer(garbage);
        host.has_failed(Kind::Protocol, "this is not a memcached server");
    }
    for (line, instead) in [("-ERR unknown command 'version'", "Redis"), ("HTTP/1.1 400 Bad Request", "HTTP")] {
        let mut host = unconnected();
        host.connect(1);
        host.answer(format!("{line}\r\n").as_bytes());
        let (_, message) = host.failure();
        assert!(message.ends_with(&format!(", as {instead} does")), "{message}");
    }
}

#[test]
fn a_server_that_answers_the_probe_with_an_error_is_not_used() {
    for error in ["ERROR Out of luck", "CLIENT_ERROR line", "SERVER_ERROR no backend"] {
        let mut host = unconnected();
        host.connect(1);
        host.answer(format!("{error}\r\n").as_bytes());
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Protocol);
        assert!(message.ends_with(&format!("the server answered \"version\" with \"{error}\"")), "{message}");
    }
}

#[test]
fn a_server_at_its_limit_of_connections_says_so_even_if_it_does_not_read_the_greeting() {
    for closes_first in [false, true] {
        let mut host = unconnected();
        host.connect(1);
        host.peer.reply(b"ERROR Too many open connections\r\n");
        if closes_first {
            host.peer.end(Ending::Closed);
        }
        host.turn();
        host.has_failed(Kind::Crowded, "its limit of connections (option -c)");
    }
}

#[test]
fn a_server_that_closes_before_it_answers_even_the_version_fails_the_connection() {
    for ending in [Ending::Closed, Ending::Reset] {
        let mut host = unconnected();
        host.connect(1);
        host.turn();
        host.peer.end(ending);
        host.turn();
        assert_eq!(host.sent(), "version\r\n", "on another connection");
        host.peer.end(ending);
        host.turn();
        assert_eq!(host.failure().0, Kind::Closed);
        host.connect(1);
        assert_eq!(host.sent(), "version\r\n", "another server may be there now");
    }
}

/// An unconnected host of an unknown server, with what it learns about the server, and the events.
fn to_an_unknown_server() -> (Host, Arc<Manner>, Arc<Events>) {
    let events: Arc<Events> = Arc::default();
    let manner = Arc::new(Manner::new(Protocol::Auto, Some(events.clone())));
    (to_a_server_known_by(&manner), manner, events)
}

fn to_a_server_known_by(manner: &Arc<Manner>) -> Host {
    let mut host = unconnected();
    host.session = host.session.in_manner(manner.clone());
    host
}

#[test]
fn a_server_that_cuts_off_meta_commands_is_spoken_to_in_classic_text_from_then_on() {
    for ending in [Ending::Closed, Ending::Reset] {
        for version in ["VERSION 1.6.18\r\n", "VERSION mcrouter 41.0.0\r\n", "ERROR\r\n"] {
            let (mut host, manner, events) = to_an_unknown_server();
            host.connect(1);
            assert_eq!(host.sent(), "version\r\n");
            host.answer(version.as_bytes());
            assert_eq!(host.sent(), "mn\r\n");
            host.peer.end(ending);
            host.turns();
            assert_eq!(host.sent(), "version\r\n");
            assert_eq!(host.peer.opened(), [address(0), address(0)]);
            assert!(events.take().is_empty(), "it may just have been started anew");
            host.answer(version.as_bytes());
            assert!(host.session.is_clean());
            host.submit(get("k"));
            assert_eq!(host.sent(), "get k\r\n");
            let told: Vec<_> = events.take().into_iter().map(|event| event.kind).collect();
            assert_eq!(told, [EventKind::Classic]);

            let mut later = to_a_server_known_by(&manner);
            later.connect(1);
            assert_eq!(later.sent(), "version\r\n");
            later.answer(version.as_bytes());
            later.submit(get("k"));
            assert_eq!(later.sent(), "get k\r\n");
            assert!(events.take().is_empty(), "it was told");
        }
    }
}

#[test]
fn a_server_that_is_restarted_during_a_greeting_keeps_meta_commands() {
    for answered in ["", "VERSION 1.6.18\r\n"] {
        let (mut host, manner, events) = to_an_unknown_server();
        manner.answers_meta();
        host.connect(1);
        assert_eq!(host.sent(), GREETING);
        host.peer.reply(answered.as_bytes());
        host.peer.end(Ending::Closed);
        host.turns();
        assert_eq!(host.sent(), "version\r\n");
        host.answer(b"VERSION 1.6.18\r\n");
        assert_eq!(host.sent(), "mn\r\n");
        host.answer(b"MN\r\n");
        assert!(host.session.is_clean());
        host.submit(get("k"));
        assert!(host.sent().starts_with("mg k "));
        assert!(events.take().is_empty());
    }
}

#[test]
fn a_connection_that_fails_ends_what_is_known_of_meta_commands() {
    let (mut host, manner, _) = to_an_unknown_server();
    manner.refuses_meta(&"cache1:11211".into());
    host.peer.expect_openings([Opening::Refused]);
    host.connect(1);
    assert_eq!(host.failure().0, Kind::Connect);
    host.connect(1);
    host.answer(b"VERSION 1.6.18\r\n");
    assert!(host.sent().ends_with("mn\r\n"));
}

#[test]
fn a_command_that_a_proxy_cuts_off_is_to_blame_itself() {
    let gat = Command::GetAndTouch { key: key("k"), ttl: 1, cas: false };
    for (protocol, kinds) in
        [(Protocol::Classic, [Kind::Unsupported, Kind::Closed]), (Protocol::Auto, [Kind::Closed, Kind::Closed])]
    {
        let mut host = unconnected();
        host.session = host.session.in_manner(Arc::new(Manner::new(protocol, None)));
        host.connect(1);
        host.sent();
        if protocol == Protocol::Auto {
            host.answer(b"VERSION 1.4.15\r\n");
            host.answer(b"ERROR\r\n");
        }
        let (first, second) = (host.submit(gat), host.submit(delete("b")));
        host.sent();
        host.peer.end(Ending::Closed);
        let failed: Vec<_> = host.turns().iter().map(|event| event.failed()).collect();
        assert_eq!(failed, [(first, kinds[0], Sent::Maybe), (second, kinds[1], Sent::Maybe)]);
    }
}

#[test]
fn a_server_that_answers_a_meta_command_with_an_error_is_greeted_once_more_without() {
    for version in ["VERSION 1.6.18\r\n", "VERSION mcrouter 41.0.0\r\n", "VERSION 1.0.0 mcrouter\r\n", "ERROR\r\n"] {
        let error = if version == "ERROR\r\n" { "ERROR\r\n" } else { "CLIENT_ERROR malformed request\r\n" };
        let (mut host, manner, events) = to_an_unknown_server();
        host.connect(1);
        host.answer(version.as_bytes());
        assert_eq!(host.sent(), "version\r\nmn\r\n");
        host.answer(error.as_bytes());
        assert_eq!(host.sent(), "version\r\n", "{version}");
        assert_eq!(host.peer.opened(), [address(0), address(0)]);
        host.answer(version.as_bytes());
        assert!(host.session.is_clean(), "{version}: {:?}", host.session.failure());
        host.submit(get("k"));
        assert_eq!(host.sent(), "get k\r\n", "{version}");
        assert_eq!(events.take().len(), 1, "{version}");

        let mut later = to_a_server_known_by(&manner);
        later.connect(1);
        assert_eq!(later.sent(), "version\r\n", "{version}");
    }
}

#[test]
fn an_old_memcached_that_answers_a_meta_command_with_an_error_keeps_its_connection() {
    let (mut host, _, events) = to_an_unknown_server();
    host.connect(1);
    host.answer(b"VERSION 1.4.15\r\n");
    host.sent();
    host.answer(b"ERROR\r\n");
    assert!(host.session.is_clean());
    host.submit(get("k"));
    assert_eq!(host.sent(), "get k\r\n");
    assert_eq!(host.peer.opened(), [address(0)]);
    assert!(events.take().is_empty());
}

#[test]
fn the_setting_protocol_overrides_what_is_found_out() {
    let mut classic = unconnected();
    classic.session = classic.session.in_manner(Arc::new(Manner::new(Protocol::Classic, None)));
    classic.connect(1);
    assert_eq!(classic.sent(), "", "not even the version is asked for");
    assert!(classic.session.is_clean());
    classic.submit(get("k"));
    assert_eq!(classic.sent(), "get k\r\n");

    let mut meta = unconnected();
    meta.session = meta.session.in_manner(Arc::new(Manner::new(Protocol::Meta, None)));
    meta.connect(1);
    assert_eq!(meta.sent(), "version\r\n");
    meta.answer(b"VERSION mcrouter 40.0.0\r\n");
    meta.submit(get("k"));
    assert_eq!(meta.sent(), "mg k f v O0\r\n");
}

#[test]
fn the_version_chooses_the_syntax() {
    for (version, request) in [
        ("1.6.18", "mg k f v O0\r\n"),
        ("1.6.10", "mg k f v O0\r\n"),
        ("1.6.9", "get k\r\n"),
        ("1.4.25 Ubuntu", "get k\r\n"),
    ] {
        let mut host = Host::connected(version);
        host.submit(get("k"));
        assert_eq!(host.sent(), request, "{version}");
    }
}

#[test]
fn more_than_the_version_in_answer_to_the_probe_breaks_the_connection() {
    let mut host = unconnected();
    host.connect(1);
    host.answer(b"VERSION 1.6.18\r\nMN\r\nHD O0\r\n");
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn after_a_failure_a_new_connection_starts_clean() {
    let mut host = Host::connected("1.6.18");
    let lost = host.submit_value(set("a", 3), b"abc");
    let quiet = host.submit_quiet(delete("b"));
    host.turn();
    host.peer.reply(b"SERVER_ERROR half a rep");
    host.peer.end(Ending::Closed);
    let events = host.turns();
    assert_eq!(
        events.iter().map(|event| event.failed()).collect::<Vec<_>>(),
        [(lost, Kind::Closed, Sent::Maybe), (quiet, Kind::Closed, Sent::Maybe)]
    );

    host.connect(1);
    host.greet("1.5.0");
    let deleted = host.submit(delete("k"));
    assert_eq!(host.sent(), "delete k\r\n");
    assert_eq!(statuses(&host.answer(b"DELETED\r\n")), [(deleted, Status::Done)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_new_connection_is_not_disturbed_by_what_was_unsent_or_expired_before() {
    let mut host = Host::connected("1.6.18");
    host.peer.make_room(3);
    let first = host.submit(get("a"));
    host.turn();
    host.pass(TIMEOUT);
    assert_eq!(
        host.turn().iter().map(|event| event.failed()).collect::<Vec<_>>(),
        [(first, Kind::Timeout, Sent::Maybe)]
    );

    host.peer.make_room(usize::MAX);
    host.connect(1);
    host.greet("1.6.18");
    let second = host.submit(get("b"));
    assert_eq!(host.sent(), format!("mg b f v{}\r\n", echo(second)));
    assert_eq!(statuses(&host.answer(format!("EN{}\r\n", echo(second)).as_bytes())), [(second, Status::Miss)]);
}
