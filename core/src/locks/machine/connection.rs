//! Losing the server and finding it again: nothing is forgotten that it may still know.

use super::asking::may_grant;
use super::entry::Stage;
use super::{About, Call, InFlight, Machine, MachineEvent, MachineFailure, Moment};
use crate::error::Error;

impl Machine {
    /// A connection stands, and what the server pushes for this client arrives by it. What went unanswered on an earlier
    /// one is asked again, under the same identity.
    pub fn connected(&mut self, now: Moment) {
        self.connected = true;
        if self.calls.iter().any(|(_, call)| may_grant(call)) {
            self.opened = true;
            self.send(About::Open, Call::Open, now);
            self.calls.rotate_right(1);
        }
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in &numbers {
            let entry = &self.entries[number];
            if matches!(entry.stage, Stage::Releasing { .. } | Stage::Cancelling { .. }) {
                self.send_unlock(*number, true, now);
            }
        }
        let mut held = Vec::new();
        for number in numbers {
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            let parking = entry.parked_by.take().is_some();
            match entry.stage {
                Stage::Queued { .. } | Stage::Parked { .. } if parking => self.take_anew(number, now),
                Stage::Asking(_) => self.ask(number, now),
                Stage::Queued { .. } if entry.unparking => self.send_unpark_again(number, now),
                Stage::Queued { .. } | Stage::Parked { .. } => self.send_poll(number, now),
                Stage::Held(ref lock) if lock.renew_at.is_some() => held.push(number),
                _ => {}
            }
        }
        self.send_renewals(&held, now);
    }

    /// One whose parking went unanswered may have been parked or not, and may still be: that attempt is given up, and
    /// another one takes the names, as if it had been woken.
    fn take_anew(&mut self, number: u64, now: Moment) {
        self.send_tidy(number, true, now);
        let attempt = self.next_number;
        self.next_number += 1;
        self.renumbered.insert(attempt, number);
        if let Some(entry) = self.entries.get_mut(&number) {
            self.renumbered.remove(&std::mem::replace(&mut entry.attempt, attempt));
            entry.unparking = false;
            self.wait_anew(number, now);
            self.ask(number, now);
        }
    }

    /// The connection broke. What waits goes on waiting, until its time is over; what cannot be asked twice fails.
    ///
    /// `moved`: it was given up for another one, and nothing of what was under way has been carried out.
    pub fn disconnected(&mut self, error: &Error, moved: bool, now: Moment) {
        self.connected = false;
        self.trouble = Some(error.clone());
        let questions = if moved { self.take_questions() } else { Vec::new() };
        self.end_flight(error, now);
        for (request, call, asked) in questions {
            self.send(About::Question(request), call, asked);
        }
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in numbers {
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            let waits = entry.waits();
            match &mut entry.stage {
                Stage::Asking(Some(_)) if !waits && !moved => {
                    self.events
                        .push_back(MachineEvent::Failed { number, failure: MachineFailure::Server(error.clone()) });
                    self.cancel(number, now);
                }
                Stage::Releasing { again, .. } => *again = true,
                _ => {}
            }
        }
    }

    /// No connection could be made. What no server has heard of fails.
    pub fn unreachable(&mut self, error: &Error, now: Moment) {
        let never_asked =
            |entry: &super::Entry| matches!(entry.stage, Stage::Lined | Stage::Asking(None) | Stage::Refused { .. });
        let numbers: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| never_asked(entry)).map(|(number, _)| *number).collect();
        for number in numbers {
            if self.entries.contains_key(&number) {
                self.fail(number, MachineFailure::Server(error.clone()), now);
            }
        }
        self.end_flight(error, now);
    }

    /// The questions that have not been answered, with when they were asked.
    fn take_questions(&mut self) -> Vec<(u64, Call, Moment)> {
        let questions = self.flight.extract(|call| matches!(call.about, About::Question(_))).into_iter();
        let question = |call: InFlight| match (call.about, call.question) {
            (About::Question(request), Some(question)) => Some((request, question, call.sent)),
            _ => None,
        };
        questions.filter_map(question).collect()
    }

    /// Nothing that was asked will be answered any more: whoever waits for an answer is told.
    fn end_flight(&mut self, error: &Error, now: Moment) {
        self.calls.clear();
        self.opened = false;
        self.end_looks();
        for call in self.flight.take() {
            match call.about {
                About::Question(request) => {
                    let answer = Err(MachineFailure::Server(error.clone()));
                    self.events.push_back(MachineEvent::Answered { request, answer });
                }
                About::Extend { numbers, wanted } => self.extension_unanswered(&numbers, wanted.then_some(error), now),
                _ => {}
            }
        }
    }

    /// The client is closed: nothing is awaited any more. What is held is not given back, as somebody may rely on it
    /// still, but nothing prolongs it, so that it is not held any more for anybody here.
    pub fn close(&mut self, error: &Error, now: Moment) {
        for (number, entry) in &self.entries {
            let number = *number;
            let event = match entry.stage {
                Stage::Lined
                | Stage::Asking(_)
                | Stage::Queued { .. }
                | Stage::Refused { .. }
                | Stage::Parked { .. } => {
                    MachineEvent::Failed { number, failure: MachineFailure::Server(error.clone()) }
                }
                Stage::Releasing { .. } => MachineEvent::ReleaseFailed { number, error: error.clone() },
                Stage::Held(_) | Stage::Cancelling { .. } | Stage::Lost => continue,
            };
            self.events.push_back(event);
        }
        self.end_flight(error, now);
        self.entries.clear();
        self.holding.clear();
    }

    pub(super) fn unanswered(&self) -> Error {
        Error::unanswered(&"".into())
    }

    /// Whether it was done nobody knows: what is renewed is asked again, and the clock goes on from before.
    pub(super) fn extension_unanswered(&mut self, numbers: &[u64], wanted: Option<&Error>, now: Moment) {
        for number in numbers.iter().copied() {
            if let Some(Stage::Held(held)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) {
                held.extending = false;
                held.renew_at = held.renew_at.map(|_| now);
            }
            if let Some(error) = wanted {
                self.events.push_back(MachineEvent::Extended { number, answer: Err(error.clone()) });
            }
        }
    }
}
