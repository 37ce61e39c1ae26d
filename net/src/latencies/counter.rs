//! Counting without contention.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A number that only one thread at a time increases, and any thread may read.
#[derive(Debug, Default)]
pub struct Counter(pub(super) AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, number: u64) {
        self.set(self.get().wrapping_add(number));
    }

    #[inline]
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
