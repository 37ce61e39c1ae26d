//! Connections that break, and what was in flight on them.

use super::host::{bytes, failures, replies, Host};
use crate::redis::Wants;
use pinyon_net::connection::peer::{Ending, Faults};
use pinyon_net::error::{Kind, Sent};

#[test]
fn what_is_in_flight_fails_and_says_whether_it_was_sent() {
    for ending in [Ending::Closed, Ending::Reset] {
        let mut host = Host::connected();
        host.peer.make_room(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".len() + 3);
        let tickets = [host.submit("GET a"), host.submit("GET b"), host.submit("GET c"), host.submit("GET d")];
        host.turn();
        host.session.abandon(tickets[3]);
        host.peer.end(ending);
        let events = host.turns();
        assert_eq!(
            failures(&events),
            [
                (tickets[0], Kind::Closed, Sent::Maybe),
                (tickets[1], Kind::Closed, Sent::Maybe),
                (tickets[2], Kind::Closed, Sent::No),
            ]
        );
        assert_eq!(host.session.wants(), Wants { read: false, write: false, until: None });
        assert!(!host.session.is_busy() && !host.session.accepts());
    }
}

#[test]
fn replies_that_came_before_the_end_are_handed_out() {
    let mut host = Host::connected();
    let tickets = [host.submit("GET a"), host.submit("GET b")];
    host.turn();
    host.peer.reply(b"$1\r\na\r\n$5\r\nhal");
    host.peer.end(Ending::Closed);
    let events = host.turns();
    assert_eq!(replies(&events[..1]), [(tickets[0], bytes("a"))]);
    assert_eq!(failures(&events[1..]), [(tickets[1], Kind::Closed, Sent::Maybe)]);
    assert!(host.failure().1.ends_with("the server closed the connection in the middle of a reply"));
}

#[test]
fn a_connection_that_breaks_while_sending_fails_what_it_holds() {
    let mut host = Host::connected();
    host.peer.behave(Faults { send_error: Some(std::io::ErrorKind::BrokenPipe), ..Faults::default() });
    let ticket = host.submit("GET a");
    assert_eq!(failures(&host.turns()), [(ticket, Kind::Closed, Sent::No)]);
    assert!(host.failure().1.contains("the connection broke while sending"));
}

#[test]
fn a_closed_session_keeps_its_stream_until_it_is_released() {
    let mut host = Host::connected();
    let ticket = host.submit("GET a");
    let holders = host.peer.holders();
    host.session.close();
    host.session.close();
    assert!(host.session.stream().is_none());
    assert_eq!(host.peer.holders(), holders, "it is still open");
    assert_eq!(failures(&host.turn()), [(ticket, Kind::Closed, Sent::No)]);
    assert_eq!(host.failure().1, "redis1:6379: the connection was closed");
    host.session.release();
    assert_eq!(host.peer.holders(), holders - 1);
    assert!(host.session.take_failure().is_some());
    assert!(host.session.take_failure().is_none() && host.session.is_closed());
}
