//! `pinyon.Locks`: what Python sees of it.

use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::settings::{LockParts, LockSettings, UsualLock};
use pinyon_locks::{Asked, Asks, ByTag, Limits, StatusQuestion, Voting};
use pinyon_net::settings::waiting_time;
use pinyon_proto::resp::Command;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use pyo3::IntoPyObjectExt;

use super::answers::value_in_python;
use super::drivers::{self, Drivers, Operation};
use super::names::{common_tag, is_text, lock_names, name_bytes, texts};
use crate::arguments::seconds;
use crate::concurrency::{Concurrency, Given};
use crate::errors::{checked, from_core, unsupported};
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::metrics::of_locks;
use crate::settings::changed;

/// Locks on one Redis or Valkey server. `pinyon.Locks` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
#[derive(Clone)]
pub(crate) struct Locks {
    clients: Arc<ByTag<Drivers>>,
    pub(super) usual: UsualLock,
}

#[pymethods]
impl Locks {
    /// `source`: a client to share everything with; nothing else is given then. `settings`: those of the core. `loops`: how
    /// coroutines share connections, see `Given`. None for threads.
    #[new]
    #[pyo3(signature = (source = None, *, report = None, loops = None, **settings))]
    fn new(
        py: Python<'_>,
        source: Option<&Bound<'_, Self>>,
        report: Option<Py<PyAny>>,
        loops: Option<Given>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        if let Some(source) = source {
            return Ok(source.get().clone());
        }
        let report = report.ok_or_else(|| PyTypeError::new_err("report or source is missing"))?;
        let settings = changed(LockSettings::default(), settings)?;
        let LockParts { setup, usual, names_have_tags } = checked(py, py.detach(|| settings.build()))?;
        let main = drivers::new(py, setup, Concurrency::new(loops).into(), report);
        Ok(Self { clients: ByTag::new(main, names_have_tags).into(), usual })
    }

