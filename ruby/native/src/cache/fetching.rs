//! `fetch`: carries out the steps that the core decides on.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use magnus::block::Proc;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    function, gc, method, DataTypeFunctions, Error, Module, Object, RArray, RClass, RModule, Ruby, TypedData, Value,
};
use pinyon_cache::lease::{FlightKey, GetOrSet, Step, StepOutcome, Terms};
use pinyon_cache::operations::{Answer, Found, Mode, Request};
use pinyon_cache::Data;

use super::callers::{Here, Rooted, Types};
use super::{Cache, Returned};
use crate::define_class;
use crate::errors::{checked, exception, is_failure, kind_of, own, thrown};
use crate::fibers::Scheduler;
use crate::keys::KeyBytes;
use crate::ttl;

pub(super) fn define(ruby: &Ruby, native: RModule, cache: RClass) -> Result<(), Error> {
    cache.define_method("followers", method!(Cache::followers, 0))?;
    let class = define_class::<Fetching>(ruby, native, "Fetching")?;
    class.define_singleton_method("new", function!(Fetching::new, 3))?;
    class.define_method("run", method!(Fetching::run, 1))?;
    class.define_method("leave", method!(Fetching::leave, 0))
}

impl Cache {
    /// For each value that a caller of this process requests or makes, how many others wait for it.
    fn followers(ruby: &Ruby, this: &Self) -> RArray {
        ruby.ary_from_iter(this.callers.flights.followers())
    }
}

/// One caller's way to a value.
///
/// If its fiber is never resumed, the garbage collector ends it: nothing else refers to it.
#[derive(TypedData)]
#[magnus(class = "Pinyon::Native::Fetching", free_immediately, mark)]
pub(super) struct Fetching {
    machine: Mutex<GetOrSet<Types>>,
    cache: Opaque<Obj<Cache>>,
    key: Opaque<Value>,
    /// Rooted alive and in place, because their addresses identify them.
    scope_and_caller: [Opaque<Value>; 2],
}

impl DataTypeFunctions for Fetching {
    fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.cache);
        marker.mark(self.key);
        self.scope_and_caller.iter().for_each(|object| marker.mark(*object));
        if let Some(value) = self.machine().value() {
            marker.mark(*value);
        }
    }
}

type Outcome = StepOutcome<Types>;

impl Fetching {
    /// `terms`: the ttl, stale, early, lease and wait.
    fn new(ruby: &Ruby, cache: Obj<Cache>, key: Value, terms: RArray) -> Result<Self, Error> {
        let [term, stale, early, lease, wait] = terms.to_array::<Value, 5>()?;
        let wait = (!wait.is_nil()).then(|| ttl::seconds(ruby, wait)).transpose()?;
        let whole = |given| ttl::whole(ruby, given);
        let fresh = match term.is_nil() {
            true => cache.default_ttl.seconds(),
            false => whole(term)?,
        };
        let terms = Terms::new(fresh, whole(stale)?, whole(early)?, whole(lease)?, wait);
        let terms = checked(ruby, terms)?;
        let here = Here::current(ruby)?;
        let bytes = KeyBytes::of(ruby, key)?.bytes().into();
        let flight_key = FlightKey { scope: here.scope_number(), key: bytes, policy: cache.policy };
        let (chance, flights) = (RandomState::new().hash_one(()), cache.callers.flights.clone());
        let machine = GetOrSet::new(flights, flight_key, here.caller_number(), terms, chance, Instant::now());
        let scope_and_caller = [here.scope.into(), here.caller.into()];
        Ok(Self { machine: machine.into(), cache: cache.into(), key: key.into(), scope_and_caller })
    }

    /// Returns the value. `make`: makes it.
    fn run(ruby: &Ruby, this: &Self, make: Proc) -> Returned {
        let here = Here::current(ruby)?;
        let (cache, key) = (ruby.get_inner(this.cache), ruby.get_inner(this.key));
        let mut step = this.machine().begin(Instant::now());
        loop {
            cache.callers.unblock(ruby)?;
            let (done, is_of_servers) = match step {
                Step::Ask(request) => (cache.find(ruby, key, request).map(found), true),
                Step::Store { cas, ttl } => (cache.store_made(ruby, key, this.value(ruby), cas, ttl), true),
                Step::GiveBack(request) => (cache.ask(ruby, key, request).map(|_| Outcome::Done), true),
                Step::Pause(time) => (this.pause(ruby, here, &cache, time), true),
                Step::Follow(time) => (this.follow(ruby, here, &cache, time), true),
                Step::Make => (make.call(()).map(value), false),
                Step::Share => (cache.shared(ruby, this.value(ruby)), false),
                Step::Copy(shared) => (cache.codec.decode(ruby, (*shared).clone()).map(value), false),
                Step::Return(value) => return Ok(ruby.get_inner(value)),
                Step::Raise(error) => return Err(error.object(ruby).into()),
                Step::Refuse(refusal) => {
                    return Err(exception(ruby, refusal.kind(), &refusal.message(&key.inspect())));
                }
            };
            let outcome = match done {
                Ok(outcome) => outcome,
                Err(raised) => failed(ruby, raised, is_of_servers)?,
            };
            step = this.machine().next(outcome, Instant::now());
        }
    }

