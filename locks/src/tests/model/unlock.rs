//! Releases names, or stops waiting for them.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer, TOMBSTONE_TTL};

impl Model {
    pub(super) fn unlock(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        names: &Names,
        tombstone: bool,
        rest: Option<Duration>,
    ) -> ScriptAnswer {
        if let Some(rest) = rest.filter(|_| self.holds(attempt, names)) {
            return self.keep_locked(now, attempt, names, tombstone, rest);
        }
        let before = self.ttl_of(attempt, names);
        let freed = self.give_up(attempt, names);
        if tombstone {
            self.tombstones.insert(attempt.clone(), now + TOMBSTONE_TTL);
        }
        let mut run = Run::new(self, now, None).after(before);
        if freed.len() < names.len() || names.are_shared() {
            run.drop(attempt);
        }
        run.grant(names);
        run.announce(&freed);
        ScriptAnswer::Released { released: freed.len() }
    }

    /// Leaves the names to nobody for `rest`.
    fn keep_locked(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        names: &Names,
        tombstone: bool,
        rest: Duration,
    ) -> ScriptAnswer {
        for name in names.iter() {
            let lock = self.locks.get_mut(name).expect("it is held");
            lock.holder.attempt = attempt.kept();
            (lock.expires, lock.ttl) = (now + rest, None);
        }
        if tombstone {
            self.tombstones.insert(attempt.clone(), now + TOMBSTONE_TTL);
        }
        let mut run = Run::new(self, now, None);
        names.iter().for_each(|name| run.have_look(name));
        run.announce(names);
        ScriptAnswer::Released { released: names.len() }
    }
}
