//! Abandoned exchanges: their replies are dropped, and their neighbours keep their own.

use super::host::{delete, echo, get, get_many, set, statuses, values, Event, Host};
use crate::session::Ticket;
use pinyon_proto::Status;

/// Three gets. The middle one is abandoned after `sent` bytes were taken and `received` bytes of replies arrived.
fn neighbours_keep_their_own(sent: usize, received: usize) {
    let mut host = Host::connected("1.6.18");
    host.peer.make_room(sent);
    let [left, middle, right] = ["left", "middle", "right"].map(|name| host.submit(get(name)));
    let mut events = host.turn();
    let replies = format!(
        "VA 4 f0{}\r\nLEFT\r\nVA 6 f0{}\r\nMIDDLE\r\nVA 5 f0{}\r\nRIGHT\r\n",
        echo(left),
        echo(middle),
        echo(right)
    );
    let (before, after) = replies.as_bytes().split_at(received);
    events.extend(host.answer(before));
    host.session.abandon(middle);
    host.peer.make_room(usize::MAX);
    events.extend(host.answer(after));

    let of = |ticket: Ticket| -> Vec<&Event> { events.iter().filter(|event| event.ticket() == ticket).collect() };
    assert_eq!(of(left).len(), 1);
    assert_eq!(of(left)[0].answer().value, b"LEFT");
    assert_eq!(of(right).len(), 1);
    assert_eq!(of(right)[0].answer().value, b"RIGHT");
    assert!(of(middle).iter().all(|event| event.answer().value == b"MIDDLE"));
    let was_complete = received >= replies.find("VA 5").unwrap();
    assert_eq!(of(middle).len(), usize::from(was_complete), "abandoned when {received} bytes had come");
    assert!(host.session.is_clean(), "abandoned when {sent} bytes were sent and {received} had come");
    assert_eq!(host.peer.take_received().len(), 51);
}

#[test]
fn abandoned_before_it_is_sent_or_half_sent() {
    for sent in 0..=51 {
        neighbours_keep_their_own(sent, 0);
    }
}

#[test]
fn abandoned_before_in_the_middle_of_and_after_its_reply() {
    for received in 0..=57 {
        neighbours_keep_their_own(usize::MAX, received);
    }
}

#[test]
fn a_late_reply_of_an_abandoned_exchange_is_dropped() {
    let mut host = Host::connected("1.6.18");
    let late = host.submit(get("alice"));
    host.turn();
    host.session.abandon(late);
    let own = host.submit(get("bob"));
    let events = host.answer(b"VA 5 f0 O0\r\nALICE\r\nVA 3 f0 O1\r\nBOB\r\n");
    assert_eq!(values(&events), [(own, &b"BOB"[..])]);
    assert!(host.session.is_clean());
}

#[test]
fn a_late_reply_that_does_not_belong_still_breaks_the_connection() {
    let mut host = Host::connected("1.6.18");
    let abandoned = host.submit(get("alice"));
    let own = host.submit(get("bob"));
    host.turn();
    host.session.abandon(abandoned);
    let events = host.answer(b"VA 3 f0 O1\r\nBOB\r\n");
    assert_eq!(events.iter().map(Event::ticket).collect::<Vec<_>>(), [own]);
    assert!(matches!(events[0], Event::Failed(..)));
}

#[test]
fn the_rest_of_a_multi_key_reply_is_dropped() {
    let mut host = Host::connected("1.6.18");
    let many = host.submit(get_many("a b c"));
    let next = host.submit(delete("d"));
    let events = host.answer(b"VALUE a 0 1\r\nA\r\nVALUE b 0 1\r\n");
    assert_eq!(values(&events), [(many, &b"A"[..])]);
    host.session.abandon(many);
    let events = host.answer(b"B\r\nVALUE c 0 1\r\nC\r\nEND\r\nHD O1\r\n");
    assert_eq!(statuses(&events), [(next, Status::Done)]);
    assert!(host.session.is_clean());
}

#[test]
fn an_abandoned_store_is_sent_to_its_end() {
    let mut host = Host::connected("1.6.18");
    host.peer.make_room(9);
    let stored = host.submit_value(set("k", 5), b"hello");
    let next = host.submit(get("k"));
    host.turn();
    host.session.abandon(stored);
    host.peer.make_room(usize::MAX);
    assert_eq!(host.sent(), "ms k 5 O0\r\nhello\r\nmg k f v O1\r\n");
    let events = host.answer(b"HD O0\r\nVA 5 f0 O1\r\nhello\r\n");
    assert_eq!(values(&events), [(next, &b"hello"[..])]);
}

#[test]
fn an_error_that_answers_an_abandoned_exchange_is_dropped() {
    let mut host = Host::connected("1.6.18");
    let abandoned = host.submit(get("a"));
    let next = host.submit(get("b"));
    host.session.abandon(abandoned);
    let events = host.answer(b"SERVER_ERROR out of memory\r\nEN O1\r\n");
    assert_eq!(statuses(&events), [(next, Status::Miss)]);
    assert!(host.session.is_clean());
}

#[test]
fn abandoning_what_is_over_or_unknown_does_nothing() {
    let mut host = Host::connected("1.6.18");
    let done = host.submit(get("a"));
    host.answer(b"EN O0\r\n");
    host.session.abandon(done);
    host.session.abandon(Ticket(99));
    assert!(host.session.is_clean());
}

#[test]
fn what_was_abandoned_is_not_told_of_when_the_connection_breaks() {
    let mut host = Host::connected("1.6.18");
    let abandoned = host.submit(get("a"));
    let other = host.submit(get("b"));
    host.session.abandon(abandoned);
    host.session.close();
    assert_eq!(host.turn().iter().map(Event::ticket).collect::<Vec<_>>(), [other]);
}

#[test]
fn abandoned_exchanges_do_not_count_as_waiting() {
    let mut host = Host::connected("1.6.18");
    let abandoned = host.submit(get("a"));
    host.turn();
    assert!(host.session.wants().until.is_some());
    host.session.abandon(abandoned);
    assert_eq!(host.session.wants().until, None);
    assert!(host.session.is_busy(), "its reply is still to be read");
}
