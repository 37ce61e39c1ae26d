//! `client.quiet()`: commands without a reply each, and one reckoning at the end.

use std::sync::{Mutex, MutexGuard};

use pinyon_core::blocking::{self, known, Broken, Failure, Unsuccessful};
use pinyon_core::operations::{BorrowedKey, Request};
use pinyon_core::Data;
use pinyon_proto::{Direction, Mode};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::client::Client;
use crate::errors::{checked, class_of, exception, from_core, from_failure, ErrorKind};
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::ttl::Ttl;

/// Commands whose replies are not awaited one by one. `Client.quiet` makes it; use it as a context manager.
///
/// Leaving the block waits until every command's outcome is known, and raises `BatchError` if any failed.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Batch {
    client: Py<Client>,
    /// Open between the beginning and the end of the block. Each command goes by its key.
    open: Mutex<Option<blocking::Batch<Py<PyAny>>>>,
}

impl Batch {
    pub(crate) fn new(client: Py<Client>) -> Self {
        Self { client, open: Mutex::default() }
    }

    fn open(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<blocking::Batch<Py<PyAny>>>>> {
        let busy = "the batch is used by another thread; give each thread a batch of its own";
        self.open.try_lock().map_err(|_| exception(py, ErrorKind::UsageError, busy))
    }

    fn submit(&self, key: &Bound<'_, PyAny>, request: Request, data: &Data<'_>) -> PyResult<()> {
        let py = key.py();
        let client = self.client.get();
        client.check_open(py)?;
        let bytes = key_bytes(key)?;
        let mut scratch = Vec::new();
        let quoted = client.routing.quoted(key)?;
        let sent = checked(py, BorrowedKey::new(&client.keys, bytes, &mut scratch))?.asked_about(quoted.as_deref());
        let mut open = self.open(py)?;
        let batch = open.as_mut().ok_or_else(|| {
            exception(
                py,
                ErrorKind::UsageError,
                "the batch is not open; use it inside its block: with client.quiet() as batch: …",
            )
        })?;
        let submitted = batch.submit(&PythonHost(py), &sent, request, data, key.clone().unbind());
        drop(open);
        client.watcher.tell(py, &client.directory)?;
        submitted.map_err(|failure| from_failure(py, failure))
    }

    fn store(&self, mode: Mode, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, Ttl(ttl): Ttl) -> PyResult<()> {
        let (encoded, client_flags) = self.client.get().codec.encode_for(mode, value)?;
        let request = Request::Store { mode, size: encoded.bytes()?.len(), client_flags, ttl, cas: None };
        self.submit(key, request, &encoded.data()?)
    }

    fn calculate(&self, direction: Direction, key: &Bound<'_, PyAny>, delta: i128) -> PyResult<()> {
        self.submit(key, checked(key.py(), Request::arithmetic(direction, delta, None))?, &Data::None)
    }

    /// Awaits every outcome; the batch is over, whatever comes of it.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let mut open = self.open(py)?;
        let Some(mut batch) = open.take() else { return Ok(()) };
        let finished = batch.finish(&PythonHost(py));
        drop((batch, open));
        let client = self.client.get();
        client.watcher.tell(py, &client.directory)?;
        let unsuccessful = finished.map_err(|failure| from_failure(py, failure))?;
        match unsuccessful.is_empty() {
            true => Ok(()),
            false => Err(batch_error(py, unsuccessful)?),
        }
    }
}

#[pymethods]
impl Batch {
    /// Like `Client.set`, its outcome known at the end of the block.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn set(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<()> {
        self.store(Mode::Set, key, value, ttl)
    }

    /// Like `Client.add`; a key that has a value already counts as a failure.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn add(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<()> {
        self.store(Mode::Add, key, value, ttl)
    }

    /// Like `Client.replace`; a key that has no value counts as a failure.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn replace(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<()> {
        self.store(Mode::Replace, key, value, ttl)
    }

    /// Like `Client.append`; a key that has no value counts as a failure.
    fn append(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(Mode::Append, key, value, Ttl::NONE)
    }

    /// Like `Client.prepend`; a key that has no value counts as a failure.
    fn prepend(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(Mode::Prepend, key, value, Ttl::NONE)
    }

    /// Like `Client.delete`; a key that has no value counts as a failure.
    #[pyo3(signature = (key, *, stale = None))]
    fn delete(&self, key: &Bound<'_, PyAny>, stale: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let request = match stale {
            None => Request::Delete,
            Some(stale) => Request::MarkStale { ttl: Ttl::within(stale, "stale")? },
        };
        self.submit(key, request, &Data::None)
    }

    /// Like `Client.incr`, without the sum; a key that has no value counts as a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn incr(&self, key: &Bound<'_, PyAny>, delta: i128) -> PyResult<()> {
        self.calculate(Direction::Increment, key, delta)
    }

    /// Like `Client.decr`, without the difference; a key that has no value counts as a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn decr(&self, key: &Bound<'_, PyAny>, delta: i128) -> PyResult<()> {
        self.calculate(Direction::Decrement, key, delta)
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let client = this.get().client.get();
        client.check_open(this.py())?;
        let fleet = match known(&client.directory, &PythonHost(this.py())) {
            Err(Failure::Error(error)) if client.policy.forgives(&error) => client.directory.known(),
            fleet => fleet.map_err(|failure| from_failure(this.py(), failure))?,
        };
        let mut open = this.get().open(this.py())?;
        if open.is_some() {
            return Err(exception(this.py(), ErrorKind::UsageError, "the batch is open already"));
        }
        *open = Some(blocking::Batch::new(fleet, client.policy.failover));
        drop(open);
        Ok(this)
    }

    /// An exception of the block goes on its way, once what was submitted is done; but nothing waits for an
    /// interrupt, an exit or a cancellation: then the connections are closed.
    #[pyo3(signature = (kind, exception, traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        exception: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = traceback;
        let Some(kind) = kind else {
            self.finish(py)?;
            return Ok(false);
        };
        if !kind.is_subclass_of::<PyException>()? {
            *self.open(py)? = None;
            return Ok(false);
        }
        if let Err(error) = self.finish(py) {
            note(exception, &error.value(py).to_string())?;
        }
        Ok(false)
    }
}

/// Adds a line to an exception's traceback, as `add_note` does from Python 3.11 on.
fn note(exception: &Bound<'_, PyAny>, text: &str) -> PyResult<()> {
    let notes = match exception.getattr_opt("__notes__")? {
        Some(notes) => notes.cast_into::<PyList>()?,
        None => PyList::empty(exception.py()),
    };
    notes.append(text)?;
    exception.setattr("__notes__", notes)
}

fn batch_error(py: Python<'_>, unsuccessful: Vec<Unsuccessful<Py<PyAny>>>) -> PyResult<PyErr> {
    let list = PyList::empty(py);
    let class = py.import("pinyon.errors")?.getattr("BatchFailure")?;
    for Unsuccessful { tag: key, command, why } in unsuccessful {
        let error = match &why {
            Broken::Refused(_) => None,
            Broken::Failed(error) => Some(from_core(py, error)),
        };
        list.append(class.call1((key, command, why.to_string(), error))?)?;
    }
    let error = class_of(py, ErrorKind::BatchError)?.call1((list,))?;
    Ok(PyErr::from_value(error))
}
