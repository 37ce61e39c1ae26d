//! Quiet batches in event loops: which coroutines wait for one, and what they learn at its end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pinyon_cache::operations::{AnyOperation, Broken, Unsuccessful};
use pinyon_cache::shared;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::classes::Class;
use crate::errors::{class_of, from_core, ErrorKind};
use crate::supplied::{KeptKey, LoopOperation};
use crate::waiter::{Answer, Unsettled, Waiter};

/// A batch in an event loop, and the coroutines that wait for it.
pub(crate) struct Runs(Mutex<shared::Batch<KeptKey, Waiting>>);

/// A coroutine, and the exception with which it leaves the block, or None.
type Waiting = (Waiter, Py<PyAny>);

impl Runs {
    pub(crate) fn new(failover: bool) -> Self {
        Self(Mutex::new(shared::Batch::new(failover)))
    }

    /// Takes a finished run. Returns the coroutines to resume.
    pub(crate) fn over(&self, py: Python<'_>, run: LoopOperation) -> Vec<(Waiter, Answer)> {
        let AnyOperation::Quiet(run) = run else { unreachable!("it is begun with commands of a batch") };
        let (have_room, left) = self.lock().over(*run);
        let left = left.map(|((waiter, exception), unsuccessful)| {
            let concluded = concluded(exception.bind(py), unsuccessful, |key| key.given(py));
            (waiter, concluded.map(|()| py.None()).map_err(Unsettled::raised))
        });
        have_room.into_iter().map(|(waiter, _)| (waiter, Ok(py.None()))).chain(left).collect()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, shared::Batch<KeptKey, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the failed commands, or notes them on the block's exception, if there is one. `given`: the key as the user
/// gave it.
pub(crate) fn concluded<'py, K>(
    exception: &Bound<'py, PyAny>,
    unsuccessful: Vec<Unsuccessful<K>>,
    given: impl Fn(K) -> Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = exception.py();
    if unsuccessful.is_empty() {
        return Ok(());
    }
    let list = PyList::empty(py);
    let class = Class::BatchFailure.of(py)?;
    for Unsuccessful { key, command, why, .. } in unsuccessful {
        let error = match &why {
            Broken::Refused(_) => None,
            Broken::Failed(error) => Some(from_core(py, error)),
        };
        list.append(class.call1((given(key), command, why.to_string(), error))?)?;
    }
    let error = class_of(py, ErrorKind::BatchError)?.call1((list,))?;
    match exception.is_none() {
        true => Err(PyErr::from_value(error)),
        false => note(exception, &error.to_string()),
    }
}

/// Adds a line to an exception's traceback, like `add_note` in Python 3.11.
fn note(exception: &Bound<'_, PyAny>, text: &str) -> PyResult<()> {
    let notes = match exception.getattr_opt("__notes__")? {
        Some(notes) => notes.cast_into::<PyList>()?,
        None => PyList::empty(exception.py()),
    };
    notes.append(text)?;
    exception.setattr("__notes__", notes)
}
