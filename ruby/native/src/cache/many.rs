//! Commands for many keys: converts Ruby's keys and values, and the outcomes.

use std::convert::Infallible;

use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{method, Error, IntoValue, Module, RArray, RClass, RHash, Ruby, Value};
use pinyon_cache::operations::{AsBytes, Bytes, Change, Changed, DataBlock, Fetch, Fetched, FoundKey, Keys};

use super::answers::achieved;
use super::{Cache, Returned};
use crate::errors::{at_index, beside, checked, failure, is_unreadable, thrown, unstorable};
use crate::keys::push;
use crate::ttl;

pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("get_many", method!(Cache::get_many, 3))?;
    class.define_method("set_many", method!(Cache::set_many, 2))?;
    class.define_method("delete_many", method!(Cache::delete_many, 1))
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

/// The keys that were not stored.
pub(super) fn not_stored(ruby: &Ruby, given: RArray, changed: Changed) -> Returned {
    let not_stored = ruby.ary_new();
    for (key, _) in given.into_iter().zip(&changed.done).filter(|(_, done)| !**done) {
        not_stored.push(key)?;
    }
    achieved(ruby, not_stored.as_value(), changed.failures)
}

/// How many were deleted.
pub(super) fn deleted(ruby: &Ruby, changed: Changed) -> Returned {
    let deleted = changed.done.iter().filter(|done| **done).count();
    achieved(ruby, deleted.into_value_with(ruby), changed.failures)
}

impl Cache {
    /// `cas`: whether to ask for tokens too. `failed`: a Hash for the errors of failed servers, or nil to raise them.
    fn get_many(ruby: &Ruby, this: &Self, given: RArray, cas: bool, failed: Option<RHash>) -> Returned {
        this.check_open(ruby)?;
        if let Some(both) = &this.both {
            return both.get_many(ruby, given, cas, failed);
        }
        let fetch = Fetch::new(this.keys_of(ruby, given)?, cas, AsBytes, this.policy);
        let fetched = this.carry_out(ruby, fetch)?.finish();
        this.fetched(ruby, given, fetched, failed)
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
    fn set_many(ruby: &Ruby, this: &Self, pairs: RHash, ttl: Value) -> Returned {
        this.check_open(ruby)?;
        let ttl = ttl::stored(ruby, ttl, this.default_ttl)?;
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
            return both.set_many(ruby, given, blocks, ttl);
        }
        let change = Change::store(keys, blocks, ttl, this.policy);
        not_stored(ruby, given, this.carry_out(ruby, change)?.finish())
    }

    /// Returns how many were deleted.
    fn delete_many(ruby: &Ruby, this: &Self, given: RArray) -> Returned {
        this.check_open(ruby)?;
        if let Some(both) = &this.both {
            return both.delete_many(ruby, given);
        }
        let change = Change::<Option<Vec<u8>>>::delete(this.keys_of(ruby, given)?, this.policy);
        deleted(ruby, this.carry_out(ruby, change)?.finish())
    }

    fn keys_of(&self, ruby: &Ruby, given: RArray) -> Result<Keys, Error> {
        let mut keys = Keys::with_capacity(given.len());
        for (index, key) in given.into_iter().enumerate() {
            push(ruby, &mut keys, &self.keys, key).map_err(|error| at_index(ruby, error, index))?;
        }
        Ok(keys)
    }
}
