//! Releases names, and waits for a notification from their next holder.

use std::time::Duration;

use super::queue::Class;
use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn park(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration) -> ScriptAnswer {
        if !self.holds(attempt, names) {
            return match self.queue.waiter(attempt) {
                Some(_) => ScriptAnswer::Queued { pttl: None },
                None => ScriptAnswer::NotHeld,
            };
        }
        let before = self.ttl_of(attempt, names);
        let freed = self.give_up(attempt, names);
        let mut run = Run::new(self, now, None).after(before);
        run.park(attempt, names, ttl);
        run.grant(names);
        run.announce(&freed);
        ScriptAnswer::Queued { pttl: None }
    }
}

impl Run<'_> {
    fn park(&mut self, attempt: &Attempt, names: &Names, ttl: Duration) {
        let waiter = self.new_waiter(attempt, names, ttl, Class::Plain, true);
        let (now, keep) = (self.now, self.model.waiter_ttl);
        self.model.queue.add_parked(&waiter, now, keep);
        self.model.queue.save(&waiter, now, keep);
    }
}
