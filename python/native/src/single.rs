//! Commands on one key: each once, for every front end that drives them.

use pinyon_core::blocking::{execute, Receive};
use pinyon_core::session::Destination;
use pinyon_core::{Data, Reply};
use pinyon_proto::{Arithmetic, Command, Direction, Flag, Head, Key, MetaCommand, Mode, Status, Store, Verb};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::errors::{exception, invalid_key};
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::ttl::Ttl;
use crate::values::{destination, Codec};

/// Takes the value of one item, and its CAS token.
struct Found<'c, 'py> {
    py: Python<'py>,
    codec: &'c Codec,
    value: Option<PyResult<Bound<'py, PyAny>>>,
    cas: u64,
}

impl Receive for Found<'_, '_> {
    fn reply(&mut self, reply: Reply<'_>) {
        if reply.head.status != Status::Hit {
            return;
        }
        self.cas = reply.head.item.cas.unwrap_or_default();
        self.value = Some(self.codec.decode(self.py, &reply.head, reply.value));
    }

    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        destination(self.py, self.codec, head)
    }
}

impl Client {
    /// Runs the command that `make` makes of the key as it is sent.
    fn run(
        &self,
        key: &Bound<'_, PyAny>,
        data: &Data<'_>,
        receive: &mut impl Receive,
        make: impl for<'k> FnOnce(Key<'k>) -> Command<'k>,
    ) -> PyResult<()> {
        let py = key.py();
        self.check_open(py)?;
        let bytes = key_bytes(key)?;
        let mut scratch = Vec::new();
        let wire = self.keys.wire(bytes, &mut scratch).map_err(|error| invalid_key(py, &error))?;
        execute(&self.fleet, &PythonHost(py), bytes, &make(wire), data, receive)
            .map_err(|failure| exception(py, failure))
    }

    /// Runs a command whose reply has no value, and returns its status.
    fn status(
        &self,
        key: &Bound<'_, PyAny>,
        data: &Data<'_>,
        make: impl for<'k> FnOnce(Key<'k>) -> Command<'k>,
    ) -> PyResult<Status> {
        let mut status = Status::Miss;
        self.run(key, data, &mut |reply: Reply<'_>| status = reply.head.status, make)?;
        Ok(status)
    }

    fn fetch<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        make: impl for<'k> FnOnce(Key<'k>) -> Command<'k>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, u64)>> {
        let mut found = Found { py: key.py(), codec: &self.codec, value: None, cas: 0 };
        self.run(key, &Data::None, &mut found, make)?;
        let Found { value, cas, .. } = found;
        Ok(value.transpose()?.map(|value| (value, cas)))
    }

    pub(crate) fn fetch_value<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.fetch(key, |key| Command::Get { key, cas: false })?.map(|(value, _)| value))
    }

    pub(crate) fn fetch_with_cas<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, u64)>> {
        self.fetch(key, |key| Command::Get { key, cas: true })
    }

    pub(crate) fn fetch_and_touch<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        ttl: Ttl,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.fetch(key, |key| Command::GetAndTouch { key, ttl: ttl.0 })?.map(|(value, _)| value))
    }

    pub(crate) fn store(
        &self,
        mode: Mode,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Ttl,
        cas: Option<u64>,
    ) -> PyResult<Status> {
        let (encoded, client_flags) = self.codec.encode(value)?;
        let size = encoded.bytes()?.len();
        self.status(key, &encoded.data()?, |key| {
            Command::Store(Store { mode, key, size, client_flags, ttl: ttl.0, cas })
        })
    }

    pub(crate) fn touch_item(&self, key: &Bound<'_, PyAny>, ttl: Ttl) -> PyResult<bool> {
        let status = self.status(key, &Data::None, |key| Command::Touch { key, ttl: ttl.0 })?;
        Ok(status == Status::Done)
    }

    pub(crate) fn delete_item(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.status(key, &Data::None, |key| Command::Delete { key })? == Status::Done)
    }

    pub(crate) fn calculate(
        &self,
        direction: Direction,
        key: &Bound<'_, PyAny>,
        delta: u64,
        initial: Option<u64>,
        ttl: Ttl,
    ) -> PyResult<Option<u64>> {
        let mut result = None;
        let mut receive = |reply: Reply<'_>| result = number(&reply);
        let initial = initial.map(|initial| (initial, ttl.0));
        self.run(key, &Data::None, &mut receive, |key| {
            Command::Arithmetic(Arithmetic { key, direction, delta, initial })
        })?;
        Ok(result)
    }

    /// What the server knows of an item, without touching it.
    pub(crate) fn metadata<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        const FLAGS: &[Flag<'_>] = &[
            Flag::ReturnClientFlags,
            Flag::ReturnCas,
            Flag::HitBefore,
            Flag::LastAccess,
            Flag::Size,
            Flag::RemainingTtl,
            Flag::NoBump,
        ];
        let py = key.py();
        let mut found = None;
        let mut receive = |reply: Reply<'_>| {
            if reply.head.status == Status::Done {
                found = Some(reply.head.item);
            }
        };
        self.run(key, &Data::None, &mut receive, |key| {
            Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: FLAGS })
        })?;
        let Some(item) = found else { return Ok(None) };
        let fields = PyDict::new(py);
        fields.set_item("size", item.size)?;
        fields.set_item("flags", item.client_flags)?;
        fields.set_item("cas", item.cas)?;
        fields.set_item("ttl", item.ttl.filter(|ttl| *ttl >= 0))?;
        fields.set_item("last_access", item.last_access)?;
        fields.set_item("fetched", item.hit_before)?;
        py.import("pinyon.metadata")?.getattr("ItemMetadata")?.call((), Some(&fields)).map(Some)
    }
}

/// The number a meta or classic arithmetic command answers.
fn number(reply: &Reply<'_>) -> Option<u64> {
    if reply.head.number.is_some() {
        return reply.head.number;
    }
    std::str::from_utf8(reply.value.bytes()).ok()?.trim_end().parse().ok()
}
