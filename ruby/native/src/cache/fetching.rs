//! `fetch`: carries out the steps that the core decides on.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use magnus::block::Proc;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    function, gc, method, DataTypeFunctions, Error, Exception, Module, Object, RArray, RClass, RHash, RModule, Ruby,
    TypedData, Value,
};
use pinyon_cache::lease::{Behind, FlightKey, GetOrSet, Made, Step, StepOutcome, Terms};
use pinyon_cache::operations::{Answer, Found, Mode, Request, Tagging};
use pinyon_cache::settings::TermsSettings;
use pinyon_cache::Data;

use super::behind::{self, Beside, Waited};
use super::callers::{Here, Rooted, Types};
use super::{Cache, Returned, Storing};
use crate::define_class;
use crate::errors::{checked, exception, is_failure, kind_of, own, reason, thrown};
use crate::fibers::Scheduler;
use crate::keys::KeyBytes;
use crate::settings::changed;
use crate::ttl;

pub(super) fn define(ruby: &Ruby, native: RModule, cache: RClass) -> Result<(), Error> {
    cache.define_method("followers", method!(Cache::followers, 0))?;
    let class = define_class::<Fetching>(ruby, native, "Fetching")?;
    class.define_singleton_method("new", function!(Fetching::new, 5))?;
    class.define_method("run", method!(Fetching::run, 2))?;
    class.define_method("run_anew", method!(Fetching::run_anew, 2))?;
    class.define_method("leave", method!(Fetching::leave, 0))?;
    behind::define(class)
}

/// Why a caller that is no fiber refuses what needs something that goes on behind it.
const IN_THREADS: &str =
    "a thread that leaves needs another one that goes on with its block; give executor, an object with \
                          post such as a Concurrent::ThreadPoolExecutor, or call fetch in a fiber with a scheduler";

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
    pub(super) cache: Opaque<Obj<Cache>>,
    pub(super) key: Opaque<Value>,
    /// What tells the ttl of a value, or nil.
    own_ttl: Opaque<Value>,
    /// Of the value.
    tags: Option<Tagging>,
    /// Rooted alive and in place, because their addresses identify them.
    scope_and_caller: [Opaque<Value>; 2],
    /// What carries a maker on behind a thread, or nil.
    pub(super) executor: Opaque<Value>,
    pub(super) beside: Beside,
}

impl DataTypeFunctions for Fetching {
    fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.cache);
        marker.mark(self.key);
        marker.mark(self.own_ttl);
        marker.mark(self.executor);
        self.beside.mark(marker);
        self.scope_and_caller.iter().for_each(|object| marker.mark(*object));
        if let Some(value) = self.machine().value() {
            marker.mark(*value);
        }
    }
}

type Outcome = StepOutcome<Types>;

impl Fetching {
    /// `term`: the ttl, nil for the client's, or what is called with a value and returns its ttl. `terms`: the other settings.
    fn new(
        ruby: &Ruby,
        cache: Obj<Cache>,
        key: Value,
        term: Value,
        executor: Value,
        terms: RHash,
    ) -> Result<Self, Error> {
        let here = Here::current(ruby)?;
        let can_go_behind = !executor.is_nil() || !here.scheduler_object(ruby).is_nil();
        let behind = if can_go_behind { Behind::Can } else { Behind::Never(IN_THREADS) };
        let Agreed { terms, own_ttl, tags } = agreed(ruby, &cache, term, terms, behind)?;
        let bytes = KeyBytes::of(ruby, key)?.bytes().into();
        let flight_key = FlightKey { scope: here.scope_number(), key: bytes, policy: cache.policy };
        let (chance, flights) = (RandomState::new().hash_one(()), cache.callers.flights.clone());
        let machine = GetOrSet::new(flights, flight_key, here.caller_number(), terms, chance, Instant::now());
        let scope_and_caller = [here.scope.into(), here.caller.into()];
        Ok(Self {
            machine: machine.into(),
            cache: cache.into(),
            key: key.into(),
            own_ttl: own_ttl.into(),
            tags,
            scope_and_caller,
            executor: executor.into(),
            beside: Beside::default(),
        })
    }

    /// Returns the value. `make`: makes it. `client`: begins what may go on behind the caller.
    fn run(ruby: &Ruby, this: Obj<Self>, make: Proc, client: Value) -> Returned {
        let first = this.machine().begin(Instant::now());
        Self::run_from(ruby, this, first, make, client)
    }

