//! The machine of an event loop, lent to one caller at a time.
//!
//! The thread of the loop has it most of the time. Another thread may close the client, or drop a lock, and waits for the
//! loop's thread then. A thread that has the machine already cannot wait for itself: it gets [`InUse`]. Languages without
//! a global lock need this, and so do threads that give up the global lock while they have the machine.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::turns::this_thread;
use crate::fork;

/// The caller's thread has the machine already, or it is lost: a thread of the parent process had it during the fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

pub(super) struct LentMachine<M> {
    machine: Mutex<M>,
    /// The thread that has it; 0 for none.
    borrower: AtomicUsize,
    generation: u64,
}

/// The machine, until this is dropped.
pub struct Lent<'m, M> {
    borrower: &'m AtomicUsize,
    machine: MutexGuard<'m, M>,
}

impl<M> LentMachine<M> {
    pub(super) fn new(machine: M) -> Self {
        Self { machine: Mutex::new(machine), borrower: AtomicUsize::new(0), generation: fork::generation() }
    }

    /// Lends the machine. `unlocked`: calls its argument, which sleeps until another thread gives the machine back.
    pub(super) fn lend(&self, unlocked: impl Fn(&(dyn Fn() + Sync))) -> Result<Lent<'_, M>, InUse>
    where
        M: Send,
    {
        loop {
            let machine = match self.machine.try_lock() {
                Ok(machine) => machine,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if self.is_lost() => return Err(InUse),
                Err(TryLockError::WouldBlock) => {
                    unlocked(&|| drop(self.machine.lock()));
                    continue;
                }
            };
            self.borrower.store(this_thread(), Ordering::Relaxed);
            return Ok(Lent { borrower: &self.borrower, machine });
        }
    }

    /// Whether to wait for it would have no end.
    #[cold]
    fn is_lost(&self) -> bool {
        self.borrower.load(Ordering::Relaxed) == this_thread() || !self.is_of_this_process()
    }

    #[inline]
    pub(super) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// The state in which a forked child finds it.
    #[cfg(test)]
    pub(super) fn inherited(self) -> Self {
        Self { generation: self.generation.wrapping_sub(1), ..self }
    }
}

impl<M> Deref for Lent<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> DerefMut for Lent<'_, M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}

impl<M> Drop for Lent<'_, M> {
    fn drop(&mut self) {
        // Before the mutex is unlocked: afterwards, the number is that of the next thread.
        self.borrower.store(0, Ordering::Relaxed);
    }
}
