//! Where a coroutine that switches to others while it waits finds its outcome, for greenlets and fibers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Holds the outcome (`O`) that a coroutine (`C`) waits for.
pub struct Slot<C, O>(Mutex<Waiting<C, O>>);

struct Waiting<C, O> {
    /// The coroutine that waits.
    coroutine: Option<C>,
    outcome: Option<O>,
    /// Whether the coroutine has taken the outcome, while others refer to the slot.
    taken: bool,
    abandoned: bool,
}

impl<C, O> Slot<C, O> {
    /// Stores the outcome. Returns the coroutine that waits for it, if any.
    pub fn finish(&self, outcome: O) -> Option<C> {
        let mut waiting = self.lock();
        if waiting.is_done() {
            return None;
        }
        waiting.outcome = Some(outcome);
        waiting.coroutine.take()
    }

    /// Registers a coroutine that is about to wait. Returns whether it has to.
    #[inline(never)] // what is called before a switch has a frame of its own: the stack below it may be copied
    pub fn begin(&self, coroutine: impl FnOnce() -> C) -> bool {
        let mut waiting = self.lock();
        let open = waiting.outcome.is_none();
        if open {
            waiting.coroutine = Some(coroutine());
        }
        open
    }

    /// Ends the wait of the coroutine, for whatever reason.
    #[inline(never)]
    pub fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.coroutine = None;
    }

    /// Whether no outcome is awaited any more.
    pub fn is_done(&self) -> bool {
        self.lock().is_done()
    }

    pub fn was_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    /// Takes the outcome of a slot that others may refer to. Without an outcome, something else resumed the coroutine, and
    /// its wait ends.
    #[inline(never)]
    pub fn take_shared(&self) -> Option<O> {
        let mut waiting = self.lock();
        let outcome = waiting.outcome.take();
        waiting.taken |= outcome.is_some();
        waiting.abandoned |= !waiting.taken;
        outcome
    }

    /// Takes the outcome. Afterwards the slot can be used again.
    pub fn take(&mut self) -> Option<O> {
        std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner)).outcome
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<C, O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C, O> Waiting<C, O> {
    fn is_done(&self) -> bool {
        self.abandoned || self.taken || self.outcome.is_some()
    }
}

impl<C, O> Default for Slot<C, O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C, O> Default for Waiting<C, O> {
    fn default() -> Self {
        Self { coroutine: None, outcome: None, taken: false, abandoned: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coroutine_that_waits_is_handed_out_once_with_its_outcome() {
        let mut slot = Slot::<&str, u8>::default();
        assert!(slot.begin(|| "waits") && !slot.is_done());
        assert_eq!(slot.finish(1), Some("waits"));
        assert_eq!(slot.finish(2), None, "an outcome stays as it is");
        assert!(slot.is_done() && !slot.was_abandoned());
        assert_eq!(slot.take(), Some(1));
        assert!(slot.begin(|| "another"), "it serves again");
    }

    #[test]
    fn an_outcome_that_is_there_is_not_waited_for() {
        let slot = Slot::<&str, u8>::default();
        assert_eq!(slot.finish(1), None, "nobody waits yet");
        assert!(!slot.begin(|| unreachable!("it need not wait")));
    }

    #[test]
    fn a_slot_that_was_abandoned_resumes_nobody() {
        let slot = Slot::<&str, u8>::default();
        assert!(slot.begin(|| "waits"));
        slot.abandon();
        assert!(slot.is_done() && slot.was_abandoned());
        assert_eq!(slot.finish(1), None);
        assert_eq!(slot.take_shared(), None, "what comes late is dropped");
    }

    #[test]
    fn the_outcome_is_taken_from_a_shared_slot_once() {
        let slot = Slot::<&str, u8>::default();
        assert_eq!(slot.take_shared(), None, "it was too early");
        assert!(slot.was_abandoned());
        let slot = Slot::<&str, u8>::default();
        slot.finish(1);
        assert_eq!((slot.take_shared(), slot.finish(2), slot.take_shared()), (Some(1), None, None));
        assert!(slot.is_done() && !slot.was_abandoned(), "it has what it waited for");
    }
}
