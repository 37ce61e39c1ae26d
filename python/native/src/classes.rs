//! The classes of the Python half that the native half makes objects of.
//!
//! They are looked up when `pinyon` is imported: while the interpreter ends, nothing can be imported any more, but objects
//! are still finalized, and may use a client.

use std::sync::{Arc, Mutex, PoisonError};

use pinyon_net::error::kinds::ErrorKind;
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
}

impl Class {
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::BatchFailure, "pinyon.errors", "BatchFailure"),
        (Self::Event, "pinyon.events", "Event"),
        (Self::ItemMetadata, "pinyon.metadata", "ItemMetadata"),
        (Self::CommandMetrics, "pinyon.metrics", "CommandMetrics"),
        (Self::ServerMetrics, "pinyon.metrics", "ServerMetrics"),
        (Self::LockMetrics, "pinyon.metrics", "LockMetrics"),
    ];

    pub(crate) fn of(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        Ok(Classes::known(py)?.others[self as usize].bind(py).clone())
    }
}

/// All of them.
pub(crate) struct Classes {
    errors: Vec<Py<PyType>>,
    others: Vec<Py<PyType>>,
}

static KNOWN: Mutex<Option<Arc<Classes>>> = Mutex::new(None);

impl Classes {
    pub(crate) fn known(py: Python<'_>) -> PyResult<Arc<Self>> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.map_or_else(|| look_up(py), Ok)
    }

    /// The class of a kind. Tests ensure that each kind has exactly one.
    pub(crate) fn error<'py>(&self, py: Python<'py>, kind: ErrorKind) -> &Bound<'py, PyType> {
        self.errors[kind as usize].bind(py)
    }
}

/// Looks up the classes of the modules that were imported last.
#[pyfunction]
pub(crate) fn know_classes(py: Python<'_>) -> PyResult<()> {
    look_up(py).map(drop)
}

fn look_up(py: Python<'_>) -> PyResult<Arc<Classes>> {
    let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
        Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
    };
    let errors = ErrorKind::ALL.into_iter().map(|kind| class("pinyon.errors", kind.as_str()));
    let others = Class::ALL.into_iter().map(|(_, module, name)| class(module, name));
    let classes =
        Arc::new(Classes { errors: errors.collect::<PyResult<_>>()?, others: others.collect::<PyResult<_>>()? });
    let earlier = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).replace(classes.clone());
    drop(earlier);
    Ok(classes)
}
