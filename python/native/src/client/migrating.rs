//! Two clients as one: a client whose methods serve an old and a new pool. The core says what to ask of which.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::migration::{Counts, Crossing, Failing, Next, Pools, Progress, Side, Unconverted, Wanted};
use pinyon_cache::operations::{
    Answer, AnyOperation, DataBlock, Operation, OwnedKey, Policy, SentKey, ServerCommand, Single,
};
use pinyon_cache::Value;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::running::Call;
use super::{Client, Returned};
use crate::answers::{deleted, failed, fetched, leased, of_servers, read, stored};
use crate::callers::Unseen;
use crate::errors::{class_of, ErrorKind};
use crate::reading::Reader;
use crate::shared::{Becomes, Part};
use crate::stored::{Content, Stored};
use crate::supplied::{KeptKey, LoopOperation, LoopValues};
use crate::ttl;
use crate::value_bytes::{Encoded, Kept};

/// The progress of a migrating client and its views.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct MigrationCounts(Arc<Counts>);

#[pymethods]
impl MigrationCounts {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// The fields of `pinyon.Progress`.
    fn progress(&self) -> [u64; 5] {
        let Progress { new, old, moved, refused, missing } = self.0.progress();
        [new, old, moved, refused, missing]
    }
}

/// The clients of both pools. They are asked for when they are used: what they are may be decided late.
pub(crate) struct Both {
    clients: [Py<Client>; 2],
    counts: Arc<Counts>,
    /// For items moved from servers that cannot report it.
    ttl: Option<i64>,
    /// Makes a coroutine of a [`Migration`], if the methods are awaited.
    cross: Option<Py<PyAny>>,
}

/// What Python passes to make them: the old client, the counts, the ttl, and what makes a coroutine.
pub(crate) type Migrating<'py> =
    (Py<Client>, Bound<'py, MigrationCounts>, Option<Bound<'py, PyAny>>, Option<Py<PyAny>>);

/// A request on both pools.
pub(super) struct Asked<'py> {
    pub(super) wanted: Wanted,
    pub(super) given: Vec<Py<PyAny>>,
    pub(super) data: Kept,
    pub(super) blocks: Vec<DataBlock<Kept>>,
    pub(super) default: Option<&'py Bound<'py, PyAny>>,
    pub(super) failed: Option<Py<PyDict>>,
}

impl Asked<'_> {
    pub(super) fn of(wanted: Wanted, given: Vec<Py<PyAny>>) -> Self {
        Self { wanted, given, data: Kept::Nothing, blocks: Vec::new(), default: None, failed: None }
    }
}

impl Both {
    pub(super) fn new((old, counts, ttl, cross): Migrating<'_>, new: Py<Client>) -> PyResult<Self> {
        let ttl = ttl.map(|ttl| ttl::seconds(&ttl)).transpose()?;
        Ok(Self { clients: [old, new], counts: counts.get().0.clone(), ttl, cross })
    }

    fn client(&self, side: Side) -> &Client {
        self.clients[side as usize].get()
    }

