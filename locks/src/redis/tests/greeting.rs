//! From closed to ready: the greeting in both protocols, and what it reveals.

use std::time::Duration;

use pinyon_proto::ServerVersion;

use super::host::{bytes, replies, status, Host, TIMEOUT, WELCOME};
use crate::redis::{Protocol, RespEvent, RespRefused, ServerInfo, SessionSettings, Wants};
use pinyon_net::connection::peer::{Ending, Faults, Opening};
use pinyon_net::error::{Kind, Sent};

#[test]
fn a_session_waits_for_what_its_state_needs() {
    let mut host = Host::new(SessionSettings::default());
    assert!(host.session.is_closed() && host.session.stream().is_none());
    assert_eq!(host.session.wants(), Wants { read: false, write: false, until: None });

    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    let until = Some(host.now + TIMEOUT);
    assert_eq!(host.session.wants(), Wants { read: false, write: true, until });
    assert_eq!(host.session.submit(&[b"PING"], host.now), Err(RespRefused::Full));

    assert!(host.turn().is_empty());
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until }, "the greeting is awaited");
    assert!(!host.session.is_ready() && !host.session.accepts());

    assert!(matches!(host.answer(WELCOME)[..], [RespEvent::Ready]));
    assert!(host.session.is_ready() && host.session.accepts() && !host.session.is_busy());
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until: None }, "at rest");

    host.submit("GET k");
    assert_eq!(host.session.wants(), Wants { read: true, write: true, until }, "unsent, it also wants to read");
    host.turn();
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until });
}

#[test]
fn hello_tells_what_the_server_is() {
    let host = Host::connected();
    let expected = ServerInfo {
        protocol: Protocol::Resp3,
        version: Some(ServerVersion::new(7, 0, 15)),
        kind: "redis".into(),
        mode: "standalone".into(),
        role: "master".into(),
    };
    assert_eq!(*host.session.server(), expected);
    assert_eq!(&**host.session.name(), "redis1:6379");
}

#[test]
fn a_server_without_hello_is_asked_by_info() {
    for refusal in [
        "-ERR unknown command `HELLO`",
        "-NOPROTO unsupported protocol version",
        "-unknown command",
        "-unsupported command 'HELLO'",
        "-ERR unsupported command `hello`",
        "-ERR Unknown or disabled command",
        "-NOPERM this user has no permissions to run the 'hello' command or its subcommand",
        "-ERR HELLO AUTH is not supported",
    ] {
        let mut host = Host::new(SessionSettings::default());
        host.connect(1);
        assert_eq!(host.sent(), ["HELLO 3", "PING"]);
        host.answer(format!("{refusal}\r\n+PONG\r\n").as_bytes());
        assert_eq!(host.sent(), ["INFO server", "INFO replication", "PING"]);
        let server = "redis_version:5.0.14\r\nredis_mode:standalone\r\n";
        host.answer(format!("${}\r\n{server}\r\n$10\r\nrole:slave\r\n+PONG\r\n", server.len()).as_bytes());
        assert!(host.session.is_ready(), "{:?}", host.session.failure());
        let expected = ServerInfo {
            protocol: Protocol::Resp2,
            version: Some(ServerVersion::new(5, 0, 14)),
            kind: "redis".into(),
            mode: "standalone".into(),
            role: "replica".into(),
        };
        assert_eq!(*host.session.server(), expected);
    }
}

