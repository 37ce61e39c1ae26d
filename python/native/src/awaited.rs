//! What coroutines wait for of the client, and what comes of it in Python.

use pinyon_core::operations::{AnyOperation, Single};
use pinyon_core::shared;
use pinyon_core::spare::{Spare, Vacant};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::answers::{answered, deleted, failed, fetched, of_servers, stored};
use crate::encoded::Kept;
use crate::supplied::{KeptKey, LoopValues};
use crate::waiter::Waiter;

/// A request about one key, and any operation, in an event loop.
type LoopRequest = Single<KeptKey, Kept, LoopValues>;
pub(crate) type LoopOperation = AnyOperation<KeptKey, Kept, LoopValues>;

/// The memory of requests that are over, for the next ones.
pub(crate) type SpareMemory = Spare<Vacant<LoopRequest>>;

/// A coroutine that waits for an operation, and what the outcome becomes in Python.
pub(crate) struct Awaited {
    pub(crate) waiter: Waiter,
    pub(crate) becomes: Becomes,
}

/// What an outcome becomes in Python, with what belongs to it. Keys are as the caller gave them.
pub(crate) enum Becomes {
    Answer { default: Option<Py<PyAny>> },
    Values(Box<Wanted>),
    NotStored(Box<[Py<PyAny>]>),
    Count,
    OfServers,
}

/// The keys whose values are wanted, and where the servers that fail are noted.
pub(crate) struct Wanted {
    pub(crate) keys: Vec<Py<PyAny>>,
    pub(crate) failed: Option<Py<PyDict>>,
}

impl shared::Waiter for Awaited {
    fn is_gone(&self) -> bool {
        Python::attach(|py| self.waiter.is_done(py))
    }
}

impl Becomes {
    /// What a coroutine is resumed with.
    pub(crate) fn outcome<'py>(
        &self,
        py: Python<'py>,
        operation: LoopOperation,
        spare: &SpareMemory,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self, operation) {
            (Becomes::Answer { default }, AnyOperation::Single(mut single)) => {
                let outcome = match single.take_answer() {
                    Ok(answer) => answered(py, answer, default.as_ref().map(|default| default.bind(py).clone())),
                    Err(why) => Err(failed(py, why, &single.key().given(py))),
                };
                spare.give(single.vacate());
                outcome
            }
            (Becomes::Values(wanted), AnyOperation::Fetch(fetch)) => {
                let Wanted { keys, failed } = &**wanted;
                fetched(py, fetch.finish(), keys, failed.as_ref().map(|failed| failed.bind(py)))
            }
            (Becomes::NotStored(keys), AnyOperation::Change(change)) => stored(py, change.finish(), keys),
            (Becomes::Count, AnyOperation::Change(change)) => deleted(py, change.finish()),
            (Becomes::OfServers, AnyOperation::Everywhere(everywhere)) => of_servers(py, *everywhere),
            _ => unreachable!("each operation is begun with what becomes of it"),
        }
    }
}
