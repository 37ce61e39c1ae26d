//! `client.quiet`: commands without individual replies, whose outcomes are known at the end of the block.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use magnus::{
    function, gc, method, DataTypeFunctions, Error, Module, Object, RArray, RModule, Ruby, Symbol, TypedData, Value,
};
use pinyon_cache::operations::{Broken, Direction, Request, Unsuccessful};
use pinyon_cache::{blocking, Data};

use super::{mode_of, Cache};
use crate::define_class;
use crate::errors::{checked, exception, failure, from_failure, ErrorKind};
use crate::fibers::{self, Scheduler};
use crate::host::RubyHost;
use crate::keys::KeyBytes;
use crate::numbers::Delta;
use crate::ttl;
use crate::values::Encoded;

/// A batch, which ends with its block.
#[derive(TypedData)]
#[magnus(class = "Pinyon::Native::Batch", free_immediately, mark)]
pub(crate) struct Batch {
    cache: Cache,
    way: Way,
}

/// How it waits.
enum Way {
    /// In one thread. `None` after the end of the block.
    Thread(Mutex<OpenBatch>),
    /// In the fibers of a scheduler.
    Fibers { batch: fibers::Batch, is_over: AtomicBool },
}

impl DataTypeFunctions for Batch {
    fn mark(&self, marker: &gc::Marker) {
        self.cache.mark(marker);
        if let Way::Fibers { batch, .. } = &self.way {
            batch.mark(marker);
        }
    }
}

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<Batch>(ruby, native, "Batch")?;
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
        let failover = cache.policy.failover;
        let way = match Scheduler::current(ruby)? {
            None => Way::Thread(Mutex::new(Some(blocking::Batch::new(cache.directory.clone(), failover)))),
            Some(scheduler) => {
                let batch = fibers::Batch::new(cache.drivers.on(ruby, scheduler)?, failover);
                Way::Fibers { batch, is_over: AtomicBool::new(false) }
            }
        };
        Ok(Self { cache: cache.clone(), way })
    }

    fn store(ruby: &Ruby, this: &Self, mode: Symbol, key: Value, value: Value, ttl: Value) -> Result<(), Error> {
        let mode = mode_of(mode)?;
        let cache = &this.cache;
        let ttl = ttl::stored(ruby, ttl, cache.default_ttl)?;
        let (encoded, client_flags) = cache.codec.encode_for(ruby, mode, value)?;
        let request =
            Request::Store { mode, size: encoded.bytes().len(), client_flags, ttl, cas: None, returns_cas: false };
        this.submit(ruby, key, request, Some(encoded))
    }

    fn delete(ruby: &Ruby, this: &Self, key: Value) -> Result<(), Error> {
        this.submit(ruby, key, Request::Delete, None)
    }

    fn mark_stale(ruby: &Ruby, this: &Self, key: Value, stale: Value) -> Result<(), Error> {
        let ttl = ttl::limited(ruby, "stale", stale)?;
        this.submit(ruby, key, Request::MarkStale { ttl: Some(ttl), cas: None }, None)
    }

    fn calculate(ruby: &Ruby, this: &Self, increments: bool, key: Value, Delta(delta): Delta) -> Result<(), Error> {
        let direction = if increments { Direction::Increment } else { Direction::Decrement };
        this.submit(ruby, key, checked(ruby, Request::arithmetic(direction, delta, None))?, None)
    }

    /// Waits for the outcome of every command. Returns those that failed.
    fn finish(ruby: &Ruby, this: &Self) -> Result<RArray, Error> {
        match &this.way {
            Way::Thread(open) => {
                let Some(mut batch) = in_use(ruby, open)?.take() else { return Ok(ruby.ary_new()) };
                let unsuccessful = batch.finish(&RubyHost).map_err(|failed| from_failure(ruby, failed))?;
                failures(ruby, unsuccessful, |key| key)
            }
            Way::Fibers { batch, is_over } => {
                let scheduler = batch.scheduler(ruby)?;
                is_over.store(true, Ordering::Relaxed);
                failures(ruby, batch.finish(ruby, scheduler)?, |key| key.given)
            }
        }
    }

    /// Ends the batch without waiting. The connections of a thread are closed.
    fn discard(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        match &this.way {
            Way::Thread(open) => drop(in_use(ruby, open)?.take()),
            Way::Fibers { is_over, .. } => is_over.store(true, Ordering::Relaxed),
        }
        Ok(())
    }

    fn submit(&self, ruby: &Ruby, key: Value, request: Request, encoded: Option<Encoded>) -> Result<(), Error> {
        let cache = &self.cache;
        cache.check_open(ruby)?;
        let (key, mut scratch) = (KeyBytes::of(ruby, key)?, Vec::new());
        let sent = key.sent(ruby, &cache.keys, &mut scratch)?;
        match &self.way {
            Way::Thread(open) => {
                let mut open = in_use(ruby, open)?;
                let Some(batch) = open.as_mut() else { return Err(over(ruby)) };
                let data = encoded.as_ref().map_or(Data::None, Encoded::data);
                let submitted = batch.submit(&RubyHost, &sent, request, &data, key.bytes().to_vec());
                encoded.iter().for_each(Encoded::stayed);
                submitted.map_err(|failed| from_failure(ruby, failed))
            }
            Way::Fibers { is_over, .. } if is_over.load(Ordering::Relaxed) => Err(over(ruby)),
            Way::Fibers { batch, .. } => {
                let scheduler = batch.scheduler(ruby)?;
                let key = fibers::Key::reported(sent, key.bytes());
                batch.submit(ruby, scheduler, key, request, encoded.map(Encoded::into_bytes))
            }
        }
    }
}

/// The failed commands: number, command, key, reason, error.
fn failures<K>(ruby: &Ruby, failed: Vec<Unsuccessful<K>>, given: impl Fn(K) -> Vec<u8>) -> Result<RArray, Error> {
    let all = ruby.ary_new_capa(failed.len());
    for Unsuccessful { number, key, command, why } in failed {
        let error = match &why {
            Broken::Failed(error) => Some(failure(ruby, error)?),
            Broken::Refused(_) => None,
        };
        all.push((number, command, crate::texts::text(ruby, &given(key)), why.to_string(), error))?;
    }
    Ok(all)
}

type OpenBatch = Option<blocking::Batch<Vec<u8>>>;

fn in_use<'b>(ruby: &Ruby, open: &'b Mutex<OpenBatch>) -> Result<MutexGuard<'b, OpenBatch>, Error> {
    let busy = "the batch is in use by another thread; open one in each thread";
    open.try_lock().map_err(|_| exception(ruby, ErrorKind::UsageError, busy))
}

#[cold]
fn over(ruby: &Ruby) -> Error {
    let over = "the batch is over; use it inside its block: client.quiet { |batch| … }";
    exception(ruby, ErrorKind::UsageError, over)
}
