//! `client.quiet`: commands without individual replies, whose outcomes are known at the end of the block.

use std::sync::{Mutex, MutexGuard};

use magnus::{
    function, gc, method, Class, DataTypeFunctions, Error, Module, Object, RArray, RModule, Ruby, Symbol, TypedData,
    Value,
};
use pinyon_core::operations::{Broken, Direction, Mode, Request, Unsuccessful};
use pinyon_core::{blocking, Data};

use super::Cache;
use crate::errors::{checked, exception, failure, from_core, ErrorKind};
use crate::host::RubyHost;
use crate::keys::KeyBytes;
use crate::ttl;

/// A batch of one thread.
#[derive(TypedData)]
#[magnus(class = "Pinyon::Native::Batch", free_immediately, mark)]
pub(crate) struct Batch {
    cache: Cache,
    /// `None` after the end of the block.
    open: Mutex<Option<blocking::Batch<Vec<u8>>>>,
}

impl DataTypeFunctions for Batch {
    fn mark(&self, marker: &gc::Marker) {
        self.cache.mark(marker);
    }
}

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Batch", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(Batch::new, 1))?;
    class.define_method("store", method!(Batch::store, 4))?;
    class.define_method("delete", method!(Batch::delete, 1))?;
    class.define_method("mark_stale", method!(Batch::mark_stale, 2))?;
    class.define_method("calculate", method!(Batch::calculate, 3))?;
    class.define_method("finish", method!(Batch::finish, 0))?;
    class.define_method("discard", method!(Batch::discard, 0))
}

impl Batch {
    fn new(ruby: &Ruby, cache: &Cache) -> Result<Self, Error> {
        cache.check_open(ruby)?;
        let batch = blocking::Batch::new(cache.directory.clone(), cache.policy.failover);
        Ok(Self { cache: cache.clone(), open: Mutex::new(Some(batch)) })
    }

    fn store(ruby: &Ruby, this: &Self, mode: Symbol, key: Value, value: Value, ttl: Value) -> Result<(), Error> {
        let mode = match &*mode.name()? {
            "add" => Mode::Add,
            "replace" => Mode::Replace,
            "append" => Mode::Append,
            "prepend" => Mode::Prepend,
            _ => Mode::Set,
        };
        let cache = &this.cache;
        let ttl = ttl::stored(ruby, ttl, cache.default_ttl)?;
        let (encoded, client_flags) = cache.codec.encode_for(ruby, mode, value)?;
        let request = Request::Store { mode, size: encoded.bytes().len(), client_flags, ttl, cas: None };
        let submitted = this.submit(ruby, key, request, &encoded.data());
        encoded.stayed();
        submitted
    }

    fn delete(ruby: &Ruby, this: &Self, key: Value) -> Result<(), Error> {
        this.submit(ruby, key, Request::Delete, &Data::None)
    }

    fn mark_stale(ruby: &Ruby, this: &Self, key: Value, stale: Value) -> Result<(), Error> {
        let ttl = checked(ruby, pinyon_core::ttl::limited("stale", ttl::whole(ruby, stale)?))?;
        this.submit(ruby, key, Request::MarkStale { ttl }, &Data::None)
    }

    fn calculate(ruby: &Ruby, this: &Self, increments: bool, key: Value, delta: i128) -> Result<(), Error> {
        let direction = if increments { Direction::Increment } else { Direction::Decrement };
        this.submit(ruby, key, checked(ruby, Request::arithmetic(direction, delta, None))?, &Data::None)
    }

    /// Waits for the outcome of every command. Returns those that failed: number, command, key, reason, error.
    fn finish(ruby: &Ruby, this: &Self) -> Result<RArray, Error> {
        let Some(mut batch) = this.lock(ruby)?.take() else { return Ok(ruby.ary_new()) };
        let unsuccessful = batch.finish(&RubyHost).map_err(|failed| from_failure(ruby, failed))?;
        let all = ruby.ary_new_capa(unsuccessful.len());
        for Unsuccessful { number, key, command, why } in unsuccessful {
            let error = match &why {
                Broken::Failed(error) => Some(failure(ruby, error)?),
                Broken::Refused(_) => None,
            };
            all.push((number, command, crate::texts::text(ruby, &key), why.to_string(), error))?;
        }
        Ok(all)
    }

    /// Ends the batch without waiting. Its connections are closed.
    fn discard(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        this.lock(ruby)?.take();
        Ok(())
    }

    fn submit(&self, ruby: &Ruby, key: Value, request: Request, data: &Data<'_>) -> Result<(), Error> {
        let cache = &self.cache;
        cache.check_open(ruby)?;
        let (key, mut scratch) = (KeyBytes::of(ruby, key)?, Vec::new());
        let sent = key.sent(ruby, &cache.keys, &mut scratch)?;
        let mut open = self.lock(ruby)?;
        let Some(batch) = open.as_mut() else {
            let closed = "the batch is over; use it inside its block: client.quiet { |batch| … }";
            return Err(exception(ruby, ErrorKind::UsageError, closed));
        };
        batch.submit(&RubyHost, &sent, request, data, key.bytes().to_vec()).map_err(|failed| from_failure(ruby, failed))
    }

    fn lock(&self, ruby: &Ruby) -> Result<MutexGuard<'_, Option<blocking::Batch<Vec<u8>>>>, Error> {
        let busy = "the batch is in use by another thread; open one in each thread";
        self.open.try_lock().map_err(|_| exception(ruby, ErrorKind::UsageError, busy))
    }
}

fn from_failure(ruby: &Ruby, failed: blocking::Failure<Error>) -> Error {
    match failed {
        blocking::Failure::Error(error) => from_core(ruby, &error),
        blocking::Failure::Interrupted(raised) => raised,
    }
}
