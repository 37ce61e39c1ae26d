//! The locks of one event loop.

use std::sync::Arc;
use std::time::Duration;

use pinyon_core::locks::client::{Client, Finished, Setup};
use pinyon_core::locks::new_client;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::answers::answer;
use super::grant::{GrantState, Registry};
use crate::driver::{EventLoop, Machine};
use crate::loops::LoopDriver;
use crate::waiter::Waiter;

/// The locks of one event loop, on a connection of its own.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct LocksDriver {
    event_loop: EventLoop<Client<Wait>>,
}

/// How the locks of each event loop are kept.
pub(crate) struct Connection {
    pub(crate) settings: Setup,
    /// `warn(text)`: what whoever runs the program should know.
    pub(crate) warn: Py<PyAny>,
}

/// Who is told what nobody waits for.
pub(crate) struct Told {
    pub(crate) registry: Registry,
    server: Arc<str>,
    warn: Py<PyAny>,
}

/// A coroutine that waits for something about locks.
pub(crate) struct Wait {
    pub(crate) waiter: Waiter,
    pub(crate) state: Option<Arc<GrantState>>,
}

impl LocksDriver {
    pub(crate) fn registry(&self) -> &Registry {
        &self.event_loop.context().registry
    }

    pub(super) fn server(&self) -> &str {
        &self.event_loop.context().server
    }

    /// The token of a lock that is held, and how long it is still believed in.
    pub(crate) fn held(&self, py: Python<'_>, number: u64) -> PyResult<Option<(u64, Duration)>> {
        Ok(self.event_loop.lock(py)?.held(number))
    }

    /// Nobody is left who could give this lock back.
    pub(crate) fn forsake(&self, number: u64) {
        Python::attach(|py| {
            if let Ok(mut client) = self.event_loop.lock(py) {
                client.forsake(number);
            }
        });
    }
}

impl Machine for Client<Wait> {
    type Context = Told;

    fn settle(event_loop: &EventLoop<Self>, py: Python<'_>, finished: Vec<Finished<Wait>>) -> PyResult<()> {
        let Told { registry, warn, .. } = event_loop.context();
        for finished in finished {
            match finished {
                Finished::Done { waiter: Wait { waiter, state }, outcome } => {
                    if let Some(state) = &state {
                        registry.follow(&outcome, state);
                    }
                    let answer = answer(py, outcome, state.as_ref()).map_err(Box::new);
                    event_loop.waiting().answer(waiter, answer);
                }
                Finished::Lost { number, loss } => registry.lose(py, number, loss),
                Finished::Warning(text) => drop(warn.call1(py, (text,))?),
            }
        }
        Ok(())
    }
}

impl LoopDriver for LocksDriver {
    type Machine = Client<Wait>;
    type Settings = Connection;

    fn new(host: &Bound<'_, PyAny>, Connection { settings, warn }: &Connection) -> PyResult<Self> {
        let (registry, server) = (Registry::default(), settings.server.clone());
        let told = Told { registry, server, warn: warn.clone_ref(host.py()) };
        let client = Client::new(settings.clone(), new_client());
        Ok(Self { event_loop: EventLoop::new(host, client, told)? })
    }

    fn event_loop(&self) -> &EventLoop<Client<Wait>> {
        &self.event_loop
    }
}

#[pymethods]
impl LocksDriver {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop.context().warn)?;
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
