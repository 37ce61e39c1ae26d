//! Commands for many keys: converts Python's keys and values, and the outcomes.

use pinyon_cache::calls::Gives;
use pinyon_cache::migration::Wanted;
use pinyon_cache::operations::{AnyOperation, Change, DataBlock, Fetch, Keys as SentKeys, Request};
use pinyon_cache::Data;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString};

use super::migrating::Asked;
use super::{Client, Returned};
use crate::answers::{changed, fetched};
use crate::errors::{at_index, checked, exception, invalid_key, unstorable, unsupported, ErrorKind};
use crate::keys::key_bytes;
use crate::shared::{Becomes, Wanted as WantedKeys};
use crate::supplied::{LoopValues, ThreadValues};
use crate::tags::{named, tagging};
use crate::ttl::StoredTtl;
use crate::value_bytes::Kept;

/// Keys as Python objects, and as they are sent.
pub(crate) struct Keys {
    pub(crate) given: Vec<Py<PyAny>>,
    sent: SentKeys,
}

impl Keys {
    pub(crate) fn new(client: &Client, keys: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = keys.py();
        if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
            let message = "keys must be a list, or another iterable of keys, not one key: put it in a list";
            return Err(exception(py, ErrorKind::UnsupportedType, message));
        }
        let not_iterable = |_| unsupported(keys, "keys must be a list, or another iterable of keys");
        let given =
            keys.try_iter().map_err(not_iterable)?.map(|key| key.map(Bound::unbind)).collect::<PyResult<Vec<_>>>()?;
        let mut sent = SentKeys::with_capacity(given.len());
        for (index, key) in given.iter().enumerate() {
            if let Err(error) = Self::push(client, &mut sent, key.bind(py)) {
                return Err(at_index(py, error, index));
            }
        }
        Ok(Self { given, sent })
    }

    #[inline(always)]
    fn push(client: &Client, sent: &mut SentKeys, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = key_bytes(key)?;
        let pushed = match client.routing.quoted(key)? {
            Some(quoted) => sent.push_asked_about(&client.keys, bytes, &quoted),
            None => sent.push(&client.keys, bytes),
        };
        pushed.map_err(|error| invalid_key(key.py(), &error, bytes))
    }
}

impl Client {
    pub(crate) fn fetch_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        failed: Option<Bound<'py, PyAny>>,
        each: Request,
    ) -> Returned<'py> {
        let py = keys.py();
        self.check_usable(py)?;
        let failed = failed.map(dict_for_failures).transpose()?;
        let Keys { given, sent } = Keys::new(self, keys)?;
        if let Some(both) = &self.both {
            return both.fetch_many(py, &given, failed.map(Bound::unbind), each);
        }
        if self.loops.known().is_some() {
            let fetch = Fetch::new(sent, each, LoopValues(self.codec.clone()), self.policy);
            let becomes = Becomes::Values(WantedKeys { keys: given, failed: failed.map(Bound::unbind) }.into());
            return self.run_in_loop(py, fetch.into(), becomes);
        }
        let mut fetch = Fetch::new(sent, each, ThreadValues { py, codec: &self.codec }, self.policy);
        self.carry_out(py, &mut fetch)?;
        let values = fetch.finish();
        let reader = self.reader(values.failures.name(), self.policy.unreadable_is_miss);
        let read = fetched(py, values, &given, failed.as_ref(), &reader);
        self.watcher.tell(py, &self.directory)?;
        read
    }

    pub(crate) fn store_many<'py>(
        &self,
        mapping: &Bound<'py, PyAny>,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        let py = mapping.py();
        let ttl = ttl.or(self.default_ttl)?;
        let tags = match tags {
            None => None,
            Some(tags) => tagging(&self.directory, tags)?,
        };
        self.check_usable(py)?;
        let pairs = PyDict::new(py);
        let not_a_mapping = |_| unsupported(mapping, "mapping must be a dict of keys and values");
        pairs.update(mapping.cast::<PyMapping>().map_err(not_a_mapping)?)?;
        let Keys { given, sent } = Keys::new(self, pairs.as_any())?;
        let values: Vec<_> = pairs.values().iter().collect();
        let encode = |(value, key): (_, &Py<PyAny>)| {
            self.codec.encode(value).map_err(|error| unstorable(py, error, key.bind(py)))
        };
        let encoded = values.iter().zip(&given).map(encode).collect::<PyResult<Vec<_>>>()?;
        let mut blocks: Vec<DataBlock<Data<'_>>> = Vec::with_capacity(encoded.len());
        let limits = self.directory.options().limits;
        for ((value, client_flags), key) in encoded.iter().zip(&given) {
            let size = value.bytes().map_err(|error| unstorable(py, error, key.bind(py)))?.len();
            if !self.policy.miss {
                checked(py, limits.check_value(size, || format!("{:?}", key.bind(py))))?;
            }
            blocks.push(DataBlock { data: value.data()?, size, client_flags: *client_flags });
        }
        if self.loops.known().is_some() || self.both.is_some() {
            let kept = blocks.iter().map(|DataBlock { data, size, client_flags }| {
                let (size, client_flags) = (*size, *client_flags);
                DataBlock { data: Kept::from(data), size, client_flags }
            });
            let kept = kept.collect();
            if let Some(both) = &self.both {
                return both.run(py, Asked { blocks: kept, tags, ..Asked::of(Wanted::SetMany { ttl }, given) });
            }
            let change = Change::store(sent, kept, ttl, self.policy).with_tags(tags);
            let becomes = Becomes::Changed(Gives::NotStored, given.into());
            return self.run_in_loop(py, change.into(), becomes);
        }
        let mut change = Change::store(sent, blocks, ttl, self.policy).with_tags(tags);
        self.carry_out(py, &mut change)?;
        changed(py, change.finish(), Gives::NotStored, &given)
    }

    /// Invalidates tags. A migrating client has them in its new pool.
    pub(crate) fn invalidate<'py>(&self, tags: &Bound<'py, PyAny>) -> Returned<'py> {
        let py = tags.py();
        self.check_usable(py)?;
        let (Some(known), names) = named(&self.directory, tags)? else { unreachable!("names are checked by it") };
        let mut change = Change::<Kept>::invalidate(known, &names);
        if self.loops.known().is_some() {
            let change = AnyOperation::Change(change.into());
            return self.run_in_loop(py, change, Becomes::Changed(Gives::Nothing, Vec::new().into()));
        }
        self.carry_out(py, &mut change)?;
        changed(py, change.finish(), Gives::Nothing, &[])
    }

    /// Sends the same request for each of many keys, which changes it. Returns what the table says.
    pub(crate) fn change_many<'py>(&self, keys: &Bound<'py, PyAny>, each: Request) -> Returned<'py> {
        let py = keys.py();
        self.check_usable(py)?;
        let Keys { given, sent } = Keys::new(self, keys)?;
        if let Some(both) = &self.both {
            return both.change_many(py, &given, each);
        }
        let mut change = Change::<Kept>::each(sent, each, self.policy);
        let gives = each.call_of_many().gives;
        if self.loops.known().is_some() {
            let change = AnyOperation::Change(change.into());
            return self.run_in_loop(py, change, Becomes::Changed(gives, given.into()));
        }
        self.carry_out(py, &mut change)?;
        changed(py, change.finish(), gives, &given)
    }
}

pub(crate) fn dict_for_failures(failed: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyDict>> {
    let refuse =
        |failed: &Bound<'_, PyAny>| unsupported(failed, "failed must be a dict, which receives errors by server");
    failed.cast_into().map_err(|error| refuse(&error.into_inner()))
}
