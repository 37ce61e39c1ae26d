//! Whatever is submitted, abandoned, pushed and cut, each reply reaches its exchange, in order, once.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::host::{bytes, push, Host, TIMEOUT};
use crate::redis::{RespEvent, Ticket};
use pinyon_net::connection::peer::Faults;

#[derive(Clone, Debug)]
enum Act {
    Submit(usize),
    Abandon(usize),
    /// The server answers so many commands, each after so many pushes.
    Answer(usize, usize),
    Turn,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0usize..6000).prop_map(Act::Submit),
        1 => any::<usize>().prop_map(Act::Abandon),
        3 => (1usize..5, 0usize..3).prop_map(|(replies, pushes)| Act::Answer(replies, pushes)),
        3 => Just(Act::Turn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_reply_reaches_its_exchange(
        acts in proptest::collection::vec(act(), 1..60),
        send_width in 1usize..300,
        receive_width in 1usize..3000,
    ) {
        let mut host = Host::connected();
        host.peer.behave(Faults {
            send_width: Some(send_width), receive_width: Some(receive_width), ..Faults::default()
        });
        let mut unanswered: VecDeque<(Ticket, usize)> = VecDeque::new();
        let mut expected: VecDeque<(Ticket, usize)> = VecDeque::new();
        let (mut pushed, mut seen) = (0, 0);
        for act in acts.into_iter().chain([Act::Answer(usize::MAX, 1), Act::Turn]) {
            match act {
                Act::Submit(size) => {
                    if !host.session.accepts() {
                        continue;
                    }
                    let ticket = host.session.submit(&[b"GET", &vec![b'k'; size]], host.now + TIMEOUT).unwrap();
                    unanswered.push_back((ticket, size));
                    expected.push_back((ticket, size));
                }
                Act::Abandon(which) if !expected.is_empty() => {
                    let (ticket, _) = expected.remove(which % expected.len()).unwrap();
                    host.session.abandon(ticket);
                }
                Act::Abandon(_) => {}
                Act::Answer(replies, pushes) => {
                    for _ in 0..replies.min(unanswered.len()) {
                        for _ in 0..pushes {
                            host.peer.reply(&push(&format!("message {pushed}")));
                            pushed += 1;
                        }
                        let (ticket, size) = unanswered.pop_front().unwrap();
                        let value = format!("{}:{}", ticket.0, "v".repeat(size));
                        host.peer.reply(format!("${}\r\n{value}\r\n", value.len()).as_bytes());
                    }
                }
                Act::Turn => {
                    for event in host.turns() {
                        match event {
                            RespEvent::Pushed(values) => {
                                prop_assert_eq!(&values[1], &bytes(&seen.to_string()));
                                seen += 1;
                            }
                            RespEvent::Reply(ticket, value) => {
                                let (awaited, size) = expected.pop_front().unwrap();
                                prop_assert_eq!(ticket, awaited);
                                prop_assert_eq!(value, bytes(&format!("{}:{}", ticket.0, "v".repeat(size))));
                            }
                            other => prop_assert!(false, "{:?}", other),
                        }
                    }
                }
            }
        }
        prop_assert!(expected.is_empty() && host.session.failure().is_none());
        prop_assert_eq!(seen, pushed);
    }
}
