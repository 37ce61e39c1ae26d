//! Releases that may not have freed their names: those that a server has answered, but may take back by dying before a
//! replica or its disk has them, and those that it refused.
//!
//! The last answered releases are repeated on the next connection. Refused ones are repeated until they are answered
//! or the ttl has passed: one of them asks whether the server still refuses, and the others follow it. No caller needs
//! to wait for this.

use std::collections::VecDeque;
use std::time::Duration;

use super::asking::{retry_pause, LONGEST_RETRY};
use super::entry::{rest_until, Entry, Stage};
use super::stages::Why;
use super::{About, Awaited, Call, Machine, Moment};
use crate::call::{Attempt, Names, ScriptAnswer};
use pinyon_net::error::{Error, Kind};

/// How many answered ones are repeated on the next connection: more than are on their way to a replica at a time.
const REPEATED: usize = 32;

#[derive(Default)]
pub(super) struct Releases {
    /// The last ones that were answered.
    answered: VecDeque<Release>,
    /// Those that the server refused. One of them asks whether it still does; the others follow once it does not.
    refused: VecDeque<Refused>,
    /// When one of them asks again.
    again_at: Option<Moment>,
    /// How often they were refused in a row, and since when.
    refusals: u32,
    since: Option<Moment>,
}

struct Release {
    owner: u64,
    attempt: u64,
    names: Names,
    /// When no server has the lock any more, whether or not it knows of the release.
    over: Moment,
    /// Until when the names stay locked.
    keep_until: Option<Moment>,
}

struct Refused {
    attempt: Attempt,
    names: Names,
    tombstone: bool,
    over: Moment,
    keep_until: Option<Moment>,
    under_way: bool,
}

impl Releases {
    pub(super) fn note(&mut self, entry: &Entry, now: Moment) {
        if self.answered.len() == REPEATED {
            self.answered.pop_front();
        }
        let (keep_until, names) = (entry.keep_until(), entry.to_release());
        let Entry { owner, attempt, ttl, .. } = *entry;
        self.answered.push_back(Release { owner, attempt, names, over: now + ttl, keep_until });
    }

    /// Whether none is refused.
    pub(super) fn are_taken(&self) -> bool {
        self.refused.is_empty()
    }

    /// When one asks again, or ends.
    pub(super) fn due(&self, connected: bool) -> Option<Moment> {
        let ends = self.refused.iter().map(|release| release.over).min();
        [self.again_at.filter(|_| connected), ends].into_iter().flatten().min()
    }

    /// When the lock of a refused release has ended by itself.
    fn over(&self, attempt: &Attempt) -> Option<Moment> {
        self.refused.iter().find(|release| release.attempt == *attempt).map(|release| release.over)
    }

    fn take(&mut self, attempt: &Attempt) {
        self.refused.retain(|release| release.attempt != *attempt);
        if self.refused.is_empty() {
            (self.again_at, self.refusals, self.since) = (None, 0, None);
        }
    }

