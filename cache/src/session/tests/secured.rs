//! A session over TLS. `model.rs` checks that every reply reaches its exchange over TLS too, however its bytes arrive.

use std::io;
use std::time::Duration;

use super::host::{delete, echo, failures, get, greeting_of, incr, set, values, Host, GREETING, TIMEOUT};
use super::peer::{Ending, Faults, Opening};
use super::terminator::terminator;
use crate::session::{Data, Limits, Wants};
use pinyon_net::error::{Kind, Sent};

fn unconnected() -> Host {
    let mut host = Host::new(Limits::default());
    host.session = host.session.with_access(Some(terminator().0), None);
    host
}

fn hit(value: &str, of: crate::session::Ticket) -> Vec<u8> {
    format!("VA {} f0{}\r\n{value}\r\n", value.len(), echo(of)).into_bytes()
}

#[test]
fn a_handshake_waits_for_what_it_needs() {
    let mut host = unconnected();
    host.peer.behave(Faults { room: Some(0), ..Faults::default() });
    host.connect(1);
    let until = Some(host.now + TIMEOUT);
    assert_eq!(host.session.wants(), Wants { read: true, write: true, until }, "its first words are unsent");
    host.peer.make_room(usize::MAX);
    host.turn();
    assert!(!host.peer.take_received().is_empty());
    assert_eq!(host.session.wants(), Wants { read: true, write: false, until }, "the server's are awaited");
    assert!(!host.session.accepts() && !host.session.is_ready());
}

#[test]
fn a_handshake_that_stalls_fails_in_the_time_of_connecting() {
    for answer in [&b""[..], &b"\x16\x03\x03\x00\x7a\x02"[..]] {
        let mut host = unconnected();
        host.connect(1);
        host.peer.reply(answer);
        host.turn();
        host.pass(TIMEOUT - Duration::from_millis(1));
        host.turn();
        assert!(host.session.failure().is_none());
        host.pass(Duration::from_millis(1));
        host.turn();
        host.has_failed(Kind::Timeout, "did not answer the handshake of TLS in time");
    }
}

#[test]
fn a_host_that_looks_late_finds_the_handshake_done() {
    let (tls, mut terminator) = terminator();
    let mut host = Host::new(Limits::default());
    host.session = host.session.with_access(Some(tls), None);
    host.peer.expect_openings([Opening::After(1)]);
    host.connect(1);
    host.pass(TIMEOUT * 2);
    host.turn();
    terminator.decrypt(&host.peer.take_received());
    let said = terminator.encrypt(b"");
    host.peer.reply(&said);
    host.pass(TIMEOUT * 2);
    host.turn();
    assert_eq!(terminator.decrypt(&host.peer.take_received()), GREETING.as_bytes());
    assert_eq!(host.session.wants().until, Some(host.now + TIMEOUT));
    let answer = terminator.encrypt(greeting_of("1.6.18").as_bytes());
    host.answer(&answer);
    assert!(host.session.is_clean(), "{:?}", host.session.failure());
}

#[test]
fn a_handshake_comes_to_its_end_however_its_bytes_come() {
    for faults in [
        Faults { send_width: Some(1), receive_width: Some(1), ..Faults::default() },
        Faults { send_width: Some(7), hiccup: Some(io::ErrorKind::Interrupted), ..Faults::default() },
        Faults { receive_width: Some(50), hiccup: Some(io::ErrorKind::WouldBlock), ..Faults::default() },
    ] {
        let (tls, mut terminator) = terminator();
        let mut host = Host::new(Limits::default());
        host.session = host.session.with_access(Some(tls), None);
        host.peer.behave(faults);
        host.connect(1);
        assert_eq!(terminator.shake(&mut host), GREETING.as_bytes());
    }
}

#[test]
fn what_breaks_a_handshake_is_told() {
    for (answer, why) in [
        (&b"ERROR\r\n"[..], "answered in plain text (\"ERROR\\r\\n\"), so it does not speak TLS on this port"),
        (b"-ERR Protocol error\r\n", "answered in plain text"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "(its alert is HandshakeFailure)"),
        (b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x00", "TLS failed: "),
    ] {
        let mut host = unconnected();
        host.connect(1);
        host.answer(answer);
        let (kind, message) = host.failure();
        assert_eq!(kind, Kind::Refused);
        assert!(message.starts_with("cache1:11211: cannot connect: ") && message.contains(why), "{message}");
    }
    for ending in [Ending::Closed, Ending::Reset] {
        let mut host = unconnected();
        host.connect(1);
        host.peer.end(ending);
        host.turn();
        host.has_failed(Kind::Connect, "speak TLS on this port?");
    }
}

#[test]
fn what_has_arrived_is_all_handed_out_at_once() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    let tickets: Vec<_> = (0..40).map(|number| host.submit(get(&format!("k{number}")))).collect();
    host.turn();
    let replies: Vec<u8> = tickets.iter().flat_map(|ticket| terminator.encrypt(&hit("value", *ticket))).collect();
    host.peer.reply(&replies);
    assert_eq!(values(&host.turn()).len(), 40, "the socket is silent from now on");
}

