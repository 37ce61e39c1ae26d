//! `pinyon.Locks`: what Python sees of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pinyon_core::fork::PerProcess;
use pinyon_core::locks::call::{Call, Names};
use pinyon_core::locks::client::{Setup, Wish};
use pinyon_core::locks::keys;
use pinyon_core::settings::{lock_ttl, LockParts, LockSettings, UsualLock};
use pinyon_proto::resp::Command;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use super::backend::{Backend, Home, Keeper};
use super::driver::{Connection, LocksDriver};
use crate::errors::usage;
use crate::keys::{key_bytes, text_bytes};
use crate::loops::{LoopDriver, Loops};
use crate::settings::{changed, checked};

/// Locks on one Redis or Valkey server. `pinyon.Locks` documents its arguments.
#[pyclass(frozen, subclass, name = "Locks", module = "pinyon._native")]
pub(crate) struct Locks {
    setup: Setup,
    pub(super) usual: UsualLock,
    names_have_tags: bool,
    homes: PerProcess<OnceLock<Arc<Home>>>,
    loops: OnceLock<Arc<Loops<LocksDriver>>>,
    warn: Py<PyAny>,
    /// Starts a thread that does what nobody waits for.
    keep: Py<PyAny>,
    closed: AtomicBool,
}

#[pymethods]
impl Locks {
    /// `hash_tag`: that of the names, where they have their own. `settings`: those of the core.
    #[new]
    #[pyo3(signature = (*, warn, keep, hash_tag = None, loops = None, **settings))]
    fn new(
        py: Python<'_>,
        warn: Py<PyAny>,
        keep: Py<PyAny>,
        hash_tag: Option<&[u8]>,
        loops: Option<(Py<PyAny>, Bound<'_, PyAny>)>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let settings = changed(LockSettings::default(), settings)?;
        let LockParts { setup, usual, names_have_tags } = checked(py, py.detach(|| settings.build(hash_tag)))?;
        let (homes, loops_of, closed) = (PerProcess::new(OnceLock::new()), OnceLock::new(), AtomicBool::new(false));
        let locks = Self { setup, usual, names_have_tags, homes, loops: loops_of, warn, keep, closed };
        if let Some((current, make)) = loops {
            locks.share(current, make)?;
        }
        Ok(locks)
    }

    /// From now on its methods return what a coroutine waits for, instead of waiting themselves.
    fn share(&self, current: Py<PyAny>, make: Bound<'_, PyAny>) -> PyResult<()> {
        let connection = Connection { settings: self.setup.clone(), warn: self.warn.clone_ref(make.py()) };
        let _ = self.loops.set(Arc::new(Loops::new(current, make, connection)?));
        Ok(())
    }

    /// The hash tag that these names have of their own, if they have one.
    fn tag_of<'py>(&self, py: Python<'py>, names: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let texts = names.as_slice().iter().map(name_bytes).collect::<PyResult<Vec<&[u8]>>>()?;
        let tag = keys::common_tag(&texts).map_err(|error| usage(py, "InvalidName", &error.to_string()))?;
        Ok(tag.map(|tag| PyBytes::new(py, tag)))
    }

    /// Of each name: who holds it, the token, how long it lasts, and who waits.
    fn inspect<'py>(&self, py: Python<'py>, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, Call::Inspect { names: lock_names(names)? })
    }

    /// Takes the names from whoever holds them. Returns how many were held.
    fn take_away<'py>(
        &self,
        py: Python<'py>,
        names: &Bound<'py, PyTuple>,
        token: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, Call::ForceRelease { names: lock_names(names)?, token })
    }

    /// Sends a command on the same connection, and returns what the server answers.
    fn command<'py>(&self, py: Python<'py>, parts: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let mut command = Command::default();
        for part in parts {
            push_part(&mut command, &part)?;
        }
        let deadline = Instant::now() + self.setup.options.patience;
        self.backend(py)?.run(py, Wish::Execute { command, deadline }, None)
    }

    /// What all keys of the namespace begin with.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.setup.keys.prefix())
    }

    #[getter]
    fn server(&self) -> &str {
        &self.setup.server
    }

    /// The names' own hash tags choose the node of a cluster, not the namespace.
    #[getter]
    fn names_have_tags(&self) -> bool {
        self.names_have_tags
    }

    #[getter]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Fails what waits, and closes the connections. What is held is not held any more here; on the server it ends with
    /// its ttl.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        if let Some(home) = self.known_home() {
            home.station.close();
        }
        let Some(loops) = self.loops.get() else { return Ok(()) };
        loops.drivers(py).into_iter().try_for_each(|driver| driver.get().event_loop().shut(py))
    }
}

