//! The progress of a migration.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a migrating client and its views found keys, and what happened to the keys in the old pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Keys in the new pool.
    pub new: u64,
    /// Keys in the old pool only.
    pub old: u64,
    /// Of those, keys that this client has moved.
    pub moved: u64,
    /// Of those, keys that it could not move because the new client or its server refuses such values.
    pub refused: u64,
    /// Keys in neither pool.
    pub missing: u64,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub(super) new: Count,
    pub(super) old: Count,
    pub(super) moved: Count,
    pub(super) refused: Count,
    pub(super) missing: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn one(&self) {
        self.add(1);
    }

    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub fn progress(&self) -> Progress {
        let [new, old, moved, refused, missing] =
            [&self.new, &self.old, &self.moved, &self.refused, &self.missing].map(Count::get);
        Progress { new, old, moved, refused, missing }
    }

    /// Adds the keys that an operation on many keys found in the new pool or in neither, or left in the old pool.
    pub(super) fn add(&self, found: Progress) {
        self.new.add(found.new);
        self.old.add(found.old);
        self.missing.add(found.missing);
    }
}
