//! Extends locks.

use std::time::Duration;

use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn extend(&mut self, now: Duration, held: &[(Attempt, Names, Duration)]) -> ScriptAnswer {
        let each = held.iter().map(|(attempt, names, ttl)| self.extend_one(now, attempt, names, *ttl));
        ScriptAnswer::Extended(each.collect())
    }

    pub(super) fn extend_one(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration) -> bool {
        let held = self.holds(attempt, names);
        if held {
            self.prolong(now, attempt, names, ttl);
        }
        held
    }
}
