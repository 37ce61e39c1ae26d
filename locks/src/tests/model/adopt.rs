//! Takes names over from the attempt that was handed over.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn adopt(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        from: &Attempt,
    ) -> ScriptAnswer {
        if self.tombstones.contains_key(attempt) {
            return ScriptAnswer::Cancelled;
        }
        if self.holds(attempt, names) {
            self.prolong(now, attempt, names, ttl);
            return ScriptAnswer::Granted { token: self.locks[&names[0]].holder.token.unwrap_or(0) };
        }
        if !self.holds(from, names) {
            return ScriptAnswer::NotHeld;
        }
        let (before, token) = (self.ttl_of(from, names), self.next_number(now));
        self.hold(now, attempt, names, ttl, token);
        if ttl < before {
            let mut run = Run::new(self, now, None);
            names.iter().for_each(|name| run.have_look(name));
        }
        ScriptAnswer::Granted { token }
    }
}
