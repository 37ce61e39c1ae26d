//! `client.quiet()`: commands without a reply each, and one reckoning at the end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use pinyon_core::blocking::{known, Failure, Outcomes};
use pinyon_core::session::Ticket;
use pinyon_core::{Data, Error, Reply};
use pinyon_proto::{Arithmetic, Command, Direction, Key, MarkStale, Mode, Status, Store};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::client::{natural, Client};
use crate::errors::{exception, from_core, invalid_key, usage};
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::ttl::Ttl;

/// Commands whose replies are not awaited one by one. `Client.quiet` makes it; use it as a context manager.
///
/// Leaving the block waits until every command's outcome is known, and raises `BatchError` if any failed.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Batch {
    client: Py<Client>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    batch: Option<pinyon_core::blocking::Batch>,
    ledger: Ledger,
}

/// What was submitted and is still open, by server in the order of submission, and what failed.
#[derive(Default)]
struct Ledger {
    open: Vec<VecDeque<(Ticket, Submitted)>>,
    failures: Vec<(Submitted, Why)>,
}

struct Submitted {
    key: Py<PyAny>,
    command: &'static str,
}

enum Why {
    Refused(Status),
    Failed(Error),
}

impl Ledger {
    fn submitted(&mut self, server: usize, ticket: Ticket, submitted: Submitted) {
        if self.open.len() <= server {
            self.open.resize_with(server + 1, VecDeque::new);
        }
        self.open[server].push_back((ticket, submitted));
    }

    fn take(&mut self, server: usize, ticket: Ticket) -> Option<Submitted> {
        let open = self.open.get_mut(server)?;
        let position = open.iter().position(|(of, _)| *of == ticket)?;
        open.remove(position).map(|(_, submitted)| submitted)
    }
}

impl Outcomes for Ledger {
    fn reply(&mut self, server: usize, ticket: Ticket, reply: Reply<'_>) {
        let Some(submitted) = self.take(server, ticket) else { return };
        if !matches!(reply.head.status, Status::Done | Status::Hit) {
            self.failures.push((submitted, Why::Refused(reply.head.status)));
        }
    }

    fn failed(&mut self, server: usize, ticket: Ticket, error: Error) {
        let Some(submitted) = self.take(server, ticket) else { return };
        self.failures.push((submitted, Why::Failed(error)));
    }
}

impl Batch {
    pub(crate) fn new(client: Py<Client>) -> Self {
        Self { client, state: Mutex::default() }
    }

    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let busy = "the batch is used by another thread; give each thread a batch of its own";
        self.state.try_lock().map_err(|_| usage(py, "UsageError", busy))
    }

    fn submit(
        &self,
        key: &Bound<'_, PyAny>,
        data: &Data<'_>,
        make: impl for<'k> FnOnce(Key<'k>) -> Command<'k>,
    ) -> PyResult<()> {
        let py = key.py();
        let client = self.client.get();
        client.check_open(py)?;
        let bytes = key_bytes(key)?;
        let mut scratch = Vec::new();
        let wire = client.keys.wire(bytes, &mut scratch).map_err(|error| invalid_key(py, &error))?;
        let command = make(wire);
        let mut state = self.state(py)?;
        let State { batch, ledger } = &mut *state;
        let batch = batch.as_mut().ok_or_else(|| {
            usage(py, "UsageError", "the batch is not open; use it inside its block: with client.quiet() as batch: …")
        })?;
        let submitted = batch.submit(&PythonHost(py), &client.routing.key(key, bytes)?, &command, data, ledger);
        let (key, command) = (key.clone().unbind(), command.name());
        let noted = match submitted {
            Ok((server, ticket)) => {
                ledger.submitted(server, ticket, Submitted { key, command });
                Ok(())
            }
            Err(Failure::Error(error)) if error.is_outage() => {
                ledger.failures.push((Submitted { key, command }, Why::Failed(error)));
                Ok(())
            }
            Err(failure) => Err(exception(py, failure)),
        };
        drop(state);
        client.watcher.tell(py, &client.directory)?;
        noted
    }

    fn store(&self, mode: Mode, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<()> {
        let (encoded, client_flags) = self.client.get().codec.encode_for(mode, value)?;
        let size = encoded.bytes()?.len();
        self.submit(key, &encoded.data()?, |key| {
            Command::Store(Store { mode, key, size, client_flags, ttl: ttl.0, cas: None })
        })
    }

    fn calculate(&self, direction: Direction, key: &Bound<'_, PyAny>, delta: u64) -> PyResult<()> {
        self.submit(key, &Data::None, |key| Command::Arithmetic(Arithmetic { key, direction, delta, initial: None }))
    }

    /// Awaits every outcome; the batch is over, whatever comes of it.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state(py)?;
        let Some(mut batch) = state.batch.take() else { return Ok(()) };
        let finished = batch.finish(&PythonHost(py), &mut state.ledger);
        let Ledger { failures, .. } = std::mem::take(&mut state.ledger);
        drop((batch, state));
        let client = self.client.get();
        client.watcher.tell(py, &client.directory)?;
        finished.map_err(|failure| exception(py, failure))?;
        match failures.is_empty() {
            true => Ok(()),
            false => Err(batch_error(py, failures)?),
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
        let ttl = stale.map(|stale| Ttl::within(stale, "stale")).transpose()?;
        self.submit(key, &Data::None, |key| match ttl {
            None => Command::Delete { key },
            ttl => Command::MarkStale(MarkStale { key, ttl, cas: None }),
        })
    }

    /// Like `Client.incr`, without the sum; a key that has no value counts as a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn incr(&self, key: &Bound<'_, PyAny>, delta: i128) -> PyResult<()> {
        self.calculate(Direction::Increment, key, natural(key.py(), delta, "decr")?)
    }

    /// Like `Client.decr`, without the difference; a key that has no value counts as a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn decr(&self, key: &Bound<'_, PyAny>, delta: i128) -> PyResult<()> {
        self.calculate(Direction::Decrement, key, natural(key.py(), delta, "incr")?)
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let client = this.get().client.get();
        client.check_open(this.py())?;
        let fleet = match known(&client.directory, &PythonHost(this.py())) {
            Err(Failure::Error(error)) if client.policy.forgives(&error) => client.directory.known(),
            fleet => fleet.map_err(|failure| exception(this.py(), failure))?,
        };
        let mut state = this.get().state(this.py())?;
        if state.batch.is_some() {
            return Err(usage(this.py(), "UsageError", "the batch is open already"));
        }
        state.batch = Some(pinyon_core::blocking::Batch::new(fleet, client.policy.failover));
        drop(state);
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
            self.state(py)?.batch = None;
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

fn batch_error(py: Python<'_>, failures: Vec<(Submitted, Why)>) -> PyResult<PyErr> {
    let list = PyList::empty(py);
    let class = py.import("pinyon.errors")?.getattr("BatchFailure")?;
    for (Submitted { key, command }, why) in failures {
        let (reason, error) = match why {
            Why::Refused(status) => (reason(status).to_owned(), None),
            Why::Failed(error) => (error.message.clone(), Some(from_core(py, &error))),
        };
        list.append(class.call1((key, command, reason, error))?)?;
    }
    let error = py.import("pinyon.errors")?.getattr("BatchError")?.call1((list,))?;
    Ok(PyErr::from_value(error))
}

fn reason(status: Status) -> &'static str {
    match status {
        Status::NotStored => "not stored",
        Status::NotFound | Status::Miss => "not found",
        Status::Exists => "changed meanwhile",
        _ => "refused",
    }
}
