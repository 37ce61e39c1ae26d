//! Quiet commands: silence means success, and every failure reaches its command or all candidates.

use super::host::{delete, echo, failures, get, get_many, incr, key, set, statuses, values, Event, Host, TIMEOUT};
use super::peer::Ending;
use crate::session::{Data, Ticket};
use pinyon_net::error::{Kind, Sent};
use pinyon_proto::{Command, Flag, MetaCommand, Status, Verb};

fn quiet_deletes<const COUNT: usize>(host: &mut Host) -> [Ticket; COUNT] {
    std::array::from_fn(|_| host.submit_quiet(delete("k")))
}

fn done(tickets: &[Ticket]) -> Vec<(Ticket, Status)> {
    tickets.iter().map(|ticket| (*ticket, Status::Done)).collect()
}

#[test]
fn silence_is_success() {
    let mut host = Host::connected("1.6.18");
    let stored = host.submit_quiet(set("a", 3));
    let deleted = host.submit_quiet(delete("b"));
    let counted = host.submit_quiet(incr("c"));
    let barrier = host.submit(Command::NoOp);
    let requests = host.sent();
    assert!(requests.starts_with("ms a 3 O0 q\r\nxxx\r\nmd b O1 q\r\nma c v O2 q\r\nmn\r\n"), "{requests}");
    assert!(host.turns().is_empty(), "nothing is known yet");
    let barriers = requests.matches("mn\r\n").count();
    let events = host.answer("MN\r\n".repeat(barriers).as_bytes());
    let expected = [done(&[stored, deleted, counted]), vec![(barrier, Status::NoOp)]].concat();
    assert_eq!(statuses(&events), expected);
    assert!(host.session.is_clean());
}

#[test]
fn a_no_op_ends_a_quiet_run_by_itself() {
    let mut host = Host::connected("1.6.18");
    host.submit_quiet(delete("a"));
    host.submit(Command::NoOp);
    assert_eq!(host.sent(), "md a O0 q\r\nmn\r\n");
}

#[test]
fn a_no_op_is_put_before_a_loud_command() {
    let mut host = Host::connected("1.6.18");
    let deleted = host.submit_quiet(delete("a"));
    let many = host.submit(get_many("a b"));
    let next = host.submit(get("c"));
    assert_eq!(host.sent(), format!("md a O0 q\r\nmn\r\nget a b\r\nmg c f v{}\r\n", echo(next)));
    let events = host.answer(format!("MN\r\nVALUE b 0 1\r\nB\r\nEND\r\nEN{}\r\n", echo(next)).as_bytes());
    assert_eq!(values(&events), [(deleted, &b""[..]), (many, b"B"), (many, b""), (next, b"")]);
    assert!(host.session.is_clean());
}

#[test]
fn a_failure_in_the_middle_is_told_apart_by_its_opaque() {
    let mut host = Host::connected("1.6.18");
    let [first, second, absent, fourth] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    let events = host.answer(format!("NF{}\r\nMN\r\n", echo(absent)).as_bytes());
    let expected = [done(&[first, second]), vec![(absent, Status::NotFound)], done(&[fourth])].concat();
    assert_eq!(statuses(&events), expected);
    assert!(host.session.is_clean());
}

#[test]
fn every_one_can_fail() {
    let mut host = Host::connected("1.6.18");
    let tickets: [Ticket; 3] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    let replies: String = tickets.iter().map(|ticket| format!("NF{}\r\n", echo(*ticket))).collect();
    let events = host.answer((replies + "MN\r\n").as_bytes());
    assert_eq!(statuses(&events), tickets.map(|ticket| (ticket, Status::NotFound)));
}

#[test]
fn a_failure_whose_command_the_server_does_not_name_is_told_of_all_it_may_belong_to() {
    let mut host = Host::connected("1.6.18");
    let [first, second, absent, fourth] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    let bytes = format!("SERVER_ERROR out of memory\r\nNF{}\r\nMN\r\n", echo(absent));
    let events = host.answer(bytes.as_bytes());
    assert_eq!(failures(&events[..2]), [(first, Kind::Server, Sent::Maybe), (second, Kind::Server, Sent::Maybe)]);
    assert_eq!(statuses(&events[2..]), [(absent, Status::NotFound), (fourth, Status::Done)]);
    let Event::Failed(_, error) = &events[0] else { unreachable!() };
    assert!(error.message.contains("out of memory"), "{error}");
    assert!(host.session.is_clean(), "a SERVER_ERROR leaves the connection as it is");
}

