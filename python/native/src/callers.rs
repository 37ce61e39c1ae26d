//! The callers of `get_or_set`: what they find, share and raise.
//!
//! `Found` gives back a win that its caller has not looked at, and the win of a block that did not reach its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinyon_cache::blocking::give_back_late;
use pinyon_cache::directory::Directory;
use pinyon_cache::lease::{LeaseTypes, Signal};
use pinyon_cache::operations::{Finding, Found as CoreFound, OwnedKey, Policy, Win};
use pinyon_cache::Value;
use pinyon_net::fork::generation;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::errors::stored_on;
use crate::values::Codec;

/// The result of asking for a lease.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Found {
    found: CoreFound<Py<PyAny>>,
    process: u64,
    unseen: Option<Unseen>,
}

/// A lease that was won. If it is dropped before its caller has looked at it, the caller was interrupted, and the lease is
/// given back. A lease of a block is given back until the block has done so.
pub(crate) struct Unseen {
    directory: Arc<Directory>,
    key: OwnedKey,
    policy: Policy,
    win: Win,
    process: u64,
    is_of_block: AtomicBool,
    is_over: AtomicBool,
}

impl Unseen {
    /// `key`: makes the key of the lease.
    pub(crate) fn new<V>(
        found: &CoreFound<V>,
        directory: &Arc<Directory>,
        policy: Policy,
        key: impl FnOnce() -> OwnedKey,
    ) -> Option<Self> {
        let Finding::Won(Some(win)) = found.finding else { return None };
        let (directory, key, process) = (directory.clone(), key(), generation());
        let (is_of_block, is_over) = (AtomicBool::default(), AtomicBool::default());
        Some(Self { directory, key, policy, win, process, is_of_block, is_over })
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // In a forked child, the parent has the lease still.
        if !*self.is_over.get_mut() && self.process == generation() {
            give_back_late(&self.directory, self.key.clone(), self.win, self.policy);
        }
    }
}

impl Found {
    pub(crate) fn new(found: CoreFound<Py<PyAny>>, unseen: Option<Unseen>) -> Self {
        Self { found, process: generation(), unseen }
    }

    /// Takes note that its caller knows what it has.
    fn is_seen(&self) {
        if let Some(unseen) = self.unseen.as_ref().filter(|unseen| !unseen.is_of_block.load(Ordering::Relaxed)) {
            unseen.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// The same for the core, which is to give it back from now on. `value`: makes the core's value.
    pub(crate) fn with<V>(&self, py: Python<'_>, value: impl FnOnce(Py<PyAny>) -> V) -> CoreFound<V> {
        self.is_seen();
        let CoreFound { finding, cas, tags, .. } = &self.found;
        CoreFound { finding: *finding, value: self.value(py).map(value), cas: *cas, tags: tags.clone() }
    }
}

#[pymethods]
impl Found {
    /// "hit", "stale", "won" or "filling": see `pinyon.StepOutcome`.
    #[getter]
    fn state(&self) -> &'static str {
        self.is_seen();
        self.found.finding.word()
    }

    /// Takes note of a block that gives the lease back at its end.
    fn enter(&self) {
        if let Some(unseen) = &self.unseen {
            unseen.is_of_block.store(true, Ordering::Relaxed);
            unseen.is_over.store(false, Ordering::Relaxed);
        }
    }

    /// Takes note that the lease was fulfilled or given back.
    fn settle(&self) {
        self.unseen.iter().for_each(|unseen| unseen.is_over.store(true, Ordering::Relaxed));
    }

    /// The value, or None if there is none. For a winner, it is stale.
    #[getter]
    fn value(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.found.value.as_ref().map(|value| value.clone_ref(py))
    }

    /// The token of a value that cannot be read, for `Client._ask_lease`.
    #[getter]
    fn unreadable(&self) -> Option<u64> {
        self.found.cas.filter(|_| self.found.finding == Finding::Unreadable)
    }

    #[getter]
    fn has_value(&self) -> bool {
        self.found.value.is_some()
    }

    /// The token to store under (`Client.cas`), and the argument for giving the lease back (`Client._give_back`). None
    /// if no lease was won, or nothing can be stored.
    #[getter]
    fn win(&self) -> Option<(u64, bool)> {
        self.found.win().map(|win| (win.cas, win.keep))
    }

    /// Whether this process asked, and not the one that it was forked from.
    #[getter]
    fn is_own(&self) -> bool {
        self.process == generation()
    }
}

/// The callers of `get_or_set`, in Python.
pub(crate) enum Callers {}

impl LeaseTypes for Callers {
    type Value = Py<PyAny>;
    type Shared = Arc<Shared>;
    type Error = Arc<Raised>;
    type Signal = Event;
}

/// What the leader shares. Followers make their own values from it.
pub(crate) enum Shared {
    /// An immutable value: all callers get the same object.
    Same(Py<PyAny>),
    /// Any other value, as the bytes and client flags that would be stored.
    Packed(Vec<u8>, u32),
}

impl Shared {
    pub(crate) fn of(codec: &Codec, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if is_immutable(value) {
            return Ok(Self::Same(value.clone().unbind()));
        }
        let (encoded, client_flags) = codec.encode(value)?;
        Ok(Self::Packed(encoded.bytes()?.to_vec(), client_flags))
    }

    pub(crate) fn copy(&self, py: Python<'_>, codec: &Codec) -> PyResult<Py<PyAny>> {
        match self {
            Self::Same(value) => Ok(value.clone_ref(py)),
            Self::Packed(bytes, client_flags) => {
                let read = codec.read(py, *client_flags, Value::Borrowed(bytes));
                read.map(Bound::unbind).map_err(|error| stored_on(py, error, "this process"))
            }
        }
    }
}

fn is_immutable(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
}

/// An exception that several callers raise. Each gets the traceback of the first one.
pub(crate) struct Raised {
    error: Py<PyBaseException>,
    traceback: Py<PyAny>,
}

impl Raised {
    pub(crate) fn of(error: &Bound<'_, PyBaseException>) -> PyResult<Self> {
        Ok(Self { error: error.clone().unbind(), traceback: error.getattr("__traceback__")?.unbind() })
    }

    pub(crate) fn again(&self, py: Python<'_>) -> PyErr {
        let error = self.error.bind(py);
        match error.setattr("__traceback__", &self.traceback) {
            Ok(()) => PyErr::from_value(error.clone().into_any()),
            Err(other) => other,
        }
    }
}

/// An object with a method `set` that one caller waits for.
pub(crate) struct Event(pub(crate) Py<PyAny>);

impl Signal for Event {
    fn wake(self) {
        Python::attach(|py| {
            if let Err(error) = self.0.call_method0(py, "set") {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}
