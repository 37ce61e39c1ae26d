//! The Python side of the machine that decides what a caller of `get_or_set` does next.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_cache::blocking::give_back_late;
use pinyon_cache::lease::{self, Behind, FlightKey, Made, Step, StepOutcome};
use pinyon_cache::operations::{Request, SentKey, Tagging, Win};
use pinyon_cache::settings::TermsSettings;
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::IntoPyObjectExt;

use crate::callers::{Callers, Event, Found, Raised, Shared};
use crate::client::Client;
use crate::errors::{checked, exception, kind_of, reason};
use crate::keys::key_bytes;
use crate::settings::changed;
use crate::tags::Tags;
use crate::ttl;
use crate::values::Codec;

/// One caller's way to a value, by `pinyon_cache::lease::GetOrSet`. Each step is a tuple of its name and its arguments.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct GetOrSet {
    machine: Mutex<lease::GetOrSet<Callers>>,
    codec: Arc<Codec>,
    client: Py<Client>,
    key: Py<PyAny>,
    /// The tags of the value.
    tags: Option<Py<Tags>>,
    /// A lease that its caller was told to give back, until it has done so.
    unreturned: Mutex<Option<Win>>,
    /// Kept alive, because the flight identifies them by their addresses.
    scope_and_caller: [Py<PyAny>; 2],
}

impl GetOrSet {
    fn machine(&self) -> MutexGuard<'_, lease::GetOrSet<Callers>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out the steps that need no Python, up to the next one that does.
    fn next<'py>(&self, py: Python<'py>, outcome: StepOutcome<Callers>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().next(outcome, Instant::now());
        self.carry_out(py, step)
    }

    fn carry_out<'py>(&self, py: Python<'py>, mut step: Step<Callers>) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let outcome = match step {
                Step::Share => self
                    .value(py)
                    .and_then(|value| Shared::of(&self.codec, value.bind(py)).map(Arc::new))
                    .map(StepOutcome::Shared),
                Step::Copy(shared) => shared.copy(py, &self.codec).map(StepOutcome::Value),
                step => return self.handed_out(py, step),
            };
            let outcome = outcome.or_else(|raised| failed(raised.value(py)))?;
            step = self.machine().next(outcome, Instant::now());
        }
    }

    fn handed_out<'py>(&self, py: Python<'py>, step: Step<Callers>) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key.bind(py);
        match step {
            Step::Ask(Request::Lease { lease, recache }) => self.ask(py, lease, recache, None),
            Step::Ask(Request::Renew { lease, recache, cas }) => self.ask(py, lease, recache, Some(cas)),
            Step::GiveBack(Request::GiveBack(win)) => ("give_back", key, win.cas, win.keep).into_bound_py_any(py),
            Step::Store { cas, ttl } => match self.stored_with() {
                None => ("store", key, self.value(py)?, cas, ttl).into_bound_py_any(py),
                Some(tags) => ("store_tagged", key, self.value(py)?, cas, ttl, tags).into_bound_py_any(py),
            },
            Step::Set { ttl } => match self.stored_with() {
                None => ("set", key, self.value(py)?, ttl).into_bound_py_any(py),
                Some(tags) => ("set_tagged", key, self.value(py)?, ttl, tags).into_bound_py_any(py),
            },
            Step::ReadTags(Request::Lease { lease, recache }) => {
                let tags = self.tags.as_ref().map(|tags| Tags(tags.get().0.clone().alone()));
                ("read_tags", key, lease, recache, py.None(), tags).into_bound_py_any(py)
            }
            Step::Pause(pause) => ("pause", pause.as_secs_f64()).into_bound_py_any(py),
            Step::Follow(patience) => ("follow", patience.as_secs_f64()).into_bound_py_any(py),
            Step::Make => ("make",).into_bound_py_any(py),
            Step::MakeWithin(time) => ("make_within", time.as_secs_f64()).into_bound_py_any(py),
            Step::ReturnOld => ("return", self.value(py)?).into_bound_py_any(py),
            Step::Return(value) => ("return", value).into_bound_py_any(py),
            Step::Raise(error) => Err(error.again(py)),
            Step::Refuse(refusal) => {
                let message = refusal.message(&key.repr()?.to_cow()?);
                Err(exception(py, refusal.kind(), &message))
            }
            Step::Nothing(never) => match never {},
            Step::Ask(_) | Step::ReadTags(_) | Step::GiveBack(_) | Step::Share | Step::Copy(_) => {
                unreachable!("these are carried out natively, or ask for nothing else")
            }
        }
    }

    /// The tags that the value is stored with.
    fn stored_with(&self) -> Option<Tags> {
        self.machine().tags().cloned().map(|tags| Tags(Tagging::Read(tags)))
    }

    fn ask<'py>(&self, py: Python<'py>, lease: i32, recache: i32, cas: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key.bind(py);
        match (&self.tags, cas) {
            (None, None) => ("ask", key, lease, recache).into_bound_py_any(py),
            (None, Some(cas)) => ("ask", key, lease, recache, cas).into_bound_py_any(py),
            (Some(tags), cas) => ("ask", key, lease, recache, cas, tags.clone_ref(py)).into_bound_py_any(py),
        }
    }

    fn unreturned(&self) -> MutexGuard<'_, Option<Win>> {
        self.unreturned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.machine().value().map_or_else(|| py.None(), |value| value.clone_ref(py)))
    }
}

impl Drop for GetOrSet {
    fn drop(&mut self) {
        Python::attach(|py| self.abandon(py));
    }
}

/// Why threads refuse what needs something that goes on behind them.
const IN_THREADS: &str =
    "a thread that leaves needs another one that goes on with its maker; give executor, such as a \
                          concurrent.futures.ThreadPoolExecutor, or use pinyon.aio.Client";