#[test]
fn a_front_end_that_wants_the_password_alone_gets_it_alone() {
    let password = Some("secret".into());
    let mut host = Host::new(SessionSettings { password, ..SessionSettings::default() });
    host.connect(1);
    assert_eq!(host.sent(), ["HELLO 3 AUTH default secret", "PING"]);
    host.answer(b"-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
    assert_eq!(host.sent()[0], "AUTH secret");
}

#[test]
fn the_settings_choose_the_protocol() {
    let mut host = Host::new(SessionSettings { protocol: Some(Protocol::Resp2), ..SessionSettings::default() });
    host.connect(1);
    assert_eq!(host.sent(), ["INFO server", "INFO replication", "PING"]);
    let mut host = Host::new(SessionSettings { protocol: Some(Protocol::Resp3), ..SessionSettings::default() });
    host.connect(1);
    host.answer(b"-ERR unknown command 'HELLO'\r\n");
    let (kind, message) = host.failure();
    assert!(kind == Kind::Refused && message.contains("leave out \"protocol\", or set it to 2"), "{message}");
}

#[test]
fn a_connection_that_is_cut_at_hello_may_lead_to_a_proxy() {
    let cut = |host: &mut Host| {
        host.connect(1);
        host.turn();
        host.peer.end(Ending::Closed);
        host.turns();
        host.failure().1
    };
    let told = cut(&mut Host::new(SessionSettings::default()));
    assert!(told.contains("closed the connection before it answered anything, as it was asked HELLO: is it a proxy"));
    let mut host = Host::connected();
    host.session.close();
    host.turns();
    host.session.take_failure();
    let told = cut(&mut host);
    assert!(told.ends_with("the server closed the connection before it answered anything"), "it did before: {told}");
}

#[test]
fn a_subscription_that_is_confirmed_by_an_array_means_resp2_in_spite_of_hello() {
    let mut host = Host::connected();
    let subscribed = host.submit("SUBSCRIBE c");
    host.turn();
    let events = host.answer(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert!(matches!(events[..], [RespEvent::Reply(ticket, _)] if ticket == subscribed), "{events:?}");
    assert!(host.session.is_subscriber_only());
    assert!(host.session.fall_back() && !host.session.fall_back(), "once is enough");
    host.session.close();
    host.turns();
    host.sent();
    host.connect(1);
    assert_eq!(host.sent(), ["INFO server", "INFO replication", "PING"]);
}

#[test]
fn user_password_and_database_are_told_in_either_protocol() {
    let cases = [
        (None, Some("secret"), "AUTH default secret", "AUTH secret"),
        (Some("default"), Some("secret"), "AUTH default secret", "AUTH default secret"),
        (Some("worker"), Some("secret"), "AUTH worker secret", "AUTH worker secret"),
        (Some("open"), None, "AUTH open ", "AUTH open "),
    ];
    for (user, password, resp3, resp2) in cases {
        let (user, password) = (user.map(str::to_owned), password.map(Into::into));
        let settings = SessionSettings { user, password, database: 3, ..SessionSettings::default() };
        let mut host = Host::new(settings);
        host.connect(1);
        assert_eq!(host.sent(), [&format!("HELLO 3 {resp3}"), "SELECT 3", "PING"]);
        host.answer(b"-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'secret'\r\n");
        host.answer(b"-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
        assert_eq!(host.sent(), [resp2, "INFO server", "INFO replication", "SELECT 3", "PING"]);
        host.answer(b"+OK\r\n$0\r\n\r\n$0\r\n\r\n+OK\r\n+PONG\r\n");
        assert!(host.session.is_ready(), "{:?}", host.session.failure());
    }
}

#[test]
fn a_user_who_may_not_ask_is_let_in_without_an_answer() {
    let mut host = Host::new(SessionSettings::default());
    host.connect(1);
    host.answer(b"-NOPROTO no\r\n-NOPERM no permissions to run the 'ping' command\r\n");
    host.answer(b"-NOPERM no\r\n-ERR unknown command 'INFO'\r\n-NOPERM no\r\n");
    assert!(host.session.is_ready(), "{:?}", host.session.failure());
    assert_eq!(*host.session.server(), ServerInfo::default());
}

#[test]
fn a_greeting_that_comes_byte_by_byte_is_understood() {
    let mut host = Host::new(SessionSettings::default());
    host.peer.behave(Faults { receive_width: Some(1), send_width: Some(1), ..Faults::default() });
    host.connect(1);
    assert!(matches!(host.answer(WELCOME)[..], [RespEvent::Ready]));
}

#[test]
fn a_push_amid_the_greeting_disturbs_nothing() {
    let mut host = Host::new(SessionSettings::default());
    host.connect(1);
    let mut bytes = b">1\r\n+early\r\n".to_vec();
    bytes.extend_from_slice(WELCOME);
    bytes.extend_from_slice(b">1\r\n+late\r\n");
    let events = host.answer(&bytes);
    assert!(
        matches!(&events[..], [RespEvent::Ready, RespEvent::Pushed(late)] if *late == [status("late")]),
        "{events:?}"
    );
}

#[test]
fn more_than_the_greeting_breaks_the_connection_before_anything_is_submitted() {
    let mut host = Host::new(SessionSettings::default());
    host.connect(1);
    let events = host.answer(&[WELCOME, b"+OK\r\n"].concat());
    assert!(events.is_empty(), "{events:?}");
    assert!(host.failure().1.ends_with("cannot connect: the server sent more than the answers to the greeting"));
}

#[test]
fn every_address_is_tried_within_one_deadline() {
    let mut host = Host::new(SessionSettings::default());
    host.peer.expect_openings([Opening::Unreachable, Opening::Refused, Opening::AtOnce]);
    host.connect(3);
    assert!(matches!(host.answer(WELCOME)[..], [RespEvent::Ready]));
    assert_eq!(host.peer.opened().len(), 3);

    let mut host = Host::new(SessionSettings::default());
    host.connect(0);
    assert_eq!(host.failure(), (Kind::Connect, "redis1:6379: cannot connect: its name has no address".into()));
}

#[test]
fn a_server_that_stays_silent_is_given_up() {
    let mut host = Host::new(SessionSettings::default());
    host.peer.expect_openings([Opening::After(usize::MAX)]);
    host.connect(1);
    host.pass(TIMEOUT - Duration::from_millis(1));
    host.turn();
    assert!(host.session.failure().is_none());
    host.pass(Duration::from_millis(1));
    host.turn();
    assert_eq!(host.failure().0, Kind::Timeout);

    for (answers, awaited) in [(&b""[..], "HELLO"), (b"%1\r\n", "HELLO"), (b"-NOPROTO no\r\n+PONG\r\n", "INFO")] {
        let mut host = Host::new(SessionSettings::default());
        host.connect(1);
        host.answer(answers);
        host.pass(TIMEOUT);
        host.turn();
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Timeout);
        assert!(message.ends_with(&format!("but did not answer \"{awaited}\" in time")), "{message}");
    }
}

#[test]
fn after_a_failure_a_new_connection_starts_clean() {
    let mut host = Host::connected_by_resp2();
    let lost = host.submit("GET k");
    host.submit("SUBSCRIBE c");
    host.turn();
    host.peer.reply(b"$100\r\nhalf a rep");
    host.turn();
    host.peer.end(Ending::Closed);
    let events = host.turns();
    assert!(matches!(&events[0], RespEvent::Failed(ticket, error) if *ticket == lost && error.sent == Sent::Maybe));
    assert_eq!(events.len(), 2);
    assert!(host.session.take_failure().is_some() && host.session.is_closed());

    host.connect(1);
    assert!(matches!(host.answer(WELCOME)[..], [RespEvent::Ready]));
    assert_eq!(host.session.server().protocol, Protocol::Resp3);
    host.sent();
    let got = host.submit("GET k");
    assert_eq!(host.sent(), ["GET k"]);
    assert_eq!(replies(&host.answer(b"$1\r\nv\r\n")), [(got, bytes("v"))]);
}

#[test]
fn nothing_is_taken_over_from_the_connection_before() {
    let mut host = Host::connected();
    host.submit("SUBSCRIBE c");
    host.session.close();
    host.turns();
    host.connect(1);
    host.answer(b"-NOPROTO no\r\n+PONG\r\n");
    assert!(matches!(host.answer(b"-NOPERM no\r\n-NOPERM no\r\n+PONG\r\n")[..], [RespEvent::Ready]));
    assert_eq!(*host.session.server(), ServerInfo::default(), "it tells nothing of itself");
    assert!(!host.session.is_subscriber_only());
}

#[test]
fn a_host_that_looks_late_finds_what_came_in_time() {
    let mut host = Host::new(SessionSettings::default());
    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    host.pass(TIMEOUT * 2);
    assert_eq!(host.sent(), ["HELLO 3", "PING"], "the connection was made meanwhile");
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT), "the server has its time to answer");
    host.peer.reply(WELCOME);
    host.pass(TIMEOUT * 2);
    assert!(matches!(host.turn()[..], [RespEvent::Ready]), "{:?}", host.session.failure());
}
