//! Values of `LARGE` bytes or more: received into the host's memory and sent from it.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use super::host::{echo, get, get_many, set, statuses, values, Event, Host, TIMEOUT};
use super::peer::{Ending, Faults};
use crate::session::{Data, Destination, Outcome, Ticket, Value, LARGE, WINDOW_AFTER_LARGE, WINDOW_FOR_ONE};
use pinyon_net::error::{Kind, Sent};
use pinyon_net::network::Stream;
use pinyon_proto::Status;

/// The host's memory, counted while it is alive.
#[derive(Debug)]
struct Slab {
    bytes: Box<[u8]>,
    living: Arc<AtomicUsize>,
}

impl Slab {
    fn new(length: usize, living: &Arc<AtomicUsize>) -> Box<Self> {
        living.fetch_add(1, Ordering::Relaxed);
        Box::new(Self { bytes: vec![0; length].into(), living: living.clone() })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Destination for Slab {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A value whose bytes differ by position.
fn value_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn reply_of(value: &[u8], ticket: Ticket) -> Vec<u8> {
    [format!("VA {} f0{}\r\n", value.len(), echo(ticket)).as_bytes(), value, b"\r\n"].concat()
}

/// Polls once, and supplies memory for an announced large value. Returns the values received into such memory.
fn turn_with_places(host: &mut Host, living: &Arc<AtomicUsize>) -> Vec<(Ticket, Vec<u8>)> {
    host.session.poll(host.now);
    let mut received = Vec::new();
    loop {
        let announced = match host.session.next() {
            None => return received,
            Some(completion) => match completion.outcome {
                Outcome::Large { head, .. } => head.size.unwrap(),
                Outcome::Reply(reply) | Outcome::Part(reply) => {
                    match reply.value {
                        Value::Received(destination) => {
                            let slab = destination.into_any().downcast::<Slab>().expect("the place handed in");
                            received.push((completion.ticket, slab.bytes.to_vec()));
                        }
                        Value::Borrowed(bytes) => received.push((completion.ticket, bytes.to_vec())),
                        Value::None => received.push((completion.ticket, Vec::new())),
                    }
                    continue;
                }
                Outcome::Failed(error) => panic!("{error}"),
            },
        };
        host.session.receive_into(Slab::new(announced, living));
    }
}

#[test]
fn a_large_value_is_received_into_the_hosts_memory_however_it_is_cut() {
    let value = value_of(LARGE + 5);
    let living = Arc::new(AtomicUsize::new(0));
    let total = reply_of(&value, Ticket(0)).len() + b"EN O1\r\n".len();
    let near = |at: usize| at.saturating_sub(4)..(at + 4).min(total);
    let head = total - value.len() - 9;
    let cuts = near(head).chain(near(head + value.len())).chain(near(LARGE)).chain((0..total).step_by(997));
    for cut in cuts {
        let mut host = Host::connected("1.6.18");
        let large = host.submit(get("large"));
        let next = host.submit(get("next"));
        host.turn();
        let bytes = [reply_of(&value, large), format!("EN{}\r\n", echo(next)).into_bytes()].concat();
        let mut received = Vec::new();
        for piece in [&bytes[..cut], &bytes[cut..]] {
            host.peer.reply(piece);
            for _ in 0..4 {
                received.extend(turn_with_places(&mut host, &living));
            }
        }
        assert_eq!(received.len(), 2, "cut at {cut}");
        assert!(received[0] == (large, value.clone()), "cut at {cut}");
        assert_eq!(received[1], (next, Vec::new()), "cut at {cut}");
        assert!(host.session.is_clean(), "cut at {cut}");
        assert_eq!(living.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn after_a_large_value_less_is_received_at_first() {
    let living = Arc::new(AtomicUsize::new(0));
    let mut host = Host::connected("1.6.18");
    let mut first_pieces = Vec::new();
    for size in [LARGE * 9, 100, LARGE * 9, 5000, 5000, 100] {
        let value = value_of(size);
        let ticket = host.submit(get("key"));
        host.turn();
        let reply = reply_of(&value, ticket);
        host.peer.reply(&reply);
        let received = host.session.fill_with(Stream::receive).unwrap();
        first_pieces.push(received.min(reply.len()));
        let mut values = Vec::new();
        while values.is_empty() {
            values.extend(turn_with_places(&mut host, &living));
        }
        assert!(values == [(ticket, value)], "{size} bytes");
    }
    assert_eq!(first_pieces[0], WINDOW_FOR_ONE);
    assert!(first_pieces[2..4] == [WINDOW_AFTER_LARGE; 2], "{first_pieces:?}");
    assert!(first_pieces[4] > 5000, "one between the two is received at once again");
    assert!(host.session.is_clean());
}

#[test]
fn a_large_value_is_received_in_pieces_of_any_width() {
    for width in [1, 100, 4096, 65_536, usize::MAX] {
        let value = value_of(200_000);
        let living = Arc::new(AtomicUsize::new(0));
        let mut host = Host::connected("1.6.18");
        let faults =
            Faults { receive_width: Some(width), hiccup: Some(std::io::ErrorKind::WouldBlock), ..Faults::default() };
        host.peer.behave(faults);
        let large = host.submit(get("large"));
        host.turns();
        host.peer.reply(&reply_of(&value, large));
        let mut received = Vec::new();
        while received.is_empty() {
            received.extend(turn_with_places(&mut host, &living));
        }
        assert!(received == [(large, value)], "width {width}");
        assert!(host.session.is_clean());
    }
}

#[test]
fn a_large_value_whose_announcement_is_ignored_is_received_all_the_same() {
    for width in [1000, usize::MAX] {
        let value = value_of(300_000);
        let mut host = Host::connected("1.6.18");
        host.peer.behave(Faults { receive_width: Some(width), ..Faults::default() });
        let large = host.submit(get("large"));
        let events = host.answer(&reply_of(&value, large));
        assert!(matches!(events[0], Event::Large(ticket, head) if ticket == large && head.size == Some(300_000)));
        assert_eq!(values(&events[1..]), [(large, value.as_slice())]);
        assert!(host.session.is_clean());
    }
}

#[test]
fn large_values_among_many_keys_keep_their_places() {
    let (first, last) = (value_of(LARGE * 9), value_of(LARGE * 5));
    let mut host = Host::connected("1.6.18");
    host.peer.behave(Faults { receive_width: Some(30_000), ..Faults::default() });
    let many = host.submit(get_many("a b c d"));
    let bytes = [
        format!("VALUE a 0 {}\r\n", first.len()).as_bytes(),
        &first,
        b"\r\nVALUE c 0 1\r\nC\r\n",
        format!("VALUE d 0 {}\r\n", last.len()).as_bytes(),
        &last,
        b"\r\nEND\r\n",
    ]
    .concat();
    let events: Vec<Event> =
        host.answer(&bytes).into_iter().filter(|event| !matches!(event, Event::Large(..))).collect();
    assert_eq!(values(&events), [(many, &first[..]), (many, b"C"), (many, &last[..]), (many, b"")]);
    assert_eq!(events.iter().map(|event| event.answer().index).collect::<Vec<_>>(), [0, 2, 3, 0]);
}

#[test]
fn a_value_longer_than_its_length_is_not_handed_out_though_it_is_large() {
    let mut host = Host::connected("1.6.18");
    let large = host.submit(get("large"));
    let next = host.submit(get("next"));
    let bytes = [format!("VA {} f0 O0\r\n", LARGE * 8).as_bytes(), &value_of(LARGE * 8 + 3), b"\r\nEN O1\r\n"].concat();
    let events = host.answer(&bytes);
    assert!(matches!(events[0], Event::Large(ticket, _) if ticket == large));
    let failed: Vec<_> = events[1..].iter().map(Event::failed).collect();
    assert_eq!(failed, [(large, Kind::Protocol, Sent::Maybe), (next, Kind::Protocol, Sent::Maybe)]);
}

#[test]
fn a_connection_that_breaks_in_the_middle_of_a_large_value_gives_its_memory_back() {
    let living = Arc::new(AtomicUsize::new(0));
    let mut host = Host::connected("1.6.18");
    let large = host.submit(get("large"));
    host.peer.reply(&reply_of(&value_of(LARGE * 8), large)[..LARGE * 6]);
    for _ in 0..3 {
        assert!(turn_with_places(&mut host, &living).is_empty());
    }
    assert_eq!(living.load(Ordering::Relaxed), 1);
    host.peer.end(Ending::Closed);
    let events = host.turns();
    assert_eq!(events.iter().map(Event::failed).collect::<Vec<_>>(), [(large, Kind::Closed, Sent::Maybe)]);
    assert!(host.failure().1.contains("in the middle of a reply"));
    host.connect(1);
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn a_large_value_that_is_complete_is_handed_out_though_the_server_closes_behind_it() {
    let mut host = Host::connected("1.6.18");
    let value = value_of(LARGE * 8);
    let large = host.submit(get("large"));
    host.turn();
    host.peer.reply(&reply_of(&value, large));
    host.peer.end(Ending::Closed);
    let events = host.turns();
    assert!(matches!(&events[1], Event::Reply(ticket, answer) if *ticket == large && answer.value == value));
    assert_eq!(host.failure().0, Kind::Closed);
}

#[test]
fn a_large_value_abandoned_or_expired_on_its_way_is_dropped() {
    for expires in [false, true] {
        for announced in [false, true] {
            let mut host = Host::connected("1.6.18");
            let value = value_of(LARGE * 8);
            let soon = host.now + TIMEOUT / 2;
            let large = host.session.submit(&get("large"), Data::None, soon).unwrap();
            let next = host.submit(get("next"));
            let bytes = reply_of(&value, large);
            let (before, after) = bytes.split_at(if announced { LARGE * 6 } else { 3 });
            let events = host.answer(before);
            assert_eq!(events.len(), usize::from(announced));
            let mut events = match expires {
                true => {
                    host.pass(TIMEOUT / 2);
                    let events = host.turn();
                    assert_eq!(events[0].failed(), (large, Kind::Timeout, Sent::Maybe));
                    events[1..].to_vec()
                }
                false => {
                    host.session.abandon(large);
                    Vec::new()
                }
            };
            events.extend(host.answer(after));
            events.extend(host.answer(format!("EN{}\r\n", echo(next)).as_bytes()));
            assert_eq!(statuses(&events), [(next, Status::Miss)], "expires: {expires}, announced: {announced}");
            assert!(host.session.is_clean());
        }
    }
}

#[test]
fn a_shared_value_is_sent_from_where_it_is_and_let_go() {
    for width in [1, 7, 5000, usize::MAX] {
        let mut host = Host::connected("1.6.18");
        host.peer.behave(Faults { send_width: Some(width), ..Faults::default() });
        let value: Arc<Vec<u8>> = Arc::new(value_of(LARGE + 1000).iter().map(|byte| byte % 26 + b'a').collect());
        for name in ["a", "b"] {
            let data = Data::Shared(value.clone());
            host.session.submit(&set(name, value.len()), data, host.now + TIMEOUT).unwrap();
        }
        let next = host.submit(get("c"));
        assert!(Arc::strong_count(&value) > 1);
        let text = std::str::from_utf8(&value).unwrap();
        let size = value.len();
        let expected = format!("ms a {size} O0\r\n{text}\r\nms b {size} O1\r\n{text}\r\nmg c f v O2\r\n");
        assert!(host.sent() == expected, "width {width}");
        assert_eq!(Arc::strong_count(&value), 1, "nothing is kept of what is sent");
        let events = host.answer(b"HD O0\r\nHD O1\r\nEN O2\r\n");
        assert_eq!(events.last().map(Event::ticket), Some(next));
    }
}

#[test]
fn an_empty_shared_value_is_sent() {
    let mut host = Host::connected("1.6.18");
    let empty: Arc<Vec<u8>> = Arc::new(Vec::new());
    host.session.submit(&set("k", 0), Data::Shared(empty.clone()), host.now + TIMEOUT).unwrap();
    assert_eq!(host.sent(), "ms k 0 O0\r\n\r\n");
    assert_eq!(Arc::strong_count(&empty), 1);
}
