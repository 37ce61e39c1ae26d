//! Generations of a clearable namespace: what is asked before which command, and which replies count. Who reads what,
//! `scenarios/namespaces.json` says.

use std::sync::Arc;
use std::time::Duration;

use pinyon_proto::{Command, Generation, Mode, Status, Store};

use super::host::{delete, failures, get, get_many, incr, key, set, statuses, values, Event, Host, TIMEOUT};
use crate::session::{Clearing, Data, Manner, Protocol, Ticket};
use pinyon_net::error::{Kind, Sent};
use pinyon_net::fake_clock::{clock, pass};

pub const TTL: Duration = Duration::from_secs(1);

/// What the connections of a process to a server share.
pub fn manner(ttl: Duration) -> Arc<Manner> {
    let clearing = Arc::new(Clearing::new(b"n:", ttl).by_clock(clock));
    Manner::new(Protocol::Auto, None).clearing(Some(&clearing)).into()
}

pub fn connected(version: &str, manner: &Arc<Manner>) -> Host {
    let mut host = Host::connected(version);
    host.session = host.session.in_manner(manner.clone());
    host
}

/// A generation of some other process.
fn other(number: u64) -> String {
    text(Generation::new(1_600_000_000_000, number, None))
}

fn text(generation: Generation) -> String {
    String::from_utf8(generation.text().to_vec()).unwrap()
}

/// Connected, and the generation is this one.
fn knowing(version: &str, manner: &Arc<Manner>, generation: &str) -> Host {
    let mut host = connected(version, manner);
    let asked = host.submit(get("n:!!!!!!!!!!!k"));
    let (_, question) = sent(&mut host);
    let events = host.answer(&answers(&question, version, generation));
    let events = [events, host.answer(b"EN O2\r\nEND\r\n"), host.turns()].concat();
    assert_eq!(failures(&events[..1]), [(asked, Kind::Outdated, Sent::No)]);
    let mut host = connected(version, manner);
    host.sent();
    host
}

/// The new generation that was sent, if any, and all that was sent, with `NEW` in its place.
fn sent(host: &mut Host) -> (String, String) {
    let sent = host.sent();
    let new = sent.split("\r\n").find(|line| Generation::read(line.as_bytes()).is_some()).unwrap_or("?").to_owned();
    let shown = sent.replace(&new, "NEW").replace("\r\n", "|");
    (new, shown)
}

/// The answers to the questions of [`sent`].
fn answers(sent: &str, version: &str, generation: &str) -> Vec<u8> {
    let mut answers = String::new();
    if sent.starts_with("add") {
        answers += "NOT_STORED\r\n";
    }
    answers += &match version.starts_with("1.6") {
        true => format!("VA 11 f0 O{}\r\n{generation}\r\n", if sent.starts_with("add") { 1 } else { 0 }),
        false => format!("VALUE n:!generation 0 11\r\n{generation}\r\nEND\r\n"),
    };
    answers.into_bytes()
}

#[test]
fn the_first_command_begins_a_generation_and_is_sent_with_it() {
    let mut host = connected("1.6.18", &manner(TTL));
    let read = host.submit(get("n:!!!!!!!!!!!k"));
    let (new, asked) = sent(&mut host);
    assert_eq!(asked, "add n:!generation 0 0 11|NEW|mg n:!generation f v O1|mg n:NEWk f v O2|");
    let events = host.answer(format!("STORED\r\nVA 11 f0 O1\r\n{new}\r\nVA 1 f0 O2\r\nx\r\n").as_bytes());
    assert_eq!(values(&events), [(read, &b"x"[..])]);
    assert!(host.session.is_clean());
    host.submit(get("n:!!!!!!!!!!!k"));
    assert_eq!(host.sent(), format!("mg n:{new}k f v O3\r\n"), "what is known is not asked");
}

#[test]
fn a_reply_from_another_generation_is_dropped_and_the_command_was_not_sent() {
    for version in ["1.6.18", "1.4.15"] {
        let mut host = connected(version, &manner(TTL));
        let read = host.submit(get("n:!!!!!!!!!!!k"));
        let (new, asked) = sent(&mut host);
        let (there, reply) = (
            other(1),
            match version {
                "1.6.18" => "VA 1 f0 O2\r\nx\r\n".to_owned(),
                _ => format!("VALUE n:{new}k 0 1\r\nx\r\nEND\r\n"),
            },
        );
        assert!(host.answer(&answers(&asked, version, &there)).is_empty(), "the reply is still awaited");
        assert_eq!(failures(&host.answer(reply.as_bytes())), [(read, Kind::Outdated, Sent::No)]);
        assert!(host.session.is_clean());
        host.submit(get("n:!!!!!!!!!!!k"));
        assert!(host.sent().contains(&format!(" n:{there}k")));
    }
}

