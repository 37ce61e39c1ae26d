//! The driver of a client in each event loop.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fork;

/// A client's drivers (`D`), one for each event loop (`L`) that uses the client.
///
/// The list is locked while it calls the host's closures. They must not call this list again.
pub struct Drivers<L, D>(Mutex<Vec<LoopAndDriver<L, D>>>);

struct LoopAndDriver<L, D> {
    event_loop: L,
    driver: D,
    generation: u64,
}

impl<L, D> Drivers<L, D> {
    /// Returns what `wanted` finds in the drivers of this process.
    #[inline]
    pub fn find<T>(&self, mut wanted: impl FnMut(&L, &D) -> Option<T>) -> Option<T> {
        let generation = fork::generation();
        let drivers = self.lock();
        let mut of_this_process = drivers.iter().filter(|known| known.generation == generation);
        of_this_process.find_map(|known| wanted(&known.event_loop, &known.driver))
    }

    /// Returns what `read` makes of each driver, including those of a parent process.
    pub fn all<T>(&self, mut read: impl FnMut(&L, &D) -> T) -> Vec<T> {
        self.lock().iter().map(|known| read(&known.event_loop, &known.driver)).collect()
    }

    /// Adds the driver of a loop, and removes drivers that are `gone`: their loop has ended, or a forked child
    /// inherited them.
    pub fn add(&self, event_loop: L, driver: D, mut gone: impl FnMut(&L, &D) -> bool) -> Vec<D> {
        let mut drivers = self.lock();
        let known = std::mem::take(&mut *drivers).into_iter();
        let (taken, kept): (Vec<_>, Vec<_>) = known.partition(|known| gone(&known.event_loop, &known.driver));
        drivers.push(LoopAndDriver { event_loop, driver, generation: fork::generation() });
        drivers.extend(kept);
        drop(drivers);
        taken.into_iter().map(|known| known.driver).collect()
    }

    /// Removes all drivers.
    pub fn take(&self) -> Vec<D> {
        let taken = std::mem::take(&mut *self.lock());
        taken.into_iter().map(|known| known.driver).collect()
    }

    /// Marks all drivers as a forked child finds them.
    #[cfg(test)]
    pub(super) fn inherit(&self) {
        self.lock().iter_mut().for_each(|known| known.generation = known.generation.wrapping_sub(1));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoopAndDriver<L, D>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L, D> Default for Drivers<L, D> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
