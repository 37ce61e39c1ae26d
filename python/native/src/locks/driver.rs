//! The locks of one event loop.

use pinyon_core::locks::Setup;
use pinyon_core::locks::{Front, LockFinished};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::answers::answer;
use super::telling::{tell, Listener};
use crate::driver::{driver_methods, EventLoop, Machine};
use crate::loops::LoopDriver;
use crate::waiter::Waiter;

/// The locks of one event loop, on a connection of its own.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct LocksDriver {
    event_loop: EventLoop<Front<Wait, Listener>>,
}

/// How the locks of each event loop are kept.
pub(crate) struct Connection {
    pub(super) settings: Setup,
    /// `warn(text)`: what whoever runs the program should know.
    pub(super) warn: Py<PyAny>,
}

/// A coroutine that waits for something about locks.
pub(crate) struct Wait {
    pub(super) waiter: Waiter,
    /// Those that it asks about.
    pub(super) names: Option<Py<PyTuple>>,
}

impl Machine for Front<Wait, Listener> {
    /// `warn(text)`
    type Context = Py<PyAny>;

    fn traverse(warn: &Py<PyAny>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(warn)
    }

    fn settle(
        event_loop: &EventLoop<Self>,
        py: Python<'_>,
        finished: Vec<LockFinished<Wait, Listener>>,
    ) -> PyResult<()> {
        for finished in finished {
            match finished {
                LockFinished::Done { waiter: Wait { waiter, names }, outcome, unheard } => {
                    drop(unheard);
                    let names = names.as_ref().map(|names| names.bind(py));
                    let answer = answer(py, outcome, names).map_err(Box::new);
                    event_loop.waiting().answer(waiter, answer);
                }
                LockFinished::Note(note) => tell(py, note, event_loop.context().bind(py))?,
            }
        }
        Ok(())
    }
}

impl LoopDriver for LocksDriver {
    type Machine = Front<Wait, Listener>;
    type Settings = Connection;

    fn new(host: &Bound<'_, PyAny>, Connection { settings, warn }: &Connection) -> PyResult<Self> {
        let front = Front::new(settings.clone());
        Ok(Self { event_loop: EventLoop::new(host, front, warn.clone_ref(host.py()))? })
    }

    fn event_loop(&self) -> &EventLoop<Self::Machine> {
        &self.event_loop
    }
}

driver_methods!(LocksDriver);
