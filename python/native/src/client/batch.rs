//! `client.quiet()`: commands without individual replies, whose outcomes are known at the end of the block.

use std::sync::{Arc, Mutex, MutexGuard};

use pinyon_cache::operations::Request;
use pinyon_cache::{blocking, Data};
use pinyon_proto::{Direction, Mode};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::Client;
use crate::arguments::delta;
use crate::driver::LoopDriver;
use crate::errors::{checked, exception, from_core, from_failure, ErrorKind};
use crate::host::PythonHost;
use crate::loops::Caller;
use crate::runs::{concluded, Runs};
use crate::shared::{Awaited, Driver};
use crate::supplied::KeptKey;
use crate::ttl::{self, StoredTtl};
use crate::value_bytes::{Encoded, Kept};

/// A batch of commands that are sent without waiting for each reply. `Client.quiet` makes one; use it in a `with`
/// block.
///
/// The end of the block waits until the outcome of every command is known. It raises `BatchError` if any of them
/// failed.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Batch {
    client: Py<Client>,
    /// Set between the beginning and the end of the block.
    open: Mutex<Option<Commands>>,
}

enum Commands {
    OfThread(Box<blocking::Batch<Py<PyAny>>>),
    OfLoop(Py<Driver>, Arc<Runs>),
}

/// What a task must await, or None.
type Returned<'py> = PyResult<Option<Bound<'py, PyAny>>>;

impl Batch {
    pub(crate) fn new(client: Py<Client>) -> Self {
        Self { client, open: Mutex::default() }
    }

    fn open(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Commands>>> {
        let busy = "the batch is in use by another thread; open one in each thread";
        self.open.try_lock().map_err(|_| exception(py, ErrorKind::UsageError, busy))
    }

    fn submit<'py>(&self, key: &Bound<'py, PyAny>, request: Request, value: Option<&Encoded<'_>>) -> Returned<'py> {
        let (py, client) = (key.py(), self.client.get());
        client.check_open(py)?;
        let mut open = self.open(py)?;
        match open.as_mut() {
            Some(Commands::OfThread(batch)) => {
                let submitted = client.with_key(key, |sent| {
                    let data = value.map_or(Ok(Data::None), Encoded::data)?;
                    Ok(batch.submit(&PythonHost(py), sent, request, &data, key.clone().unbind()))
                })?;
                drop(open);
                client.watcher.tell(py, &client.directory)?;
                submitted.map_err(|failure| from_failure(py, failure))?;
                Ok(None)
            }
            Some(Commands::OfLoop(driver, runs)) => {
                let (caller, runs) = (client.caller_of(driver.bind(py))?, runs.clone());
                drop(open);
                let kept = client.with_key(key, |sent| KeptKey::new(*sent, key))?;
                runs.submit(caller, (kept, request, value.map_or(Ok(Kept::Nothing), Encoded::keep)?))
            }
            None => {
                let closed = "the batch is not open; use it inside its block: with client.quiet() as batch: …";
                Err(exception(py, ErrorKind::UsageError, closed))
            }
        }
    }

    fn store<'py>(
        &self,
        mode: Mode,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: StoredTtl<'_, '_>,
    ) -> Returned<'py> {
        let client = self.client.get();
        let ttl = ttl.or(client.default_ttl)?;
        let (encoded, client_flags) = client.codec.encode_for(mode, value)?;
        let request =
            Request::Store { mode, size: encoded.bytes()?.len(), client_flags, ttl, cas: None, returns_cas: false };
        self.submit(key, request, Some(&encoded))
    }

    fn calculate<'py>(&self, direction: Direction, key: &Bound<'py, PyAny>, delta: i128) -> Returned<'py> {
        self.submit(key, checked(key.py(), Request::arithmetic(direction, delta, None))?, None)
    }
}

