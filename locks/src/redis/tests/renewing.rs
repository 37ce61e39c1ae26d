//! Credentials that a function returns: before the greeting, and again before they end.

use std::sync::Arc;
use std::time::Duration;

use super::host::{array, Host, TIMEOUT, WELCOME};
use crate::redis::{RespEvent, SessionSettings};
use pinyon_net::credentials::pretended::{password_of, Left};
use pinyon_net::credentials::Told;
use pinyon_net::error::Kind;

const LIFETIME: Duration = Duration::from_secs(900);

struct Asked {
    host: Host,
    function: Arc<Left>,
}

impl Asked {
    fn new() -> Self {
        let function = Arc::new(Left::default());
        let credentials = Some(password_of(&function));
        Self { host: Host::new(SessionSettings { credentials, ..SessionSettings::default() }), function }
    }

    /// Connected by RESP3, with the first of the passwords.
    fn connected() -> Self {
        let mut asked = Self::new();
        asked.host.connect(1);
        asked.returns("first");
        assert_eq!(asked.host.sent(), ["HELLO 3 AUTH app first", "PING"]);
        assert!(matches!(asked.host.answer(WELCOME)[..], [RespEvent::Ready]));
        asked
    }

    /// Whether the function is asked now. It returns this, for a while.
    fn returns(&mut self, password: &str) -> bool {
        self.has_answer(Ok(Told {
            own: Some(password.into()),
            lifetime: Some(LIFETIME.as_secs_f64()),
            ..Told::default()
        }))
    }

    fn has_answer(&mut self, told: Result<Told, String>) -> bool {
        self.host.session.take_question().into_iter().for_each(|question| question.put(|| ()));
        let Some(question) = self.function.0.take() else { return false };
        question.answer(told);
        true
    }
}

#[test]
fn nothing_is_opened_before_the_credentials_have_come() {
    let mut asked = Asked::new();
    asked.host.connect(1);
    assert!(asked.host.turn().is_empty() && asked.host.session.stream().is_none());
    assert!(!asked.host.session.is_closed() && asked.host.session.is_asking());
    assert!(asked.returns("first"));
    assert!(asked.host.session.deadline().is_some_and(|due| due <= asked.host.now), "it is due at once");
    assert_eq!(asked.host.sent(), ["HELLO 3 AUTH app first", "PING"]);
}

#[test]
fn a_function_that_fails_or_takes_too_long_fails_the_connection_and_blames_no_server() {
    let mut asked = Asked::new();
    asked.host.connect(1);
    asked.has_answer(Err("the vault is sealed".into()));
    asked.host.turn();
    let (kind, text) = asked.host.failure();
    assert_eq!(kind, Kind::Credentials);
    assert!(text.contains("the function for password failed: the vault is sealed"), "{text}");

    let mut asked = Asked::new();
    asked.host.connect(1);
    asked.host.session.take_question().unwrap().put(|| ());
    asked.host.pass(TIMEOUT);
    asked.host.turn();
    let (kind, text) = asked.host.failure();
    assert_eq!(kind, Kind::Credentials);
    assert!(text.contains("did not return in time"), "{text}");
    assert!(!asked.host.session.failure().unwrap().blames_server());
    asked.host.session.take_failure();
    let called = asked.function.0.take().unwrap();
    asked.host.connect(1);
    asked.host.session.take_question().unwrap().put(|| ());
    assert!(asked.function.0.take().is_none(), "the call goes on, and serves this attempt");
    drop(called);
}

#[test]
fn a_connection_logs_in_anew_before_its_credentials_end() {
    let mut asked = Asked::connected();
    let due = asked.host.session.deadline().unwrap() - asked.host.now;
    assert!(due > LIFETIME.mul_f64(0.7) && due < LIFETIME.mul_f64(0.9), "{due:?}");
    asked.host.turn();
    assert!(!asked.returns("too early"));
    asked.host.pass(LIFETIME.mul_f64(0.85));
    asked.host.turn();
    assert!(asked.returns("second"));
    assert_eq!(asked.host.sent(), ["AUTH app second"]);
    // Its reply is nobody else's.
    let ticket = asked.host.submit("GET k");
    let events = asked.host.answer(b"+OK\r\n$1\r\nv\r\n");
    assert!(matches!(&events[..], [RespEvent::Reply(answered, _)] if *answered == ticket), "{events:?}");
    assert!(asked.host.session.deadline().unwrap() > asked.host.now);
}

#[test]
fn a_connection_that_cannot_log_in_anew_goes_on_and_says_so_once() {
    let mut asked = Asked::connected();
    asked.host.pass(LIFETIME.mul_f64(0.85));
    asked.host.turn();
    asked.has_answer(Err("the vault is sealed".into()));
    let events = asked.host.turns();
    let [RespEvent::Troubled(error)] = &events[..] else { panic!("{events:?}") };
    assert!(error.message.contains("cannot log in anew") && error.message.contains("sealed"), "{error}");

    for refused in ["wrong", "wrong-again"] {
        asked.host.pass(Duration::from_secs(60));
        asked.host.turn();
        assert!(asked.returns(refused));
        assert_eq!(asked.host.sent(), [format!("AUTH app {refused}")]);
        assert!(asked.host.answer(format!("-WRONGPASS no {refused}\r\n").as_bytes()).is_empty());
    }
    asked.host.submit("PING");
    assert_eq!(asked.host.answer(b"+PONG\r\n").len(), 1);
    asked.host.pass(Duration::from_secs(60));
    asked.host.turn();
    assert!(asked.returns("second"));
    asked.host.answer(b"+OK\r\n");
    assert!(asked.host.session.deadline().unwrap() > asked.host.now + LIFETIME / 3);
}

#[test]
fn no_report_shows_what_the_server_repeats() {
    let mut asked = Asked::connected();
    asked.host.pass(LIFETIME.mul_f64(0.85));
    asked.host.turn();
    asked.returns("battery-staple");
    let events = asked.host.answer(b"-WRONGPASS no battery-staple\r\n");
    let [RespEvent::Troubled(error)] = &events[..] else { panic!("{events:?}") };
    assert!(error.message.contains("WRONGPASS") && !error.message.contains("battery-staple"), "{error}");
}

#[test]
fn a_subscribed_connection_of_resp2_is_given_up_instead() {
    let mut asked = Asked::new();
    asked.host.connect(1);
    asked.returns("first");
    asked.host.sent();
    asked.host.answer(b"-ERR unknown command 'HELLO', with args beginning with: '3' \r\n+PONG\r\n");
    assert_eq!(asked.host.sent()[..1], ["AUTH app first"]);
    asked.host.answer(b"+OK\r\n$20\r\nredis_version:5.0.14\r\n$11\r\nrole:master\r\n+PONG\r\n");
    asked.host.submit("SUBSCRIBE a");
    asked.host.answer(&[&array("subscribe a")[..], b""].concat());
    asked.host.pass(LIFETIME.mul_f64(0.85));
    asked.host.turns();
    assert_eq!(asked.host.failure().0, Kind::Closed);
}
