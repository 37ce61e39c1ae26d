//! Any sequence of submissions, abandonments and cuts, against a server that answers correctly.

use proptest::prelude::*;

use super::host::{get, Host};
use super::peer::{Ending, Faults};
use super::script::{Ask, Ledger};
use super::server::Server;
use super::terminator::Terminator;
use crate::session::Limits;
use pinyon_net::error::{Kind, Sent};

#[derive(Clone, Debug)]
enum Step {
    Ask(Ask),
    /// Consecutive gets or sets, which may be joined.
    JoinGets(Vec<usize>),
    JoinSets(Vec<usize>),
    /// Abandons one of the awaited exchanges.
    Abandon(usize),
    /// The peer takes so many more bytes.
    Take(usize),
    /// So many bytes of replies arrive.
    Arrive(usize),
    Poll,
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        (0usize..10).prop_map(Ask::Get),
        (0usize..10).prop_map(Ask::JoinedGet),
        (0usize..10, 0usize..10).prop_map(|(from, to)| Ask::GetMany(from.min(to), from.max(to))),
        (0usize..10).prop_map(Ask::Set),
        (0usize..10).prop_map(Ask::SetShared),
        (0usize..10).prop_map(Ask::QuietSet),
        (0usize..10).prop_map(Ask::JoinedSet),
        (0usize..10).prop_map(Ask::Delete),
        (0usize..10).prop_map(Ask::QuietDelete),
        Just(Ask::Count),
        Just(Ask::NoOp),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![0usize..4, 0usize..100, 0usize..100_000];
    prop_oneof![
        6 => ask().prop_map(Step::Ask),
        1 => proptest::collection::vec(0usize..10, 0..40).prop_map(Step::JoinGets),
        1 => proptest::collection::vec(0usize..10, 0..10).prop_map(Step::JoinSets),
        1 => any::<usize>().prop_map(Step::Abandon),
        3 => length.clone().prop_map(Step::Take),
        3 => length.prop_map(Step::Arrive),
        1 => Just(Step::Poll),
    ]
}

struct Run {
    host: Host,
    /// The TLS layer between them, if any.
    terminator: Option<Terminator>,
    server: Server,
    ledger: Ledger,
    /// Replies that have not arrived yet.
    under_way: Vec<u8>,
}

impl Run {
    fn new(version: &str, exchanges: usize, secured: bool) -> Self {
        let limits = Limits { exchanges, ..Limits::default() };
        let (host, terminator) = match secured {
            true => {
                let (host, terminator) = Host::secured(version, limits);
                (host, Some(terminator))
            }
            false => (Host::connected_within(version, limits), None),
        };
        let server = Server::new(host.session.capabilities().meta());
        Self { host, terminator, server, ledger: Ledger::default(), under_way: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Ask(ask) => drop(self.ledger.submit(&mut self.host, *ask)),
            Step::JoinGets(keys) => self.ask_all(keys, Ask::JoinedGet),
            Step::JoinSets(keys) => self.ask_all(keys, Ask::JoinedSet),
            Step::Abandon(choice) => {
                let awaited = self.ledger.awaited();
                if !awaited.is_empty() {
                    self.ledger.abandon(&mut self.host, awaited[choice % awaited.len()]);
                }
            }
            Step::Take(room) => {
                self.host.peer.make_room(*room);
                self.turn();
            }
            Step::Arrive(count) => {
                let count = (*count).min(self.under_way.len());
                let arriving: Vec<u8> = self.under_way.drain(..count).collect();
                self.host.peer.reply(&arriving);
                self.turn();
            }
            Step::Poll => self.turn(),
        }
    }

    fn ask_all(&mut self, keys: &[usize], ask: fn(usize) -> Ask) {
        for key in keys {
            self.ledger.submit(&mut self.host, ask(*key));
        }
    }

    fn turn(&mut self) {
        let events = self.host.turn();
        self.ledger.check(&events);
        let received = self.host.peer.take_received();
        match &mut self.terminator {
            None => self.under_way.extend(self.server.serve(&received)),
            Some(terminator) => {
                let requests = terminator.decrypt(&received);
                let replies = self.server.serve(&requests);
                self.under_way.extend(terminator.encrypt(&replies));
            }
        }
    }

    /// Sends and answers everything: every caller is answered, and the session is idle.
    fn finish(mut self, width: usize) {
        self.host.peer.behave(Faults { receive_width: Some(width), ..Faults::default() });
        let deadline = self.host.now + super::host::TIMEOUT;
        self.host.session.end_quiet_run(deadline);
        for _ in 0..100_000 {
            if self.host.session.is_clean() && self.under_way.is_empty() && self.host.peer.is_drained() {
                break;
            }
            let arriving = std::mem::take(&mut self.under_way);
            self.host.peer.reply(&arriving);
            self.turn();
        }
        assert!(self.host.session.is_clean(), "{:?}", self.host.session.failure());
        assert_eq!(self.ledger.awaited(), []);

        let last = self.host.submit(get("counter"));
        self.turn();
        let replies = std::mem::take(&mut self.under_way);
        assert_eq!(self.host.answer(&replies).last().map(|event| event.ticket()), Some(last));
    }

    /// Breaks the connection: every caller is told exactly once.
    fn break_off(mut self) {
        self.host.peer.end(Ending::Closed);
        let mut events = self.host.turns();
        let first_failure = events.iter().position(|event| !event.hands_out_something()).unwrap_or(events.len());
        let failures = events.split_off(first_failure);
        self.ledger.check(&events);
        let sent: std::collections::BTreeMap<_, _> =
            failures.iter().map(|event| (event.ticket(), event.failed().2)).collect();
        let order: Vec<Sent> = sent.values().copied().collect();
        assert!(order.is_sorted_by_key(|sent| *sent == Sent::No), "what was not sent comes last: {order:?}");
        self.ledger.check_failures(&failures, Kind::Closed, |ticket| sent[&ticket]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_reply_handed_out_is_its_own_keys_in_order_and_the_session_ends_clean(
        version in proptest::sample::select(vec!["1.6.18", "1.6.12", "1.5.22"]),
        exchanges in prop_oneof![Just(4usize), Just(4096)],
        steps in proptest::collection::vec(step(), 0..60),
        width in prop_oneof![500usize..3000, Just(usize::MAX)],
        breaks: bool,
        secured in proptest::bool::weighted(0.3),
    ) {
        let mut run = Run::new(version, exchanges, secured);
        for step in &steps {
            run.step(step);
        }
        match breaks {
            true => run.break_off(),
            false => run.finish(width),
        }
    }
}