/// An argument that may be None.
pub(crate) type Given<'py> = Option<Bound<'py, PyAny>>;

pub(crate) fn failed<N>(error: &Bound<'_, PyBaseException>) -> PyResult<StepOutcome<Callers, N>> {
    Ok(StepOutcome::Failed { error: Arc::new(Raised::of(error)?), is_outage: kind_of(error)?.is_outage() })
}

#[pymethods]
impl GetOrSet {
    /// `scope`: shared by callers that can wake each other. `caller`: identifies this caller. `ttl`: seconds, or a function
    /// that tells the ttl of a value, which its caller calls. `can_go_behind`: whether a maker can go on when its caller is done.
    /// `terms`: the other settings.
    #[new]
    fn new(
        client: &Bound<'_, Client>,
        key: Bound<'_, PyAny>,
        scope: Bound<'_, PyAny>,
        caller: Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        can_go_behind: bool,
        terms: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let ttl = (!ttl.is_callable()).then(|| ttl::seconds(ttl)).transpose()?;
        let (handle, client) = (client.clone().unbind(), client.get());
        let py = key.py();
        let behind = if can_go_behind { Behind::Can } else { Behind::Never(IN_THREADS) };
        let terms = changed(TermsSettings::default(), Some(terms))?;
        let (terms, tags) = checked(py, terms.build_with_tags(ttl, behind, client.directory.tags()))?;
        let tags = tags.map(|tags| Py::new(py, Tags(tags))).transpose()?;
        let bytes = key_bytes(&key)?.into();
        let flight_key = FlightKey { scope: scope.as_ptr() as usize, key: bytes, policy: client.policy };
        let chance = RandomState::new().hash_one(());
        let flights = client.flights.clone();
        let machine =
            lease::GetOrSet::new(flights, flight_key, caller.as_ptr() as usize, terms, chance, Instant::now());
        Ok(Self {
            machine: Mutex::new(machine),
            codec: client.codec.clone(),
            client: handle,
            key: key.unbind(),
            tags,
            unreturned: Mutex::default(),
            scope_and_caller: [scope.unbind(), caller.unbind()],
        })
    }

    /// A task that is never resumed forms a cycle with this object.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.client)?;
        self.scope_and_caller.iter().try_for_each(|object| visit.call(object))
    }

    fn begin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.machine().begin(Instant::now());
        self.carry_out(py, step)
    }

    /// The first step of a caller that makes the value whatever is stored.
    fn begin_anew<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let step = match self.tags {
            None => self.machine().begin_anew(),
            Some(_) => self.machine().begin_tagged_anew(),
        };
        self.carry_out(py, step)
    }

    /// Registers the signal of a "follow". Returns whether the caller must wait for it.
    fn follow(&self, signal: Py<PyAny>) -> bool {
        self.machine().follow(Event(signal))
    }

    /// The step that follows this answer.
    fn found<'py>(&self, found: &Bound<'py, Found>) -> PyResult<Bound<'py, PyAny>> {
        let py = found.py();
        self.next(py, StepOutcome::Found(found.get().with(py, |value| value)))
    }

    /// The end of a caller that does not wait for its maker any longer. What the maker comes to then, it reports itself.
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.next(py, StepOutcome::Late)
    }

    fn made<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(value.py(), StepOutcome::Value(value.clone().unbind()))
    }

    fn done<'py>(&self, outcome: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(outcome.py(), StepOutcome::Done)
    }

    fn stored<'py>(&self, outcome: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.next(outcome.py(), StepOutcome::Stored(outcome.is_truthy()?))
    }

    /// What the maker says about storing its value, before `made`. None: as its caller says.
    fn made_with(&self, py: Python<'_>, ttl: Given<'_>, stale: Given<'_>, store: bool) -> PyResult<()> {
        let [ttl, stale] = [ttl, stale].map(|time| time.as_ref().map(ttl::seconds).transpose());
        let made = Made { ttl: ttl?, stale: stale?, store };
        let made = self.machine().made_with(made);
        checked(py, made)
    }

    /// The step that follows a failure. Raises the error if there is none.
    fn failed<'py>(&self, error: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
        let py = error.py();
        let step = self.machine().next(failed(error)?, Instant::now());
        // The next step tells of it: it sends a command.
        if self.machine().suppressed().is_some() {
            let (why, client) = (reason(py, &PyErr::from_value(error.clone().into_any())), self.client.get());
            client.with_key(self.key.bind(py), |key| {
                client.directory.kept_stale(key.routed(), client.policy.failover, &why);
                Ok(())
            })?;
        }
        self.carry_out(py, step)
    }

    /// Ends a caller that goes away. Returns the arguments for `Client._give_back` if it has won a lease, or None. Call
    /// `returned` afterwards.
    fn leave(&self) -> Option<(u64, bool)> {
        let win = self.machine().leave();
        *self.unreturned() = win;
        win.map(|win| (win.cas, win.keep))
    }

    /// Gives back the lease of a caller that was interrupted on its way out. Nobody waits for it.
    fn abandon(&self, py: Python<'_>) {
        let left = self.machine().leave();
        let Some(win) = self.unreturned().take().or(left) else { return };
        let client = self.client.get();
        let given_back = client.with_key(self.key.bind(py), |key| {
            give_back_late(&client.directory, key.owned(), win, client.policy);
            Ok(())
        });
        if let Err(error) = given_back {
            error.write_unraisable(py, None);
        }
    }

    /// Takes note that the lease was given back.
    fn returned(&self) {
        *self.unreturned() = None;
    }
}
