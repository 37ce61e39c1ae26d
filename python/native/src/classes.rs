//! What the Python half registers when `pinyon` is imported: classes to make objects of, and functions to call.
//!
//! The native half imports nothing of the Python half. While the interpreter ends, nothing can be imported any more, but
//! objects are still finalized, and may use a client.

use std::sync::{Arc, Mutex, PoisonError};

use pinyon_net::error::kinds::ErrorKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A class beside the errors.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    BatchFailure,
    Event,
    ItemMetadata,
    CommandMetrics,
    ServerMetrics,
    LockMetrics,
    NearMetrics,
}

impl Class {
    const ALL: [(Self, &'static str); 7] = [
        (Self::BatchFailure, "BatchFailure"),
        (Self::Event, "Event"),
        (Self::ItemMetadata, "ItemMetadata"),
        (Self::CommandMetrics, "CommandMetrics"),
        (Self::ServerMetrics, "ServerMetrics"),
        (Self::LockMetrics, "LockMetrics"),
        (Self::NearMetrics, "NearMetrics"),
    ];

    pub(crate) fn of(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        Ok(Registered::known()?.others[self as usize].bind(py).clone())
    }
}

/// All of it.
pub(crate) struct Registered {
    errors: Vec<Py<PyType>>,
    others: Vec<Py<PyType>>,
    /// Returns the result of an awaitable, in a thread without an event loop.
    pub(crate) run_awaitable: Py<PyAny>,
    /// Starts the thread that tells of lost locks. Its argument is what is called with events.
    pub(crate) start_telling: Py<PyAny>,
}

static REGISTERED: Mutex<Option<Arc<Registered>>> = Mutex::new(None);

impl Registered {
    pub(crate) fn known() -> PyResult<Arc<Self>> {
        let known = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.ok_or_else(|| PyRuntimeError::new_err("pinyon is being imported"))
    }

    /// The class of a kind. Tests ensure that each kind has exactly one.
    pub(crate) fn error<'py>(&self, py: Python<'py>, kind: ErrorKind) -> &Bound<'py, PyType> {
        self.errors[kind as usize].bind(py)
    }
}

/// Takes classes by their names. What was registered last is used.
#[pyfunction]
#[pyo3(signature = (classes, *, run_awaitable, start_telling))]
pub(crate) fn register(
    classes: Vec<Bound<'_, PyType>>,
    run_awaitable: Py<PyAny>,
    start_telling: Py<PyAny>,
) -> PyResult<()> {
    let class = |wanted: &str| {
        let found = classes.iter().find(|class| class.name().is_ok_and(|name| name == wanted));
        found.map(|class| class.clone().unbind()).ok_or_else(|| PyRuntimeError::new_err(format!("{wanted} is missing")))
    };
    let errors = ErrorKind::ALL.into_iter().map(|kind| class(kind.as_str())).collect::<PyResult<_>>()?;
    let others = Class::ALL.into_iter().map(|(_, name)| class(name)).collect::<PyResult<_>>()?;
    let registered = Registered { errors, others, run_awaitable, start_telling };
    let earlier = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).replace(registered.into());
    drop(earlier);
    Ok(())
}
