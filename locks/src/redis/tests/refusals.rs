//! Servers that cannot be used: each error says why and what to do, and never contains the password.

use super::host::{Host, TIMEOUT};
use crate::redis::{Protocol, SessionSettings};
use pinyon_net::connection::peer::{Ending, Faults};
use pinyon_net::error::Kind;

/// Connects to a server that gives these answers. Returns the failure.
fn refusal(settings: SessionSettings, answers: &[&[u8]]) -> String {
    let mut host = Host::new(settings);
    host.connect(1);
    for answer in answers {
        assert!(host.answer(answer).is_empty(), "nothing is announced");
    }
    let (kind, message) = host.failure();
    assert!(matches!(kind, Kind::Connect | Kind::Refused), "{message}");
    assert_eq!(
        kind == Kind::Connect,
        ["LOADING", "MASTERDOWN", "max number"].iter().any(|passes| message.contains(passes)),
        "{message}"
    );
    assert!(message.starts_with("redis1:6379: cannot connect: "), "{message}");
    assert!(!message.contains("secret"), "{message}");
    message
}

fn settings() -> SessionSettings {
    SessionSettings {
        user: Some("worker".into()),
        password: Some("secret".into()),
        database: 3,
        ..SessionSettings::default()
    }
}

/// Answers that make the session greet again in RESP2: those to HELLO, SELECT and PING.
const UNKNOWN: &[u8] = b"-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'worker' 'secret'\r\n\
    -NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n";

#[test]
fn a_wrong_password_or_user_is_told() {
    let wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let message = refusal(settings(), &[wrong]);
    assert!(message.contains("refused the password of user \"worker\", or has no such user"), "{message}");
    assert!(message.contains("correct \"username\" and \"password\""), "{message}");
    assert!(message.contains("it answered \"WRONGPASS invalid username-password pair"), "{message}");
    assert_eq!(refusal(settings(), &[UNKNOWN, wrong]), message);
    let message = refusal(settings(), &[UNKNOWN, b"-ERR invalid password\r\n"]);
    assert!(message.contains("refused the password of user \"worker\""), "{message}");
}

#[test]
fn a_password_that_is_missing_or_not_wanted_is_told() {
    for answers in [
        &[&b"-NOAUTH HELLO must be called with the client already authenticated\r\n"[..]][..],
        &[b"-NOPROTO no\r\n-NOAUTH Authentication required.\r\n", b"-NOAUTH Authentication required.\r\n"],
    ] {
        let message = refusal(SessionSettings::default(), answers);
        assert!(message.contains("the server requires a password: set \"password\""), "{message}");
    }
    for answer in [
        &b"-ERR AUTH <password> called without any password configured for the default user.\r\n"[..],
        b"-ERR Client sent AUTH, but no password is set\r\n",
    ] {
        let message = refusal(settings(), &[UNKNOWN, answer]);
        assert!(message.contains("the server has no password: leave out \"password\""), "{message}");
    }
    let message = refusal(settings(), &[UNKNOWN, b"-ERR wrong number of arguments for 'auth' command\r\n"]);
    assert!(message.contains("the server has no users, which Redis 6 introduced: leave out \"username\""), "{message}");
}

