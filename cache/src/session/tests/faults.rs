//! Every step of a conversation, disturbed: no reply is lost, duplicated, or handed to the wrong caller.

use std::io::ErrorKind;

use super::host::{failures, get, greeting_of, Event, Host, GREETING};
use super::peer::{Ending, Faults};
use super::script::{Ask, Ledger};
use super::server::Server;
use crate::session::{Limits, Ticket};
use pinyon_net::error::{Kind, Sent};

const VERSIONS: [&str; 3] = ["1.6.18", "1.6.12", "1.5.22"];

const CONVERSATION: [Ask; 14] = [
    Ask::Get(3),
    Ask::Set(3),
    Ask::Get(3),
    Ask::QuietSet(2),
    Ask::QuietDelete(4),
    Ask::QuietDelete(3),
    Ask::GetMany(1, 4),
    Ask::SetShared(4),
    Ask::Count,
    Ask::GetMany(2, 4),
    Ask::Delete(9),
    Ask::QuietDelete(9),
    Ask::NoOp,
    Ask::Get(4),
];

/// Submits the conversation. Returns the ledger of what must come of it.
fn conversation(host: &mut Host) -> (Ledger, Vec<Ticket>) {
    let mut ledger = Ledger::default();
    let tickets = CONVERSATION.map(|ask| ledger.submit(host, ask).expect("it is taken"));
    (ledger, tickets.to_vec())
}

/// The server's replies to the conversation.
fn replies(version: &str) -> Vec<u8> {
    let mut host = Host::connected(version);
    conversation(&mut host);
    Server::new(host.session.capabilities().meta()).serve(host.sent().as_bytes())
}

/// The requests of the conversation, and where each begins.
fn requests(version: &str) -> (Vec<u8>, Vec<usize>) {
    let mut host = Host::connected(version);
    let mut ledger = Ledger::default();
    let mut all = Vec::new();
    let mut begins = Vec::new();
    for ask in CONVERSATION {
        ledger.submit(&mut host, ask).unwrap();
        let request = host.sent().into_bytes();
        let barrier = request.starts_with(b"mn\r\n") && request.len() > 4;
        begins.push(all.len() + if barrier { 4 } else { 0 });
        all.extend(request);
    }
    (all, begins)
}

#[test]
fn the_conversation_goes_well_whatever_slows_it_down() {
    let slow = [
        Faults::default(),
        Faults { hiccup: Some(ErrorKind::WouldBlock), ..Faults::default() },
        Faults { hiccup: Some(ErrorKind::Interrupted), ..Faults::default() },
        Faults { send_width: Some(1), receive_width: Some(1), ..Faults::default() },
        Faults {
            send_width: Some(1),
            receive_width: Some(1),
            hiccup: Some(ErrorKind::WouldBlock),
            ..Faults::default()
        },
        Faults { send_width: Some(3), hiccup: Some(ErrorKind::Interrupted), ..Faults::default() },
    ];
    for version in VERSIONS {
        for faults in slow {
            let mut host = Host::new(Limits::default());
            host.peer.behave(faults);
            host.connect(1);
            let mut probe = Vec::new();
            while !host.session.is_ready() {
                host.turn();
                assert!(host.session.failure().is_none(), "{:?}", host.session.failure());
                probe.extend(host.peer.take_received());
                if probe == GREETING.as_bytes() {
                    probe.clear();
                    host.peer.reply(greeting_of(version).as_bytes());
                }
            }
            let mut server = Server::new(host.session.capabilities().meta());
            let (mut ledger, _) = conversation(&mut host);
            let mut turns = 0;
            while !host.session.is_clean() {
                let reply = server.serve(&host.peer.take_received());
                host.peer.reply(&reply);
                ledger.check(&host.turn());
                turns += 1;
                assert!(turns < 100_000);
            }
            assert_eq!(ledger.awaited(), []);
        }
    }
}

