//! Gets that share a `get` line, and stores that share a no-op: each gets its own outcome, whatever happens to the
//! others.

use super::host::{delete, echo, failures, get, key, set, statuses, values, Event, Host, TIMEOUT};
use super::peer::Faults;
use crate::session::{Data, Limits, Outcome, Ticket, KEYS_PER_LINE, LARGE};
use pinyon_net::error::{Kind, Sent};
use pinyon_net::network::Stream;
use pinyon_proto::{Key, Status};

/// From so many keys on, gets share a line.
const MANY: usize = 16;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("k{number}")).collect()
}

fn joined(host: &mut Host, names: &[String]) -> Vec<Ticket> {
    names.iter().map(|name| host.submit_joined_get(name)).collect()
}

/// A line's reply, with the value `vN` for each of these keys.
fn hits(numbers: impl IntoIterator<Item = usize>) -> String {
    let value = |number: usize| format!("VALUE k{number} 0 {}\r\nv{number}\r\n", format!("v{number}").len());
    numbers.into_iter().map(value).collect()
}

/// The reply of each exchange: `vN` for the Nth if it was found, nothing otherwise.
fn expected(tickets: &[Ticket], found: impl Fn(usize) -> bool) -> Vec<(Ticket, Vec<u8>)> {
    let value = |number: usize| if found(number) { format!("v{number}").into_bytes() } else { Vec::new() };
    tickets.iter().enumerate().map(|(number, ticket)| (*ticket, value(number))).collect()
}

fn owned(events: &[Event]) -> Vec<(Ticket, Vec<u8>)> {
    values(events).into_iter().map(|(ticket, value)| (ticket, value.to_vec())).collect()
}

#[test]
fn many_gets_leave_as_one_line() {
    let mut host = Host::connected("1.6.18");
    let names = names(MANY);
    let tickets = joined(&mut host, &names);
    assert_eq!(host.sent(), format!("get {}\r\n", names.join(" ")));
    let events = host.answer((hits((0..MANY).filter(|number| number % 3 != 1)) + "END\r\n").as_bytes());
    assert_eq!(owned(&events), expected(&tickets, |number| number % 3 != 1));
    let status = |number: usize| if number % 3 == 1 { Status::Miss } else { Status::Hit };
    assert!(statuses(&events).iter().enumerate().all(|(number, (_, found))| *found == status(number)));
    assert!(host.session.is_clean());
}

#[test]
fn a_few_go_by_themselves() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(2));
    let [first, second] = tickets[..] else { unreachable!() };
    assert_eq!(host.sent(), format!("mg k0 f v{}\r\nmg k1 f v{}\r\n", echo(first), echo(second)));
    let events = host.answer(format!("VA 2 f0{}\r\nv0\r\nEN{}\r\n", echo(first), echo(second)).as_bytes());
    assert_eq!(owned(&events), expected(&tickets, |number| number == 0));
}

#[test]
fn a_server_without_meta_commands_is_asked_for_two_in_one_line() {
    let mut host = Host::connected("1.5.22");
    let alone = host.submit_joined_get("k0");
    assert_eq!(host.sent(), "get k0\r\n");
    assert_eq!(owned(&host.answer((hits([0]) + "END\r\n").as_bytes())), [(alone, b"v0".to_vec()), (alone, vec![])]);
    let tickets = joined(&mut host, &names(2));
    assert_eq!(host.sent(), "get k0 k1\r\n");
    assert_eq!(owned(&host.answer((hits([0, 1]) + "END\r\n").as_bytes())), expected(&tickets, |_| true));
}

#[test]
fn a_value_is_handed_out_before_the_line_has_ended() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    assert_eq!(owned(&host.answer(hits([0]).as_bytes())), [(tickets[0], b"v0".to_vec())]);
    assert_eq!(owned(&host.answer(hits([2]).as_bytes())).last(), Some(&(tickets[2], b"v2".to_vec())));
    let misses: Vec<_> = tickets[3..].iter().map(|ticket| (*ticket, Status::Miss)).collect();
    assert_eq!(statuses(&host.answer(b"END\r\n")), misses);
}

#[test]
fn the_same_key_may_be_asked_for_again() {
    let mut host = Host::connected("1.6.18");
    let tickets: Vec<_> = (0..MANY).map(|_| host.submit_joined_get("k7")).collect();
    let events = host.answer((hits([7; MANY]) + "END\r\n").as_bytes());
    let own: Vec<_> = tickets.iter().map(|ticket| (*ticket, b"v7".to_vec())).collect();
    assert_eq!(owned(&events), own);
}

