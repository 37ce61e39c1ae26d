//! The Python side of the machine that decides what a caller of `get_or_set_many` does next.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_cache::blocking::give_back_late;
use pinyon_cache::lease::{self, Behind, Ended, FlightKey, LeftOut, Made, ManyOutcome, ManyStep, StepOutcome, Storing};
use pinyon_cache::operations::{
    Answer, AnyOperation, Compared, Found, Mode, Operation, Request, SentKey, Several, Single, Tagging, Win,
};
use pinyon_cache::settings::TermsSettings;
use pinyon_cache::ttl::Ttl;
use pinyon_net::fork::generation;
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::IntoPyObjectExt;

use crate::answers;
use crate::callers::{Callers, Event, Shared};
use crate::client::many::Keys;
use crate::client::{Client, Returned};
use crate::errors::{checked, exception, raised_beside, reason, unstorable};
use crate::keys::key_bytes;
use crate::leases::{failed, Given};
use crate::settings::changed;
use crate::shared::{Becomes, Part};
use crate::stored::Stored;
use crate::supplied::{KeptKey, LoopOperation, LoopRequest, LoopValues};
use crate::ttl;
use crate::value_bytes::Kept;

type Step = ManyStep<Callers>;
type Outcome = StepOutcome<Callers, LeftOut>;

/// One caller's way to the values of many keys, by `pinyon_cache::lease::GetOrSetMany`. Each step is a tuple of its name
/// and its arguments; keys are indexes.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct GetOrSetMany {
    machine: Mutex<lease::GetOrSetMany<Callers>>,
    client: Py<Client>,
    keys: Vec<Py<PyAny>>,
    failed: Option<Py<PyDict>>,
    /// The tags of the values.
    tags: Option<Tagging>,
    /// The requests of the step under way, or their answers.
    sent: Mutex<Option<Sent>>,
    scope_and_caller: [Py<PyAny>; 2],
}

/// Requests of one step that leave together.
struct Sent {
    requests: Part,
    /// For each key of the step, why it has no request.
    refused: Vec<Option<Outcome>>,
    process: u64,
}