#[pymethods]
impl Batch {
    /// Store a value, like `Client.set`. Its outcome is known at the end of the block.
    ///
    /// Args:
    ///     key: text or bytes.
    ///     value: any value that the serializer takes.
    ///     ttl: seconds (int or float, rounded up) or a timedelta until it expires; by default the client's
    ///         `default_ttl`. 0 never expires.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default), text_signature = "($self, key, value, ttl=...)")]
    fn set<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: StoredTtl<'_, '_>) -> Returned<'py> {
        self.store(Mode::Set, key, value, ttl)
    }

    /// Store a value unless the key has one, like `Client.add`. If the key has a value, that is a failure.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default), text_signature = "($self, key, value, ttl=...)")]
    fn add<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: StoredTtl<'_, '_>) -> Returned<'py> {
        self.store(Mode::Add, key, value, ttl)
    }

    /// Store a value if the key has one, like `Client.replace`. If the key has no value, that is a failure.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default), text_signature = "($self, key, value, ttl=...)")]
    fn replace<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: StoredTtl<'_, '_>) -> Returned<'py> {
        self.store(Mode::Replace, key, value, ttl)
    }

    /// Append to a value, like `Client.append`. If the key has no value, that is a failure.
    fn append<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.store(Mode::Append, key, value, StoredTtl::None)
    }

    /// Prepend to a value, like `Client.prepend`. If the key has no value, that is a failure.
    fn prepend<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.store(Mode::Prepend, key, value, StoredTtl::None)
    }

    /// Delete an item, like `Client.delete`. If there is no such item, that is a failure.
    #[pyo3(signature = (key, *, stale = None))]
    fn delete<'py>(&self, key: &Bound<'py, PyAny>, stale: Option<&Bound<'_, PyAny>>) -> Returned<'py> {
        let request = match stale {
            None => Request::Delete,
            Some(stale) => Request::MarkStale { ttl: Some(ttl::within(stale, "stale")?), cas: None },
        };
        self.submit(key, request, None)
    }

    /// Add to an integer, like `Client.incr`. If the key has no value, that is a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn incr<'py>(&self, key: &Bound<'py, PyAny>, #[pyo3(from_py_with = delta)] delta: i128) -> Returned<'py> {
        self.calculate(Direction::Increment, key, delta)
    }

    /// Subtract from an integer, like `Client.decr`. If the key has no value, that is a failure.
    #[pyo3(signature = (key, delta = 1))]
    fn decr<'py>(&self, key: &Bound<'py, PyAny>, #[pyo3(from_py_with = delta)] delta: i128) -> Returned<'py> {
        self.calculate(Direction::Decrement, key, delta)
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let (py, client) = (this.py(), this.get().client.get());
        client.check_open(py)?;
        let failover = client.policy.failover;
        let commands = match client.loops.get(py)? {
            None => Commands::OfThread(blocking::Batch::new(client.directory.clone(), failover).into()),
            Some(loops) => {
                let runs = Runs::new(failover);
                Commands::OfLoop(loops.caller(py)?.driver.unbind(), runs.into())
            }
        };
        let mut open = this.get().open(py)?;
        if open.is_some() {
            return Err(exception(py, ErrorKind::UsageError, "the batch is open already"));
        }
        *open = Some(commands);
        drop(open);
        Ok(this)
    }

    fn __exit__(&self, _kind: Py<PyAny>, exception: &Bound<'_, PyAny>, _traceback: Py<PyAny>) -> PyResult<bool> {
        self._leave(exception).map(|_| false)
    }

    /// Closes the batch, and waits until the outcome of every command is known. `exception`: that of the block, or
    /// None; it gets the failures as a note. After an interrupt, an exit or a cancellation it does not wait; a thread's
    /// connections are then closed.
    fn _leave<'py>(&self, exception: &Bound<'py, PyAny>) -> Returned<'py> {
        let (py, client) = (exception.py(), self.client.get());
        let mut open = self.open(py)?;
        let waits = exception.is_none() || exception.is_instance_of::<PyException>();
        match open.take().filter(|_| waits) {
            None => Ok(None),
            Some(Commands::OfThread(mut batch)) => {
                let finished = batch.finish(&PythonHost(py));
                drop((batch, open));
                client.watcher.tell(py, &client.directory)?;
                let unsuccessful = finished.map_err(|failure| from_failure(py, failure))?;
                concluded(exception, unsuccessful, |key| key.into_bound(py))?;
                Ok(None)
            }
            Some(Commands::OfLoop(driver, runs)) => {
                drop(open);
                runs.leave(client.caller_of(driver.bind(py))?, exception)
            }
        }
    }
}

impl Runs {
    fn submit<'py>(self: Arc<Self>, caller: Caller<'py, Driver>, command: (KeptKey, Request, Kept)) -> Returned<'py> {
        let py = caller.driver.py();
        let submitted = caller.driver.get().event_loop().begin(py, |machine, now| {
            machine.submit_quietly(&mut self.lock(), command, || Awaited::Run(self.clone()), now)
        })?;
        submitted.map_err(|error| from_core(py, &error))?;
        if !self.lock().is_full() {
            return Ok(None);
        }
        let waiter = caller.waiter()?;
        self.lock().wait_for_room((waiter.clone_ref(py), py.None()));
        caller.wait(waiter).map(Some)
    }

    fn leave<'py>(&self, caller: Caller<'py, Driver>, exception: &Bound<'py, PyAny>) -> Returned<'py> {
        let py = caller.driver.py();
        let waiter = caller.waiter()?;
        let left = self.lock().leave((waiter.clone_ref(py), exception.clone().unbind()));
        match left {
            Some(unsuccessful) => concluded(exception, unsuccessful, |key| key.given(py)).map(|()| None),
            None => caller.wait(waiter).map(Some),
        }
    }
}
