//! Losing the server and finding it again. Nothing that the server may still know is forgotten.

use super::asking::may_grant;
use super::entry::{Entry, Stage};
use super::stages::Why;
use super::{About, Awaited, Call, InFlight, Machine, MachineFailure, Moment};
use crate::claim::place_of;
use pinyon_net::error::{Error, Kind};

impl Machine {
    /// Continues on a connection that receives this client's pushes. Questions that went unanswered on an earlier
    /// connection are repeated with the same identity.
    pub fn connected(&mut self, now: Moment) {
        (self.connected, self.away) = (true, false);
        if self.calls.iter().any(|(_, call)| may_grant(call)) {
            self.opened = true;
            self.send(About::Open, Call::Open { seen: self.highest }, now);
            self.calls.rotate_right(1);
        }
        self.release_again(now);
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
                Stage::Asking(_) => self.ask(number, Why::Connected, now),
                Stage::Queued { .. } if entry.unparking => self.send_unpark_again(number, Why::Connected, now),
                Stage::Queued { .. } | Stage::Parked { .. } => self.send_poll(number, now),
                Stage::Held(ref lock) => {
                    if lock.renew_at.is_some() {
                        held.push(number);
                    }
                    self.send_change(number, now);
                }
                _ => {}
            }
        }
        self.send_renewals(&held, now);
        self.expire_releases(now);
    }

    /// Takes the names with a new attempt. Parking the old one went unanswered, so the server may or may not have
    /// parked it. The old attempt is given up, and the lock counts as notified.
    fn take_anew(&mut self, number: u64, now: Moment) {
        self.begin_relock(number, now);
        self.ask_as_another(number, Why::Connected, now);
    }

    /// Gives an attempt up, and asks for its names with a new one.
    pub(super) fn ask_as_another(&mut self, number: u64, why: Why, now: Moment) {
        self.send_tidy(number, true, now);
        let Some(before) = self.entries.get(&number).map(|entry| entry.attempt) else { return };
        let attempt = match place_of(before) {
            Some(_) => before + 1,
            None => self.next_number,
        };
        self.next_number += 1;
        self.renumbered.insert(attempt, number);
        if let Some(entry) = self.entries.get_mut(&number) {
            self.renumbered.remove(&std::mem::replace(&mut entry.attempt, attempt));
            (entry.unparking, entry.above) = (false, None);
            self.ask(number, why, now);
        }
    }

    /// Handles a broken connection. Waiters keep waiting until their time is up; questions that cannot be repeated
    /// fail.
    ///
    /// `moved`: the connection was given up for another one, and nothing under way was carried out.
    pub fn disconnected(&mut self, error: &Error, moved: bool, now: Moment) {
        self.connected = false;
        self.away |= error.kind == Kind::Timeout && !moved;
        // That a server sends its clients to another one is no trouble, unlike what came of that.
        let only_moves = moved && error.kind == Kind::Closed && self.trouble.is_some();
        if !only_moves {
            self.trouble = Some(error.clone());
        }
        self.releases.disconnected();
        let unanswered = if moved { self.take_unanswered() } else { Vec::new() };
        self.end_flight(error, now);
        for (about, call, asked) in unanswered {
            self.send(about, call, asked);
        }
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in numbers {
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            let waits = entry.waits();
            match &mut entry.stage {
                Stage::Asking(Some(_)) if !waits && !moved && entry.blocker.is_some() => {
                    let failure = self.out_of_time(number, now);
                    self.fail(number, failure, now);
                }
                Stage::Asking(Some(_)) if !waits && !moved => {
                    self.tell_error(number, Awaited::Grant, error.clone());
                    self.cancel(number, now);
                }
                Stage::Releasing { again, .. } => *again = true,
                _ => {}
            }
        }
    }

    /// Handles a failed attempt to connect: the server is not there, or cannot be used. Attempts that no server has seen
    /// fail if another try does not help, and those whose callers go on without the lock. Releases continue, but nobody
    /// waits for them.
    pub fn unreachable(&mut self, error: &Error, now: Moment) {
        self.away = true;
        self.trouble = Some(error.clone());
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in numbers {
            match self.entries.get(&number).map(Box::as_ref) {
                Some(entry) if entry.may_proceed() => {
                    self.tell_error(number, Awaited::Grant, error.clone());
                    self.cancel(number, now);
                }
                Some(entry) if entry.is_unknown() && !error.may_pass_here() => {
                    self.fail(number, MachineFailure::from(error.clone()), now);
                }
                Some(Entry { stage: Stage::Releasing { until, .. }, .. }) => {
                    self.begin_cancelling(number, Why::Unanswered, Some(*until), now);
                    self.tell_unreleased(number);
                }
                _ => {}
            }
        }
        self.end_flight(error, now);
    }

    /// Tells the caller of a release that it goes on without it.
    pub(super) fn tell_unreleased(&mut self, number: u64) {
        let error = self.trouble.clone().unwrap_or_else(|| self.unanswered());
        self.tell_error(number, Awaited::Release, error);
    }

    /// Takes the unanswered questions and awaited extensions, with the times when they were asked.
    fn take_unanswered(&mut self) -> Vec<(About, Call, Moment)> {
        let awaited = |call: &InFlight| matches!(call.about, About::Awaited(..));
        let again = |call: InFlight| call.call.map(|again| (call.about, *again, call.sent));
        self.flight.extract(awaited).into_iter().filter_map(again).collect()
    }

    /// Fails everything under way: no answer will come.
    pub(super) fn end_flight(&mut self, error: &Error, now: Moment) {
        self.calls.clear();
        self.opened = false;
        self.end_looks();
        for call in self.flight.take() {
            match call.about {
                About::Awaited(number, awaited) => self.stays_unanswered(number, awaited, error.clone(), now),
                About::Change(number) => self.change_unanswered(number),
                About::Renewal(numbers) => numbers.into_iter().for_each(|number| self.renew_at_once(number, now)),
                _ => {}
            }
        }
    }

    /// Why there is no connection, if one was tried for.
    pub fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref().filter(|_| !self.connected)
    }

    pub(super) fn unanswered(&self) -> Error {
        Error::unanswered(&"".into())
    }

    /// Tells the caller of a question or of an extension that no answer comes. An extension may have succeeded. Renewals
    /// are repeated, and the old validity continues.
    pub(super) fn stays_unanswered(&mut self, number: u64, awaited: Awaited, error: Error, now: Moment) {
        if awaited == Awaited::Extension {
            self.renew_at_once(number, now);
        }
        self.tell_error(number, awaited, error);
    }

    /// Has a lock renewed soon, if it is renewed at all, since an extension of it stayed without an answer.
    fn renew_at_once(&mut self, number: u64, now: Moment) {
        if let Some(Stage::Held(held)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) {
            held.extending = false;
            held.renew_at = held.renew_at.map(|_| now);
        }
    }
}
