//! Two clients as one: a client whose methods serve an old and a new pool. The core says what to ask of which.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::blocking::run_on_both;
use pinyon_cache::calls::Gives;
use pinyon_cache::migration::{Crossing, Failing, Next, OnePool, Pools, Side, Unconverted, Wanted};
use pinyon_cache::operations::{
    Answer, AnyOperation, DataBlock, Head, Operation, OwnedKey, Policy, Request, SentKey, ServerCommand, Tagging,
    Values,
};
use pinyon_cache::{Destination, Value};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::running::Call;
use super::{Both, Client, Returned};
use crate::answers::{changed, failed, fetched, leased, of_servers, read};
use crate::callers::Unseen;
use crate::errors::{class_of, ErrorKind};
use crate::host::PythonHost;
use crate::reading::Reader;
use crate::shared::{Becomes, Part};
use crate::stored::{Content, Stored};
use crate::supplied::{KeptKey, LoopOperation, LoopValues};
use crate::value_bytes::{Encoded, Kept};

/// A request on both pools.
pub(super) struct Asked<'py> {
    pub(super) wanted: Wanted,
    pub(super) given: Vec<Py<PyAny>>,
    pub(super) data: Kept,
    pub(super) blocks: Vec<DataBlock<Kept>>,
    pub(super) default: Option<&'py Bound<'py, PyAny>>,
    pub(super) failed: Option<Py<PyDict>>,
    /// The tags of what is stored.
    pub(super) tags: Option<Tagging>,
}

impl Asked<'_> {
    pub(super) fn of(wanted: Wanted, given: Vec<Py<PyAny>>) -> Self {
        Self { wanted, given, data: Kept::Nothing, blocks: Vec::new(), default: None, failed: None, tags: None }
    }
}

impl Both {
    fn client(&self, side: Side) -> &Client {
        self.clients[side as usize].get()
    }

    /// Runs a request about a key.
    pub(super) fn ask<'py>(self: &Arc<Self>, call: &Call<'_, 'py>) -> Returned<'py> {
        let given = vec![call.key.clone().unbind()];
        let data = call.value.map_or(Ok(Kept::Nothing), Encoded::keep)?;
        let asked = Asked {
            data,
            default: call.default,
            tags: call.tags.clone(),
            ..Asked::of(Wanted::One(call.request), given)
        };
        self.run(call.key.py(), asked)
    }

    pub(super) fn ask_servers<'py>(self: &Arc<Self>, py: Python<'py>, command: ServerCommand) -> Returned<'py> {
        self.run(py, Asked::of(Wanted::Everywhere(command), Vec::new()))
    }

    pub(super) fn fetch_many<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        given: &[Py<PyAny>],
        failed: Option<Py<PyDict>>,
        each: Request,
    ) -> Returned<'py> {
        let failing = if failed.is_some() { Failing::BesideValues } else { Failing::Ends };
        let given = distinct(py, given)?;
        self.run(py, Asked { failed, ..Asked::of(Wanted::GetMany { each, failing }, given) })
    }

    pub(super) fn change_many<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        given: &[Py<PyAny>],
        each: Request,
    ) -> Returned<'py> {
        self.run(py, Asked::of(Wanted::ChangeMany(each), distinct(py, given)?))
    }

    /// Runs a request. Returns its result, or what a coroutine must await.
    pub(super) fn run<'py>(self: &Arc<Self>, py: Python<'py>, asked: Asked<'_>) -> Returned<'py> {
        for client in &self.clients {
            client.get().loops.get(py)?;
            client.get().check_open(py)?;
        }
        let Asked { wanted, given, data, blocks, default, failed, tags } = asked;
        let default = default.map(|default| default.clone().unbind());
        let key = |side, key: &Py<PyAny>| self.client(side).with_key(key.bind(py), |sent| Ok(OwnedKey::from(*sent)));
        let both_keys = |given| Ok([key(Side::Old, given)?, key(Side::New, given)?]);
        let keys = given.iter().map(both_keys).collect::<PyResult<Vec<_>>>()?;
        let count = keys.len();
        let changes = match wanted {
            Wanted::ChangeMany(each) => each.call_of_many().gives,
            _ => Gives::NotStored,
        };
        let asked =
            Given { both: self.clone(), keys, given, data, blocks, changes, default, failed, tags, raised: None };
        if self.clients.iter().all(|client| client.get().loops.known().is_none()) {
            return self
                .wait(py, Crossing::new(OfBoth::<Thread>::new(asked), wanted, count, self.counts.clone(), self.ttl));
        }
        let crossing = Crossing::new(OfBoth::new(asked), wanted, count, self.counts.clone(), self.ttl);
        let migration = Migration { state: State::Under(crossing.into()).into(), part: Part::default() };
        match &self.cross {
            Some(cross) => cross.bind(py).call1((migration,)),
            None => {
                migration.go_on(py)?;
                migration.result(py)
            }
        }
    }

    /// Runs a request by waiting.
    fn wait<'py>(&self, py: Python<'py>, mut crossing: Crossing<OfBoth<Thread>>) -> Returned<'py> {
        let [old, new] = [Side::Old, Side::New].map(|side| self.client(side));
        let ran = run_on_both(&old.directory, &new.directory, &PythonHost(py), &mut crossing);
        [old, new].iter().try_for_each(|client| client.watcher.tell(py, &client.directory))?;
        let is_over = ran?;
        let (OfBoth { asked, .. }, over) = crossing.finish();
        match asked.raised {
            Some(raised) if !is_over => Err(raised),
            _ => {
                let result = asked.result::<Thread>(py, over);
                [old, new].iter().try_for_each(|client| client.watcher.tell(py, &client.directory))?;
                result
            }
        }
    }
}