#[test]
fn an_unattributed_failure_does_not_outlive_its_run() {
    let mut host = Host::connected("1.6.18");
    let [first] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    assert_eq!(failures(&host.answer(b"SERVER_ERROR busy\r\nMN\r\n")), [(first, Kind::Server, Sent::Maybe)]);
    let [second] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    assert_eq!(statuses(&host.answer(b"MN\r\n")), done(&[second]));
}

#[test]
fn an_unattributed_failure_that_can_be_nobodys_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let [first, second] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    let events = host.answer(format!("SERVER_ERROR busy\r\nNF{}\r\nMN\r\n", echo(first)).as_bytes());
    assert_eq!(failures(&events), [first, second].map(|ticket| (ticket, Kind::Protocol, Sent::Maybe)));
}

#[test]
fn stores_and_deletes_mix() {
    let mut host = Host::connected("1.6.18");
    let stored = host.submit_quiet(set("a", 2));
    let deleted = host.submit_quiet(delete("b"));
    let too_large = host.submit_quiet(set("c", 10));
    let last = host.submit_quiet(delete("d"));
    host.session.end_quiet_run(host.now + TIMEOUT);
    let bytes = format!("NF{}\r\nSERVER_ERROR object too large for cache\r\nNF{}\r\nMN\r\n", echo(deleted), echo(last));
    let events = host.answer(bytes.as_bytes());
    assert_eq!(statuses(&events[..2]), [(stored, Status::Done), (deleted, Status::NotFound)]);
    assert_eq!(failures(&events[2..3]), [(too_large, Kind::TooLarge, Sent::Maybe)]);
    assert_eq!(statuses(&events[3..]), [(last, Status::NotFound)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_store_that_is_not_understood_closes_the_connection_wherever_it_stands_in_the_run() {
    for stores_first in [true, false] {
        let mut host = Host::connected("1.6.18");
        let commands = if stores_first { [set("a", 2), delete("b")] } else { [delete("b"), set("a", 2)] };
        let tickets = commands.map(|command| host.submit_quiet(command));
        host.session.end_quiet_run(host.now + TIMEOUT);
        let events = host.answer(b"CLIENT_ERROR bad data chunk\r\n");
        assert_eq!(failures(&events), tickets.map(|ticket| (ticket, Kind::Server, Sent::Maybe)));
        assert!(host.session.failure().is_some(), "its data block may be taken for commands");
    }
}

#[test]
fn a_delete_that_is_not_understood_leaves_the_connection_open() {
    let mut host = Host::connected("1.6.18");
    let [deleted] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    assert_eq!(failures(&host.answer(b"CLIENT_ERROR invalid flag\r\nMN\r\n")), [(deleted, Kind::Server, Sent::Maybe)]);
    assert!(host.session.is_clean());
}

#[test]
fn a_quiet_get_that_misses_is_silent() {
    let mut host = Host::connected("1.6.18");
    let quiet_get = |name| {
        Command::Meta(MetaCommand { verb: Verb::Get, key: key(name), size: None, flags: &[Flag::Value, Flag::Size] })
    };
    let miss = host.submit_quiet(quiet_get("a"));
    let hit = host.submit_quiet(quiet_get("b"));
    let last = host.submit_quiet(quiet_get("c"));
    host.session.end_quiet_run(host.now + TIMEOUT);
    assert_eq!(host.sent(), "mg a v s O0 q\r\nmg b v s O1 q\r\nmg c v s O2 q\r\nmn\r\n");
    let events = host.answer(b"VA 1 s1 O1\r\nB\r\nMN\r\n");
    assert_eq!(statuses(&events), [(miss, Status::Miss), (hit, Status::Hit), (last, Status::Miss)]);
    assert_eq!(events[1].answer().value, b"B");
}

#[test]
fn commands_that_cannot_be_quiet_end_the_run() {
    for (version, miss) in [("1.6.18", "EN O2\r\n"), ("1.6.12", "EN\r\n")] {
        let mut host = Host::connected(version);
        let stored = host.submit_quiet(set("a", 1));
        let got = host.submit_quiet(get("b"));
        let many = host.submit_quiet(get_many("c"));
        assert_eq!(host.sent(), "ms a 1 O0 q\r\nx\r\nmn\r\nmg b f v O2\r\nget c\r\n");
        let events = host.answer(format!("MN\r\n{miss}END\r\n").as_bytes());
        assert_eq!(statuses(&events), [(stored, Status::Done), (got, Status::Miss), (many, Status::End)]);
        assert!(host.session.is_clean());
    }
}

#[test]
fn classic_servers_answer_quiet_commands_aloud() {
    let mut host = Host::connected("1.5.22");
    let stored = host.submit_quiet(set("a", 1));
    let deleted = host.submit_quiet(delete("b"));
    let barrier = host.submit(Command::NoOp);
    assert_eq!(host.sent(), "set a 0 0 1\r\nx\r\ndelete b\r\nversion\r\n");
    let events = host.answer(b"NOT_STORED\r\nDELETED\r\nVERSION 1.5.22\r\n");
    assert_eq!(statuses(&events), [(stored, Status::NotStored), (deleted, Status::Done), (barrier, Status::Version)]);
}

#[test]
fn an_opaque_of_no_quiet_command_in_flight_breaks_the_connection() {
    for bytes in ["NF O77\r\n", "NF\r\n", "HD\r\n", "VA 1\r\nx\r\n", "NF O3\r\n"] {
        let mut host = Host::connected("1.6.18");
        let tickets: [Ticket; 3] = quiet_deletes(&mut host);
        host.session.end_quiet_run(host.now + TIMEOUT);
        let later = host.submit(delete("later"));
        let expected: Vec<_> = tickets.into_iter().chain([later]).map(|t| (t, Kind::Protocol, Sent::Maybe)).collect();
        assert_eq!(failures(&host.answer(bytes.as_bytes())), expected, "{bytes}");
    }
}

#[test]
fn a_reply_of_the_wrong_form_for_its_quiet_command_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let [deleted] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    assert_eq!(failures(&host.answer(b"VA 1 O0\r\nx\r\n")), [(deleted, Kind::Protocol, Sent::Maybe)]);
}

#[test]
fn what_is_silent_when_the_connection_breaks_may_have_been_executed() {
    let mut host = Host::connected("1.6.18");
    let [first, absent, third] = quiet_deletes(&mut host);
    host.turn();
    host.peer.reply(format!("NF{}\r\n", echo(absent)).as_bytes());
    let events = host.turn();
    assert_eq!(statuses(&events), [(first, Status::Done), (absent, Status::NotFound)]);
    host.peer.end(Ending::Closed);
    assert_eq!(failures(&host.turns()), [(third, Kind::Closed, Sent::Maybe)]);
}

#[test]
fn an_abandoned_quiet_command_leaves_its_neighbours_alone() {
    let mut host = Host::connected("1.6.18");
    let [first, second, third] = quiet_deletes(&mut host);
    host.session.end_quiet_run(host.now + TIMEOUT);
    host.turn();
    host.session.abandon(second);
    let events = host.answer(format!("NF{}\r\nMN\r\n", echo(second)).as_bytes());
    assert_eq!(statuses(&events), done(&[first, third]));
    assert!(host.session.is_clean());
}

#[test]
fn a_long_run_has_barriers_of_its_own() {
    let mut host = Host::connected("1.6.18");
    for _ in 0..1000 {
        host.session.submit_quiet(&delete("k"), Data::None, host.now + TIMEOUT).unwrap();
    }
    let barriers = host.sent().matches("mn\r\n").count();
    assert!(barriers >= 7, "an unattributed failure concerns few");
    let events = host.answer("MN\r\n".repeat(barriers).as_bytes());
    assert!(events.iter().all(|event| event.answer().status == Status::Done));
}
