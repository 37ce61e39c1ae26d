//! A fiber that waits for an outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magnus::value::{Opaque, ReprValue};
use magnus::{gc, Ruby, Value};
use pinyon_net::driven::Doorbell;

use super::scheduler::current_fiber;

/// `O`: the outcome.
pub(crate) struct Call<O> {
    /// nil for a visitor.
    fiber: Opaque<Value>,
    /// What a visitor waits for: it does not belong to the scheduler whose connections it uses.
    bell: Option<Arc<Doorbell>>,
    outcome: Mutex<Option<O>>,
    pub(super) is_done: Flag,
    /// Whether something else ended its wait.
    pub(super) is_gone: Flag,
    /// Whether it waits for the descriptor, on behalf of all.
    pub(super) leads: Flag,
    /// Whether the scheduler has parked it.
    pub(super) is_parked: Flag,
    /// Whether the scheduler was told to let it continue, and has not done so yet.
    pub(super) is_woken: Flag,
}

impl<O> Call<O> {
    pub(super) fn of_this_fiber(ruby: &Ruby) -> Arc<Self> {
        Self::new(current_fiber(ruby), None)
    }

    pub(super) fn of_a_visitor(ruby: &Ruby, bell: Arc<Doorbell>) -> Arc<Self> {
        Self::new(ruby.qnil().as_value(), Some(bell))
    }

    fn new(fiber: Value, bell: Option<Arc<Doorbell>>) -> Arc<Self> {
        Arc::new(Self {
            fiber: fiber.into(),
            bell,
            outcome: Mutex::default(),
            is_done: Flag::default(),
            is_gone: Flag::default(),
            leads: Flag::default(),
            is_parked: Flag::default(),
            is_woken: Flag::default(),
        })
    }

    pub(super) fn is_a_visitors(&self) -> bool {
        self.bell.is_some()
    }

    pub(super) fn fiber(&self, ruby: &Ruby) -> Value {
        ruby.get_inner(self.fiber).as_value()
    }

    pub(super) fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.fiber);
    }

    /// Stores the outcome, if there is one.
    pub(super) fn finish(&self, outcome: Option<O>) {
        *self.lock() = outcome;
        self.is_done.set(true);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    pub(super) fn take(&self) -> Option<O> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<O>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only the holder of the VM lock reads or changes it.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }
}