    /// Ends a caller, wherever it is, and gives back the lease that it has. Others continue without it.
    fn leave(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        let (cache, key) = (ruby.get_inner(this.cache), ruby.get_inner(this.key));
        let won = this.machine().leave();
        let given_back = match won {
            Some(win) => cache.ask(ruby, key, Request::GiveBack(win)).map(drop),
            None => Ok(()),
        };
        cache.callers.unblock(ruby)?;
        given_back
    }

    fn pause(&self, ruby: &Ruby, here: Here, cache: &Cache, time: Duration) -> Result<Outcome, Error> {
        here.follower(&cache.callers).wait(ruby, time).map(|()| Outcome::Done)
    }

    fn follow(&self, ruby: &Ruby, here: Here, cache: &Cache, time: Duration) -> Result<Outcome, Error> {
        let follower = here.follower(&cache.callers);
        if self.machine().follow(follower.clone()) {
            follower.wait(ruby, time)?;
        }
        Ok(Outcome::Done)
    }

    /// The value to store or to share.
    fn value(&self, ruby: &Ruby) -> Value {
        self.machine().value().map_or_else(|| ruby.qnil().as_value(), |value| ruby.get_inner(*value))
    }

    /// Never locked while Ruby runs or allocates: the garbage collector takes it.
    fn machine(&self) -> MutexGuard<'_, GetOrSet<Types>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Asks for a lease.
    pub(super) fn find(&self, ruby: &Ruby, key: Value, request: Request) -> Result<Found<Value>, Error> {
        let found = match Scheduler::current(ruby)? {
            Some(scheduler) => {
                let answer = self.exchange_in_fiber(ruby, scheduler, key, request, None)?;
                answer.read(|stored| self.read(ruby, key, &request, stored))
            }
            None => {
                let answer = self.exchange(ruby, key, request, Data::None)?;
                answer.read(|stored| self.read(ruby, key, &request, stored))
            }
        };
        match found? {
            Answer::Lease(found) => Ok(*found),
            _ => unreachable!("this answers no request for a lease"),
        }
    }

    fn store_made(&self, ruby: &Ruby, key: Value, value: Value, cas: u64, ttl: i64) -> Result<Outcome, Error> {
        let ttl = ruby.integer_from_i64(ttl).as_value();
        let stored = self.store(ruby, Mode::Set, key, value, ttl, Some(cas))?;
        Ok(Outcome::Stored(stored.to_bool()))
    }

    fn shared(&self, ruby: &Ruby, value: Value) -> Result<Outcome, Error> {
        let (encoded, client_flags) = self.codec.encode(ruby, value)?;
        let bytes = encoded.into_bytes();
        Ok(Outcome::Shared(Arc::new(pinyon_cache::operations::Bytes { bytes, client_flags })))
    }
}

fn found(Found { finding, value, cas }: Found<Value>) -> Outcome {
    Outcome::Found(Found { finding, value: value.map(Opaque::from), cas })
}

fn value(value: Value) -> Outcome {
    Outcome::Value(value.into())
}

/// The failure of a step, for the callers that wait. Returns what ends this caller alone as the error.
fn failed(ruby: &Ruby, raised: Error, is_of_servers: bool) -> Result<Outcome, Error> {
    let pinyons = own(ruby, &raised)?;
    let exception = match (pinyons, thrown(&raised)?) {
        (Some(exception), _) => exception,
        // What Ruby raises in a wait comes from somewhere else: a timeout, or another thread.
        (None, Some(exception)) if !is_of_servers && is_failure(ruby, exception)? => exception,
        _ => return Err(raised),
    };
    let is_outage = pinyons.is_some_and(|exception| kind_of(exception).is_outage());
    Ok(Outcome::Failed { error: Arc::new(Rooted::new(exception)), is_outage })
}