/// Each key once.
fn distinct(py: Python<'_>, given: &[Py<PyAny>]) -> PyResult<Vec<Py<PyAny>>> {
    let keys = PyDict::new(py);
    given.iter().try_for_each(|key| keys.set_item(key, py.None()))?;
    Ok(keys.iter().map(|(key, _)| key.unbind()).collect())
}

/// What a request needs of Python's, for both pools.
struct Given {
    both: Arc<Both>,
    /// Each for the old pool and for the new one.
    keys: Vec<[OwnedKey; 2]>,
    given: Vec<Py<PyAny>>,
    data: Kept,
    blocks: Vec<DataBlock<Kept>>,
    /// What it gives if it changes many keys.
    changes: Gives,
    default: Option<Py<PyAny>>,
    /// For the errors of failed servers.
    failed: Option<Py<PyDict>>,
    /// The tags of what is stored.
    tags: Option<Tagging>,
    /// What ended the conversion of a value.
    raised: Option<PyErr>,
}

struct OfBoth<W> {
    asked: Given,
    way: PhantomData<fn() -> W>,
}

impl<W> OfBoth<W> {
    fn new(asked: Given) -> Self {
        Self { asked, way: PhantomData }
    }
}

/// How an operation is carried out. Those of threads have types of their own: code that event loops share with them would
/// not be as fast.
trait Way {
    type Key: SentKey;
    type Values: Values<Value = Stored, Error = Infallible>;

    fn key(key: OwnedKey, given: &Py<PyAny>) -> Self::Key;
    fn values(values: LoopValues) -> Self::Values;
}

enum Thread {}
enum InLoop {}

impl Way for Thread {
    type Key = OwnedKey;
    type Values = Waiting;

    fn key(key: OwnedKey, _given: &Py<PyAny>) -> OwnedKey {
        key
    }

    fn values(values: LoopValues) -> Waiting {
        Waiting(values)
    }
}

impl Way for InLoop {
    type Key = KeptKey;
    type Values = LoopValues;

    fn key(key: OwnedKey, given: &Py<PyAny>) -> KeptKey {
        Python::attach(|py| KeptKey::rewritten(key, given.clone_ref(py)))
    }

    fn values(values: LoopValues) -> LoopValues {
        values
    }
}

struct Waiting(LoopValues);

impl Values for Waiting {
    type Value = Stored;
    type Error = Infallible;

    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Stored, Infallible> {
        self.0.read(head, value, server)
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        self.0.destination(head)
    }
}

impl<W: Way> Pools for OfBoth<W> {
    type Key = W::Key;
    type Data = Kept;
    type Values = W::Values;

    fn key(&self, side: Side, index: usize) -> W::Key {
        W::key(self.asked.keys[index][side as usize].clone(), &self.asked.given[index])
    }

    fn data(&self) -> Kept {
        Python::attach(|py| match &self.asked.data {
            Kept::Object(object) => Kept::Object(object.clone_ref(py)),
            Kept::Copied(bytes) => Kept::Copied(bytes.clone()),
            Kept::Shared(bytes) => Kept::Shared(bytes.clone()),
            Kept::Nothing => Kept::Nothing,
        })
    }

    fn tags(&self) -> Option<Tagging> {
        self.asked.tags.clone()
    }

    fn blocks(&mut self) -> Vec<DataBlock<Kept>> {
        std::mem::take(&mut self.asked.blocks)
    }

    fn values(&self, side: Side) -> W::Values {
        W::values(LoopValues(self.asked.both.client(side).codec.clone()))
    }

    fn policy(&self, side: Side) -> Policy {
        self.asked.both.client(side).policy
    }

    fn convert(&mut self, value: &Stored) -> Result<DataBlock<Kept>, Unconverted> {
        Python::attach(|py| {
            self.asked.converted(py, value).map_err(|error| {
                let is_own = class_of(py, ErrorKind::Error).is_ok_and(|own| error.is_instance(py, &own));
                if is_own {
                    return Unconverted::Refused;
                }
                self.asked.raised = Some(error);
                Unconverted::Interrupted
            })
        })
    }
}