    /// The same, but makes the value whatever is stored, and stores it in its place.
    fn run_anew(ruby: &Ruby, this: Obj<Self>, make: Proc, client: Value) -> Returned {
        let first = match this.tags {
            None => this.machine().begin_anew(),
            Some(_) => this.machine().begin_tagged_anew(),
        };
        Self::run_from(ruby, this, first, make, client)
    }

    fn run_from(ruby: &Ruby, this: Obj<Self>, first: Step<Types>, make: Proc, client: Value) -> Returned {
        let here = Here::current(ruby)?;
        let (cache, key) = (ruby.get_inner(this.cache), ruby.get_inner(this.key));
        let mut step = first;
        loop {
            cache.callers.unblock(ruby)?;
            let (done, is_of_servers) = match step {
                Step::Ask(request) => (cache.find(ruby, key, request, this.tags.as_ref()).map(found), true),
                Step::ReadTags(request) => (cache.find(ruby, key, request, this.alone().as_ref()).map(found), true),
                Step::Store { cas, ttl } => (this.store(ruby, Some(cas), ttl), true),
                Step::Set { ttl } => (this.store(ruby, None, ttl), true),
                Step::GiveBack(request) => (cache.ask(ruby, key, request).map(|_| Outcome::Done), true),
                Step::Pause(time) => (this.pause(ruby, here, &cache, time), true),
                Step::Follow(time) => (this.follow(ruby, here, &cache, time), true),
                Step::Make => (make.call(()).and_then(|made| this.noted(ruby, made)).map(value), false),
                Step::MakeWithin(time) => match Self::made_beside(ruby, this, client, make, time)? {
                    Waited::Made(made) => (made, false),
                    Waited::Leaves(old) => return Ok(old),
                },
                Step::Share => (cache.shared(ruby, this.value(ruby)), false),
                Step::Copy(shared) => (cache.codec.decode(ruby, (*shared).clone()).map(value), false),
                Step::Return(value) => return Ok(ruby.get_inner(value)),
                Step::Nothing(never) => match never {},
                Step::ReturnOld => unreachable!("a caller that waits is not late"),
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
            this.tell_kept(ruby, &cache, key)?;
        }
    }

    /// Returns the value that was made, and notes how long it is kept.
    pub(super) fn noted(&self, ruby: &Ruby, made: Value) -> Returned {
        let (value, how) = said(ruby, made, ruby.get_inner(self.own_ttl))?;
        let taken = self.machine().made_with(how);
        checked(ruby, taken)?;
        Ok(value)
    }

    /// Tells that the old value stays in use, if it was decided so.
    pub(super) fn tell_kept(&self, ruby: &Ruby, cache: &Cache, key: Value) -> Result<(), Error> {
        let suppressed = self.machine().suppressed();
        let Some(error) = suppressed else { return Ok(()) };
        let (key, mut scratch) = (KeyBytes::of(ruby, key)?, Vec::new());
        let sent = key.sent(ruby, &cache.keys, &mut scratch)?;
        cache.kept_stale(ruby, sent.routed, &error)
    }

    /// The tags, for a request that asks for nothing else.
    fn alone(&self) -> Option<Tagging> {
        self.tags.clone().map(Tagging::alone)
    }

    /// `cas`: only over the item with this token.
    pub(super) fn store(&self, ruby: &Ruby, cas: Option<u64>, ttl: i64) -> Result<Outcome, Error> {
        let tags = self.machine().tags().cloned().map(Tagging::Read);
        let storing = Storing { mode: Mode::Set, cas, returns_cas: false, tags: tags.as_ref() };
        let (cache, key, ttl) = (ruby.get_inner(self.cache), ruby.get_inner(self.key), ruby.integer_from_i64(ttl));
        let stored = cache.store_as(ruby, storing, key, self.value(ruby), ttl.as_value())?;
        Ok(Outcome::Stored(stored.to_bool()))
    }

    /// Ends a caller, wherever it is, and gives back the lease that it has. Others continue without it.
    fn leave(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        let (cache, key) = (ruby.get_inner(this.cache), ruby.get_inner(this.key));
        let won = if this.beside.is_callers() { this.machine().leave() } else { None };
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
    pub(super) fn value(&self, ruby: &Ruby) -> Value {
        self.machine().value().map_or_else(|| ruby.qnil().as_value(), |value| ruby.get_inner(*value))
    }

    /// Never locked while Ruby runs or allocates: the garbage collector takes it.
    pub(super) fn machine(&self) -> MutexGuard<'_, GetOrSet<Types>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a caller of `fetch` asks for.
pub(super) struct Agreed {
    pub(super) terms: Terms,
    /// What tells the ttl of a value, or nil.
    pub(super) own_ttl: Value,
    pub(super) tags: Option<Tagging>,
}

/// The arguments are those of [`Fetching::new`].
pub(super) fn agreed(ruby: &Ruby, cache: &Cache, term: Value, terms: RHash, behind: Behind) -> Result<Agreed, Error> {
    let settings = changed(ruby, TermsSettings::default(), terms)?;
    let (ttl, own_ttl) = match term.respond_to("call", false)? {
        true => (None, term),
        false if term.is_nil() => (Some(cache.default_ttl.seconds()), term),
        false => (Some(ttl::whole(ruby, term)?), ruby.qnil().as_value()),
    };
    let (terms, tags) = checked(ruby, settings.build_with_tags(ttl, behind, cache.directory.tags()))?;
    Ok(Agreed { terms, own_ttl, tags })
}

/// A value that was made, and what is said about storing it. `own_ttl`: what tells the ttl of a value, or nil.
pub(super) fn said(ruby: &Ruby, made: Value, own_ttl: Value) -> Result<(Value, Made), Error> {
    let class: RClass = ruby.class_object().const_get::<_, RModule>("Pinyon")?.const_get("Made")?;
    let (value, ttl, stale, store) = match made.is_kind_of(class) {
        true => {
            let time = |name| made.funcall::<_, _, Value>(name, ());
            (time("value")?, time("ttl")?, time("stale")?, made.funcall::<_, _, bool>("store", ())?)
        }
        false => (made, ruby.qnil().as_value(), ruby.qnil().as_value(), true),
    };
    let ttl = match ttl.is_nil() && store && !own_ttl.is_nil() {
        true => own_ttl.funcall("call", (value,))?,
        false => ttl,
    };
    let whole = |time: Value| (!time.is_nil()).then(|| ttl::whole(ruby, time)).transpose();
    Ok((value, Made { ttl: whole(ttl)?, stale: whole(stale)?, store }))
}

impl Cache {
    /// Asks for a lease. `tags`: of the value that is made.
    pub(super) fn find(
        &self,
        ruby: &Ruby,
        key: Value,
        request: Request,
        tags: Option<&Tagging>,
    ) -> Result<Found<Value>, Error> {
        let found = match Scheduler::current(ruby)? {
            Some(scheduler) => {
                let answer = self.exchange_in_fiber(ruby, scheduler, key, request, None, tags)?;
                answer.read(|stored| self.read(ruby, key, &request, stored))
            }
            None => {
                let answer = self.exchange(ruby, key, request, Data::None, tags)?;
                answer.read(|stored| self.read(ruby, key, &request, stored))
            }
        };
        match found? {
            Answer::Lease(found) => Ok(*found),
            _ => unreachable!("this answers no request for a lease"),
        }
    }

    pub(super) fn shared<N>(&self, ruby: &Ruby, value: Value) -> Result<StepOutcome<Types, N>, Error> {
        let (encoded, client_flags) = self.codec.encode(ruby, value)?;
        let bytes = encoded.into_bytes();
        Ok(StepOutcome::Shared(Arc::new(pinyon_cache::operations::Bytes { bytes, client_flags })))
    }

    /// Tells that the old value of a key stays in use, because of this error.
    pub(super) fn kept_stale(&self, ruby: &Ruby, routed: &[u8], error: &Rooted<Exception>) -> Result<(), Error> {
        let why = reason(ruby, &error.object(ruby).into())?;
        self.directory.kept_stale(routed, self.policy.failover, &why);
        Ok(())
    }
}

pub(super) fn found<N>(Found { finding, value, cas, tags }: Found<Value>) -> StepOutcome<Types, N> {
    StepOutcome::Found(Found { finding, value: value.map(Opaque::from), cas, tags })
}

pub(super) fn value(value: Value) -> Outcome {
    Outcome::Value(value.into())
}

/// The failure of a step, for the callers that wait. Returns what ends this caller alone as the error.
pub(super) fn failed<N>(ruby: &Ruby, raised: Error, is_of_servers: bool) -> Result<StepOutcome<Types, N>, Error> {
    let pinyons = own(ruby, &raised)?;
    let exception = match (pinyons, thrown(&raised)?) {
        (Some(exception), _) => exception,
        // What Ruby raises in a wait comes from somewhere else: a timeout, or another thread.
        (None, Some(exception)) if !is_of_servers && is_failure(ruby, exception)? => exception,
        _ => return Err(raised),
    };
    let is_outage = pinyons.is_some_and(|exception| kind_of(exception).is_outage());
    Ok(StepOutcome::Failed { error: Arc::new(Rooted::new(exception)), is_outage })
}
