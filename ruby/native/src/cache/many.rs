//! Commands for many keys: converts Ruby's keys and values, and the outcomes.

use std::convert::Infallible;

use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{method, Error, IntoValue, Module, RArray, RClass, RHash, Ruby, Value};
use pinyon_cache::calls::Gives;
use pinyon_cache::operations::{AsBytes, Bytes, Change, Changed, DataBlock, Fetch, Fetched, FoundKey, Keys, Request};

use super::answers::achieved;
use super::{Cache, Returned};
use crate::errors::{at_index, beside, checked, failure, is_unreadable, thrown, unstorable};
use crate::keys::push;
use crate::ttl;

pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("set_many", method!(Cache::set_many, 3))
}

/// Names a key whose value cannot be read among the failures, or returns the error. What stops the thread is raised.
#[cold]
fn unread(ruby: &Ruby, key: Value, error: Error, failed: Option<RHash>) -> Result<Option<Error>, Error> {
    match (failed, thrown(&error)?) {
        (Some(failed), Some(exception)) if is_unreadable(ruby, &error)? => {
            failed.aset(key, exception)?;
            Ok(None)
        }
        _ if is_unreadable(ruby, &error)? => Ok(Some(error)),
        _ => Err(error),
    }
}

/// What a call that changes many keys gives: how many were changed, or an Array of those that were or were not.
pub(super) fn changed(ruby: &Ruby, given: RArray, changed: Changed, gives: Gives) -> Returned {
    let these = |wanted| given.into_iter().zip(&changed.done).filter(move |(_, done)| **done == wanted);
    let listed = |wanted| ruby.ary_from_iter(these(wanted).map(|(key, _)| key)).as_value();
    let result = match gives {
        Gives::NotStored => listed(false),
        Gives::Found => listed(true),
        Gives::Nothing => ruby.qnil().as_value(),
        _ => these(true).count().into_value_with(ruby),
    };
    achieved(ruby, result, changed.failures)
}

impl Cache {
    /// `failed`: a Hash for the errors of failed servers, or nil to raise them.
    pub(super) fn read_many(&self, ruby: &Ruby, given: RArray, each: Request, failed: Option<RHash>) -> Returned {
        self.check_open(ruby)?;
        if let Some(both) = &self.both {
            return both.read_many(ruby, given, each, failed);
        }
        let fetch = Fetch::new(self.keys_of(ruby, given)?, each, AsBytes, self.policy);
        let fetched = self.carry_out(ruby, fetch)?.finish();
        self.fetched(ruby, given, fetched, failed)
    }

    /// The values that were found of these keys.
    pub(super) fn fetched(
        &self,
        ruby: &Ruby,
        given: RArray,
        fetched: Fetched<Bytes, Infallible>,
        failed: Option<RHash>,
    ) -> Returned {
        let (found, mut failures) = (ruby.hash_new(), fetched.failures);
        let mut unreadable = None;
        for FoundKey { index, value, cas } in fetched.found {
            let key: Value = given.entry(index as isize)?;
            let value = match self.codec.decode(ruby, value) {
                Ok(value) => value,
                Err(error) => {
                    let passes_over = self.policy.unreadable_is_miss && failed.is_none();
                    if let Err(error) = self.unreadable(ruby, key, failures.name(), error, passes_over) {
                        unreadable = unreadable.or(unread(ruby, key, error, failed)?);
                    }
                    continue;
                }
            };
            match cas {
                Some(cas) => found.aset(key, (value, cas))?,
                None => found.aset(key, value)?,
            }
        }
        if let Some(failed) = failed {
            for error in failures.of_servers() {
                failed.aset(&*error.server, failure(ruby, &error)?)?;
            }
        }
        match unreadable {
            Some(error) => Err(beside(ruby, error, found.as_value())),
            None => achieved(ruby, found.as_value(), failures),
        }
    }

    /// Returns the keys that were not stored.
    fn set_many(ruby: &Ruby, this: &Self, pairs: RHash, ttl: Value, tags: Value) -> Returned {
        this.check_open(ruby)?;
        let (ttl, tags) = (ttl::stored(ruby, ttl, this.default_ttl)?, this.tagging(ruby, tags)?);
        let (given, values) = (ruby.ary_new_capa(pairs.len()), ruby.ary_new_capa(pairs.len()));
        pairs.foreach(|key: Value, value: Value| {
            given.push(key)?;
            values.push(value)?;
            Ok(ForEach::Continue)
        })?;
        let keys = this.keys_of(ruby, given)?;
        let limits = this.directory.options().limits;
        let mut blocks: Vec<DataBlock<Option<Vec<u8>>>> = Vec::with_capacity(values.len());
        for (key, value) in given.into_iter().zip(values) {
            let (encoded, client_flags) =
                this.codec.encode(ruby, value).map_err(|error| unstorable(ruby, error, key))?;
            let bytes = encoded.into_bytes();
            if !this.policy.miss {
                checked(ruby, limits.check_value(bytes.len(), || key.inspect()))?;
            }
            blocks.push(DataBlock { size: bytes.len(), data: Some(bytes), client_flags });
        }
        if let Some(both) = &this.both {
            return both.set_many(ruby, given, blocks, ttl, tags);
        }
        let change = Change::store(keys, blocks, ttl, this.policy).with_tags(tags);
        changed(ruby, given, this.carry_out(ruby, change)?.finish(), Gives::NotStored)
    }

    /// Sends the same request for each key, which changes it. Returns what the table says.
    pub(super) fn change_many(&self, ruby: &Ruby, given: RArray, each: Request) -> Returned {
        self.check_open(ruby)?;
        if let Some(both) = &self.both {
            return both.change_many(ruby, given, each);
        }
        let change = Change::<Option<Vec<u8>>>::each(self.keys_of(ruby, given)?, each, self.policy);
        changed(ruby, given, self.carry_out(ruby, change)?.finish(), each.call_of_many().gives)
    }

    fn keys_of(&self, ruby: &Ruby, given: RArray) -> Result<Keys, Error> {
        let mut keys = Keys::with_capacity(given.len());
        for (index, key) in given.into_iter().enumerate() {
            push(ruby, &mut keys, &self.keys, key).map_err(|error| at_index(ruby, error, index))?;
        }
        Ok(keys)
    }
}