#[test]
fn the_end_of_the_stream_at_every_byte_of_the_replies() {
    for version in VERSIONS {
        let replies = replies(version);
        for (ending, width) in [(Ending::Closed, usize::MAX), (Ending::Reset, usize::MAX), (Ending::Closed, 1)] {
            for cut in 0..=replies.len() {
                let mut host = Host::connected(version);
                host.peer.behave(Faults { receive_width: Some(width), ..Faults::default() });
                let (mut ledger, _) = conversation(&mut host);
                host.turn();
                host.peer.reply(&replies[..cut]);
                host.peer.end(ending);
                let mut events = host.turns();
                let answered = events.iter().take_while(|event| event.hands_out_something()).count();
                let failed = events.split_off(answered);
                ledger.check(&events);
                assert_eq!(ledger.awaited().is_empty(), cut == replies.len(), "cut at {cut}");
                ledger.check_failures(&failed, Kind::Closed, |_| Sent::Maybe);
                assert_eq!(host.failure().0, Kind::Closed);
            }
        }
    }
}

#[test]
fn the_end_of_the_stream_at_every_byte_of_the_greeting() {
    let (version, greeting) = ("VERSION 1.6.18\r\n", greeting_of("1.6.18"));
    // A cut between two answers may come from a proxy that does not know the command.
    for cut in (1..version.len()).chain(version.len() + 1..greeting.len()) {
        for ending in [Ending::Closed, Ending::Reset] {
            let mut host = Host::new(Limits::default());
            host.connect(1);
            host.peer.reply(&greeting.as_bytes()[..cut]);
            host.peer.end(ending);
            assert!(host.turns().is_empty());
            assert_eq!(host.failure().0, Kind::Closed);
        }
    }
}

#[test]
fn a_connection_that_breaks_while_sending_says_what_may_have_been_executed() {
    for version in VERSIONS {
        let (all, begins) = requests(version);
        for taken in 0..all.len() {
            for error in [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset] {
                let mut host = Host::connected(version);
                host.peer.make_room(taken);
                let (mut ledger, tickets) = conversation(&mut host);
                assert!(host.turn().is_empty());
                host.peer.behave(Faults { send_error: Some(error), ..Faults::default() });
                let events = host.turn();
                ledger.check_failures(&events, Kind::Closed, |ticket| {
                    let position = tickets.iter().position(|other| *other == ticket).unwrap();
                    if begins[position] < taken {
                        Sent::Maybe
                    } else {
                        Sent::No
                    }
                });
                assert_eq!(host.peer.take_received(), all[..taken]);
            }
        }
    }
}

#[test]
fn replies_that_arrived_before_sending_failed_are_not_another_exchanges() {
    let mut host = Host::connected("1.6.18");
    let answered = host.submit(get("a"));
    host.turn();
    let unsent = host.submit(get("b"));
    host.peer.reply(b"VA 1 f0 O0\r\nA\r\n");
    host.peer.behave(Faults { send_error: Some(ErrorKind::BrokenPipe), ..Faults::default() });
    let events = host.turns();
    let of = |ticket: Ticket| events.iter().filter(|event| event.ticket() == ticket).collect::<Vec<&Event>>();
    assert_eq!((of(answered).len(), of(unsent).len()), (1, 1));
    assert_eq!(failures(&[of(unsent)[0].clone()]), [(unsent, Kind::Closed, Sent::No)]);
}

#[test]
fn polling_for_nothing_changes_nothing() {
    let mut host = Host::connected("1.6.18");
    let ticket = host.submit(get("a"));
    for _ in 0..100 {
        assert!(host.turn().is_empty());
    }
    assert_eq!(host.peer.take_received(), b"mg a f v O0\r\n");
    assert_eq!(host.answer(b"EN O0\r\n").len(), 1);
    assert_eq!(ticket, Ticket(0));
    for _ in 0..100 {
        assert!(host.turn().is_empty());
    }
    assert!(host.session.is_clean());
}
