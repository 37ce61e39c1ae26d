//! Instants of a clock that continues during suspend, and everything that depends on time.

use std::time::Duration;

use super::entry::{Entry, Stage};
use super::stages::Why;
use super::{About, Awaited, InFlight, Machine, MachineEvent, Moment, Renewal};
use crate::loss::Loss;

/// Renewals due within an eighth of their interval join earlier ones.
const TOGETHER: u32 = 8;

/// How long an attempt that was given up is remembered, in case the connection returns.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How long a lock of this ttl counts as held. Clocks drift, and the server counts in milliseconds.
pub(super) fn believed(ttl: Duration) -> Duration {
    ttl - ttl / 100 - Duration::from_millis(2).min(ttl / 10)
}

impl Machine {
    /// Does what is due.
    pub fn expire(&mut self, now: Moment) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in numbers {
            self.expire_one(number, now);
        }
        self.expire_questions(now);
        self.expire_releases(now);
        self.renew(now);
        let dues = self.entries.values().filter_map(|entry| entry.due(self.connected));
        let due = [self.due, self.releases.due(self.connected)].into_iter().flatten().min();
        self.due = dues.fold(due, |due, other| Some(due.map_or(other, |due| due.min(other))));
    }

    fn expire_one(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let is_waiting = matches!(entry.stage, Stage::Lined | Stage::Queued { .. } | Stage::Refused { .. });
        if is_waiting && entry.deadline > now && entry.look_at().is_some_and(|at| at <= now) {
            self.look(number, now);
        }
        let Some(entry) = self.entries.get_mut(&number) else { return };
        match entry.stage {
            _ if entry.is_unknown() && entry.deadline <= now => {
                let failure = self.out_of_time(number, now);
                self.fail(number, failure, now);
            }
            Stage::Asking(Some(_)) | Stage::Queued { .. } | Stage::Refused { .. } if entry.deadline <= now => {
                let failure = self.out_of_time(number, now);
                self.tell_failed(number, Awaited::Grant, failure);
                self.cancel(number, now);
            }
            Stage::Refused { again_at } if again_at <= now => match entry.unparking {
                true => self.send_unpark_again(number, Why::Due, now),
                false => self.ask(number, Why::Due, now),
            },
            Stage::Parked { until: Some(until), .. } if until <= now => self.send_unpark(number, now),
            Stage::Queued { poll_at: Some(poll_at), .. } | Stage::Parked { poll_at: Some(poll_at), .. }
                if poll_at <= now =>
            {
                self.send_poll(number, now);
            }
            Stage::Held(ref held) if held.until <= now => self.lose(number, Loss::Expired, now),
            Stage::Held(_) => self.expire_change(number, now),
            Stage::Releasing { until, deadline, .. } if deadline <= now => {
                // Releases that follow need not wait as long.
                self.away |= !self.connected;
                self.begin_cancelling(number, Why::Unanswered, Some(until), now);
                self.tell_unreleased(number);
            }
            Stage::Cancelling { forget_at, .. } if forget_at <= now => drop(self.remove(number, Why::Old, now)),
            _ => {}
        }
    }

    /// Fails questions and awaited extensions that no server answered in time.
    fn expire_questions(&mut self, now: Moment) {
        let patience = self.options.patience;
        let mut next = None;
        let mut late = Vec::new();
        for (id, call) in self.flight.iter() {
            match call.about {
                About::Awaited(..) if call.sent + patience <= now => late.push(*id),
                About::Awaited(..) => next = next.or(Some(call.sent + patience)),
                _ => {}
            }
        }
        for id in late {
            self.calls.retain(|(call, _)| *call != id);
            let error = self.trouble().cloned().unwrap_or_else(|| self.unanswered());
            if let Some(InFlight { about: About::Awaited(number, awaited), .. }) = self.flight.remove(id) {
                self.stays_unanswered(number, awaited, error, now);
            }
        }
        self.due = [self.due, next].into_iter().flatten().min();
    }

    /// Renews all locks that are due, in one call.
    fn renew(&mut self, now: Moment) {
        let is_due = |entry: &Entry, slack: Duration| match &entry.stage {
            Stage::Held(held) if !held.extending => held.renew_at.is_some_and(|at| at <= now + slack),
            _ => false,
        };
        if !self.connected || !self.entries.values().any(|entry| is_due(entry, Duration::ZERO)) {
            return;
        }
        let due = self.entries.iter().filter(|(_, entry)| is_due(entry, entry.ttl / (3 * TOGETHER)));
        let numbers: Vec<u64> = due.map(|(number, _)| *number).collect();
        self.send_renewals(&numbers, now);
    }

    /// Marks a lock lost.
    pub(super) fn lose(&mut self, number: u64, loss: Loss, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.stage.turn(Why::Lose, Stage::Lost);
        let forsaken = entry.holds == 0;
        self.events.push_back(MachineEvent::Lost { number, loss });
        self.send_tidy(number, false, now);
        self.hand_on(number, now);
        if forsaken {
            self.remove(number, Why::GiveUp, now);
        }
    }

    /// `until`: until when the lock may last, if there is one.
    pub(super) fn begin_cancelling(&mut self, number: u64, why: Why, until: Option<Moment>, now: Moment) {
        let forget_at = until.unwrap_or(now).max(now + REMEMBERED);
        self.entries.entry(number).and_modify(|entry| entry.stage.turn(why, Stage::Cancelling { forget_at, until }));
        self.wake_by(forget_at);
    }

    /// When to renew a lock whose ttl began at `since`.
    pub(super) fn renewal_after(renewal: Renewal, granted: Moment, since: Moment, ttl: Duration) -> Option<Moment> {
        let first = since + ttl / 3;
        let at = if first > granted { first } else { since + 2 * ttl / 3 };
        match renewal {
            Renewal::Never => None,
            Renewal::Always => Some(at),
            Renewal::For(longest) => (at < granted + longest).then_some(at),
        }
    }
}
