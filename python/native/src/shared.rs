//! The memcached client's connections in one event loop, and how its operations begin and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_core::directory::Directory;
use pinyon_core::fleet::Fleet;
use pinyon_core::shared::{Finished, Shared};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::driver::{EventLoop, Machine};
use crate::events::Watcher;
use crate::loops::LoopDriver;
use crate::operations::{Gather, Op, Outcome, Single};
use crate::spare::Spare;

/// The connections of one event loop.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Driver {
    event_loop: EventLoop<Shared<Op>>,
    timeout: Duration,
}

/// What an event loop needs besides its connections.
pub(crate) struct Context {
    /// Requests that are over, cleared: the next ones are kept in their memory.
    spare: Spare<Box<Single>>,
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
    pub(crate) fn start(&self, py: Python<'_>, single: Single) -> PyResult<()> {
        let single = single.boxed(self.event_loop.context().spare.take());
        self.event_loop.begin(py, |shared, now| shared.start(Op::Single(single), now + self.timeout, now))
    }

    /// The fleet that is asked now.
    pub(crate) fn fleet(&self, py: Python<'_>) -> PyResult<Arc<Fleet>> {
        Ok(self.event_loop.lock(py)?.fleet(Instant::now()))
    }

    /// Begins the operations of one answer, which is given at once when there are none.
    pub(crate) fn start_all(&self, py: Python<'_>, operations: Vec<Op>, gather: &Gather) -> PyResult<()> {
        if gather.is_complete() {
            let (waiter, answer) = gather.answered(py);
            return waiter.resume(self.event_loop.waiting(), py, answer);
        }
        self.event_loop.begin(py, |shared, now| {
            operations.into_iter().for_each(|operation| shared.start(operation, now + self.timeout, now));
        })
    }
}

impl Machine for Shared<Op> {
    type Context = Context;

    fn settle(event_loop: &EventLoop<Self>, py: Python<'_>, finished: Vec<Finished<Op>>) -> PyResult<()> {
        for Finished { mut operation, error, deadline } in finished {
            let in_time = error.is_some() && Instant::now() < deadline;
            match operation.finish(py, error, in_time) {
                Outcome::Answered(waiter, answer) => event_loop.waiting().answer(waiter, answer),
                Outcome::Open => {}
                Outcome::GiveBack(single) => {
                    let now = Instant::now();
                    let deadline = now + event_loop.context().directory.options().timeout;
                    event_loop.lock(py)?.start(Op::Single(single), deadline, now);
                }
                Outcome::Ask(singles) => {
                    let (mut shared, now) = (event_loop.lock(py)?, Instant::now());
                    singles.into_iter().for_each(|single| shared.start(Op::Single(single.into()), deadline, now));
                }
                Outcome::Spread(everywhere) => {
                    let (mut shared, now) = (event_loop.lock(py)?, Instant::now());
                    let fleet = shared.fleet(now);
                    let operations = everywhere.spread(&fleet);
                    operations.into_iter().for_each(|operation| shared.start(operation, deadline, now));
                }
                Outcome::Again(singles, error) => {
                    let (mut shared, now) = (event_loop.lock(py)?, Instant::now());
                    let mut start =
                        |single: Single| shared.start_again(Op::Single(single.into()), deadline, now, &error);
                    if singles.into_iter().fold(false, |any, single| start(single) | any) {
                        event_loop.context().directory.known().retrying(&error, "get_many");
                    }
                }
            }
            if let Op::Single(mut single) = operation {
                single.clear();
                event_loop.context().spare.give(single);
            }
        }
        Ok(())
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
    type Machine = Shared<Op>;
    type Settings = Connections;

    fn new(host: &Bound<'_, PyAny>, Connections { directory, watcher, to_each }: &Connections) -> PyResult<Self> {
        let timeout = directory.options().timeout;
        let shared = Shared::new(directory.clone(), *to_each);
        let (directory, watcher, report) = (directory.clone(), watcher.clone(), host.getattr("report")?.unbind());
        let context = Context { spare: Spare::default(), directory, watcher, report };
        Ok(Self { event_loop: EventLoop::new(host, shared, context)?, timeout })
    }

    fn event_loop(&self) -> &EventLoop<Shared<Op>> {
        &self.event_loop
    }
}

#[pymethods]
impl Driver {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop.context().report)?;
        self.event_loop.traverse(&visit)
    }

    /// The turn that `end_turn` was called in is over.
    fn turn(&self, py: Python<'_>) -> PyResult<()> {
        self.event_loop.turn(py)
    }

    /// A watched descriptor is ready.
    fn ready(&self, py: Python<'_>, lane: usize) -> PyResult<()> {
        self.event_loop.ready(py, lane)
    }

    /// The time that `wake_in` was told has passed.
    fn woken(&self, py: Python<'_>) -> PyResult<()> {
        self.event_loop.woken(py)
    }

    /// The addresses of a name, as the texts of IP addresses; none, and why, when it could not be resolved.
    #[pyo3(signature = (lane, port, addresses, why = ""))]
    fn resolved(&self, py: Python<'_>, lane: usize, port: u16, addresses: Vec<String>, why: &str) -> PyResult<()> {
        self.event_loop.resolved(py, lane, port, addresses, why)
    }
}
