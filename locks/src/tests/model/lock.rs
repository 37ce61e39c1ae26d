//! Takes all names or none.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer, PER_MS};

impl Model {
    pub(super) fn lock(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        wait: bool,
        nested: bool,
    ) -> ScriptAnswer {
        let idle = self.queue.is_empty() && !self.tombstones.contains_key(attempt);
        if idle && names.iter().all(|name| self.is_free(name)) {
            let token = self.counter.unwrap_or(0) + 1;
            self.counter = Some(token);
            if token >= PER_MS {
                self.hold(now, attempt, names, ttl, token);
                return ScriptAnswer::Granted { token };
            }
        }
        Run::new(self, now, Some(attempt)).take(attempt, names, ttl, wait, nested)
    }
}