impl GetOrSetMany {
    fn machine(&self) -> MutexGuard<'_, lease::GetOrSetMany<Callers>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next<'py>(&self, py: Python<'py>, outcome: ManyOutcome<Callers>) -> Returned<'py> {
        let step = self.machine().next(outcome, Instant::now());
        self.carry_out(py, step)
    }

    /// Carries out the steps that need no Python, up to the next one that does.
    fn carry_out<'py>(&self, py: Python<'py>, mut step: Step) -> Returned<'py> {
        let codec = &self.client.get().codec;
        loop {
            let outcome = match step {
                ManyStep::Share(key) => {
                    let shared = Shared::of(codec, self.value(py, key).bind(py));
                    shared.map(|shared| StepOutcome::Shared(Arc::new(shared)))
                }
                ManyStep::Copy(_, shared) => shared.copy(py, codec).map(StepOutcome::Value),
                step => return self.handed_out(py, step),
            };
            let outcome = outcome.or_else(|raised| failed(raised.value(py)))?;
            step = self.machine().next(ManyOutcome::All(outcome), Instant::now());
        }
    }

    fn handed_out<'py>(&self, py: Python<'py>, step: Step) -> Returned<'py> {
        match step {
            ManyStep::Ask(requests) => self.asking(py, "lease", requests),
            ManyStep::GiveBack(requests) => self.asking(py, "give_back", requests),
            ManyStep::Store(all) => {
                self.to_send(py, "cas", all.into_iter().map(|storing| self.storing(py, storing)).collect())
            }
            ManyStep::Make(keys) => {
                let given = PyList::new(py, keys.iter().map(|key| &self.keys[*key]))?;
                ("make", keys, given).into_bound_py_any(py)
            }
            ManyStep::Listen(keys) => ("listen", keys).into_bound_py_any(py),
            ManyStep::Follow(key, patience) => ("follow", key, patience.as_secs_f64()).into_bound_py_any(py),
            ManyStep::Pause(pause) => ("pause", pause.as_secs_f64()).into_bound_py_any(py),
            ManyStep::End(ended) => ("return", self.result(py, ended)?).into_bound_py_any(py),
            ManyStep::Raise(error) => Err(error.again(py)),
            ManyStep::Refuse(key, refusal) => Err(self.refused(py, key, refusal)?),
            ManyStep::Share(_) | ManyStep::Copy(..) => unreachable!("these are carried out natively"),
        }
    }

    fn refused(&self, py: Python<'_>, key: usize, refusal: lease::Refusal) -> PyResult<PyErr> {
        let message = refusal.message(&self.keys[key].bind(py).repr()?.to_cow()?);
        Ok(exception(py, refusal.kind(), &message))
    }

    fn single(
        &self,
        py: Python<'_>,
        key: usize,
        request: Request,
        data: Kept,
        tags: Option<Tagging>,
    ) -> PyResult<LoopRequest> {
        let (client, key) = (self.client.get(), self.keys[key].bind(py));
        let kept = client.with_key(key, |sent| KeptKey::new(*sent, key))?;
        let single = Single::new(request, kept, data, LoopValues(client.codec.clone()), client.policy);
        Ok(single.with_tags(tags))
    }

    fn asking<'py>(&self, py: Python<'py>, call: &str, requests: Vec<(usize, Request)>) -> Returned<'py> {
        let single = |(key, request)| self.single(py, key, request, Kept::Nothing, self.tags.clone());
        self.to_send(py, call, requests.into_iter().map(single).collect())
    }

    fn storing(&self, py: Python<'_>, Storing { key, cas, ttl }: Storing) -> PyResult<LoopRequest> {
        let value = self.value(py, key);
        let unstorable = |error| unstorable(py, error, self.keys[key].bind(py));
        let (encoded, client_flags) = self.client.get().codec.encode(value.bind(py)).map_err(unstorable)?;
        let size = encoded.bytes().map_err(unstorable)?.len();
        let ttl = Ttl::from_seconds(ttl).0;
        let request = Request::Store { mode: Mode::Set, size, client_flags, ttl, cas: Some(cas), returns_cas: false };
        let tags = self.machine().tags(key).cloned();
        self.single(py, key, request, encoded.keep()?, tags.map(Tagging::Read))
    }

    /// Keeps the requests of a step until `send`. `call`: what each is for one key.
    fn to_send<'py>(&self, py: Python<'py>, call: &str, all: Vec<PyResult<LoopRequest>>) -> Returned<'py> {
        let (mut singles, mut refused) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for single in all {
            match single {
                Ok(single) => {
                    singles.push(single);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(failed(error.value(py))?)),
            }
        }
        let (requests, count, several) = (Part::default(), singles.len(), Several::new(singles));
        requests.give(AnyOperation::Several(several.into()));
        *self.sent() = Some(Sent { requests, refused, process: generation() });
        ("send", call, count).into_bound_py_any(py)
    }

    fn sent(&self) -> MutexGuard<'_, Option<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(&self, py: Python<'_>, key: usize) -> Py<PyAny> {
        self.machine().value(key).map_or_else(|| py.None(), |value| value.clone_ref(py))
    }

    fn outcome(&self, py: Python<'_>, mut single: LoopRequest) -> PyResult<Outcome> {
        match single.take_answer() {
            Ok(Answer::Lease(found)) => self.found(py, &single, *found),
            Ok(Answer::Compared(compared)) => Ok(StepOutcome::Stored(compared == Compared::Stored)),
            Ok(_) => Ok(StepOutcome::Done),
            Err(why) => failed(answers::failed(py, why).value(py)),
        }
    }

    fn found(&self, py: Python<'_>, single: &LoopRequest, found: Found<Stored>) -> PyResult<Outcome> {
        let (client, win) = (self.client.get(), found.win());
        let reader = client.reader(single.name(), true);
        match found.read(|stored| reader.read(stored, &single.key().given(py))) {
            Ok(found) => Ok(StepOutcome::Found(found)),
            Err(error) => {
                win.into_iter().for_each(|win| self.give_back(single, win));
                failed(error.value(py))
            }
        }
    }

    fn give_back(&self, single: &LoopRequest, win: Win) {
        let client = self.client.get();
        give_back_late(&client.directory, single.key().owned(), win, client.policy);
    }

    /// Gives back what requests have won whose caller has gone.
    fn forsake(&self, operation: LoopOperation) {
        let AnyOperation::Several(several) = operation else { return };
        for mut single in several.finish() {
            if let Ok(Answer::Lease(found)) = single.take_answer() {
                found.win().into_iter().for_each(|win| self.give_back(&single, win));
            }
        }
    }

    fn result<'py>(&self, py: Python<'py>, ended: Vec<(usize, Ended<Callers>)>) -> PyResult<Bound<'py, PyDict>> {
        let (values, mut first) = (PyDict::new(py), None);
        for (key, ended) in ended {
            let error = match ended {
                Ended::Nothing => continue,
                Ended::Value(value) => {
                    values.set_item(&self.keys[key], value)?;
                    continue;
                }
                Ended::Failed(error) => error.again(py),
                Ended::Refused(refusal) => self.refused(py, key, refusal)?,
            };
            match &self.failed {
                Some(failed) => failed.bind(py).set_item(&self.keys[key], error.into_value(py))?,
                None => drop(first.get_or_insert(error)),
            }
        }
        for (key, first) in self.machine().repeated() {
            if let Some(value) = values.get_item(&self.keys[*first])? {
                values.set_item(&self.keys[*key], value)?;
            }
        }
        match first {
            Some(error) => Err(raised_beside(py, error, &values)),
            None => Ok(values),
        }
    }
}

