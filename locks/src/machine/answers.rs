//! Replies and pushes from the server.

use std::time::Duration;

use super::asking::LONGEST_RETRY;
use super::entry::{Held, Stage};
use super::stages::Why;
use super::time::believed;
use super::{
    About, Awaited, Blocker, Call, InFlight, Machine, MachineEvent, MachineFailure, Moment, Outcome, ScriptAnswer,
};
use crate::call::{FirstHolder, Pushed, Said};
use crate::loss::Loss;
use pinyon_net::error::{Error, Kind};

/// Scripts count exactly up to here.
const MOST: u64 = 1 << 53;

impl Machine {
    /// Takes the answer to a call from [`Machine::next_call`]. An error must be the server's own; for a broken
    /// connection, call [`Machine::disconnected`] instead.
    pub fn answer(&mut self, id: u64, answer: Result<ScriptAnswer, Error>, now: Moment) {
        let Some(InFlight { about, sent, call }) = self.flight.remove(id) else { return };
        match &answer {
            Err(error) if error.kind == Kind::NotNow => self.trouble = Some(error.clone()),
            _ => (self.heard, self.trouble) = (Some(now), None),
        }
        if let About::Lock(number) | About::Poll(number) | About::Unpark(number) | About::Park(number) = about {
            let Some(entry) = self.entries.get_mut(&number) else { return };
            if entry.parked_by.is_some_and(|call| id < call) {
                return;
            }
            entry.parked_by = None;
            let passes = matches!(&answer, Err(error) if error.kind == Kind::NotNow);
            if matches!(about, About::Unpark(_)) && !passes {
                entry.unparking = false;
            }
        }
        match (about, answer) {
            (About::Open, Ok(ScriptAnswer::Opened { counter })) => self.see(counter),
            (About::Open, Err(error)) => self.opened &= error.kind != Kind::NotNow,
            (About::Open, Ok(_)) => {}
            (About::Tidy, answer) => self.tidied(call, answer, sent, now),
            (About::Lock(number) | About::Unpark(number), Ok(answer)) => self.asked(number, answer, sent, now),
            (About::Lock(number) | About::Unpark(number), Err(error)) => self.refused(number, error, now),
            (About::Poll(number), Ok(answer)) => self.polled(number, answer, sent, now),
            (About::Poll(number), Err(error)) => self.poll_again(number, &error, now),
            (About::Unlock(number), answer) => self.unlocked(number, answer, sent, now),
            (About::Renewal(numbers), answer) => self.renewed(&numbers, answer, sent, now),
            (About::Park(number), answer) => self.parked(number, answer, sent, now),
            (About::Change(number), answer) => self.changed(number, id, answer, sent, now),
            (About::Look(names), Ok(ScriptAnswer::Inspected(inspected))) => self.looked(&names, &inspected, now),
            (About::LookCloser(names), Ok(ScriptAnswer::Inspected(inspected))) => {
                self.looked_closer(&names, &inspected)
            }
            (About::LookCloser(_), _) | (About::Remark(_), Ok(_)) => {}
            (About::Remark(number), Err(error)) => self.remark_refused(number, error, now),
            (About::Blocker(number), answer) => self.blocked(number, answer, now),
            (About::Look(names), _) => self.looked(&names, &[], now),
            (About::Awaited(number, Awaited::Extension), answer) => self.extended(number, answer, sent, now),
            (About::Awaited(request, _), Ok(ScriptAnswer::Inspected(inspected))) => {
                self.inspected(request, call.as_deref(), inspected, now);
            }
            (About::Awaited(request, awaited), Ok(ScriptAnswer::NotHeld)) => {
                self.tell_failed(request, awaited, MachineFailure::NotHeld);
            }
            (About::Awaited(request, awaited), Ok(answer)) => self.done(request, awaited, Outcome::Answered(answer)),
            (About::Awaited(request, awaited), Err(error)) => self.tell_error(request, awaited, error),
        }
    }

