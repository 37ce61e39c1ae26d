//! Extends a lock, and raises its token and the counter.

use std::time::Duration;

use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn raise(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        floor: u64,
    ) -> ScriptAnswer {
        let held = self.extend_one(now, attempt, names, ttl);
        if held {
            self.counter = self.counter.max(Some(floor));
            for name in names.iter() {
                let token = self.locks.get_mut(name).and_then(|lock| lock.holder.token.as_mut());
                token.into_iter().for_each(|token| *token = floor.max(*token));
            }
        }
        ScriptAnswer::Extended(vec![held])
    }
}
