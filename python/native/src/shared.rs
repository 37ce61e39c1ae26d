//! The memcached client's connections in one event loop: how operations begin, and how their outcomes become Python
//! objects.

use std::sync::Arc;

use pinyon_core::directory::Directory;
use pinyon_core::operations::{AnyOperation, Operation, Request};
use pinyon_core::shared::{self, Finished, Shared};
use pinyon_core::spare::{Spare, Vacant};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::answers::{answered, deleted, failed, fetched, of_servers, stored};
use crate::driver::{driver, EventLoop, Machine};
use crate::events::Watcher;
use crate::runs::Runs;
use crate::supplied::{LoopOperation, LoopRequest};
use crate::waiter::Waiter;

/// The operations of an event loop and their waiters.
pub(crate) type Operations = Shared<LoopOperation, Awaited>;

driver! {
    /// The connections of one event loop.
    Driver of Operations
}

/// What an event loop needs besides its connections.
pub(crate) struct Context {
    spare: SpareMemory,
    directory: Arc<Directory>,
    watcher: Arc<Watcher>,
    /// `report(callable, event)` of the driver in Python. It calls the callable with the event soon.
    report: Py<PyAny>,
}

impl Driver {
    /// `host`: the driver in Python. `connections`: per server.
    pub(crate) fn new(
        host: &Bound<'_, PyAny>,
        directory: Arc<Directory>,
        watcher: Arc<Watcher>,
        connections: usize,
    ) -> PyResult<Self> {
        let shared = Shared::new(directory.clone(), connections);
        let report = host.getattr("report")?.unbind();
        let context = Context { spare: SpareMemory::default(), directory, watcher, report };
        Ok(Self(EventLoop::new(host, shared, context)?))
    }

    pub(crate) fn start(&self, py: Python<'_>, operation: LoopOperation, awaited: Awaited) -> PyResult<()> {
        self.0.begin(py, |shared, now| shared.start(operation, awaited, now))
    }

    pub(crate) fn spare(&self) -> &SpareMemory {
        &self.0.context().spare
    }
}

impl Machine for Operations {
    type Context = Context;

    fn settle(
        event_loop: &EventLoop<Self>,
        py: Python<'_>,
        finished: Vec<Finished<LoopOperation, Awaited>>,
    ) -> PyResult<()> {
        let (spare, answered) = (&event_loop.context().spare, event_loop.machine.answered());
        let outcome = |Finished { operation, waiter }: Finished<_, _>| match waiter {
            Awaited::Outcome { waiter, becomes } => {
                let outcome = becomes.outcome(py, operation, spare).map(Bound::unbind).map_err(Box::new);
                Some((waiter, outcome))
            }
            Awaited::Run(runs) => {
                answered.extend(runs.over(py, operation));
                None
            }
        };
        match finished.len() {
            1 => finished.into_iter().filter_map(outcome).for_each(|(waiter, answer)| answered.push(waiter, answer)),
            most => {
                let mut outcomes = Vec::with_capacity(most);
                outcomes.extend(finished.into_iter().filter_map(outcome));
                answered.extend(outcomes);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn waiter(finished: &Finished<LoopOperation, Awaited>) -> Option<&Waiter> {
        match &finished.waiter {
            Awaited::Outcome { waiter, .. } => Some(waiter),
            Awaited::Run(_) => None,
        }
    }

    fn method(finished: &Finished<LoopOperation, Awaited>) -> Option<String> {
        Some(format!("Client.{}", method_of(&finished.operation)))
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

/// The memory of finished requests, for reuse.
pub(crate) type SpareMemory = Spare<Vacant<LoopRequest>>;

/// The waiter for an operation.
pub(crate) enum Awaited {
    /// A coroutine, and how to convert the outcome for it.
    Outcome { waiter: Waiter, becomes: Becomes },
    /// The batch to which this run belongs.
    Run(Arc<Runs>),
}

/// How to convert an outcome to Python. Keys are as the caller gave them.
pub(crate) enum Becomes {
    Answer { default: Option<Py<PyAny>> },
    Values(Box<Wanted>),
    NotStored(Box<[Py<PyAny>]>),
    Count,
    OfServers,
}

/// The requested keys, and the dict for failed servers.
pub(crate) struct Wanted {
    pub(crate) keys: Vec<Py<PyAny>>,
    pub(crate) failed: Option<Py<PyDict>>,
}

impl shared::Waiter for Awaited {
    fn is_gone(&self) -> bool {
        match self {
            Awaited::Outcome { waiter, .. } => Python::attach(|py| waiter.is_done(py)),
            Awaited::Run(_) => false,
        }
    }
}

impl Becomes {
    /// The answer for a coroutine.
    pub(crate) fn outcome<'py>(
        &self,
        py: Python<'py>,
        operation: LoopOperation,
        spare: &SpareMemory,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self, operation) {
            (Becomes::Answer { default }, AnyOperation::Single(mut single)) => {
                let outcome = match single.take_answer() {
                    Ok(answer) => answered(py, answer, default.as_ref().map(|default| default.bind(py))),
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

/// The method that begins this operation.
fn method_of(operation: &LoopOperation) -> &'static str {
    let request = match operation {
        AnyOperation::Single(single) => single.request(),
        others => return others.name(),
    };
    match request {
        Request::Get { cas: false } => "get",
        Request::Get { cas: true } => "gets",
        Request::GetAndTouch { .. } => "gat",
        Request::GetWithTtl => "get_with_ttl",
        Request::Lease { .. } => "ask_lease",
        Request::GiveBack(_) => "give_back",
        _ => operation.name(),
    }
}