impl Locks {
    fn ask<'py>(&self, py: Python<'py>, call: Call) -> PyResult<Bound<'py, PyAny>> {
        self.backend(py)?.run(py, Wish::Ask(call), None)
    }

    pub(super) fn backend(&self, py: Python<'_>) -> PyResult<Backend> {
        if self.is_closed() {
            return Err(usage(py, "Closed", "the locks' client was closed; make another"));
        }
        match self.loops.get() {
            Some(loops) => Ok(Backend::Loop { driver: loops.caller(py)?.driver.unbind(), loops: loops.clone() }),
            None => self.home(py).map(Backend::Threads),
        }
    }

    /// This process's; a forked child begins without the parent's locks and connection.
    fn home(&self, py: Python<'_>) -> PyResult<Arc<Home>> {
        let home = self.homes.get(|parents| {
            if let Some(home) = parents.get() {
                home.station.abandon();
            }
            OnceLock::new()
        });
        let home = match home.get() {
            Some(home) => home.clone(),
            None => {
                let made = Home::new(&self.setup).map_err(|error| {
                    usage(py, "ConnectError", &format!("no pipe could be made for this process's threads: {error}"))
                })?;
                home.get_or_init(|| Arc::new(made)).clone()
            }
        };
        home.keep_once(|home| self.keep.call1(py, (Keeper { home }, &self.warn)).map(drop))?;
        Ok(home)
    }

    fn known_home(&self) -> Option<Arc<Home>> {
        self.homes.get(|_| OnceLock::new()).get().cloned()
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        if let Some(home) = self.known_home() {
            home.station.close();
        }
        if let Some(loops) = self.loops.get() {
            loops.retire();
        }
    }
}

/// The running thread's, among those that take locks: never used again.
#[pyfunction]
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    MINE.with(|number| *number)
}

pub(super) fn lock_names(names: &Bound<'_, PyTuple>) -> PyResult<Names> {
    let py = names.py();
    let texts = names.as_slice().iter().map(name_bytes).collect::<PyResult<Vec<&[u8]>>>()?;
    keys::names(texts).map_err(|error| usage(py, "InvalidName", &error.to_string()))
}

fn name_bytes<'n>(name: &'n Bound<'_, PyAny>) -> PyResult<&'n [u8]> {
    text_bytes(name, "InvalidName", "the lock's name", "names of locks")
}

pub(super) fn ttl_of(py: Python<'_>, ttl: f64) -> PyResult<Duration> {
    checked(py, lock_ttl(ttl))
}

/// Text, bytes and numbers, as Redis takes them.
fn push_part(command: &mut Command, part: &Bound<'_, PyAny>) -> PyResult<()> {
    if part.is_instance_of::<PyString>() || part.is_instance_of::<PyBytes>() {
        command.push(key_bytes(part)?);
        return Ok(());
    }
    if part.is_instance_of::<pyo3::types::PyBool>() || part.extract::<f64>().is_err() {
        let message = format!("parts of a command are str, bytes, int or float, not {}", part.get_type().name()?);
        return Err(usage(part.py(), "UnsupportedType", &message));
    }
    command.push(part.str()?.to_str()?);
    Ok(())
}
