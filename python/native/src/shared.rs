//! The memcached client's connections in one event loop: how operations begin, and how their outcomes become Python
//! objects.

use std::sync::{Arc, Mutex, PoisonError};

use pinyon_cache::calls::Gives;
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{Answer as Answered, AnyOperation, Fetch, Found, Operation, SentKey};
use pinyon_cache::shared::{self, Finished, Shared};
use pinyon_cache::spare::{Spare, Vacant};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::answers::{changed, failed, fetched, leased, of_servers, read};
use crate::callers::Unseen;
use crate::driver::{driver, EventLoop, Machine};
use crate::events::Watcher;
use crate::reading::Reader;
use crate::runs::Runs;
use crate::stored::Stored;
use crate::supplied::{LoopOperation, LoopRequest, LoopValues};
use crate::waiter::{Answer, Unsettled, Waiter};

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
    report: Arc<Py<PyAny>>,
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
        let report = Arc::new(host.getattr("report")?.unbind());
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
        let answered = event_loop.machine.answered();
        let outcome = |Finished { operation, waiter }: Finished<_, _>| match waiter {
            Awaited::Outcome { waiter, becomes } => {
                Some((waiter, becomes.outcome(py, operation, event_loop.context())))
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
        visit.call(&*context.report)
    }

    fn report(event_loop: &EventLoop<Self>, py: Python<'_>) -> PyResult<()> {
        event_loop.context().tell(py)
    }
}

impl Context {
    /// Reports events.
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        match self.watcher.is_awaiting(&self.directory) {
            true => self.watcher.tell_by(self.report.bind(py), &self.directory),
            false => Ok(()),
        }
    }

    /// The answer to a request whose value its coroutine makes.
    #[cold]
    fn read_later(
        &self,
        py: Python<'_>,
        single: &LoopRequest,
        answer: Answered<Stored>,
        default: Option<Py<PyAny>>,
    ) -> Box<Unsettled> {
        let (key, codec, command) = (single.key().given(py).unbind(), single.values().0.clone(), single.name());
        let passes_over = single.request().passes_over_unreadable(single.policy());
        self.later(move |py, directory| {
            let reader = Reader { codec: &codec, directory, command, passes_over };
            let default = default.as_ref().map(|default| default.bind(py));
            read(py, answer, default, |stored| reader.read(stored, key.bind(py))).map(Bound::unbind)
        })
    }

    /// The answer to a request for a lease. If its value is to be made, its coroutine does so.
    #[cold]
    fn leased(&self, py: Python<'_>, single: &LoopRequest, found: Found<Stored>) -> Answer {
        let unseen = Unseen::new(&found, &self.directory, single.policy(), || single.key().owned());
        if !found.value.as_ref().is_some_and(Stored::is_rest) {
            let outcome = leased(py, found, unseen, Stored::into_made);
            return outcome.map(Bound::unbind).map_err(Unsettled::raised);
        }
        let (key, codec, command) = (single.key().given(py).unbind(), single.values().0.clone(), single.name());
        let passes_over = single.request().passes_over_unreadable(single.policy());
        Err(self.later(move |py, directory| {
            let reader = Reader { codec: &codec, directory, command, passes_over };
            leased(py, found, unseen, |stored| reader.read(stored, key.bind(py))).map(Bound::unbind)
        }))
    }

    /// The values of many keys. Its coroutine makes them, unless all are there.
    fn fetched(&self, py: Python<'_>, fetch: Fetch<LoopValues>, wanted: Wanted) -> Answer {
        let (codec, passes_over) = (fetch.values().0.clone(), fetch.policy().unreadable_is_miss);
        let values = fetch.finish();
        let remains = values.found.iter().any(|one| one.value.is_rest());
        let load = move |py: Python<'_>, directory: &Directory| {
            let reader = Reader { codec: &codec, directory, command: values.failures.name(), passes_over };
            let Wanted { keys, failed } = wanted;
            let failed = failed.as_ref().map(|failed| failed.bind(py));
            fetched(py, values, &keys, failed, &reader).map(Bound::unbind)
        };
        match remains {
            true => Err(self.later(load)),
            false => load(py, &self.directory).map_err(Unsettled::raised),
        }
    }

    /// Leaves the values of an operation to its coroutine, and events that this leads to.
    #[cold]
    fn later(
        &self,
        load: impl FnOnce(Python<'_>, &Directory) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Box<Unsettled> {
        let (directory, watcher, report) = (self.directory.clone(), self.watcher.clone(), self.report.clone());
        let loading = move |py: Python<'_>| {
            let loaded = load(py, &directory);
            if watcher.is_awaiting(&directory) {
                watcher.tell_by(report.bind(py), &directory)?;
            }
            loaded
        };
        Unsettled::Loading(Box::new(loading)).into()
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
    Answer {
        default: Option<Py<PyAny>>,
    },
    Values(Box<Wanted>),
    Changed(Gives, Box<[Py<PyAny>]>),
    OfServers,
    /// Nothing yet: it is one of several.
    Part(Part),
}

/// An operation that is over, and is one of several.
#[derive(Clone, Default)]
pub(crate) struct Part(Arc<Mutex<Option<LoopOperation>>>);

impl Part {
    pub(crate) fn take(&self) -> Option<LoopOperation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn give(&self, operation: LoopOperation) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
    }
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
    fn outcome(self, py: Python<'_>, operation: LoopOperation, context: &Context) -> Answer {
        let done = match (self, operation) {
            (Becomes::Answer { default }, AnyOperation::Single(mut single)) => {
                let outcome = match single.take_answer() {
                    Ok(Answered::Lease(found)) => return context.leased(py, &single, *found),
                    Ok(answer) if answer.value().is_some_and(Stored::is_rest) => {
                        return Err(context.read_later(py, &single, answer, default))
                    }
                    Ok(answer) => read(py, answer, default.as_ref().map(|default| default.bind(py)), Stored::into_made),
                    Err(why) => Err(failed(py, why)),
                };
                context.spare.give(single.vacate());
                outcome
            }
            (Becomes::Values(wanted), AnyOperation::Fetch(fetch)) => return context.fetched(py, *fetch, *wanted),
            (Becomes::Changed(gives, keys), AnyOperation::Change(change)) => changed(py, change.finish(), gives, &keys),
            (Becomes::OfServers, AnyOperation::Everywhere(everywhere)) => of_servers(py, *everywhere),
            (Becomes::Part(part), operation) => {
                part.give(operation);
                return Ok(py.None());
            }
            _ => unreachable!("each operation is begun with what becomes of it"),
        };
        done.map(Bound::unbind).map_err(Unsettled::raised)
    }
}

/// The call that begins this operation.
fn method_of(operation: &LoopOperation) -> &'static str {
    match operation {
        AnyOperation::Single(single) => single.request().call().name,
        others => others.name(),
    }
}
