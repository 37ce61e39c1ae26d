//! `pinyon.Locks`: what Python sees of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pinyon_core::fork::PerProcess;
use pinyon_core::locks::call::{Call, Names};
use pinyon_core::locks::client::{Settings, Wish};
use pinyon_core::locks::keys::{self, Keys};
use pinyon_core::locks::machine::{Fairness, Options};
use pinyon_core::locks::HandlerKind;
use pinyon_core::{redis, Endpoint};
use pinyon_proto::resp::Command;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::backend::{Backend, Home, Keeper};
use super::driver::{Connection, LocksDriver};
use super::grant::seconds;
use crate::errors::usage;
use crate::keys::{key_bytes, text_bytes};
use crate::loops::{LoopDriver, Loops};
use crate::settings::duration;
use crate::tls::Tls;

/// Locks on one Redis or Valkey server. `pinyon.Locks` documents its arguments.
#[pyclass(frozen, subclass, name = "Locks", module = "pinyon._native")]
pub(crate) struct Locks {
    settings: Settings,
    pub(super) usual: Usual,
    homes: PerProcess<OnceLock<Arc<Home>>>,
    loops: OnceLock<Arc<Loops<LocksDriver>>>,
    warn: Py<PyAny>,
    /// Starts a thread that does what nobody waits for.
    keep: Py<PyAny>,
    closed: AtomicBool,
}

/// What a lock has where it is not said: in seconds, and as `pinyon.Locks` documents it.
pub(super) struct Usual {
    pub(super) ttl: f64,
    pub(super) timeout: f64,
    pub(super) reentrant: bool,
}

#[pymethods]
impl Locks {
    /// `host` and `port`, or `path`: where the server is. `hash_tag`: that of the names, where they have their own.
    #[new]
    #[pyo3(signature = (*, server, host, port, path, user, password, database, namespace, ttl, timeout, reentrant,
                        handler, fairness, heartbeat, command_timeout, connect_timeout, warn, keep, hash_tag = None, tls = None, loops = None))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn new(
        py: Python<'_>,
        server: &str,
        host: Option<String>,
        port: u16,
        path: Option<String>,
        user: Option<String>,
        password: Option<&Bound<'_, PyAny>>,
        database: u32,
        namespace: &Bound<'_, PyAny>,
        ttl: f64,
        timeout: f64,
        reentrant: bool,
        handler: &str,
        fairness: &str,
        heartbeat: f64,
        command_timeout: f64,
        connect_timeout: f64,
        warn: Py<PyAny>,
        keep: Py<PyAny>,
        hash_tag: Option<&[u8]>,
        tls: Option<PyRef<'_, Tls>>,
        loops: Option<(Py<PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let endpoint = match (host, path) {
            (Some(host), _) => Endpoint::Tcp { host, port },
            (None, path) => Endpoint::Unix(path.unwrap_or_default().into()),
        };
        let namespace = key_bytes(namespace)?;
        let keys = match hash_tag {
            Some(tag) => Keys::tagged(namespace, tag),
            None => Keys::new(namespace),
        };
        let keys = keys.map_err(|error| usage(py, "UsageError", &error.to_string()))?;
        let password = password
            .map(|password| text_bytes(password, "UsageError", "the password", "passwords").map(redis::Password::from))
            .transpose()?;
        let tls = tls.map(|tls| tls.tls.of_endpoint(&endpoint)).transpose();
        let tls = tls.map_err(|error| usage(py, "UsageError", &error.to_string()))?;
        let settings = Settings {
            endpoint,
            server: server.into(),
            login: redis::Settings { user, password, database, tls, ..redis::Settings::default() },
            keys,
            handler: handler_kind(py, handler)?,
            connect_timeout: duration(py, "connect_timeout", connect_timeout)?,
            options: Options {
                fairness: fairness_of(py, fairness)?,
                heartbeat: duration(py, "heartbeat", heartbeat)?,
                patience: duration(py, "command_timeout", command_timeout)?,
            },
        };
        ttl_of(py, ttl)?;
        seconds(py, "timeout", timeout)?;
        let usual = Usual { ttl, timeout, reentrant };
        let (homes, loops_of, closed) = (PerProcess::new(OnceLock::new()), OnceLock::new(), AtomicBool::new(false));
        let locks = Self { settings, usual, homes, loops: loops_of, warn, keep, closed };
        if let Some((current, make)) = loops {
            locks.share(current, make)?;
        }
        Ok(locks)
    }

    /// From now on its methods return what a coroutine waits for, instead of waiting themselves.
    fn share(&self, current: Py<PyAny>, make: Bound<'_, PyAny>) -> PyResult<()> {
        let connection = Connection { settings: self.settings.clone(), warn: self.warn.clone_ref(make.py()) };
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
        let deadline = Instant::now() + self.settings.options.patience;
        self.backend(py)?.run(py, Wish::Execute { command, deadline }, None)
    }

    /// What all keys of the namespace begin with.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.settings.keys.prefix())
    }

    #[getter]
    fn server(&self) -> &str {
        &self.settings.server
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
                let made = Home::new(&self.settings).map_err(|error| {
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
    let duration = duration(py, "ttl", ttl)?;
    match duration >= Duration::from_millis(1) {
        true => Ok(duration),
        false => Err(usage(py, "UsageError", &format!("ttl must be at least a millisecond, not {ttl}"))),
    }
}

fn handler_kind(py: Python<'_>, name: &str) -> PyResult<HandlerKind> {
    match name {
        "auto" => Ok(HandlerKind::Auto),
        "script" => Ok(HandlerKind::Script),
        "pure" => Ok(HandlerKind::Pure),
        _ => {
            let message = format!("handler must be \"auto\", \"script\" or \"pure\", not {name:?}");
            Err(usage(py, "UsageError", &message))
        }
    }
}

fn fairness_of(py: Python<'_>, name: &str) -> PyResult<Fairness> {
    match name {
        "fifo" => Ok(Fairness::Fifo),
        "throughput" => Ok(Fairness::Throughput),
        _ => Err(usage(py, "UsageError", &format!("fairness must be \"fifo\" or \"throughput\", not {name:?}"))),
    }
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
