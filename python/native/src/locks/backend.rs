//! Where a client's locks are kept: by threads together, or by each event loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use pinyon_core::fork;
use pinyon_core::locks::client::{Client, Setup, Wish};
use pinyon_core::locks::new_client;
use pinyon_core::locks::station::{Note, Slot, Station};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use super::answers::answer;
use super::driver::{LocksDriver, Wait};
use super::grant::{GrantState, Registry};
use crate::errors::usage;
use crate::host::PythonHost;
use crate::loops::{Caller, LoopDriver, Loops};

/// Who keeps the locks of the thread or coroutine that asks.
pub(crate) enum Backend {
    Threads(Arc<Home>),
    Loop { driver: Py<LocksDriver>, loops: Arc<Loops<LocksDriver>> },
}

/// What the threads of a process share.
pub(crate) struct Home {
    server: Arc<str>,
    pub(crate) station: Station,
    pub(crate) registry: Registry,
    generation: u64,
    /// Whether a keeper looks after it.
    kept: AtomicBool,
}

impl Home {
    pub(crate) fn new(settings: &Setup) -> std::io::Result<Self> {
        let client: Client<Arc<Slot>> = Client::new(settings.clone(), new_client());
        Ok(Self {
            server: settings.server.clone(),
            station: Station::new(client)?,
            registry: Registry::default(),
            generation: fork::generation(),
            kept: AtomicBool::new(false),
        })
    }

    /// Lets `keep` start the keeper, unless there is one.
    pub(crate) fn keep_once(self: &Arc<Self>, keep: impl FnOnce(Arc<Self>) -> PyResult<()>) -> PyResult<()> {
        if self.kept.load(Ordering::Relaxed) || self.kept.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        keep(self.clone()).inspect_err(|_| self.kept.store(false, Ordering::Relaxed))
    }
}

impl Backend {
    /// Whether it is this process's, and not one's that it was forked from.
    pub(crate) fn is_here(&self) -> bool {
        match self {
            Backend::Threads(home) => home.generation == fork::generation(),
            Backend::Loop { driver, .. } => driver.get().event_loop().is_of_this_process(),
        }
    }

    /// The server, for messages.
    pub(super) fn server(&self) -> &str {
        match self {
            Backend::Threads(home) => &home.server,
            Backend::Loop { driver, .. } => driver.get().server(),
        }
    }

    /// The token of a lock that is held, and how long it is still believed in.
    pub(crate) fn held(&self, py: Python<'_>, number: u64) -> PyResult<Option<(u64, Duration)>> {
        if !self.is_here() {
            return Ok(None);
        }
        match self {
            Backend::Threads(home) => Ok(home.station.held(number)),
            Backend::Loop { driver, .. } => driver.get().held(py, number),
        }
    }

    /// The coroutine that has called: one of the loop that the locks are kept by.
    fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, LocksDriver>> {
        let Backend::Loop { driver, loops } = self else { unreachable!("threads do not call by a loop") };
        let caller = loops.caller(py)?;
        match caller.driver.is(driver) {
            true => Ok(caller),
            false => Err(usage(py, "UsageError", "this lock was taken in another event loop: use it there")),
        }
    }

    /// Carries out a wish about a lock, and returns what came of it, or what a coroutine waits for.
    pub(crate) fn run<'py>(
        &self,
        py: Python<'py>,
        wish: Wish,
        state: Option<&Arc<GrantState>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.is_here() {
            return self.run_inherited(py, &wish);
        }
        match self {
            Backend::Threads(home) => {
                let outcome = home.station.run(&PythonHost(py), wish)?;
                if let Some(state) = state {
                    home.registry.follow(&outcome, state);
                }
                answer(py, outcome, state).map(|value| value.into_bound(py))
            }
            Backend::Loop { driver, .. } => {
                let caller = self.caller(py)?;
                let waiter = caller.waiter()?;
                let (is_lock, is_park) = (matches!(wish, Wish::Lock(_)), matches!(wish, Wish::Park { .. }));
                let wait = Wait { waiter: waiter.clone_ref(py), state: state.cloned() };
                let begun = driver.get().event_loop().begin(py, |client, now| client.begin(wish, wait, now))?;
                if let (true, Some(state), Some(number)) = (is_lock, state, begun) {
                    state.begun(number);
                }
                let waited = caller.wait(waiter.clone_ref(py), false);
                if let Some(state) = state.filter(|_| (is_lock || is_park) && waiter.was_abandoned()) {
                    self.give_up(py, state);
                }
                waited
            }
        }
    }

    /// In a forked child, about a lock of the parent's: here it is not held, and so neither given back nor prolonged.
    fn run_inherited<'py>(&self, py: Python<'py>, wish: &Wish) -> PyResult<Bound<'py, PyAny>> {
        let unknown = match wish {
            Wish::Release { .. } => Wish::Release { number: u64::MAX },
            Wish::Extend { ttl, .. } => Wish::Extend { number: u64::MAX, ttl: *ttl },
            _ => {
                let message = "this lock belongs to the process that this one was forked from";
                return Err(usage(py, "LockLost", message));
            }
        };
        match self {
            Backend::Threads(_) => false.into_bound_py_any(py),
            Backend::Loop { loops, .. } => {
                let driver = loops.caller(py)?.driver.unbind();
                Backend::Loop { driver, loops: loops.clone() }.run(py, unknown, None)
            }
        }
    }

    /// Nobody wants it any more: it is given back without waiting for the answer.
    pub(crate) fn cancel(&self, py: Python<'_>, state: &Arc<GrantState>) -> PyResult<()> {
        if !self.is_here() {
            return Ok(());
        }
        match self {
            Backend::Threads(home) => {
                home.registry.remove(state);
                home.station.cancel(state.number());
                Ok(())
            }
            Backend::Loop { driver, .. } => {
                driver.get().registry().remove(state);
                driver.get().event_loop().begin(py, |client, now| client.cancel(state.number(), now))
            }
        }
    }

    /// Nobody has what would give this lock back any more.
    pub(super) fn forsake(&self, state: &GrantState) {
        if !self.is_here() {
            return;
        }
        match self {
            Backend::Threads(home) if home.registry.take(state) => {
                home.station.with(|client| client.forsake(state.number()));
            }
            Backend::Loop { driver, .. } if driver.get().registry().take(state) => driver.get().forsake(state.number()),
            _ => {}
        }
    }

    /// Whatever ended the wait is raised; that it could not be told to the server as well is not.
    fn give_up(&self, py: Python<'_>, state: &Arc<GrantState>) {
        if let Err(raised) = self.cancel(py, state) {
            raised.write_unraisable(py, None);
        }
    }
}

/// Does what nobody waits for: renewals, and telling of what is lost.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Keeper {
    pub(crate) home: Arc<Home>,
}

#[pymethods]
impl Keeper {
    /// Waits until there is something to do, or to look at signals, and does it. Returns whether to call again; `warn` is
    /// called with what whoever runs the program should know.
    fn keep(&self, py: Python<'_>, warn: &Bound<'_, PyAny>) -> PyResult<bool> {
        let home = &self.home;
        let Some(notes) = home.station.keep(&PythonHost(py))? else { return Ok(false) };
        for note in notes {
            match note {
                Note::Lost { number, loss } => home.registry.lose(py, number, loss),
                Note::Warning(text) => drop(warn.call1((text,))?),
            }
        }
        Ok(true)
    }

    /// Closes the client, which ends this.
    fn close(&self) {
        self.home.station.close();
    }
}