#[test]
fn whatever_else_is_submitted_comes_after_them() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    let loud = host.submit(get("c"));
    let next = host.submit_joined_get("d");
    let quiet = host.submit_quiet(delete("e"));
    let last = host.submit_joined_get("f");
    let line = names(MANY).join(" ");
    let others = [echo(loud), echo(next), echo(quiet), echo(last)];
    let [c, d, e, f] = &others;
    assert_eq!(host.sent(), format!("get {line}\r\nmg c f v{c}\r\nmg d f v{d}\r\nmd e{e} q\r\nmn\r\nmg f f v{f}\r\n"));
    let replies = hits([3]) + &format!("END\r\nEN{c}\r\nEN{d}\r\nMN\r\nVA 1 f0{f}\r\nF\r\n");
    let mut all = expected(&tickets, |number| number == 3);
    all.extend([(loud, vec![]), (next, vec![]), (quiet, vec![]), (last, b"F".to_vec())]);
    assert_eq!(owned(&host.answer(replies.as_bytes())), all);
    assert!(host.session.is_clean());
}

#[test]
fn a_line_takes_so_many_keys_and_no_more() {
    let mut host = Host::connected("1.6.18");
    let names = names(KEYS_PER_LINE + MANY);
    let tickets = joined(&mut host, &names);
    let (first, second) = names.split_at(KEYS_PER_LINE);
    assert_eq!(host.sent(), format!("get {}\r\nget {}\r\n", first.join(" "), second.join(" ")));
    let events = host.answer(b"END\r\nEND\r\n");
    assert_eq!(statuses(&events), tickets.iter().map(|ticket| (*ticket, Status::Miss)).collect::<Vec<_>>());
}

#[test]
fn keys_sent_as_base64_go_alone() {
    let mut host = Host::connected("1.6.18");
    joined(&mut host, &names(MANY));
    let encoded = host.session.submit_joined_get(Key::new(b"AAEC", true).unwrap(), host.now + TIMEOUT).unwrap();
    assert_eq!(host.sent(), format!("get {}\r\nmg AAEC b f v{}\r\n", names(MANY).join(" "), echo(encoded)));
}

#[test]
fn a_key_that_nobody_asked_for_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    host.sent();
    let failed = failures(&host.answer((hits([99]) + "END\r\n").as_bytes()));
    assert_eq!(failed, tickets.iter().map(|ticket| (*ticket, Kind::Protocol, Sent::Maybe)).collect::<Vec<_>>());
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn a_key_out_of_its_order_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    let events = host.answer((hits([1]) + &hits([0]) + "END\r\n").as_bytes());
    let (handed_out, failed) = events.split_at(2);
    assert_eq!(owned(handed_out), expected(&tickets[..2], |number| number == 1));
    assert!(failed.iter().all(|event| event.failed().1 == Kind::Protocol) && failed.len() == MANY - 2);
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn a_value_behind_the_last_key_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    let events = host.answer((hits(0..MANY) + &hits([MANY - 1]) + "END\r\n").as_bytes());
    assert_eq!(owned(&events), expected(&tickets, |_| true));
    assert_eq!(host.failure().0, Kind::Protocol);
}

#[test]
fn an_error_concerns_the_keys_that_were_not_answered() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    let next = host.submit(get("d"));
    host.sent();
    assert_eq!(owned(&host.answer(hits([0]).as_bytes())), [(tickets[0], b"v0".to_vec())]);
    let failed = failures(&host.answer(b"SERVER_ERROR out of memory writing get response\r\n"));
    assert_eq!(failed, tickets[1..].iter().map(|ticket| (*ticket, Kind::Server, Sent::Maybe)).collect::<Vec<_>>());
    assert_eq!(statuses(&host.answer(format!("EN{}\r\n", echo(next)).as_bytes())), [(next, Status::Miss)]);
    assert!(host.session.is_clean());
}

#[test]
fn one_that_is_abandoned_leaves_the_others_their_replies() {
    for sent_before in [false, true] {
        let mut host = Host::connected("1.6.18");
        let mut tickets = joined(&mut host, &names(MANY));
        if sent_before {
            host.sent();
        }
        host.session.abandon(tickets[1]);
        let mut all = expected(&tickets, |_| true);
        all.remove(1);
        tickets.remove(1);
        assert_eq!(owned(&host.answer((hits(0..MANY) + "END\r\n").as_bytes())), all);
        assert!(host.session.is_clean());
    }
}

#[test]
fn each_has_a_deadline_of_its_own() {
    let mut host = Host::connected("1.6.18");
    let hasty = host.session.submit_joined_get(key("k0"), host.now + TIMEOUT / 2).unwrap();
    let tickets = joined(&mut host, &names(MANY)[1..]);
    host.sent();
    host.pass(TIMEOUT / 2);
    assert_eq!(failures(&host.turn()), [(hasty, Kind::Timeout, Sent::Maybe)]);
    let events = host.answer((hits(0..MANY) + "END\r\n").as_bytes());
    assert_eq!(owned(&events), expected(&[&[hasty], &tickets[..]].concat(), |_| true)[1..]);
    assert!(host.session.is_clean());
}

#[test]
fn gets_that_were_not_encoded_yet_were_not_sent() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(3));
    host.session.close();
    let failed = failures(&host.turns());
    assert_eq!(failed, tickets.iter().map(|ticket| (*ticket, Kind::Closed, Sent::No)).collect::<Vec<_>>());
    host.session.flush();
    assert_eq!(host.peer.take_received(), b"");
}