impl Given {
    fn converted(&self, py: Python<'_>, value: &Stored) -> PyResult<DataBlock<Kept>> {
        let object = match value {
            Stored::Made(object) => object.bind(py).clone(),
            Stored::Rest(rest) => match &rest.content {
                Content::Unloaded { flags, bytes } => {
                    self.both.client(Side::Old).codec.read(py, *flags, Value::Borrowed(bytes.bytes()))?
                }
                Content::Failed(error) => return Err(error.clone_ref(py)),
            },
        };
        let (encoded, client_flags) = self.both.client(Side::New).codec.encode(&object)?;
        Ok(DataBlock { size: encoded.bytes()?.len(), data: encoded.keep()?, client_flags })
    }

    /// What a request came to.
    fn result<'py, W: Way>(&self, py: Python<'py>, over: Vec<(Side, OnePool<OfBoth<W>>)>) -> Returned<'py> {
        let mut result = py.None().into_bound(py);
        for (side, operation) in over {
            let of_pool = self.read::<W>(py, side, operation)?;
            match result.cast::<PyDict>() {
                Ok(all) => all.update(of_pool.cast::<PyDict>()?.as_mapping())?,
                Err(_) => result = of_pool,
            }
        }
        Ok(result)
    }

    /// The result that an operation has.
    fn read<'py, W: Way>(&self, py: Python<'py>, side: Side, operation: OnePool<OfBoth<W>>) -> Returned<'py> {
        let client = self.both.client(side);
        let (codec, directory) = (&*client.codec, &*client.directory);
        match operation {
            AnyOperation::Single(mut single) => {
                let passes_over = single.request().passes_over_unreadable(single.policy());
                let reader = Reader { codec, directory, command: single.name(), passes_over };
                let make = |stored| reader.read(stored, self.given[0].bind(py));
                match single.take_answer() {
                    Ok(Answer::Lease(found)) => {
                        let of_new = &self.both.client(Side::New).directory;
                        let unseen = Unseen::new(&found, of_new, single.policy(), || single.key().owned());
                        leased(py, *found, unseen, make)
                    }
                    Ok(answer) => read(py, answer, self.default.as_ref().map(|default| default.bind(py)), make),
                    Err(why) => Err(failed(py, why)),
                }
            }
            AnyOperation::Fetch(fetch) => {
                let passes_over = fetch.policy().unreadable_is_miss;
                let values = fetch.finish();
                let reader = Reader { codec, directory, command: values.failures.name(), passes_over };
                fetched(py, values, &self.given, self.failed.as_ref().map(|failed| failed.bind(py)), &reader)
            }
            AnyOperation::Change(change) => changed(py, change.finish(), self.changes, &self.given),
            AnyOperation::Everywhere(everywhere) => of_servers(py, *everywhere),
            AnyOperation::Quiet(_) | AnyOperation::Several(_) => unreachable!("there are no batches"),
        }
    }
}

/// A request on both pools, under way in an event loop.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Migration {
    state: Mutex<State>,
    /// The last operation, once it is over.
    part: Part,
}

enum State {
    Under(Box<Crossing<OfBoth<InLoop>>>),
    Over(Box<Given>, Vec<(Side, LoopOperation)>),
    Taken,
}

#[pymethods]
impl Migration {
    /// Goes on. Returns what is to be awaited before it is called again, or None if there is a result.
    fn go_on<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let State::Under(mut crossing) = self.take() else { unreachable!("it is over") };
        let both = crossing.pools().asked.both.clone();
        let mut next = match self.part.take() {
            Some(operation) => crossing.ran(operation),
            None => crossing.begin(),
        };
        while let Next::Run(side, operation) = next {
            let awaited = both.client(side).run_in_loop(py, operation, Becomes::Part(self.part.clone()))?;
            match self.part.take() {
                // A greenlet has waited for it.
                Some(operation) => next = crossing.ran(operation),
                None => {
                    *self.state() = State::Under(crossing);
                    return Ok(Some(awaited));
                }
            }
        }
        let is_interrupted = matches!(next, Next::Interrupted);
        let (OfBoth { asked, .. }, over) = crossing.finish();
        match asked.raised {
            Some(raised) if is_interrupted => Err(raised),
            _ => {
                *self.state() = State::Over(asked.into(), over);
                Ok(None)
            }
        }
    }

    fn result<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let State::Over(asked, over) = self.take() else { unreachable!("it is not over") };
        asked.result::<InLoop>(py, over)
    }
}

impl Migration {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> State {
        std::mem::replace(&mut self.state(), State::Taken)
    }
}
