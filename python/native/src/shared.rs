//! The memcached client's connections in one event loop, and how its operations begin and end.

use std::sync::Arc;

use pinyon_core::directory::Directory;
use pinyon_core::shared::{Finished, Shared};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::awaited::{Awaited, LoopOperation, SpareMemory};
use crate::driver::{driver_methods, EventLoop, Machine};
use crate::events::Watcher;
use crate::loops::LoopDriver;

/// The operations of an event loop, and what waits for them.
pub(crate) type Operations = Shared<LoopOperation, Awaited>;

/// The connections of one event loop.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Driver {
    event_loop: EventLoop<Operations>,
}

/// What an event loop needs besides its connections.
pub(crate) struct Context {
    spare: SpareMemory,
    directory: Arc<Directory>,
    watcher: Arc<Watcher>,
    /// `report(callable, event)` of the driver in Python: call it with the event soon.
    report: Py<PyAny>,
}

/// How the connections of each event loop are made.
pub(crate) struct Connections {
    pub(crate) directory: Arc<Directory>,
    pub(crate) watcher: Arc<Watcher>,
    /// How many to each server.
    pub(crate) to_each: usize,
}

impl Driver {
    pub(crate) fn start(&self, py: Python<'_>, operation: LoopOperation, awaited: Awaited) -> PyResult<()> {
        self.event_loop.begin(py, |shared, now| shared.start(operation, awaited, now))
    }

    pub(crate) fn spare(&self) -> &SpareMemory {
        &self.event_loop.context().spare
    }
}

impl Machine for Operations {
    type Context = Context;

    fn settle(
        event_loop: &EventLoop<Self>,
        py: Python<'_>,
        finished: Vec<Finished<LoopOperation, Awaited>>,
    ) -> PyResult<()> {
        let spare = &event_loop.context().spare;
        let outcome = |Finished { operation, waiter: Awaited { waiter, becomes } }: Finished<_, _>| {
            let outcome = becomes.outcome(py, operation, spare).map(Bound::unbind).map_err(Box::new);
            (waiter, outcome)
        };
        match finished.len() {
            1 => finished
                .into_iter()
                .map(outcome)
                .for_each(|(waiter, answer)| event_loop.waiting().answer(waiter, answer)),
            _ => event_loop.waiting().answer_all(finished.into_iter().map(outcome).collect()),
        }
        Ok(())
    }

    fn traverse(context: &Context, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&context.report)
    }

    fn report(event_loop: &EventLoop<Self>, py: Python<'_>) -> PyResult<()> {
        let Context { directory, watcher, report, .. } = event_loop.context();
        match watcher.is_awaiting(directory) {
            true => watcher.tell_by(report.bind(py), directory),
            false => Ok(()),
        }
    }
}

impl LoopDriver for Driver {
    type Machine = Operations;
    type Settings = Connections;

    fn new(host: &Bound<'_, PyAny>, Connections { directory, watcher, to_each }: &Connections) -> PyResult<Self> {
        let shared = Shared::new(directory.clone(), *to_each);
        let (directory, watcher, report) = (directory.clone(), watcher.clone(), host.getattr("report")?.unbind());
        let context = Context { spare: SpareMemory::default(), directory, watcher, report };
        Ok(Self { event_loop: EventLoop::new(host, shared, context)? })
    }

    fn event_loop(&self) -> &EventLoop<Operations> {
        &self.event_loop
    }
}

driver_methods!(Driver);
