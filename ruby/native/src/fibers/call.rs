//! A fiber that waits for an operation, or for a quiet batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magnus::value::{Opaque, ReprValue};
use magnus::{gc, Ruby, Value};
use pinyon_core::operations::Unsuccessful;
use pinyon_core::shared::Waiter;

use super::batch::SharedBatch;
use super::scheduler::current_fiber;
use super::{Key, Operation};

/// What a fiber waited for.
pub(super) enum Outcome {
    Operation(Operation),
    /// A batch has room for more commands.
    Room,
    /// A batch is over. These commands were not carried out.
    Left(Vec<Unsuccessful<Key>>),
    /// Nothing is under way any more.
    Idle,
}

pub(super) struct Call {
    fiber: Opaque<Value>,
    outcome: Mutex<Option<Outcome>>,
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

impl Call {
    pub(super) fn of_this_fiber(ruby: &Ruby) -> Arc<Self> {
        Arc::new(Self {
            fiber: current_fiber(ruby).into(),
            outcome: Mutex::default(),
            is_done: Flag::default(),
            is_gone: Flag::default(),
            leads: Flag::default(),
            is_parked: Flag::default(),
            is_woken: Flag::default(),
        })
    }

    pub(super) fn fiber(&self, ruby: &Ruby) -> Value {
        ruby.get_inner(self.fiber).as_value()
    }

    pub(super) fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.fiber);
    }

    /// Stores the outcome.
    pub(super) fn finish(&self, outcome: Outcome) {
        *self.lock() = Some(outcome);
        self.is_done.set(true);
    }

    pub(super) fn take(&self) -> Option<Outcome> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
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

/// Who waits for an operation of the machine.
pub(super) enum Awaiting {
    Call(Arc<Call>),
    Batch(SharedBatch),
    /// A lease is given back.
    Nobody,
}

impl Waiter for Awaiting {
    fn is_gone(&self) -> bool {
        match self {
            Self::Call(call) => call.is_gone.get(),
            Self::Batch(_) | Self::Nobody => false,
        }
    }
}
