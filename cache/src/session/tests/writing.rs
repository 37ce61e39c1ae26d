//! Which keys count as being written, and until when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::{Command, Key, MetaCommand, Verb};

use super::generations::TTL;
use super::host::{delete, get, incr, key, set, Host, TIMEOUT};
use crate::near::{Limits, Look, Near, Read};
use crate::session::{Clearing, Manner, Protocol};
use pinyon_net::fake_clock::{clock, pass};

fn near() -> Arc<Near> {
    let (fresh, grace) = (Duration::from_secs(60), Duration::ZERO);
    Near::new(Limits { bytes: 1 << 20, fresh, grace }).into()
}

fn connected(near: &Arc<Near>) -> Host {
    let mut host = Host::connected("1.6.18");
    host.session = host.session.in_manner(Manner::new(Protocol::Auto, None).keeping(Some(near)).into());
    host
}

/// Whether a value that is read now is kept, as none of this key's writes is under way.
fn is_kept(near: &Near, key: Key<'_>) -> bool {
    let look = || near.look(key, Instant::now());
    if let Look::Ask(ticket) = look() {
        near.fill(key, ticket, Read { bytes: b"x", client_flags: 0, server: &"a:1".into(), token: None });
    }
    matches!(look(), Look::Hit(_))
}

#[test]
fn a_write_lasts_until_its_exchange_is_over() {
    let near = near();
    let mut host = connected(&near);
    assert!(is_kept(&near, key("k")));
    host.submit_value(set("k", 1), b"x");
    host.submit(delete("l"));
    assert!(!is_kept(&near, key("k")) && !is_kept(&near, key("l")));
    assert!(is_kept(&near, key("other")));
    host.sent();
    host.answer(b"HD O0\r\n");
    assert!(is_kept(&near, key("k")) && !is_kept(&near, key("l")));
    host.answer(b"NF O1\r\n");
    assert!(is_kept(&near, key("l")));
}

#[test]
fn a_write_that_failed_is_over() {
    for answer in ["SERVER_ERROR out of memory\r\n", "garbage\r\n"] {
        let near = near();
        let mut host = connected(&near);
        host.submit(incr("k"));
        host.sent();
        assert!(!is_kept(&near, key("k")));
        host.answer(answer.as_bytes());
        assert!(is_kept(&near, key("k")), "{answer:?}");
    }
}

#[test]
fn a_write_that_nobody_awaits_lasts_until_the_server_has_answered() {
    let near = near();
    let mut host = connected(&near);
    let abandoned = host.submit(delete("k"));
    host.submit(get("l"));
    host.sent();
    host.session.abandon(abandoned);
    assert!(!is_kept(&near, key("k")));
    host.pass(TIMEOUT / 2);
    host.turns();
    assert!(!is_kept(&near, key("k")));
    host.answer(b"HD O0\r\n");
    assert!(is_kept(&near, key("k")));
}

#[test]
fn a_write_ends_with_its_session() {
    let near = near();
    let mut host = connected(&near);
    host.submit(delete("k"));
    assert!(!is_kept(&near, key("k")));
    drop(host);
    assert!(is_kept(&near, key("k")));
}

#[test]
fn quiet_writes_last_until_a_later_reply() {
    let near = near();
    let mut host = connected(&near);
    host.submit_quiet(delete("k"));
    host.submit_quiet(delete("l"));
    host.session.end_quiet_run(host.now + TIMEOUT);
    host.sent();
    assert!(!is_kept(&near, key("k")) && !is_kept(&near, key("l")));
    host.answer(b"MN\r\n");
    assert!(is_kept(&near, key("k")) && is_kept(&near, key("l")));
}

#[test]
fn many_keys_whose_ttl_is_set_are_written() {
    let near = near();
    let mut host = connected(&near);
    host.submit(Command::GetMany { keys: b"k l", cas: false, ttl: Some(5) });
    assert!(!is_kept(&near, key("k")) && !is_kept(&near, key("l")));
    host.sent();
    host.answer(b"END\r\n");
    assert!(is_kept(&near, key("k")) && is_kept(&near, key("l")));
    host.submit(Command::GetMany { keys: b"k l", cas: false, ttl: None });
    let read = Command::Meta(MetaCommand { verb: Verb::Get, key: key("k"), size: None, flags: &[] });
    host.submit(read);
    assert!(is_kept(&near, key("k")));
    host.submit(Command::Meta(MetaCommand { verb: Verb::Delete, key: key("k"), size: None, flags: &[] }));
    assert!(!is_kept(&near, key("k")));
}