    /// The hash tag in these names, if they have one.
    fn _tag_of<'py>(&self, py: Python<'py>, names: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(common_tag(names)?.map(|tag| PyBytes::new(py, tag)))
    }

    /// Answers a question about names: "each" (its state, see `pinyon.LockStatus`), "is_locked", "first_owner" or
    /// "waiting".
    fn _inspect<'py>(&self, names: &Bound<'py, PyTuple>, question: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = names.py();
        let (question, asked) =
            (checked(py, StatusQuestion::named(question))?, checked(py, Asked::new(&texts(names)?))?);
        self.run(names, Operation::Inspect { asked, question })
    }

    /// How many permits of a pool are taken, and its limit; None if none is taken.
    fn _permits<'py>(&self, pool: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = pool.py();
        let asked = checked(py, Asked::pool(name_bytes(pool)?))?;
        let names = PyTuple::new(py, [pool])?;
        self.run(&names, Operation::Inspect { asked, question: StatusQuestion::Permits })
    }

    /// Takes the names away from their holders. Returns how many were held.
    fn _take_away<'py>(&self, names: &Bound<'py, PyTuple>, token: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
        self.run(names, Operation::ForceRelease { names: lock_names(names)?, token })
    }

    /// Releases all locks: those of this process's threads, or those of the running event loop. Returns how many for each
    /// connection, or what a task awaits.
    fn _release_all<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let wait = timeout.map(time_to_wait).transpose()?;
        let mut released = Vec::new();
        for client in self.clients.all() {
            match drivers::release_all_of_loop(py, &client, wait)? {
                Some(waiting) => released.push(waiting),
                None => return self._release_all_of_threads(py, wait).map(|count| vec![count]),
            }
        }
        Ok(released)
    }

    /// Releases what this process's threads hold, at its end. Contacts no server if they hold nothing.
    fn _release_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self._release_all_of_threads(py, None).map(drop)
    }

    /// Reports a warning about these locks, as an event.
    fn _warn(&self, py: Python<'_>, line: &str) -> PyResult<()> {
        drivers::warn(py, self.clients.main(), line)
    }

    /// Sends a command on the connection of the locks on these names, and returns what the server answers.
    #[pyo3(signature = (parts, names = None))]
    fn _command<'py>(
        &self,
        py: Python<'py>,
        parts: &Bound<'py, PyTuple>,
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut command = Command::default();
        if let Some(name) = parts.iter().next().filter(|name| !is_text(name)) {
            return Err(unsupported(&name, "a command's name is str or bytes"));
        }
        for part in parts {
            push_part(&mut command, &part)?;
        }
        let client = names.map_or_else(|| Ok(self.clients.main().clone()), |names| self.of(names))?;
        drivers::run(py, &drivers::of_caller(py, &client)?, Operation::Execute { command })
    }

    /// Return what happened to the locks of this client in this process, as `LockMetrics`. It contacts no server and
    /// never waits; do not await it.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        of_locks(py, self.clients.main().metrics())
    }

    /// Asks the server or Sentinel at `place` on a connection of its own. Returns its answers; its errors are among
    /// them.
    fn _ask<'py>(
        &self,
        py: Python<'py>,
        place: &str,
        commands: Vec<Vec<Bound<'py, PyAny>>>,
        sentinel: bool,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let read = |parts: &Vec<Bound<'py, PyAny>>| {
            let mut command = Command::default();
            parts.iter().try_for_each(|part| push_part(&mut command, part))?;
            PyResult::Ok(command)
        };
        let commands = commands.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        let Some(place) = pinyon_locks::place(place) else {
            return Err(PyValueError::new_err(format!("{place} is no address of a server")));
        };
        let asks = if sentinel { Asks::Sentinel } else { Asks::Server };
        let answers = py.detach(|| self.clients.main().settings().ask(asks, &place, &commands));
        let answers = answers.map_err(|error| from_core(py, &error))?;
        answers.into_iter().map(|answer| value_in_python(py, answer)).collect()
    }

    /// The places in the URL, and whether they are those of Sentinels.
    #[getter]
    fn _places(&self) -> Vec<(String, bool)> {
        let places = self.clients.main().settings().places();
        places.into_iter().map(|(asks, place)| (place.to_string(), asks == Asks::Sentinel)).collect()
    }

    /// In a quorum, the seconds for which a server must have run to have a vote.
    #[getter]
    fn _votes_after(&self) -> Option<f64> {
        match &self.clients.main().settings().voting {
            Voting::Quorum(quorum) => Some(quorum.longest_ttl.as_secs_f64()),
            Voting::Alone | Voting::Member { .. } => None,
        }
    }

    /// The name of the service in a URL with Sentinels.
    #[getter]
    fn _service(&self) -> Option<String> {
        self.clients.main().settings().sentinels.as_ref().map(|sentinels| sentinels.service.name.clone())
    }

    /// The class of drivers of the event loops whose coroutines use these locks. None if threads do.
    #[getter]
    fn _driver<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.clients.main().loops().driver_class(py)
    }

    /// Which events are this client's.
    #[getter]
    fn _source(&self) -> u64 {
        self.clients.main().settings().options.observed.source()
    }

    /// The beginning of all keys of the namespace on the server, as bytes.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.clients.main().settings().keys.prefix())
    }

    /// The server, as `host:port` or a path.
    #[getter]
    fn server(&self) -> &str {
        &self.clients.main().settings().server
    }

    /// What decides on which node of a cluster a lock is kept: `"namespace"` or `"names"`.
    #[getter]
    fn hash_tags(&self) -> &'static str {
        match self.clients.names_have_tags() {
            true => "names",
            false => "namespace",
        }
    }

    /// Whether the client was closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.clients.main().is_closed()
    }

    /// Close the connections.
    ///
    /// Attempts that wait fail. Held locks are lost, and expire on the server with their ttl.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.clients.close().iter().try_for_each(|client| drivers::close(py, client))
    }
}

impl Locks {
    fn _release_all_of_threads<'py>(&self, py: Python<'py>, wait: Option<Duration>) -> PyResult<Bound<'py, PyAny>> {
        self.clients.release_all(&PythonHost(py), wait)?.into_bound_py_any(py)
    }

    fn run<'py>(&self, names: &Bound<'py, PyTuple>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        let py = names.py();
        drivers::run(py, &drivers::of_caller(py, &*self.of(names)?)?, operation)
    }

    pub(super) fn limits(&self) -> &Limits {
        self.clients.limits()
    }

    /// The client of these names: this one, or that of the names' own hash tag.
    pub(super) fn of(&self, names: &Bound<'_, PyTuple>) -> PyResult<Arc<Drivers>> {
        self.of_tag(names.py(), || common_tag(names))
    }

    /// The client of the names with this hash tag.
    pub(super) fn of_tag<T: AsRef<[u8]>>(
        &self,
        py: Python<'_>,
        tag: impl FnOnce() -> PyResult<Option<T>>,
    ) -> PyResult<Arc<Drivers>> {
        self.clients.of(tag, |main, tag| drivers::tagged(py, main, tag))
    }
}

pub(super) fn time_to_wait(timeout: &Bound<'_, PyAny>) -> PyResult<Duration> {
    checked(timeout.py(), waiting_time("timeout", seconds(timeout, "timeout")?))
}

/// Adds text, bytes or a number in Redis's notation.
fn push_part(command: &mut Command, part: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_text(part) {
        command.push(key_bytes(part)?);
        return Ok(());
    }
    if part.is_instance_of::<pyo3::types::PyBool>() || part.extract::<f64>().is_err() {
        return Err(unsupported(part, "parts of a command are str, bytes, int or float"));
    }
    command.push(part.str()?.to_str()?);
    Ok(())
}
