//! `pinyon.Locks`: what Python sees of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pinyon_core::locks::branches::Branches;
use pinyon_core::locks::call::Names;
use pinyon_core::locks::client::ClientSettings;
use pinyon_core::locks::keys::{self, Keys};
use pinyon_core::locks::machine::{Fairness, Options};
use pinyon_core::locks::owners;
use pinyon_core::locks::status::{Asked, StatusQuestion};
use pinyon_core::locks::HandlerKind;
use pinyon_core::{redis, Endpoint};
use pinyon_proto::resp::Command;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::grant::seconds;
use super::place::{Keeping, Operation, Sharing};
use crate::errors::usage;
use crate::keys::{key_bytes, text_bytes};
use crate::settings::duration;
use crate::tls::Tls;

/// Locks on one Redis or Valkey server. `pinyon.Locks` documents its arguments.
#[pyclass(frozen, subclass, name = "Locks", module = "pinyon._native")]
pub(crate) struct Locks {
    keeping: Arc<Keeping>,
    /// Those of hash tags, where names have their own.
    branches: Option<Branches<Keeping>>,
    sharing: Arc<Sharing>,
    pub(super) usual: Usual,
}

/// What a lock has where it is not said: in seconds, and as `pinyon.Locks` documents it.
pub(super) struct Usual {
    pub(super) ttl: f64,
    pub(super) timeout: f64,
    pub(super) reentrant: bool,
}

#[pymethods]
impl Locks {
    /// `host` and `port`, or `path`: where the server is.
    #[new]
    #[pyo3(signature = (*, server, host, port, path, user, password, database, namespace, ttl, timeout, reentrant,
                        handler, fairness, heartbeat, command_timeout, connect_timeout, warn, hash_tags = "namespace", tls = None, loops = None))]
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
        hash_tags: &str,
        tls: Option<PyRef<'_, Tls>>,
        loops: Option<(Py<PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let endpoint = match (host, path) {
            (Some(host), _) => Endpoint::Tcp { host, port },
            (None, path) => Endpoint::Unix(path.unwrap_or_default().into()),
        };
        let keys = Keys::new(key_bytes(namespace)?);
        let keys = keys.map_err(|error| usage(py, "UsageError", &error.to_string()))?;
        let password = password
            .map(|password| text_bytes(password, "UsageError", "the password", "passwords").map(redis::Password::from))
            .transpose()?;
        let tls = tls.map(|tls| tls.tls.of_endpoint(&endpoint)).transpose();
        let tls = tls.map_err(|error| usage(py, "UsageError", &error.to_string()))?;
        let settings = ClientSettings {
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
        let branches = have_tags(py, hash_tags)?.then(Branches::default);
        let sharing = Arc::new(loops.map_or_else(OnceLock::new, |(current, make)| (current, make.unbind()).into()));
        let keeping = Arc::new(Keeping::new(settings, sharing.clone(), warn));
        Ok(Self { keeping, branches, sharing, usual })
    }

    /// From now on its methods return what a coroutine waits for, instead of waiting themselves.
    fn share(&self, current: Py<PyAny>, make: Py<PyAny>) {
        let _ = self.sharing.set((current, make));
    }

    /// The hash tag that these names have of their own, if they have one.
    fn tag_of<'py>(&self, py: Python<'py>, names: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(common_tag(names)?.map(|tag| PyBytes::new(py, tag)))
    }

    /// Of each name a `LockStatus`.
    fn _status<'py>(&self, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.inspect(names, StatusQuestion::Each)
    }

    /// Whether any of the names is locked.
    fn _is_locked<'py>(&self, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.inspect(names, StatusQuestion::IsLocked)
    }

    /// Who holds the first of the names that is held, or None.
    fn _first_owner<'py>(&self, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.inspect(names, StatusQuestion::FirstOwner)
    }

    /// How many wait for any of the names.
    fn _waiting<'py>(&self, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.inspect(names, StatusQuestion::Waiting)
    }

    /// Takes the names from whoever holds them. Returns how many were held.
    fn take_away<'py>(
        &self,
        py: Python<'py>,
        names: &Bound<'py, PyTuple>,
        token: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.of(names)?.place(py)?.run(py, Operation::ForceRelease { names: lock_names(names)?, token }, None)
    }

    /// Sends a command on the connection of the locks on these names, and returns what the server answers.
    #[pyo3(signature = (parts, names = None))]
    fn command<'py>(
        &self,
        py: Python<'py>,
        parts: &Bound<'py, PyTuple>,
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut command = Command::default();
        if let Some(name) = parts.iter().next().filter(|name| !is_text(name)) {
            let message = format!("a command's name is str or bytes, not {}", name.get_type().name()?);
            return Err(usage(py, "UnsupportedType", &message));
        }
        for part in parts {
            push_part(&mut command, &part)?;
        }
        let keeping = names.map_or_else(|| Ok(self.keeping.clone()), |names| self.of(names))?;
        keeping.place(py)?.run(py, Operation::Execute { command }, None)
    }

    /// What all keys of the namespace begin with.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.keeping.settings().keys.prefix())
    }

    #[getter]
    fn server(&self) -> &str {
        &self.keeping.settings().server
    }

    /// By what a cluster chooses the node of a lock: `"namespace"` or `"names"`.
    #[getter]
    fn hash_tags(&self) -> &'static str {
        match self.branches {
            Some(_) => "names",
            None => "namespace",
        }
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.keeping.is_closed()
    }

    /// Close the connections. What waits fails; what is held is lost, and ends on the server with its ttl.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.keeping.close(py)?;
        let branches = self.branches.iter().flat_map(Branches::all);
        branches.into_iter().try_for_each(|branch| branch.close(py))
    }
}

