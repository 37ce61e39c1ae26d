//! Which of the threads that wait together receives for all of them.
//!
//! One thread leads: it alone receives. The others follow: each sleeps until the leader has its outcome, until the lead passes
//! to it, or until its host calls it. Whoever stops leading wakes the first that follows, so somebody receives as long as
//! anybody waits. All of this happens under one mutex, which the leader unlocks while it waits for bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_net::doorbell::Wake;
use pinyon_net::sync::atomic::{AtomicBool, Ordering};
use pinyon_net::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The threads that wait together.
pub(crate) struct Lead<O> {
    /// Whether a thread receives for all.
    is_taken: bool,
    /// The sleeping threads.
    following: Vec<Arc<Slot<O>>>,
    /// A slot for the next thread that waits.
    spare: Option<Arc<Slot<O>>>,
}

/// Where a thread finds its outcome.
pub(crate) struct Slot<O> {
    done: Mutex<Option<O>>,
    /// Whether its thread sleeps and must be woken.
    sleeps: AtomicBool,
    /// Whether its thread is to stop waiting, because the host has something else for it.
    called: AtomicBool,
    wake: Condvar,
}

/// How far a thread has come.
pub(crate) enum Progress<O, E> {
    Done(O),
    Interrupted,
    /// Another thread receives, and has for a while.
    Sleepy,
    /// The host must do this first.
    Errand(E),
}

impl<O> Default for Lead<O> {
    fn default() -> Self {
        Self { is_taken: false, following: Vec::new(), spare: None }
    }
}

impl<O> Lead<O> {
    pub fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// A slot for a thread that begins to wait.
    pub fn slot(&mut self) -> Arc<Slot<O>> {
        self.spare.take().unwrap_or_else(Slot::new)
    }

    /// Takes the outcome of a thread, if it is there. Its slot serves the next one.
    fn outcome(&mut self, slot: &Arc<Slot<O>>) -> Option<O> {
        let done = slot.done().take()?;
        self.spare = Some(slot.clone());
        Some(done)
    }

    /// Wakes the first thread that follows, which takes the lead. False: nobody follows.
    fn pass(&self) -> bool {
        self.following.first().inspect(|next| next.wake.notify_one()).is_some()
    }
}

impl<O> Slot<O> {
    fn new() -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), sleeps: false.into(), called: false.into(), wake: Condvar::new() })
    }

    /// Gives a thread its outcome. The caller has the mutex that the threads share.
    pub fn give(&self, done: O) {
        *self.done() = Some(done);
        if self.sleeps.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    fn done(&self) -> MutexGuard<'_, Option<O>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads share while they wait together.
pub(crate) trait Led {
    /// What the mutex guards.
    type Shared;
    type Outcome;
    type Errand;

    fn shared(&self) -> &Mutex<Self::Shared>;

    fn lead(shared: &mut Self::Shared) -> &mut Lead<Self::Outcome>;

    /// What a host must do before its thread may wait.
    fn errand(shared: &mut Self::Shared) -> Option<Self::Errand>;

    /// Waits once, with the mutex unlocked, and gives out what has arrived. Also returns when that was.
    fn wait<'s>(
        &'s self,
        shared: MutexGuard<'s, Self::Shared>,
        now: Instant,
    ) -> (MutexGuard<'s, Self::Shared>, Wake, Instant);

    /// No thread is left to lead.
    fn left_alone(&self, shared: &mut Self::Shared);

    fn lock(&self) -> MutexGuard<'_, Self::Shared> {
        self.shared().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues until the slot has its outcome, or the host must do something. Sleeps for `longest` at most while
    /// another thread receives.
    fn step<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Self::Shared>,
        slot: &Arc<Slot<Self::Outcome>>,
        mut now: Instant,
        longest: Duration,
    ) -> Progress<Self::Outcome, Self::Errand> {
        loop {
            if let Some(done) = Self::lead(&mut shared).outcome(slot) {
                self.promote_if_free(&mut shared);
                return Progress::Done(done);
            }
            if let Some(errand) = Self::errand(&mut shared) {
                return Progress::Errand(errand);
            }
            if Self::lead(&mut shared).is_taken {
                let is_sleepy;
                (shared, is_sleepy) = self.follow(shared, slot, longest);
                if is_sleepy {
                    // The lead may have been passed to this thread.
                    self.promote_if_free(&mut shared);
                    return Progress::Sleepy;
                }
                now = Instant::now();
                continue;
            }
            let wake;
            (shared, wake, now) = self.receive(shared, now);
            let done = Self::lead(&mut shared).outcome(slot);
            if done.is_none() && wake == Wake::Ready {
                continue;
            }
            self.promote(&mut shared);
            return done.map_or(Progress::Interrupted, Progress::Done);
        }
    }

    /// Sleeps while another thread leads. Returns whether this thread was called, or has slept for `longest`, without an
    /// outcome.
    fn follow<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Self::Shared>,
        slot: &Arc<Slot<Self::Outcome>>,
        longest: Duration,
    ) -> (MutexGuard<'s, Self::Shared>, bool) {
        if slot.called.swap(false, Ordering::Relaxed) {
            return (shared, true); // it was called before it slept
        }
        Self::lead(&mut shared).following.push(slot.clone());
        slot.sleeps.store(true, Ordering::Relaxed);
        let (mut shared, sleep) = slot.wake.wait_timeout(shared, longest).unwrap_or_else(PoisonError::into_inner);
        slot.sleeps.store(false, Ordering::Relaxed);
        Self::lead(&mut shared).following.retain(|following| !Arc::ptr_eq(following, slot));
        let is_called = slot.called.swap(false, Ordering::Relaxed);
        let is_sleepy = (is_called || sleep.timed_out()) && slot.done().is_none();
        (shared, is_sleepy)
    }

    /// Leads once.
    fn receive<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Self::Shared>,
        now: Instant,
    ) -> (MutexGuard<'s, Self::Shared>, Wake, Instant) {
        Self::lead(&mut shared).is_taken = true;
        let (mut shared, wake, now) = self.wait(shared, now);
        Self::lead(&mut shared).is_taken = false;
        (shared, wake, now)
    }

    /// Ends the sleep of the slot's thread, from another one.
    fn call(&self, slot: &Slot<Self::Outcome>) {
        // With the lock, so that the thread is not between looking and sleeping.
        let _shared = self.lock();
        slot.called.store(true, Ordering::Relaxed);
        slot.wake.notify_one();
    }

    /// Passes the lead to a waiting thread.
    fn promote(&self, shared: &mut Self::Shared) {
        if !Self::lead(shared).pass() {
            self.left_alone(shared);
        }
    }

    fn promote_if_free(&self, shared: &mut Self::Shared) {
        if !Self::lead(shared).is_taken {
            self.promote(shared);
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "interleavings")]
    mod interleavings;
}
