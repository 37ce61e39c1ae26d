//! Waiters whose permits are taken, and whose time has not come.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{Front, LockFinished, LockOutcome};
use crate::client::Platform;
use crate::failure::LockFailure;
use crate::rate::{RateAnswer, RateQuestion};

/// In the order of their times.
pub(super) struct Early<W> {
    waiters: BTreeMap<(Instant, u64), (W, RateAnswer)>,
    next: u64,
}

impl<W> Default for Early<W> {
    fn default() -> Self {
        Self { waiters: BTreeMap::new(), next: 0 }
    }
}

impl<W> Early<W> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// When the first one's time comes.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiters.first_key_value().map(|((due, _), _)| *due)
    }

    fn add(&mut self, due: Instant, waiter: W, answer: RateAnswer) {
        self.next += 1;
        self.waiters.insert((due, self.next), (waiter, answer));
    }

    fn take(&mut self, now: Instant) -> Option<(W, RateAnswer)> {
        self.due().filter(|due| *due <= now)?;
        self.waiters.pop_first().map(|(_, waiter)| waiter)
    }
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// The outcome of a question for permits, unless its time has not come.
    pub(super) fn rated(
        &mut self,
        waiter: W,
        question: &RateQuestion,
        taken: bool,
        ahead: u64,
    ) -> Option<LockFinished<W, L>> {
        let (answer, delay) = question.answer(taken, ahead);
        let count = if taken { &self.counts.rates_allowed } else { &self.counts.rates_refused };
        count.add(1);
        if let Some(delay) = delay {
            // Counted from now, so that it never ends early.
            self.early.add(self.members[0].now().instant + delay, waiter, answer);
            return None;
        }
        Some(done(waiter, self.rate_outcome(question, answer)))
    }

    fn rate_outcome(&self, question: &RateQuestion, answer: RateAnswer) -> LockOutcome {
        let (Some(waited), Some(retry_after)) = (question.waits(), answer.retry_after) else {
            return LockOutcome::Rated(answer);
        };
        let name = question.rate().name();
        let failure = LockFailure::too_early(name, waited, retry_after, &self.settings().server);
        self.counts.failed(failure.kind);
        LockOutcome::failed(failure)
    }

    /// Hands out the answers whose time has come.
    pub(super) fn expire_early(&mut self, now: Instant) {
        while let Some((waiter, answer)) = self.early.take(now) {
            self.finished.push_back(done(waiter, LockOutcome::Rated(answer)));
            self.end_turn();
        }
    }

    /// Fails those whose time has not come.
    pub(super) fn close_early(&mut self) {
        for (_, (waiter, _)) in std::mem::take(&mut self.early.waiters) {
            let outcome = self.closed_outcome();
            self.finished.push_back(done(waiter, outcome));
        }
    }
}

fn done<W, L>(waiter: W, outcome: LockOutcome) -> LockFinished<W, L> {
    LockFinished::Done { waiter, outcome, unheard: Vec::new() }
}
