//! Runs of many commands, and what each must be answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinyon_proto::{Command, Status};

use super::host::{delete, get, get_many, incr, set, Event, Host, TIMEOUT};
use super::server::value_of;
use crate::session::{Data, Ticket};
use pinyon_net::error::{Kind, Sent};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    Get(usize),
    JoinedGet(usize),
    GetMany(usize, usize),
    Set(usize),
    SetShared(usize),
    QuietSet(usize),
    JoinedSet(usize),
    Delete(usize),
    QuietDelete(usize),
    Count,
    NoOp,
}

/// The expected answer to one exchange.
#[derive(Debug)]
enum Expected {
    Status(Status),
    /// One value, or a miss.
    Value(Option<Vec<u8>>),
    /// The values of a get of many keys, by index.
    Values(Vec<(usize, Vec<u8>)>),
    Number(u64),
}

/// Knows the right answers, and checks what is handed out.
#[derive(Default)]
pub struct Ledger {
    stored: BTreeSet<usize>,
    counter: u64,
    expected: BTreeMap<Ticket, Expected>,
    /// The values received so far of a get of many keys.
    parts: BTreeMap<Ticket, Vec<(usize, Vec<u8>)>>,
    last: Option<Ticket>,
}

impl Ledger {
    /// Submits, unless the session is full.
    pub fn submit(&mut self, host: &mut Host, ask: Ask) -> Option<Ticket> {
        if !host.session.accepts() {
            return None;
        }
        let name = |key: usize| format!("k{key}");
        let deadline = host.now + TIMEOUT;
        let (ticket, expected) = match ask {
            Ask::Get(key) | Ask::JoinedGet(key) => {
                let value = self.stored.contains(&key).then(|| value_of(&name(key)));
                let ticket = match ask {
                    Ask::Get(_) => host.submit(get(&name(key))),
                    _ => host.submit_joined_get(&name(key)),
                };
                (ticket, Expected::Value(value))
            }
            Ask::GetMany(from, to) => {
                let keys = from..=to;
                let names: Vec<String> = keys.clone().map(name).collect();
                let found = keys.enumerate().filter(|(_, key)| self.stored.contains(key));
                let values = found.map(|(index, key)| (index, value_of(&name(key)))).collect();
                (host.submit(get_many(&names.join(" "))), Expected::Values(values))
            }
            Ask::Set(key) | Ask::SetShared(key) | Ask::QuietSet(key) | Ask::JoinedSet(key) => {
                let value = value_of(&name(key));
                let (name, size) = (name(key), value.len());
                let ticket = match ask {
                    Ask::Set(_) => host.session.submit(&set(&name, size), Data::Copied(&value), deadline),
                    Ask::SetShared(_) => {
                        host.session.submit(&set(&name, size), Data::Shared(Arc::new(value)), deadline)
                    }
                    Ask::QuietSet(_) => host.session.submit_quiet(&set(&name, size), Data::Copied(&value), deadline),
                    _ => host.session.submit_joined(&set(&name, size), Data::Copied(&value), deadline),
                };
                self.stored.insert(key);
                (ticket.unwrap(), Expected::Status(Status::Done))
            }
            Ask::Delete(key) | Ask::QuietDelete(key) => {
                let status = if self.stored.remove(&key) { Status::Done } else { Status::NotFound };
                let ticket = match ask {
                    Ask::Delete(_) => host.submit(delete(&name(key))),
                    _ => host.submit_quiet(delete(&name(key))),
                };
                (ticket, Expected::Status(status))
            }
            Ask::Count => {
                self.counter += 1;
                (host.submit(incr("counter")), Expected::Number(self.counter))
            }
            Ask::NoOp => {
                let status = if host.session.capabilities().meta() { Status::NoOp } else { Status::Version };
                (host.submit(Command::NoOp), Expected::Status(status))
            }
        };
        self.expected.insert(ticket, expected);
        Some(ticket)
    }

    pub fn abandon(&mut self, host: &mut Host, ticket: Ticket) {
        host.session.abandon(ticket);
        self.expected.remove(&ticket);
        self.parts.remove(&ticket);
    }

    /// The tickets still awaited.
    pub fn awaited(&self) -> Vec<Ticket> {
        self.expected.keys().copied().collect()
    }

    /// Checks that every exchange got its own answer, in order, once.
    pub fn check(&mut self, events: &[Event]) {
        for event in events {
            let ticket = event.ticket();
            assert!(self.expected.contains_key(&ticket), "nobody waits for {event:?}");
            match event {
                Event::Large(..) => {}
                Event::Part(_, answer) => {
                    self.parts.entry(ticket).or_default().push((answer.index, answer.value.clone()));
                }
                Event::Reply(_, answer) => {
                    self.finish(ticket);
                    let parts = self.parts.remove(&ticket).unwrap_or_default();
                    match self.expected.remove(&ticket).unwrap() {
                        Expected::Status(status) => assert_eq!(answer.status, status),
                        Expected::Value(None) => {
                            assert!(matches!(answer.status, Status::Miss | Status::End) && parts.is_empty())
                        }
                        Expected::Value(Some(value)) if answer.status == Status::End => {
                            assert!(parts == [(0, value)], "{ticket:?}: another value")
                        }
                        Expected::Value(Some(value)) => assert!(answer.value == value, "{ticket:?}: another value"),
                        Expected::Values(values) => assert!(parts == values, "{ticket:?}: other values"),
                        Expected::Number(number) => {
                            let digits = String::from_utf8_lossy(&answer.value).parse().ok();
                            assert_eq!(answer.number.or(digits), Some(number));
                        }
                    }
                }
                Event::Failed(_, error) => panic!("{error}"),
            }
        }
    }

    /// Checks that everything still awaited failed in this way, in order.
    pub fn check_failures(&mut self, events: &[Event], kind: Kind, sent: impl Fn(Ticket) -> Sent) {
        for event in events {
            let ticket = event.ticket();
            assert_eq!(event.failed(), (ticket, kind, sent(ticket)));
            self.finish(ticket);
            assert!(self.expected.remove(&ticket).is_some(), "{ticket:?} failed though nobody waits for it");
        }
        assert!(self.expected.is_empty(), "never heard of: {:?}", self.expected.keys());
    }

    fn finish(&mut self, ticket: Ticket) {
        assert!(self.last.is_none_or(|last| last < ticket), "{ticket:?} out of order");
        self.last = Some(ticket);
    }
}
