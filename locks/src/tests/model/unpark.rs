//! Takes the names of a parked waiter again, without a notification.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn unpark(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration) -> ScriptAnswer {
        let mut run = Run::new(self, now, Some(attempt));
        run.forget_if_parked(attempt);
        run.take(attempt, names, ttl, true, false)
    }
}

impl Run<'_> {
    fn forget_if_parked(&mut self, attempt: &Attempt) {
        if self.model.queue.waiter(attempt).is_some_and(|waiter| waiter.parked) {
            self.forget(attempt);
        }
    }
}
