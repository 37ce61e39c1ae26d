//! Tells the state of names.

use std::time::Duration;

use super::{Inspected, Model, Name, Names, ScriptAnswer};

impl Model {
    pub(super) fn inspect(&self, now: Duration, names: &Names) -> ScriptAnswer {
        ScriptAnswer::Inspected(names.iter().map(|name| self.inspect_one(now, name)).collect())
    }

    fn inspect_one(&self, now: Duration, name: &Name) -> Inspected {
        let lock = self.locks.get(name);
        Inspected {
            holder: lock.map(|lock| lock.holder.clone()),
            pttl: lock.map(|lock| lock.expires - now),
            age: lock.and_then(|lock| lock.age(now)),
            waiting: self.queue.live(name, now),
        }
    }
}
