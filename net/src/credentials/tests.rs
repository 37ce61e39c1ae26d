//! Questions, their answers, and calls that no connection waits for any more.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::pretended::{by, password_of, Left, PATIENCE};
use super::*;

fn text(own: &str) -> Result<Told, String> {
    Ok(Told { own: Some(own.into()), ..Told::default() })
}

fn password(answer: &Answer) -> &[u8] {
    answer.password.as_ref().unwrap().bytes()
}

#[test]
fn an_answer_comes_to_the_connection_that_asked_and_whoever_drives_it_is_told() {
    let function = Arc::new(Left::default());
    let now = Instant::now();
    let (asking, question) = password_of(&function).ask(now);
    assert_eq!((asking.due(), asking.take().is_none()), (now + PATIENCE, true));
    let told = Arc::new(AtomicUsize::new(0));
    let tells = told.clone();
    question.put(move || {
        tells.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(told.load(Ordering::Relaxed), 0);
    assert!(function.0.take().unwrap().answer(text("secret")).is_none());
    assert_eq!((told.load(Ordering::Relaxed), asking.due()), (1, now));
    let answer = asking.take().unwrap().unwrap();
    assert_eq!((answer.username.as_deref(), password(&answer), answer.lifetime), (Some("app"), &b"secret"[..], None));
}

#[test]
fn two_functions_are_asked_in_turn_unless_the_first_knows_both() {
    let (username, password) = (Arc::new(Left::default()), Arc::new(Left::default()));
    let both = (Supplied::By(by(&username)), Supplied::By(by(&password)));
    let credentials = Credentials::new(Some(both.0), Some(both.1), PATIENCE).unwrap();
    let ask = || {
        let (asking, question) = credentials.ask(Instant::now());
        question.put(|| ());
        (asking, username.0.take().unwrap())
    };
    let (asking, question) = ask();
    let next = question.answer(text("app")).unwrap();
    assert!(asking.take().is_none());
    assert!(next.answer(text("secret")).is_none());
    let answer = asking.take().unwrap().unwrap();
    assert_eq!((answer.username.as_deref(), super::tests::password(&answer)), (Some("app"), &b"secret"[..]));

    let (asking, question) = ask();
    let told = Told { password: Some("other".into()), lifetime: Some(900.0), ..text("app").unwrap() };
    assert!(question.answer(Ok(told)).is_none());
    assert_eq!(asking.take().unwrap().unwrap().lifetime, Some(Duration::from_secs(900)));
}

#[test]
fn failures_say_why_and_no_secret() {
    let function = Arc::new(Left::default());
    let credentials = password_of(&function);
    let lasting = |lifetime| Ok(Told { lifetime: Some(lifetime), ..text("secret").unwrap() });
    for (told, why) in [
        (Err("the vault is sealed".to_owned()), "the function for password failed: the vault is sealed"),
        (Ok(Told::default()), "the function for password failed: it returned no password"),
        (lasting(0.0), "a lifetime that is not a positive number of seconds"),
        (lasting(f64::NAN), "a lifetime that is not a positive number of seconds"),
    ] {
        let (asking, question) = credentials.ask(Instant::now());
        question.put(|| ());
        function.0.take().unwrap().answer(told);
        let said = asking.take().unwrap().unwrap_err();
        assert!(said.contains(why) && !said.contains("secret"), "{said}");
    }
    let (asking, question) = credentials.ask(Instant::now());
    drop(question);
    assert_eq!(asking.take().unwrap().unwrap_err(), "the function for password was not called");
}

#[test]
fn a_call_that_is_under_way_serves_the_next_connection() {
    let function = Arc::new(Left::default());
    let credentials = password_of(&function);
    let now = Instant::now();
    let (given_up, question) = credentials.ask(now);
    question.put(|| ());
    assert!(given_up.too_late(now + PATIENCE).unwrap().contains("did not return in time"));
    drop(given_up);
    let called = function.0.take().unwrap();
    let (asking, question) = credentials.ask(now);
    assert!(question.function().is_none());
    question.put(|| ());
    assert!(function.0.take().is_none());
    called.answer(text("secret"));
    assert_eq!(password(&asking.take().unwrap().unwrap()), b"secret");
}

#[test]
fn an_answer_that_came_too_late_does_not_serve_for_ever() {
    let function = Arc::new(Left::default());
    let credentials = password_of(&function);
    let now = Instant::now();
    let give_up = |told| {
        let (given_up, question) = credentials.ask(now);
        question.put(|| ());
        drop(given_up);
        function.0.take().unwrap().answer(told);
    };
    let asks_anew = |at| credentials.ask(at).1.function().is_some();
    let lasting = Ok(Told { lifetime: Some(900.0), ..text("secret").unwrap() });
    give_up(text("secret"));
    assert!(asks_anew(now + Duration::from_secs(60)));
    give_up(lasting);
    assert!(!asks_anew(now + Duration::from_secs(600)));
    give_up(Err("no".into()));
    assert!(asks_anew(now));
}

#[test]
fn nothing_secret_is_shown() {
    let told = Told { username: Some("app".into()), lifetime: Some(1.0), ..text("secret").unwrap() };
    let credentials = password_of(&Arc::default());
    let (_, question) = credentials.ask(Instant::now());
    for shown in [format!("{told:?}"), format!("{credentials:?}"), format!("{question:?}")] {
        assert!(!shown.contains("secret") && !shown.contains("app"), "{shown}");
    }
}