#[test]
fn a_server_that_speaks_before_it_is_asked_is_not_heard() {
    for reply in [hits([0]), "END\r\n".into()] {
        let mut host = Host::connected("1.6.18");
        let tickets = joined(&mut host, &names(3));
        host.peer.reply(reply.as_bytes());
        assert!(host.session.fill_with(Stream::receive).is_ok());
        assert!(matches!(host.session.next().unwrap().outcome, Outcome::Failed(error) if error.kind == Kind::Protocol));
        assert_eq!(failures(&host.turns()).len(), tickets.len() - 1);
        assert_eq!(host.peer.take_received(), b"");
    }
}

#[test]
fn a_large_value_behind_a_miss_is_received_into_its_place() {
    let mut host = Host::connected("1.6.18");
    let tickets = joined(&mut host, &names(MANY));
    host.sent();
    let value = vec![b'x'; LARGE * 3];
    let mut reply = format!("VALUE k1 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(("\r\n".to_owned() + &hits(2..MANY) + "END\r\n").as_bytes());
    host.peer.behave(Faults { receive_width: Some(5000), ..Faults::default() });
    let events = host.answer(&reply);
    let replies: Vec<Event> = events.into_iter().filter(|event| !matches!(event, Event::Large(..))).collect();
    let mut all = expected(&tickets, |number| number > 1);
    all[1].1 = value;
    assert!(owned(&replies) == all);
    assert!(host.session.is_clean());
}

#[test]
fn a_full_queue_counts_every_key() {
    let mut host = Host::connected_within("1.6.18", Limits { exchanges: 2, ..Limits::default() });
    joined(&mut host, &names(2));
    assert!(!host.session.accepts());
}

/// So many stores of a run are answered individually.
const LOUD: usize = 3;

fn stores(host: &mut Host, names: &[String]) -> Vec<Ticket> {
    let store = |name: &String| {
        let deadline = host.now + TIMEOUT;
        host.session.submit_joined(&set(name, 1), Data::Copied(b"x"), deadline).expect("it is taken")
    };
    names.iter().map(store).collect()
}

fn request(number: usize, ticket: Ticket, quiet: &str) -> String {
    format!("ms k{number} 1{}{quiet}\r\nx\r\n", echo(ticket))
}

/// The replies to the loud stores.
fn stored(tickets: &[Ticket]) -> String {
    tickets[..LOUD].iter().map(|ticket| format!("HD{}\r\n", echo(*ticket))).collect()
}

#[test]
fn of_many_stores_all_but_the_first_few_are_quiet() {
    let mut host = Host::connected("1.6.18");
    let tickets = stores(&mut host, &names(6));
    let requests = |(number, ticket): (usize, &Ticket)| request(number, *ticket, if number < LOUD { "" } else { " q" });
    assert_eq!(host.sent(), tickets.iter().enumerate().map(requests).collect::<String>() + "mn\r\n");
    let events = host.answer((stored(&tickets) + "MN\r\n").as_bytes());
    assert_eq!(statuses(&events), tickets.iter().map(|ticket| (*ticket, Status::Done)).collect::<Vec<_>>());
    assert!(host.session.is_clean());
}

#[test]
fn a_few_stores_are_answered_each() {
    let mut host = Host::connected("1.6.18");
    let tickets = stores(&mut host, &names(LOUD));
    assert!(!host.sent().contains("mn"));
    stores(&mut host, &names(LOUD));
    assert!(!host.sent().contains("mn"), "what was sent before does not count");
    assert_eq!(statuses(&host.answer(stored(&tickets).as_bytes())).len(), LOUD);
}

#[test]
fn whatever_else_is_submitted_ends_the_run() {
    let mut host = Host::connected("1.6.18");
    stores(&mut host, &names(LOUD + 1));
    host.submit_joined_get("k0");
    stores(&mut host, &names(LOUD));
    host.submit(delete("k0"));
    stores(&mut host, &names(LOUD));
    host.submit_joined_get("k0");
    stores(&mut host, &names(1));
    let requests = host.sent();
    let verbs: Vec<&str> = requests.split("\r\n").filter(|line| line.starts_with('m')).map(|line| &line[..2]).collect();
    assert_eq!(verbs.join(" "), "ms ms ms ms mn mg ms ms ms md ms ms ms mg ms");
    assert_eq!(requests.matches(" q\r\n").count(), 1);
}

#[test]
fn an_error_without_a_name_is_told_to_all_quiet_stores_it_may_belong_to() {
    let mut host = Host::connected("1.6.18");
    let tickets = stores(&mut host, &names(6));
    host.sent();
    let events = host.answer((stored(&tickets) + "SERVER_ERROR out of memory storing object\r\nMN\r\n").as_bytes());
    let (done, failed) = events.split_at(LOUD);
    assert_eq!(statuses(done), tickets[..LOUD].iter().map(|ticket| (*ticket, Status::Done)).collect::<Vec<_>>());
    let unattributed = tickets[LOUD..].iter().map(|ticket| (*ticket, Kind::OutOfMemory, Sent::Maybe));
    assert_eq!(failures(failed), unattributed.collect::<Vec<_>>());
    assert!(host.session.is_clean());
}