#[test]
fn a_generation_known_for_longer_is_asked_for_in_the_same_send() {
    let (manner, there) = (manner(TTL), other(1));
    let mut host = knowing("1.6.18", &manner, &there);
    pass(TTL);
    let read = host.submit(get("n:!!!!!!!!!!!k"));
    let second = host.submit(get("n:!!!!!!!!!!!l"));
    assert_eq!(host.sent(), format!("mg n:!generation f v O0\r\nmg n:{there}k f v O1\r\nmg n:{there}l f v O2\r\n"));
    let events = host.answer(format!("VA 11 f0 O0\r\n{there}\r\nEN O1\r\nEN O2\r\n").as_bytes());
    assert_eq!(statuses(&events), [(read, Status::Miss), (second, Status::Miss)]);
    host.submit(get("n:!!!!!!!!!!!k"));
    assert_eq!(host.sent(), format!("mg n:{there}k f v O3\r\n"));
}

#[test]
fn a_cleared_namespace_is_noticed_by_every_kind_of_command() {
    let commands = |host: &mut Host| -> Vec<Ticket> {
        let add = Command::Store(Store {
            mode: Mode::Add,
            key: key("n:!!!!!!!!!!!a"),
            size: 1,
            client_flags: 0,
            ttl: 0,
            cas: None,
            returns_cas: false,
        });
        let mut tickets = vec![
            host.submit_joined_get("n:!!!!!!!!!!!k"),
            host.submit(delete("n:!!!!!!!!!!!k")),
            host.submit(incr("n:!!!!!!!!!!!k")),
            host.submit_value(add, b"x"),
            host.submit(get_many("n:!!!!!!!!!!!k n:!!!!!!!!!!!l")),
        ];
        tickets.extend((0..5).map(|_| host.submit_quiet(set("n:!!!!!!!!!!!q", 1))));
        host.session.end_quiet_run(host.now + TIMEOUT);
        tickets
    };
    for there in [other(1), other(2)] {
        let (manner, known) = (manner(TTL), other(1));
        let mut host = knowing("1.6.18", &manner, &known);
        pass(TTL);
        let tickets = commands(&mut host);
        let asked = host.sent();
        assert_eq!(asked.matches("n:!generation").count(), 1, "{asked}");
        assert!(!asked.contains("!!"), "every key is stamped: {asked}");
        let replies = format!(
            "VA 11 f0 O0\r\n{there}\r\nEN O1\r\nNF O2\r\nVA 1 O3\r\n7\r\nSTORED\r\nVALUE n:{known}l 0 1\r\nx\r\nEND\r\nMN\r\n"
        );
        let events = host.answer(replies.as_bytes());
        assert!(host.session.is_clean(), "{:?}", host.session.failure());
        match there == known {
            true => assert!(events.iter().all(Event::hands_out_something)),
            false => {
                let expected: Vec<_> = tickets.iter().map(|ticket| (*ticket, Kind::Outdated, Sent::No)).collect();
                assert_eq!(failures(&events), expected);
            }
        }
    }
}

#[test]
fn joined_gets_share_a_line_of_stamped_keys() {
    let (manner, there) = (manner(TTL), other(1));
    let mut host = knowing("1.6.18", &manner, &there);
    let names: Vec<_> = (0..20).map(|number| format!("n:!!!!!!!!!!!{number}")).collect();
    let tickets: Vec<_> = names.iter().map(|name| host.submit_joined_get(name)).collect();
    let line: Vec<_> = (0..20).map(|number| format!("n:{there}{number}")).collect();
    assert_eq!(host.sent(), format!("get {}\r\n", line.join(" ")));
    let events = host.answer(format!("VALUE n:{there}7 0 1\r\nx\r\nEND\r\n").as_bytes());
    assert_eq!((events.len(), values(&events)[7]), (20, (tickets[7], &b"x"[..])));
}