#[test]
fn after_a_flush_nothing_is_there_that_was_read_before_its_end() {
    let near = near();
    let mut host = connected(&near);
    assert!(is_kept(&near, key("k")));
    host.submit(Command::FlushAll { delay: 0 });
    assert_eq!(near.figures().bytes, 0);
    assert!(is_kept(&near, key("k")));
    let Look::Ask(before) = near.look(key("l"), Instant::now()) else { panic!("it is not there") };
    host.sent();
    host.answer(b"OK\r\n");
    assert_eq!(near.figures().bytes, 0);
    near.fill(key("l"), before, Read { bytes: b"x", client_flags: 0, server: &"a:1".into(), token: None });
    assert_eq!(near.figures().bytes, 0);
}

/// A host with a clearable namespace, and its hot keys.
fn clearable() -> (Arc<Near>, Host) {
    let near = near();
    let clearing = Arc::new(Clearing::new(b"n:", TTL).by_clock(clock).keeping(Some(&near)));
    let manner = Manner::new(Protocol::Auto, None).clearing(Some(&clearing)).keeping(Some(&near));
    let mut host = Host::connected("1.6.18");
    host.session = host.session.in_manner(manner.into());
    (near, host)
}

const KEY: &str = "n:!!!!!!!!!!!k";

#[test]
fn a_clear_forgets_what_was_read_before_its_end() {
    let (near, mut host) = clearable();
    host.submit(get(KEY));
    let sent = host.sent();
    let generation = sent.split("\r\n").nth(1).unwrap();
    host.answer(format!("STORED\r\nVA 11 f0 O1\r\n{generation}\r\nEN O2\r\n").as_bytes());
    assert!(is_kept(&near, key(KEY)));
    let Look::Ask(before) = near.look(key("n:!!!!!!!!!!!l"), Instant::now()) else { panic!("it is not there") };
    host.session.submit_clearing(host.now + TIMEOUT).unwrap();
    host.sent();
    assert!(near.figures().bytes > 0, "it is not cleared yet");
    host.answer(b"HD O3\r\n");
    assert_eq!(near.figures().bytes, 0);
    near.fill(key("n:!!!!!!!!!!!l"), before, Read { bytes: b"x", client_flags: 0, server: &"a:1".into(), token: None });
    assert_eq!(near.figures().bytes, 0);
}

#[test]
fn a_clear_by_another_process_is_noticed_with_the_next_question() {
    let (near, mut host) = clearable();
    host.submit(get(KEY));
    let sent = host.sent();
    let generation = sent.split("\r\n").nth(1).unwrap().to_owned();
    host.answer(format!("STORED\r\nVA 11 f0 O1\r\n{generation}\r\nEN O2\r\n").as_bytes());
    assert!(is_kept(&near, key(KEY)));
    pass(TTL);
    host.submit(get("n:!!!!!!!!!!!l"));
    assert!(host.sent().starts_with("mg n:!generation "));
    host.answer(format!("VA 11 f0 O3\r\n{generation}\r\nEN O4\r\n").as_bytes());
    assert!(near.figures().bytes > 0, "it is the same generation");
    pass(TTL);
    host.submit(get("n:!!!!!!!!!!!l"));
    host.sent();
    let other = pinyon_proto::Generation::new(1_600_000_000_000, 5, None).text().to_vec();
    host.answer(&[b"VA 11 f0 O5\r\n", &other[..], b"\r\nEN O6\r\n"].concat());
    assert_eq!(near.figures().bytes, 0);
}

#[test]
fn a_clear_that_a_server_did_not_get_forgets_too() {
    let (near, host) = clearable();
    assert!(is_kept(&near, key(KEY)));
    drop(host);
    let clearing = Arc::new(Clearing::new(b"n:", TTL).keeping(Some(&near)));
    Manner::new(Protocol::Auto, None).clearing(Some(&clearing)).generations().unwrap().owe();
    assert_eq!(near.figures().bytes, 0);
}