    /// Takes a push from the server.
    pub fn pushed(&mut self, pushed: Pushed, now: Moment) {
        match pushed {
            Pushed::Granted { attempt, token } => {
                if let Some(number) = self.number_of(&attempt) {
                    self.pushed_grant(number, token, now);
                }
            }
            Pushed::ForceReleased { attempt } => {
                let number = self.number_of(&attempt);
                let is_held = |number: &u64| matches!(self.entries[number].stage, Stage::Held(_));
                if let Some(number) = number.filter(is_held) {
                    self.lose(number, Loss::Forced, now);
                }
            }
            Pushed::Contested { attempt } => {
                if let Some(number) = self.number_of(&attempt) {
                    self.events.push_back(MachineEvent::Contested { number });
                }
            }
            Pushed::Look { attempt } => {
                let number = self.number_of(&attempt);
                let waits = |number: &u64| matches!(self.entries[number].stage, Stage::Queued { poll_at: Some(_), .. });
                match number.filter(waits) {
                    Some(number) => self.send_poll(number, now),
                    None => number.into_iter().for_each(|number| self.ask_change_again(number, now)),
                }
            }
            Pushed::Freed { names } => {
                let waits_for = |names: &[_], wanted: &[_]| wanted.iter().any(|name| names.contains(name));
                let numbers = self.entries.iter().filter(|(_, entry)| waits_for(&names, &entry.names));
                for number in numbers.map(|(number, _)| *number).collect::<Vec<_>>() {
                    match self.entries[&number].stage {
                        Stage::Refused { .. } if !self.entries[&number].unparking => self.ask(number, Why::Freed, now),
                        Stage::Queued { poll_at: Some(_), .. } => self.send_poll(number, now),
                        Stage::Held(_) => self.ask_change_again(number, now),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Takes a pushed grant. It may be read late, so it counts from the last question that was answered with "queued".
    fn pushed_grant(&mut self, number: u64, token: u64, now: Moment) {
        let Some(entry) = self.entries.get(&number).filter(|entry| entry.parked_by.is_none()) else { return };
        match entry.stage {
            Stage::Queued { since, .. } | Stage::Parked { since, .. } | Stage::Asking(Some(since)) => {
                self.granted(number, token, since, now);
            }
            Stage::Held(_) => self.pushed_upgrade(number, token, now),
            _ => {}
        }
    }

    /// Takes the answer for an attempt to get its names. The question was sent at `sent`.
    fn asked(&mut self, number: u64, answer: ScriptAnswer, sent: Moment, now: Moment) {
        let Some(entry) = self.entries.get(&number) else { return };
        if !matches!(entry.stage, Stage::Asking(_) | Stage::Queued { .. } | Stage::Parked { .. }) {
            return;
        }
        match answer {
            ScriptAnswer::Granted { token } => self.granted(number, token, sent, now),
            ScriptAnswer::Queued { pttl } => {
                let poll_at = Some(self.poll_after(pttl, now));
                let entry = self.entries.get_mut(&number).expect("it was there");
                (entry.refused, entry.trouble) = (true, None);
                match &mut entry.stage {
                    Stage::Parked { since, poll_at: at, .. } => (*since, *at) = (sent, poll_at),
                    stage => stage.turn(Why::Queued, Stage::Queued { since: sent, poll_at }),
                }
                self.count_queued(number);
            }
            ScriptAnswer::Busy { pttl, first } => self.busy(number, pttl, first, now),
            ScriptAnswer::Deadlock { cycle } => self.fail(number, MachineFailure::Deadlock { cycle }, now),
            ScriptAnswer::Unknown => self.ask_anew(number, now),
            ScriptAnswer::NotHeld => self.fail(number, MachineFailure::NotHeld, now),
            other => {
                let message = format!("the server's answer makes no sense here: {other:?}");
                let error = Error::new(Kind::Protocol, &"".into(), message);
                self.fail(number, MachineFailure::from(error), now);
            }
        }
    }

    /// Queues up again: the server has forgotten this waiter.
    fn ask_anew(&mut self, number: u64, now: Moment) {
        self.begin_relock(number, now);
        self.ask(number, Why::Unknown, now);
    }

    fn busy(&mut self, number: u64, pttl: Option<Duration>, first: Option<Box<FirstHolder>>, now: Moment) {
        let entry = &self.entries[&number];
        if !entry.waits() {
            let is_told = first.as_ref().is_some_and(|first| first.said != Said::Untold);
            let failure = match (entry.wait, first.map(|first| Blocker::of(*first))) {
                (None, _) => MachineFailure::Busy,
                (Some(_), Some(blocker)) if !is_told && !blocker.holder.is_foreign() => {
                    return self.ask_blocker(number, blocker, now);
                }
                (Some(waited), blocker) => MachineFailure::timeout(waited, blocker),
            };
            return self.fail(number, failure, now);
        }
        let again_at = self.poll_after(pttl, now);
        self.entries.entry(number).and_modify(|entry| {
            (entry.refused, entry.trouble) = (true, None);
            entry.stage.turn(Why::Busy, Stage::Refused { again_at });
        });
        self.count_queued(number);
    }

    /// Takes the answer to a poll. A poll renews a lock that it finds granted, so its validity begins anew.
    fn polled(&mut self, number: u64, answer: ScriptAnswer, sent: Moment, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        match (&mut entry.stage, &answer) {
            (Stage::Held(held), ScriptAnswer::Granted { .. }) => {
                held.until = held.until.max(sent + believed(entry.ttl))
            }
            (Stage::Queued { .. } | Stage::Parked { .. }, _) => self.asked(number, answer, sent, now),
            _ => {}
        }
    }

    fn poll_again(&mut self, number: u64, error: &Error, now: Moment) {
        let at = self.poll_after((error.kind == Kind::NotNow).then_some(LONGEST_RETRY), now);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Stage::Queued { poll_at, .. } | Stage::Parked { poll_at, .. } = &mut entry.stage {
            *poll_at = Some(at);
        }
    }

    /// Notes a grant that was made at `since` or later.
    fn granted(&mut self, number: u64, token: u64, since: Moment, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        // What writes nothing has the highest token that was given out, and none of its own.
        let least = u64::from(entry.names.are_written());
        if entry.above.is_some_and(|above| token < above + least) {
            return self.distrust(number, token, now);
        }
        let until = since + believed(entry.ttl);
        if token < MOST {
            self.highest = self.highest.max(token);
        }
        if until <= now {
            let waiting = match entry.stage {
                Stage::Parked { until, .. } => Stage::Parked { since, poll_at: None, until },
                _ => Stage::Queued { since, poll_at: None },
            };
            entry.stage.turn(Why::GrantedLate, waiting);
            return self.send_poll(number, now);
        }
        let renew_at = Self::renewal_after(entry.renewal, now, since, entry.ttl);
        let notified = matches!(entry.stage, Stage::Parked { .. });
        let held = Held { token, until, granted: now, renew_at, extending: false };
        entry.stage.turn(Why::Granted, Stage::Held(held));
        let mut adopted = None;
        if let Some(rare) = &mut entry.rare {
            rare.keep_until = (!rare.at_least.is_zero()).then(|| now + rare.at_least);
            adopted = rare.adopts.take().filter(|_| rare.remark.is_some());
        }
        self.holding.add(entry.owner, number);
        if let Some(from) = adopted {
            self.send_erasure((*from).clone(), now);
        }
        self.wake_for(number);
        self.done(number, Awaited::Grant, Outcome::Granted { number, token, notified, again: false });
    }

    /// Notes a number that a server told.
    pub(super) fn see(&mut self, number: u64) {
        if number < MOST {
            self.highest = self.highest.max(number);
        }
    }

    /// Gives up a grant whose token is not higher than an earlier one. The server has lost its counter, and its clock
    /// is behind. Once the counter is raised, the names are asked for again.
    fn distrust(&mut self, number: u64, token: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if std::mem::replace(&mut entry.distrusted, true)
            || entry.rare.as_ref().is_some_and(|rare| rare.adopts.is_some())
        {
            let message = format!(
                "the server gives out tokens again that were given out before: {token}, although {} was seen",
                self.highest
            );
            self.send_tidy(number, true, now);
            let error = Error::new(Kind::Server, &"".into(), message);
            return self.fail(number, MachineFailure::from(error), now);
        }
        self.send(About::Open, Call::Open { seen: self.highest }, now);
        self.begin_relock(number, now);
        self.ask_as_another(number, Why::Distrusted, now);
    }

    /// Handles a server's refusal to take the question or to keep the waiter.
    fn refused(&mut self, number: u64, error: Error, now: Moment) {
        let Some(entry) = self.entries.get(&number) else { return };
        match entry.stage {
            Stage::Asking(_) | Stage::Queued { .. } if error.kind == Kind::NotNow && entry.deadline > now => {
                self.ask_later(number, error, now);
            }
            Stage::Asking(_) | Stage::Queued { .. } => self.fail(number, MachineFailure::from(error), now),
            _ => {}
        }
    }

    pub(super) fn unlocked(&mut self, number: u64, answer: Result<ScriptAnswer, Error>, sent: Moment, now: Moment) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.release_refused(number, error, now),
        };
        if !self.releases.are_taken() {
            self.release_taken(&self.attempt(number), now);
        }
        let Some(entry) = self.entries.get(&number) else { return };
        let Stage::Releasing { until, again, .. } = entry.stage else {
            if matches!(entry.stage, Stage::Cancelling { .. }) {
                self.forget_released(number, now);
            }
            return;
        };
        let held = match answer {
            // The first of two releases may have succeeded without an answer.
            ScriptAnswer::Released { released } => released == entry.names.len() || again && sent < until,
            _ => false,
        };
        self.events.push_back(MachineEvent::released(number, held));
        self.forget_released(number, now);
    }

    fn forget_released(&mut self, number: u64, now: Moment) {
        if let Some(entry) = self.remove(number, Why::Answered, now) {
            self.releases.note(&entry, now);
        }
    }

    fn renewed(&mut self, numbers: &[u64], answer: Result<ScriptAnswer, Error>, sent: Moment, now: Moment) {
        let (each, refusal) = extended(answer);
        self.tell_refusal(refusal.as_ref());
        for (index, number) in numbers.iter().copied().enumerate() {
            let held = self.prolonged(number, each.get(index).copied(), sent, now);
            let counts = self.options.observed.counts();
            counts.renewals.add(u64::from(held));
            counts.renewals_refused.add(u64::from(refusal.is_some()));
        }
    }

    fn extended(&mut self, number: u64, answer: Result<ScriptAnswer, Error>, sent: Moment, now: Moment) {
        let (each, refusal) = extended(answer);
        self.tell_refusal(refusal.as_ref());
        let held = self.prolonged(number, each.first().copied(), sent, now);
        match refusal {
            None => self.done(number, Awaited::Extension, Outcome::Extended { held }),
            Some(error) => self.tell_error(number, Awaited::Extension, error),
        }
    }

    fn tell_refusal(&mut self, refusal: Option<&Error>) {
        let was_refused = std::mem::replace(&mut self.renewals_refused, refusal.is_some());
        if let Some(error) = refusal.filter(|_| !was_refused) {
            self.events.push_back(MachineEvent::RenewalRefused { error: error.clone().into() });
        }
    }

    /// Takes the result of an extension for one lock; `None` if the server did not say. Returns whether the lock is
    /// held.
    fn prolonged(&mut self, number: u64, answer: Option<bool>, sent: Moment, now: Moment) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let retry_at = now + self.options.heartbeat.min(self.options.patience).min(entry.ttl / 6);
        let Stage::Held(held) = &mut entry.stage else { return false };
        held.extending = false;
        match answer {
            Some(true) => {
                held.until = sent + believed(entry.ttl);
                held.renew_at = Self::renewal_after(entry.renewal, held.granted, sent, entry.ttl);
            }
            Some(false) => {
                self.lose(number, Loss::Gone, now);
                return false;
            }
            None => held.renew_at = held.renew_at.map(|_| retry_at),
        }
        self.wake_for(number);
        answer == Some(true)
    }

    fn parked(&mut self, number: u64, answer: Result<ScriptAnswer, Error>, sent: Moment, now: Moment) {
        let waits = |stage: &Stage| matches!(stage, Stage::Parked { .. } | Stage::Queued { .. });
        if !self.entries.get(&number).is_some_and(|entry| waits(&entry.stage)) {
            return;
        }
        match answer {
            Ok(ScriptAnswer::NotHeld) => self.fail(number, MachineFailure::NotHeld, now),
            Ok(answer) => self.asked(number, answer, sent, now),
            Err(error) => {
                // It is unknown whether the earlier attempt released it. Now it is released.
                self.tell_error(number, Awaited::Grant, error);
                self.cancel(number, now);
            }
        }
    }
}

/// Whether each lock is still held, as far as the server said so, and its refusal.
fn extended(answer: Result<ScriptAnswer, Error>) -> (Vec<bool>, Option<Error>) {
    match answer {
        Ok(ScriptAnswer::Extended(each)) => (each, None),
        Ok(_) => (Vec::new(), None),
        Err(error) => (Vec::new(), Some(error)),
    }
}