    /// Runs a request about a key.
    pub(super) fn ask<'py>(self: &Arc<Self>, call: &Call<'_, 'py>) -> Returned<'py> {
        let given = vec![call.key.clone().unbind()];
        let data = call.value.map_or(Ok(Kept::Nothing), Encoded::keep)?;
        let asked = Asked { data, default: call.default, ..Asked::of(Wanted::One(call.request), given) };
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
        cas: bool,
    ) -> Returned<'py> {
        let failing = if failed.is_some() { Failing::BesideValues } else { Failing::Ends };
        let given = distinct(py, given)?;
        self.run(py, Asked { failed, ..Asked::of(Wanted::GetMany { cas, failing }, given) })
    }

    pub(super) fn delete_many<'py>(self: &Arc<Self>, py: Python<'py>, given: &[Py<PyAny>]) -> Returned<'py> {
        self.run(py, Asked::of(Wanted::DeleteMany, distinct(py, given)?))
    }

    /// Runs a request. Returns its result, or what a coroutine must await.
    pub(super) fn run<'py>(self: &Arc<Self>, py: Python<'py>, asked: Asked<'_>) -> Returned<'py> {
        for client in &self.clients {
            client.bind(py).getattr(intern!(py, "get"))?; // it is decided now what kind of client it is
            client.get().check_open(py)?;
        }
        let Asked { wanted, given, data, blocks, default, failed } = asked;
        let key = |side, key: &Py<PyAny>| self.client(side).with_key(key.bind(py), |sent| Ok(OwnedKey::from(*sent)));
        let both_keys = |given| Ok([key(Side::Old, given)?, key(Side::New, given)?]);
        let keys = given.iter().map(both_keys).collect::<PyResult<Vec<_>>>()?;
        let (count, stores) = (keys.len(), matches!(wanted, Wanted::SetMany { .. }));
        let pools = OfBoth { both: self.clone(), keys, given, data, blocks, stores, raised: None };
        let crossing = Crossing::new(pools, wanted, count, self.counts.clone(), self.ttl);
        let state = State::Under(crossing.into());
        let migration = Migration {
            both: self.clone(),
            default: default.map(|default| default.clone().unbind()),
            failed,
            state: state.into(),
            part: Part::default(),
        };
        match &self.cross {
            Some(cross) => cross.bind(py).call1((migration,)),
            None => {
                migration.go_on(py)?;
                migration.result(py)
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
struct OfBoth {
    both: Arc<Both>,
    /// Each for the old pool and for the new one.
    keys: Vec<[OwnedKey; 2]>,
    given: Vec<Py<PyAny>>,
    data: Kept,
    blocks: Vec<DataBlock<Kept>>,
    /// Whether it stores many values.
    stores: bool,
    /// What ended the conversion of a value.
    raised: Option<PyErr>,
}

impl Pools for OfBoth {
    type Key = KeptKey;
    type Data = Kept;
    type Values = LoopValues;

    fn key(&self, side: Side, index: usize) -> KeptKey {
        let key = self.keys[index][side as usize].clone();
        Python::attach(|py| KeptKey::rewritten(key, self.given[index].clone_ref(py)))
    }

    fn data(&self) -> Kept {
        Python::attach(|py| match &self.data {
            Kept::Object(object) => Kept::Object(object.clone_ref(py)),
            Kept::Copied(bytes) => Kept::Copied(bytes.clone()),
            Kept::Shared(bytes) => Kept::Shared(bytes.clone()),
            Kept::Nothing => Kept::Nothing,
        })
    }

    fn blocks(&mut self) -> Vec<DataBlock<Kept>> {
        std::mem::take(&mut self.blocks)
    }

    fn values(&self, side: Side) -> LoopValues {
        LoopValues(self.both.client(side).codec.clone())
    }

    fn policy(&self, side: Side) -> Policy {
        self.both.client(side).policy
    }

    fn convert(&mut self, value: &Stored) -> Result<DataBlock<Kept>, Unconverted> {
        Python::attach(|py| {
            self.converted(py, value).map_err(|error| {
                let is_own = class_of(py, ErrorKind::Error).is_ok_and(|own| error.is_instance(py, &own));
                if is_own {
                    return Unconverted::Refused;
                }
                self.raised = Some(error);
                Unconverted::Interrupted
            })
        })
    }
}

impl OfBoth {
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
}

/// A request on both pools, under way.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Migration {
    both: Arc<Both>,
    default: Option<Py<PyAny>>,
    /// For the errors of failed servers.
    failed: Option<Py<PyDict>>,
    state: Mutex<State>,
    /// The last operation of an event loop, once it is over.
    part: Part,
}

enum State {
    Under(Box<Crossing<OfBoth>>),
    Over(Box<OfBoth>, Vec<(Side, LoopOperation)>),
    Taken,
}

#[pymethods]
impl Migration {
    /// Goes on. Returns what is to be awaited before it is called again, or None if there is a result.
    fn go_on<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let State::Under(mut crossing) = self.take() else { unreachable!("it is over") };
        let mut next = match self.part.take() {
            Some(operation) => crossing.ran(operation),
            None => crossing.begin(),
        };
        loop {
            let (side, mut operation) = match next {
                Next::Run(side, operation) => (side, operation),
                Next::Interrupted => return Err(crossing.finish().0.raised.expect("that interrupted it")),
                Next::Over => {
                    let (pools, over) = crossing.finish();
                    *self.state() = State::Over(pools.into(), over);
                    return Ok(None);
                }
            };
            let client = self.both.client(side);
            if client.loops.get().is_none() {
                client.carry_out(py, &mut operation)?;
                next = crossing.ran(operation);
                continue;
            }
            let awaited = client.run_in_loop(py, operation, Becomes::Part(self.part.clone()))?;
            match self.part.take() {
                // A greenlet has waited for it.
                Some(operation) => next = crossing.ran(operation),
                None => {
                    *self.state() = State::Under(crossing);
                    return Ok(Some(awaited));
                }
            }
        }
    }

    fn result<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let State::Over(pools, over) = self.take() else { unreachable!("it is not over") };
        let mut result = py.None().into_bound(py);
        for (side, operation) in over {
            let of_pool = self.read(py, &pools, side, operation);
            let client = self.both.client(side);
            if client.loops.get().is_none() {
                client.watcher.tell(py, &client.directory)?;
            }
            match result.cast::<PyDict>() {
                Ok(all) => all.update(of_pool?.cast::<PyDict>()?.as_mapping())?,
                Err(_) => result = of_pool?,
            }
        }
        Ok(result)
    }
}

