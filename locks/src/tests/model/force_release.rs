//! Takes names away from their holders.

use std::collections::BTreeSet;
use std::time::Duration;

use super::run::Run;
use super::{Model, Names, Pushed, ScriptAnswer};

impl Model {
    pub(super) fn force_release(&mut self, now: Duration, names: &Names, token: Option<u64>) -> ScriptAnswer {
        let (mut freed, mut told) = (Vec::new(), BTreeSet::new());
        for name in names.iter() {
            let holders = match (self.locks.get(name), self.shares.get(name)) {
                (Some(lock), _) if token.is_none() || lock.holder.token == token => vec![lock.holder.attempt.clone()],
                (None, Some(share)) if token.is_none() => share.holders(),
                _ => continue,
            };
            self.delete(name);
            freed.push(name.clone());
            for attempt in holders {
                if told.insert(attempt.clone()) {
                    self.tell(&attempt.client.clone(), Pushed::ForceReleased { attempt });
                }
            }
        }
        let mut run = Run::new(self, now, None).after(if freed.is_empty() { Duration::ZERO } else { Duration::MAX });
        run.grant(names);
        run.announce(&freed);
        ScriptAnswer::ForceReleased { released: freed.len() }
    }
}