#[test]
fn a_clear_counts_at_once_on_all_connections_of_the_process() {
    let (manner, there) = (manner(TTL), other(1));
    let (mut one, mut two) = (knowing("1.6.18", &manner, &there), connected("1.6.18", &manner));
    pass(TTL);
    let late = two.submit(get("n:!!!!!!!!!!!k"));
    assert!(two.sent().contains("mg n:!generation"));
    let cleared = one.session.submit_clearing(one.now + TIMEOUT).unwrap();
    let behind = one.submit(get("n:!!!!!!!!!!!k"));
    let (new, asked) = sent(&mut one);
    assert_eq!(asked, "ms n:!generation 11 O0|NEW|mg n:NEWk f v O1|", "what comes behind it is in the new generation");
    assert_eq!(statuses(&one.answer(b"HD O0\r\nEN O1\r\n")), [(cleared, Status::Done), (behind, Status::Miss)]);
    two.submit(get("n:!!!!!!!!!!!l"));
    assert_eq!(two.sent(), format!("mg n:{new}l f v O2\r\n"));
    let events = two.answer(format!("VA 11 f0 O0\r\n{there}\r\nVA 1 f0 O1\r\nx\r\nEN O2\r\n").as_bytes());
    assert_eq!(values(&events[..1]), [(late, &b"x"[..])], "a command of before may still be answered from before");
    assert_eq!(failures(&events[1..])[0].1, Kind::Outdated, "nobody knows which is later");
    two.submit(get("n:!!!!!!!!!!!k"));
    assert_eq!(two.sent(), format!("mg n:!generation f v O3\r\nmg n:{new}k f v O4\r\n"), "an old answer is no news");
}

#[test]
fn what_is_no_generation_fails_the_commands_behind_it() {
    let (manner, there) = (manner(TTL), other(1));
    let mut host = knowing("1.6.18", &manner, &there);
    pass(TTL);
    let read = host.submit(get("n:!!!!!!!!!!!k"));
    host.sent();
    let events = host.answer(b"VA 3 f0 O0\r\nfoo\r\nEN O1\r\n");
    assert_eq!(failures(&events), [(read, Kind::Unreadable, Sent::No)]);
    let Event::Failed(_, error) = &events[0] else { unreachable!() };
    assert!(error.message.contains("n:!generation is not a generation"), "{error}");
    assert!(host.session.is_clean());
}

#[test]
fn a_server_that_refuses_the_generation_fails_the_commands_behind_it() {
    let mut host = connected("1.6.18", &manner(TTL));
    let read = host.submit(get("n:!!!!!!!!!!!k"));
    host.sent();
    let events = host.answer(b"SERVER_ERROR out of memory storing object\r\nEN O1\r\nEN O2\r\n");
    assert_eq!(failures(&events), [(read, Kind::OutOfMemory, Sent::No)]);
    let second = host.submit(get("n:!!!!!!!!!!!k"));
    host.sent();
    let events = host.answer(b"NOT_STORED\r\nSERVER_ERROR no backend\r\nEN O5\r\n");
    assert_eq!(failures(&events), [(second, Kind::Server, Sent::No)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_command_that_does_not_count_still_has_its_deadline() {
    let mut host = connected("1.6.18", &manner(TTL));
    let read = host.submit(get("n:!!!!!!!!!!!k"));
    let (_, asked) = sent(&mut host);
    assert!(host.answer(&answers(&asked, "1.6.18", &other(1))).is_empty());
    assert!(host.session.wants().until.is_some());
    host.pass(TIMEOUT);
    assert_eq!(failures(&host.turns()), [(read, Kind::Timeout, Sent::Maybe)]);
}

#[test]
fn without_a_time_each_send_asks_once() {
    let manner = manner(Duration::ZERO);
    let mut host = knowing("1.6.18", &manner, &other(1));
    for _ in 0..3 {
        host.submit(get("n:!!!!!!!!!!!k"));
        host.submit(set("n:!!!!!!!!!!!k", 0));
        host.submit_joined_get("n:!!!!!!!!!!!k");
        assert_eq!(host.sent().matches("mg n:!generation").count(), 1);
    }
}

#[test]
fn keys_of_others_are_not_touched() {
    let mut host = connected("1.6.18", &manner(TTL));
    host.submit(get("n:plain"));
    host.submit(get("m:!!!!!!!!!!!k"));
    host.session.submit(&Command::Version, Data::None, host.now + TIMEOUT).unwrap();
    assert_eq!(host.sent(), "mg n:plain f v O0\r\nmg m:!!!!!!!!!!!k f v O1\r\nversion\r\n");
}