impl Migration {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> State {
        std::mem::replace(&mut self.state(), State::Taken)
    }

    /// The result that an operation has.
    fn read<'py>(&self, py: Python<'py>, pools: &OfBoth, side: Side, operation: LoopOperation) -> Returned<'py> {
        let client = self.both.client(side);
        let (codec, directory) = (&*client.codec, &*client.directory);
        match operation {
            AnyOperation::Single(mut single) => {
                let passes_over = single.request().passes_over_unreadable(single.policy());
                let reader = Reader { codec, directory, command: single.name(), passes_over };
                let key = pools.given[0].bind(py);
                self.answered(py, &mut single, |stored| reader.read(stored, key))
            }
            AnyOperation::Fetch(fetch) => {
                let passes_over = fetch.policy().unreadable_is_miss;
                let values = fetch.finish();
                let reader = Reader { codec, directory, command: values.failures.name(), passes_over };
                fetched(py, values, &pools.given, self.failed.as_ref().map(|failed| failed.bind(py)), &reader)
            }
            AnyOperation::Change(change) if pools.stores => stored(py, change.finish(), &pools.given),
            AnyOperation::Change(change) => deleted(py, change.finish()),
            AnyOperation::Everywhere(everywhere) => of_servers(py, *everywhere),
            AnyOperation::Quiet(_) => unreachable!("there are no batches"),
        }
    }

    fn answered<'py>(
        &self,
        py: Python<'py>,
        single: &mut Single<KeptKey, Kept, LoopValues>,
        make: impl FnOnce(Stored) -> PyResult<Option<Py<PyAny>>>,
    ) -> Returned<'py> {
        match single.take_answer() {
            Ok(Answer::Lease(found)) => {
                let directory = &self.both.client(Side::New).directory;
                let unseen = Unseen::new(&found, directory, single.policy(), || single.key().owned());
                leased(py, *found, unseen, make)
            }
            Ok(answer) => read(py, answer, self.default.as_ref().map(|default| default.bind(py)), make),
            Err(why) => Err(failed(py, why)),
        }
    }
}