#[test]
fn no_more_is_received_than_there_is_room_for() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    let tickets: Vec<_> = (0..5).map(|number| host.submit(get(&format!("k{number}")))).collect();
    host.turn();
    let value = "v".repeat(16_000);
    let replies: Vec<u8> = tickets.iter().flat_map(|ticket| hit(&value, *ticket)).collect();
    // The second value is incomplete, and the buffer has slightly less room behind it than one receive takes.
    let (first, rest) = replies.split_at(32_000);
    let mut events = host.answer(&terminator.encrypt(first));
    let small: Vec<u8> = rest.chunks(1000).flat_map(|part| terminator.encrypt(part)).collect();
    events.extend(host.answer(&small));
    let expected: Vec<_> = tickets.iter().map(|ticket| (*ticket, value.as_bytes())).collect();
    assert_eq!(values(&events), expected);
}

#[test]
fn a_record_in_part_is_awaited() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    let ticket = host.submit(get("k"));
    host.turn();
    let record = terminator.encrypt(&hit("value", ticket));
    let (last, most) = record.split_last().unwrap();
    assert!(host.answer(most).is_empty());
    assert_eq!(values(&host.answer(&[*last])), [(ticket, &b"value"[..])]);
}

#[test]
fn a_goodbye_and_an_end_without_one_break_the_connection() {
    for says_goodbye in [true, false] {
        let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
        let ticket = host.submit(get("k"));
        host.turn();
        let beginning = terminator.encrypt(&hit("value", ticket)[..12]);
        host.peer.reply(&beginning);
        match says_goodbye {
            true => host.peer.reply(&terminator.close()),
            false => host.peer.end(Ending::Closed),
        }
        assert_eq!(failures(&host.turns()), [(ticket, Kind::Closed, Sent::Maybe)]);
        assert!(host.failure().1.ends_with("the server closed the connection in the middle of a reply"));
    }
}

#[test]
fn a_garbled_record_breaks_the_connection() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    let ticket = host.submit(get("k"));
    host.turn();
    let mut record = terminator.encrypt(&hit("value", ticket));
    *record.last_mut().unwrap() ^= 1;
    assert_eq!(failures(&host.answer(&record)), [(ticket, Kind::Closed, Sent::Maybe)]);
    assert!(host.failure().1.contains("the connection broke: TLS failed"), "{}", host.failure().1);
}

#[test]
fn only_a_whole_record_counts_as_sent() {
    for (room, sent) in [(10, Sent::No), (10_000, Sent::Maybe)] {
        let (mut host, _) = Host::secured("1.6.18", Limits::default());
        host.peer.make_room(room);
        let ticket = host.submit(incr("counter"));
        host.turn();
        assert_eq!(host.session.wants().write, sent == Sent::No, "what is unsent waits for room");
        host.peer.end(Ending::Reset);
        assert_eq!(failures(&host.turns()), [(ticket, Kind::Closed, sent)]);
    }
}

#[test]
fn what_takes_several_records_ends_with_one_of_a_single_byte() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    let size = 40_000;
    host.session.submit(&set("k", size), Data::Copied(&vec![b'x'; size]), host.now + TIMEOUT).unwrap();
    host.turn();
    let records = records(&host.peer.take_received());
    let plain: Vec<usize> = records.iter().map(|record| terminator.decrypt(record).len()).collect();
    assert_eq!(plain.last(), Some(&1), "{plain:?}");
    host.submit(delete("k"));
    host.turn();
    host.submit(delete("k"));
    host.turn();
    assert_eq!(self::records(&host.peer.take_received()).len(), 3, "what takes one record is one, once that is over");
}

#[test]
fn new_keys_are_taken_and_given_in_between() {
    let (mut host, mut terminator) = Host::secured("1.6.18", Limits::default());
    for _ in 0..3 {
        host.answer(&terminator.renew_keys());
        let ticket = host.submit(get("k"));
        host.turn();
        assert!(terminator.decrypt(&host.peer.take_received()).starts_with(b"mg k"));
        let record = terminator.encrypt(&hit("value", ticket));
        assert_eq!(values(&host.answer(&record)), [(ticket, &b"value"[..])]);
    }
}

/// Splits records by their lengths.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = 5 + usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        records.push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    records
}