impl Drop for GetOrSetMany {
    fn drop(&mut self) {
        Python::attach(|py| self.abandon(py));
    }
}

#[pymethods]
impl GetOrSetMany {
    /// `failed`: a dict for the errors of keys, which are not raised then. The others: as for `GetOrSet`.
    #[new]
    fn new(
        client: &Bound<'_, Client>,
        keys: &Bound<'_, PyAny>,
        scope: Bound<'_, PyAny>,
        caller: Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        failed: Option<Bound<'_, PyAny>>,
        terms: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = keys.py();
        let ttl = (!ttl.is_callable()).then(|| ttl::seconds(ttl)).transpose()?;
        let (handle, client) = (client.clone().unbind(), client.get());
        let terms = changed(TermsSettings::default(), Some(terms))?;
        let (terms, tags) = checked(py, terms.build_with_tags(ttl, Behind::WAITS, client.directory.tags()))?;
        client.check_usable(py)?;
        let failed = failed.map(crate::client::many::dict_for_failures).transpose()?.map(Bound::unbind);
        let keys = Keys::new(client, keys)?.given;
        let flight = |key: &Py<PyAny>| -> PyResult<FlightKey> {
            let key = key_bytes(key.bind(py))?.into();
            Ok(FlightKey { scope: scope.as_ptr() as usize, key, policy: client.policy })
        };
        let flights = keys.iter().map(flight).collect::<PyResult<Vec<_>>>()?;
        let (chance, caller_id) = (RandomState::new().hash_one(()), caller.as_ptr() as usize);
        let machine = lease::GetOrSetMany::new(&client.flights, flights, caller_id, terms, chance, Instant::now());
        Ok(Self {
            machine: Mutex::new(machine),
            client: handle,
            keys,
            failed,
            tags,
            sent: Mutex::default(),
            scope_and_caller: [scope.unbind(), caller.unbind()],
        })
    }

