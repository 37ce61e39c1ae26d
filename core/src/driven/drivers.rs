//! Which driver a client uses in which event loop.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fork;

/// A client's drivers, `D`, one for each event loop, `L`, that it is used in.
///
/// While the list is locked, nothing of the host's runs but the closures that it passes. These must not come back here.
pub struct Drivers<L, D>(Mutex<Vec<LoopAndDriver<L, D>>>);

struct LoopAndDriver<L, D> {
    event_loop: L,
    driver: D,
    generation: u64,
}

impl<L, D> Drivers<L, D> {
    /// What `wanted` finds in a driver of this process.
    #[inline]
    pub fn find<T>(&self, mut wanted: impl FnMut(&L, &D) -> Option<T>) -> Option<T> {
        let generation = fork::generation();
        let drivers = self.lock();
        let mut of_this_process = drivers.iter().filter(|known| known.generation == generation);
        of_this_process.find_map(|known| wanted(&known.event_loop, &known.driver))
    }

    /// What `read` makes of each driver, those of a parent process included.
    pub fn all<T>(&self, mut read: impl FnMut(&L, &D) -> T) -> Vec<T> {
        self.lock().iter().map(|known| read(&known.event_loop, &known.driver)).collect()
    }

    /// Adds the driver of a loop, and takes out those whose loop is `gone`: over, or the same one with a driver that a
    /// forked child has inherited.
    pub fn add(&self, event_loop: L, driver: D, mut gone: impl FnMut(&L, &D) -> bool) -> Vec<D> {
        let mut drivers = self.lock();
        let known = std::mem::take(&mut *drivers).into_iter();
        let (taken, kept): (Vec<_>, Vec<_>) = known.partition(|known| gone(&known.event_loop, &known.driver));
        drivers.push(LoopAndDriver { event_loop, driver, generation: fork::generation() });
        drivers.extend(kept);
        drop(drivers);
        taken.into_iter().map(|known| known.driver).collect()
    }

    /// Takes all drivers out.
    pub fn take(&self) -> Vec<D> {
        let taken = std::mem::take(&mut *self.lock());
        taken.into_iter().map(|known| known.driver).collect()
    }

    /// As a forked child finds them.
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
