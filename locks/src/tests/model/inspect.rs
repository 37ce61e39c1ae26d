//! Tells the state of names.

use std::time::Duration;

use super::shared::Share;
use super::{Holder, Inspected, Model, Name, Names, ScriptAnswer};

impl Model {
    pub(super) fn inspect(&self, now: Duration, names: &Names) -> ScriptAnswer {
        ScriptAnswer::Inspected(names.iter().map(|name| self.inspect_one(now, name)).collect())
    }

    fn inspect_one(&self, now: Duration, name: &Name) -> Inspected {
        let (lock, share) = (self.locks.get(name), self.shares.get(name));
        let sharing = share.map(Share::holders).unwrap_or_default();
        let first = sharing.first().map(|attempt| Holder { attempt: attempt.clone(), token: None });
        Inspected {
            holder: lock.map(|lock| lock.holder.clone()).or(first),
            sharing,
            permits: share.and_then(Share::permits),
            pttl: lock.map(|lock| lock.expires).or(share.and_then(Share::ends_last)).map(|ends| ends - now),
            age: lock.and_then(|lock| lock.age(now)),
            waiting: self.queue.live(name, now),
            ..Inspected::default()
        }
    }
}
