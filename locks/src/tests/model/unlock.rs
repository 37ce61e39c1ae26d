//! Releases names, or stops waiting for them.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer, TOMBSTONE_TTL};

impl Model {
    pub(super) fn unlock(&mut self, now: Duration, attempt: &Attempt, names: &Names, tombstone: bool) -> ScriptAnswer {
        let before = self.ttl_of(attempt, names);
        let freed = self.give_up(attempt, names);
        if tombstone {
            self.tombstones.insert(attempt.clone(), now + TOMBSTONE_TTL);
        }
        let mut run = Run::new(self, now, None).after(before);
        if freed.len() < names.len() {
            run.drop(attempt);
        }
        run.grant(names);
        run.announce(&freed);
        ScriptAnswer::Released { released: freed.len() }
    }
}