#[test]
fn a_server_that_does_not_serve_now_says_why() {
    let welcome = &super::host::WELCOME[..super::host::WELCOME.len() - b"+PONG\r\n".len()];
    for (answer, why) in [
        (&b"-LOADING Redis is loading the dataset in memory\r\n"[..], "is loading its data into memory"),
        (b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", "without a link to"),
    ] {
        let message = refusal(SessionSettings::default(), &[welcome, answer]);
        assert!(message.contains(why), "{message}");
        let message = refusal(SessionSettings::default(), &[b"-NOPROTO no\r\n+PONG\r\n", answer]);
        assert!(message.contains(why), "{message}");
        let message = refusal(SessionSettings::default(), &[answer]);
        assert!(message.contains(why), "{message}");
    }
    let message = refusal(SessionSettings::default(), &[b"-DENIED Redis is running in protected mode because...\r\n"]);
    assert!(message.contains("is in protected mode and serves its own machine only"), "{message}");
    let message = refusal(SessionSettings::default(), &[b"-ERR max number of clients reached\r\n"]);
    assert!(message.contains("raise its \"maxclients\""), "{message}");
}

#[test]
fn a_database_that_is_not_there_is_told() {
    let welcome = &super::host::WELCOME[..super::host::WELCOME.len() - b"+PONG\r\n".len()];
    let settings = SessionSettings { database: 99, ..SessionSettings::default() };
    let message = refusal(settings.clone(), &[welcome, b"-ERR DB index is out of range\r\n"]);
    assert!(message.contains("the server has no database 99: correct it in the URL"), "{message}");
    let message = refusal(settings.clone(), &[welcome, b"-ERR SELECT is not allowed in cluster mode\r\n"]);
    assert!(message.contains("part of a cluster, which has database 0 alone: database 99"), "{message}");
    let message = refusal(settings.clone(), &[welcome, b"-NOPERM this user has no permissions\r\n"]);
    assert!(message.contains("the user \"default\" may not use SELECT"), "{message}");
    let message = refusal(settings, &[welcome, b"-NOPERM No permissions to access database\r\n"]);
    assert!(message.contains("the user \"default\" may not use database 99: allow it"), "{message}");
}

#[test]
fn what_is_not_redis_is_told_by_its_answer() {
    for (answer, why) in [
        (&b"ERROR\r\nERROR\r\nERROR\r\n"[..], "it answered \"ERROR\\r\\nERROR\\r\\nERROR\\r\\n\", as memcached does"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n", ", as HTTP does"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it answered \"SSH-2.0-OpenSSH_9.2\\r\\n\""),
    ] {
        let message = refusal(SessionSettings::default(), &[answer]);
        assert!(message.contains("this is not a Redis server: unexpected reply") && message.contains(why), "{message}");
    }
    let message = refusal(SessionSettings::default(), &[b"\x15\x03\x03\x00\x02\x02\x46"]);
    assert!(message.contains("the server speaks TLS on this port: begin its URL with rediss://"), "{message}");
    for answer in ["+OK\r\n", "*2\r\n:1\r\n:2\r\n", "$-1\r\n", "*1\r\n+HELLO\r\n"] {
        let message = refusal(SessionSettings::default(), &[answer.as_bytes()]);
        assert!(message.ends_with("the server's answer to HELLO is not one of Redis"), "{message}");
    }
    let endless = [b"$70000\r\n".to_vec(), vec![b'x'; 70000]].concat();
    let message = refusal(SessionSettings::default(), &[&endless]);
    assert!(message.ends_with("the server sent more than the answers to the greeting"), "{message}");
}

#[test]
fn a_server_that_repeats_the_password_does_not_make_it_shown() {
    for answer in [
        "-ERR what is 'secret'?\r\n",
        "-ERR cut: secre\r\n",
        "-ERR no command 'HELLO', with args beginning with: '3' 'AUTH' 'worker' 'sec' \r\n",
        "HELLO 3 AUTH worker secret\r\n",
        "+secret\r\n",
    ] {
        let settings = SessionSettings { protocol: Some(Protocol::Resp3), ..settings() };
        let message = refusal(settings, &[answer.as_bytes()]);
        assert!(!message.contains("sec"), "{message}");
    }
}

#[test]
fn a_server_that_closes_the_connection_is_asked_why() {
    for fault in [None, Some(std::io::ErrorKind::BrokenPipe)] {
        let mut host = Host::new(SessionSettings::default());
        host.peer.behave(Faults { send_error: fault, ..Faults::default() });
        host.connect(1);
        host.peer.reply(b"-ERR max number of clients reached\r\n");
        host.peer.end(Ending::Closed);
        host.turns();
        let (kind, message) = host.failure();
        assert!(kind == Kind::Connect && message.contains("maxclients"), "{message}");
    }
    for ending in [Ending::Closed, Ending::Reset] {
        let mut host = Host::new(SessionSettings::default());
        host.connect(1);
        host.turn();
        host.peer.end(ending);
        host.turn();
        assert_eq!(host.failure().0, Kind::Closed);
    }
    let mut host = Host::new(SessionSettings::default());
    host.peer.behave(Faults { send_error: Some(std::io::ErrorKind::BrokenPipe), ..Faults::default() });
    host.connect(1);
    host.turn();
    assert_eq!(host.failure().0, Kind::Closed);
    host.pass(TIMEOUT);
    assert!(host.turn().is_empty());
}

#[test]
fn what_makes_no_sense_is_not_quoted_where_it_may_have_the_password() {
    for (password, is_quoted) in [(None, true), (Some("secret".into()), false)] {
        let mut host = Host::new(SessionSettings { password, ..SessionSettings::default() });
        host.connect(1);
        host.answer(super::host::WELCOME);
        host.submit("GET key");
        host.answer(b"?AUTH secret\r\n");
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Protocol);
        assert!(message.contains("unexpected reply"), "{message}");
        assert_eq!(message.contains("secret"), is_quoted, "{message}");
    }
}

#[test]
fn a_long_refusal_is_not_repeated_as_a_whole() {
    let long = [b"-ERR no".as_slice(), &[0xff; 20_000], b"\r\n"].concat();
    let settings = SessionSettings { protocol: Some(Protocol::Resp3), ..settings() };
    let message = refusal(settings, &[&long]);
    assert!((1000..2000).contains(&message.len()), "{} bytes", message.len());
}