    /// A task that is never resumed forms a cycle with this object.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.client)?;
        self.scope_and_caller.iter().try_for_each(|object| visit.call(object))
    }

    fn begin<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let step = self.machine().begin(Instant::now());
        self.carry_out(py, step)
    }

    /// Sends the requests of a step. Returns what a coroutine must await. Call `answered` afterwards.
    fn send<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let requests = self.sent().as_ref().map(|sent| sent.requests.clone());
        let Some(mut operation) = requests.as_ref().and_then(Part::take) else { return Ok(py.None().into_bound(py)) };
        let (client, requests) = (self.client.get(), requests.unwrap_or_default());
        client.check_open(py)?;
        if client.is_awaited() {
            return client.run_in_loop(py, operation, Becomes::Part(requests));
        }
        if let Err(interrupt) = client.carry_out(py, &mut operation) {
            self.forsake(operation);
            return Err(interrupt);
        }
        requests.give(operation);
        Ok(py.None().into_bound(py))
    }

    /// The step that follows the answers to what was sent.
    fn answered<'py>(&self, py: Python<'py>, _nothing: &Bound<'py, PyAny>) -> Returned<'py> {
        let Some(Sent { requests, refused, .. }) = self.sent().take() else { unreachable!("something was sent") };
        let Some(AnyOperation::Several(several)) = requests.take() else { unreachable!("several were sent") };
        let mut singles = several.finish().into_iter();
        let mut outcomes = Vec::with_capacity(refused.len());
        for refused in refused {
            outcomes.push(match (refused, singles.by_ref()) {
                (Some(outcome), _) => outcome,
                (None, singles) => match singles.next() {
                    Some(single) => self.outcome(py, single)?,
                    None => unreachable!("each has a request"),
                },
            });
        }
        self.next(py, ManyOutcome::Each(outcomes))
    }

    /// Registers the signal of a key of a "listen".
    fn follow(&self, key: usize, signal: Py<PyAny>) {
        self.machine().follow(key, Event(signal));
    }

    fn done<'py>(&self, py: Python<'py>, _outcome: &Bound<'py, PyAny>) -> Returned<'py> {
        self.next(py, ManyOutcome::All(StepOutcome::Done))
    }

    /// What the maker says about storing the value of a key, before `made`. None: as its caller says.
    fn made_with(&self, py: Python<'_>, key: usize, ttl: Given<'_>, stale: Given<'_>, store: bool) -> PyResult<()> {
        let [ttl, stale] = [ttl, stale].map(|time| time.as_ref().map(ttl::seconds).transpose());
        let made = Made { ttl: ttl?, stale: stale?, store };
        let made = self.machine().made_with(key, made);
        checked(py, made)
    }

    /// `values`: for each key of "make", a tuple of its value, or None if it was left out.
    fn made<'py>(&self, py: Python<'py>, values: Vec<Option<(Py<PyAny>,)>>) -> Returned<'py> {
        let outcome = |made: Option<(Py<PyAny>,)>| {
            made.map_or(StepOutcome::Nothing(LeftOut), |(value,)| StepOutcome::Value(value))
        };
        self.next(py, ManyOutcome::Each(values.into_iter().map(outcome).collect()))
    }

    /// The step that follows a failure of the whole step. Raises the error if there is none.
    fn failed<'py>(&self, error: &Bound<'py, PyBaseException>) -> Returned<'py> {
        let (py, client) = (error.py(), self.client.get());
        let step = self.machine().next(ManyOutcome::All(failed(error)?), Instant::now());
        let kept = self.machine().suppressed();
        for (key, error) in kept {
            let why = reason(py, &error.again(py));
            client.with_key(self.keys[key].bind(py), |key| {
                client.directory.kept_stale(key.routed(), client.policy.failover, &why);
                Ok(())
            })?;
        }
        self.carry_out(py, step)
    }

    /// Ends a caller that goes away, and gives back what it has won. Nobody waits for that.
    fn abandon(&self, py: Python<'_>) {
        let client = self.client.get();
        if let Some(Sent { requests, process, .. }) = self.sent().take() {
            // In a forked child, the parent has the leases still.
            requests.take().filter(|_| process == generation()).into_iter().for_each(|sent| self.forsake(sent));
        }
        let left = self.machine().leave();
        for (key, win) in left {
            let given_back = client.with_key(self.keys[key].bind(py), |key| {
                give_back_late(&client.directory, key.owned(), win, client.policy);
                Ok(())
            });
            if let Err(error) = given_back {
                error.write_unraisable(py, None);
            }
        }
    }
}
