//! Which locks each owner holds.

use std::collections::BTreeSet;

/// The owners of locks, each with the number of a lock.
#[derive(Default)]
pub(super) struct Holding(BTreeSet<(u64, u64)>);

impl Holding {
    pub(super) fn add(&mut self, owner: u64, number: u64) {
        self.0.insert((owner, number));
    }

    pub(super) fn remove(&mut self, owner: u64, number: u64) {
        self.0.remove(&(owner, number));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether an owner holds a lock.
    pub(super) fn has(&self, owner: u64) -> bool {
        self.of(owner).next().is_some()
    }

    /// The locks of an owner.
    pub(super) fn of(&self, owner: u64) -> impl Iterator<Item = u64> + '_ {
        // To see that nothing is held costs less than to search.
        let held = (!self.0.is_empty()).then(|| self.0.range((owner, 0)..=(owner, u64::MAX)));
        held.into_iter().flatten().map(|(_, number)| *number)
    }
}