impl Locks {
    /// What keeps these names: this client, or that of the names' own hash tag.
    pub(super) fn of(&self, names: &Bound<'_, PyTuple>) -> PyResult<Arc<Keeping>> {
        let Some(branches) = self.branches.as_ref().filter(|_| !self.is_closed()) else {
            return Ok(self.keeping.clone());
        };
        match common_tag(names)? {
            Some(tag) => branches.of(tag, || Ok(self.keeping.tagged(names.py(), tag))),
            None => Ok(self.keeping.clone()),
        }
    }

    fn inspect<'py>(&self, names: &Bound<'py, PyTuple>, question: StatusQuestion) -> PyResult<Bound<'py, PyAny>> {
        let py = names.py();
        let asked = Asked::new(&texts(names)?).map_err(|error| usage(py, "InvalidName", &error.to_string()))?;
        self.of(names)?.place(py)?.run(py, Operation::Inspect { asked, question }, Some(names))
    }
}

/// The running thread's number, as an owner of locks.
#[pyfunction]
pub(crate) fn thread_number() -> u64 {
    owners::this_thread()
}

/// A number for a coroutine that no other owner of locks ever has.
#[pyfunction]
pub(crate) fn new_owner() -> u64 {
    owners::new_owner()
}

/// The hash tag that all of these names have of their own, if they have one.
fn common_tag<'n>(names: &'n Bound<'_, PyTuple>) -> PyResult<Option<&'n [u8]>> {
    keys::common_tag(&texts(names)?).map_err(|error| usage(names.py(), "InvalidName", &error.to_string()))
}

fn texts<'n>(names: &'n Bound<'_, PyTuple>) -> PyResult<Vec<&'n [u8]>> {
    names.as_slice().iter().map(name_bytes).collect()
}

pub(super) fn lock_names(names: &Bound<'_, PyTuple>) -> PyResult<Names> {
    let py = names.py();
    keys::names(texts(names)?).map_err(|error| usage(py, "InvalidName", &error.to_string()))
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

/// Whether names have hash tags of their own.
fn have_tags(py: Python<'_>, hash_tags: &str) -> PyResult<bool> {
    match hash_tags {
        "namespace" => Ok(false),
        "names" => Ok(true),
        _ => Err(usage(py, "UsageError", &format!("hash_tags must be \"namespace\" or \"names\", not '{hash_tags}'"))),
    }
}

fn is_text(part: &Bound<'_, PyAny>) -> bool {
    part.is_instance_of::<PyString>() || part.is_instance_of::<PyBytes>()
}

/// Text, bytes and numbers, as Redis takes them.
fn push_part(command: &mut Command, part: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_text(part) {
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
