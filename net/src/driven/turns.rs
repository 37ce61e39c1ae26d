//! The bookkeeping of an event loop: turns, the alarm, and outcomes that wait to be handed out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The loop's turns, one at a time. What is submitted during a turn is sent once, at its end.
#[derive(Default)]
pub(super) struct Turns {
    /// The thread that runs a turn; 0 for none.
    running_in: AtomicUsize,
    is_due: AtomicBool,
}

/// A turn that runs until this is dropped. A nested turn then returns to the outer one.
pub(super) struct Running<'t> {
    turns: &'t Turns,
    outer: usize,
}

impl Turns {
    pub(super) fn begin(&self) -> Running<'_> {
        Running { turns: self, outer: self.running_in.swap(this_thread(), Ordering::Relaxed) }
    }

    /// Whether the calling thread runs a turn.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.running_in.load(Ordering::Relaxed) == this_thread()
    }

    /// Notes that there is something to send. Returns whether the host must end the turn; a turn that runs here ends
    /// itself.
    pub(super) fn is_left_to_host(&self) -> bool {
        let is_here = self.is_here();
        if is_here {
            self.is_due.store(true, Ordering::Relaxed);
        }
        !is_here
    }

    /// Whether the turn that has run has something to send.
    pub(super) fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.turns.running_in.store(self.outer, Ordering::Relaxed);
    }
}

/// A number from 1 on that no other thread of the process ever has: a thread may end inside a turn.
#[inline]
pub(super) fn this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(1);
    thread_local!(static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// The time for which the host has set its alarm.
#[derive(Default)]
pub(super) struct Alarm(Mutex<Option<Instant>>);

impl Alarm {
    /// Sets the alarm. Returns whether to tell the host: its alarm is not set, or is later.
    pub(super) fn set(&self, due: Instant) -> bool {
        let mut alarm = self.lock();
        let is_news = alarm.is_none_or(|alarm| alarm > due);
        if is_news {
            *alarm = Some(due);
        }
        is_news
    }

    /// Clears the alarm: it went off, or the host could not set it.
    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcomes to give to their waiters, in order of arrival.
pub struct Answered<W, O>(Mutex<VecDeque<(W, O)>>);

impl<W, O> Answered<W, O> {
    /// Adds a waiter and its outcome.
    #[inline]
    pub fn push(&self, waiter: W, outcome: O) {
        self.lock().push_back((waiter, outcome));
    }

    /// Adds waiters and their outcomes.
    pub fn extend(&self, answered: impl IntoIterator<Item = (W, O)>) {
        self.lock().extend(answered);
    }

    /// Takes the waiter to resume next, with its outcome.
    #[inline]
    pub fn next(&self) -> Option<(W, O)> {
        self.lock().pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(W, O)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W, O> Default for Answered<W, O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