    /// The connection that carried them is gone, and the next one may reach a server that takes them.
    pub(super) fn disconnected(&mut self) {
        for release in &mut self.refused {
            (release.under_way, release.tombstone) = (false, true);
        }
        self.again_at = (!self.refused.is_empty()).then_some(Moment(Duration::ZERO));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Machine {
    /// Repeats the last releases. Otherwise a server that has lost them would keep these locks until their ttls have
    /// passed.
    pub(super) fn release_again(&mut self, now: Moment) {
        let due = |release: &&Release| release.over > now;
        let of = |release: &Release| {
            let attempt = Attempt { client: self.client.clone(), owner: release.owner, number: release.attempt };
            let rest = rest_until(release.keep_until, now);
            Call::Unlock { attempt, names: release.names.clone(), tombstone: false, rest }
        };
        let calls: Vec<Call> = self.releases.answered.iter().filter(due).map(of).collect();
        for call in calls {
            self.send(About::Tidy, call, now);
        }
    }

    /// For how long a lock that is not released yet lasts at most.
    pub fn lasts(&self, number: u64, now: Moment) -> Option<Duration> {
        match self.entries.get(&number).map(|entry| &entry.stage) {
            Some(Stage::Cancelling { until: Some(until), .. }) => Some(*until - now),
            _ => None,
        }
    }

    /// Keeps a release that the server refused, until it is answered or the lock's ttl has passed.
    pub(super) fn keep_release(&mut self, call: Call, ttl: Duration, error: &Error, now: Moment) {
        let Call::Unlock { attempt, names, tombstone, rest } = call else { return };
        let releases = &mut self.releases;
        releases.since.get_or_insert(now);
        match releases.refused.iter().position(|release| release.attempt == attempt) {
            Some(at) => {
                let mut release = releases.refused.remove(at).expect("it is there");
                release.under_way = false;
                releases.refused.push_back(release);
            }
            None => {
                let keep_until = rest.map(|rest| now + rest);
                let (over, under_way) = (now + ttl, false);
                releases.refused.push_back(Refused { attempt, names, tombstone, over, keep_until, under_way })
            }
        }
        if releases.again_at.is_none() {
            let longest = if error.kind == Kind::NotNow { LONGEST_RETRY } else { self.options.heartbeat };
            let pause = retry_pause(releases.refusals, longest);
            releases.refusals = releases.refusals.saturating_add(1);
            releases.again_at = Some(now + pause);
            self.wake_by(now + pause);
        }
    }

    /// Sends one of the refused releases again, if it is time, and forgets those whose locks have ended.
    pub(super) fn expire_releases(&mut self, now: Moment) {
        if self.releases.are_taken() {
            return;
        }
        let over: Vec<Attempt> =
            self.releases.refused.iter().filter(|it| it.over <= now).map(|it| it.attempt.clone()).collect();
        over.iter().for_each(|attempt| self.releases.take(attempt));
        if self.connected && self.releases.again_at.is_some_and(|at| at <= now) {
            self.releases.again_at = None;
            self.send_refused(1, now);
        }
    }

    fn send_refused(&mut self, most: usize, now: Moment) {
        let waiting = self.releases.refused.iter_mut().filter(|release| !release.under_way).take(most);
        let calls = waiting.map(|release| {
            release.under_way = true;
            let (attempt, names) = (release.attempt.clone(), release.names.clone());
            let rest = rest_until(release.keep_until, now);
            Call::Unlock { attempt, names, tombstone: release.tombstone, rest }
        });
        for call in calls.collect::<Vec<_>>() {
            self.send(About::Tidy, call, now);
        }
    }

    /// Takes the answer to a release that nobody waits for, or that was refused before.
    pub(super) fn tidied(
        &mut self,
        call: Option<Box<Call>>,
        answer: Result<ScriptAnswer, Error>,
        sent: Moment,
        now: Moment,
    ) {
        let Some(Call::Unlock { attempt, .. }) = call.as_deref() else { return };
        let number = self
            .number_of(attempt)
            .filter(|number| matches!(self.entries[number].stage, Stage::Releasing { .. } | Stage::Cancelling { .. }));
        match (answer, number) {
            (answer, Some(number)) => self.unlocked(number, answer, sent, now),
            (Ok(_), None) => self.release_taken(&attempt.clone(), now),
            (Err(error), None) => {
                let ttl = self.releases.over(attempt).map(|over| over - now).unwrap_or(self.options.waiter_ttl());
                self.keep_release(*call.expect("it is one"), ttl, &error, now);
            }
        }
    }

    /// Notes that the server takes releases: those that it refused before follow.
    pub(super) fn release_taken(&mut self, attempt: &Attempt, now: Moment) {
        if self.releases.are_taken() {
            return;
        }
        self.releases.take(attempt);
        self.send_refused(usize::MAX, now);
    }

    /// Handles the refusal of a release that its caller waits for, or has waited for. The release is kept. The caller
    /// is told at once if it is of no use to wait: the refusal does not pass soon, or has lasted for long.
    pub(super) fn release_refused(&mut self, number: u64, error: Error, now: Moment) {
        let Some(entry) = self.entries.get(&number) else { return };
        let (names, ttl, rest) = (entry.to_release(), entry.ttl.max(self.options.waiter_ttl()), entry.rest(now));
        let over = match entry.stage {
            Stage::Releasing { until, .. } => until - now,
            Stage::Cancelling { until, .. } => until.map_or(ttl, |until| until - now),
            _ => return,
        };
        let call = Call::Unlock { attempt: self.attempt(number), names, tombstone: false, rest };
        self.keep_release(call, over, &error, now);
        let lasts = self.releases.since.is_some_and(|since| since + self.options.patience <= now);
        let Stage::Releasing { until, .. } = self.entries[&number].stage else { return };
        if error.kind != Kind::NotNow || lasts {
            self.begin_cancelling(number, Why::Unanswered, Some(until), now);
            self.tell_error(number, Awaited::Release, error);
        }
    }
}
