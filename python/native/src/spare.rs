//! Memory that serves again: with many operations in flight, allocating it anew costs more than all that is put there.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much is kept at most.
const MOST: usize = 256;

pub(crate) struct Spare<T>(Mutex<Vec<T>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Spare<T> {
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().pop()
    }

    pub(crate) fn give(&self, one: T) {
        let mut spare = self.lock();
        if spare.len() < MOST {
            spare.push(one);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
