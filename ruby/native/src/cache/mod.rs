//! `Pinyon::Client`'s native half: a client of caches.

mod answers;
mod batch;
mod behind;
pub(crate) mod callers;
mod fetching;
mod fetching_many;
mod many;
mod migrating;
mod near;
mod reading;
mod shapes;
mod tags;

use std::convert::Infallible;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use magnus::value::ReprValue;
use magnus::{
    function, gc, method, DataTypeFunctions, Error, Module, Object, RArray, RHash, RModule, Ruby, Symbol, TypedData,
    Value,
};
use pinyon_cache::directory::Directory;
use pinyon_cache::near::Figures;
use pinyon_cache::operations::{
    Answer, AsBytes, Beside, Bytes, Direction, Everywhere, Failed, Initial, KeyRules, Mode, Policy, Request,
    ServerCommand, Single, Tagging, Win, RENEWALS,
};
use pinyon_cache::settings::{CacheParts, CacheSettings, ViewSettings};
use pinyon_cache::ttl::DefaultTtl;
use pinyon_cache::{blocking, Data};

use crate::define_class;
use crate::errors::{checked, exception, from_core, from_failure, ErrorKind};
use crate::fibers::{self, Carried, Drivers, Scheduler};
use crate::host::RubyHost;
use crate::keys::{self, KeyBytes};
use crate::known::{Frequent, KnownType};
use crate::numbers::{self, CasToken, Delta};
use crate::settings::changed;
use crate::stored::{OnStack, Stored};
use crate::ttl;
use crate::values::Codec;
use callers::Callers;
use migrating::Both;

/// A client, or a view of one with another policy.
#[derive(TypedData, Clone)]
#[magnus(class = "Pinyon::Native::Cache", free_immediately, frozen_shareable, mark)]
pub(crate) struct Cache {
    directory: Arc<Directory>,
    drivers: Arc<Drivers<fibers::CacheMachine>>,
    keys: Arc<KeyRules>,
    codec: Arc<Codec>,
    policy: Policy,
    default_ttl: DefaultTtl,
    closed: Arc<AtomicBool>,
    callers: Arc<Callers>,
    /// If its methods serve an old and a new pool. All else here is the new one's.
    both: Option<Arc<Both>>,
}

impl DataTypeFunctions for Cache {
    fn mark(&self, marker: &gc::Marker) {
        let old = self.both.as_ref().map(|both| &both.old().codec);
        for serializer in old.into_iter().chain([&self.codec]).filter_map(|codec| codec.object()) {
            marker.mark(serializer);
        }
    }
}

impl Frequent for Cache {
    fn known_type() -> &'static KnownType {
        static KNOWN: KnownType = KnownType::new(ptr::null_mut());
        &KNOWN
    }
}

/// Defines the class.
pub(crate) fn define(ruby: &Ruby, pinyon: RModule, native: RModule) -> Result<(), Error> {
    let class = define_class::<Cache>(ruby, native, "Cache")?;
    class.define_singleton_method("new", function!(Cache::new, 3))?;
    class.define_method("using", method!(Cache::using, 1))?;
    class.define_method("get_with_metadata", method!(Cache::get_with_metadata, 2))?;
    class.define_method("cas", method!(Cache::cas, 5))?;
    class.define_method("store", method!(Cache::store_for_cas, 5))?;
    class.define_method("delete", method!(Cache::delete, 1))?;
    class.define_method("mark_stale", method!(Cache::mark_stale, 2))?;
    class.define_method("invalidate", method!(Cache::invalidate, 3))?;
    class.define_method("ask_lease", method!(Cache::ask_lease, 4))?;
    class.define_method("leave_lease", method!(Cache::leave_lease, 3))?;
    class.define_method("give_back", method!(Cache::give_back, 3))?;
    class.define_method("version", method!(Cache::version, 1))?;
    class.define_method("stats", method!(Cache::stats, 2))?;
    class.define_method("flush_all", method!(Cache::flush_all, 1))?;
    class.define_method("clear_namespace", method!(Cache::clear_namespace, 0))?;
    class.define_method("servers_of", method!(Cache::servers_of, 1))?;
    class.define_method("servers", method!(Cache::servers, 0))?;
    class.define_method("namespace", method!(Cache::namespace, 0))?;
    class.define_method("describe", method!(Cache::describe, 0))?;
    class.define_method("events?", method!(Cache::has_events, 0))?;
    class.define_method("take_events", method!(Cache::take_events, 0))?;
    class.define_method("metrics", method!(Cache::metrics, 0))?;
    class.define_method("near_metrics", method!(Cache::near_metrics, 0))?;
    class.define_method("closed?", method!(Cache::is_closed, 0))?;
    class.define_method("close", method!(Cache::close, 0))?;
    shapes::define(ruby, class)?;
    reading::define(ruby, pinyon)?;
    many::define(class)?;
    tags::define(class)?;
    migrating::define(class)?;
    fetching::define(ruby, native, class)?;
    fetching_many::define(ruby, native)?;
    batch::define(ruby, native)
}

type Returned = Result<Value, Error>;

impl Cache {
    /// `serializer`: a Symbol, an object, or nil. `events`: whether somebody takes the events.
    fn new(ruby: &Ruby, settings: RHash, serializer: Value, events: bool) -> Result<Self, Error> {
        let settings = changed(ruby, CacheSettings::default(), settings)?;
        let CacheParts { directory, connections, keys, policy, default_ttl, packing, .. } =
            checked(ruby, settings.build(events))?;
        let codec = Codec::new(ruby, serializer, packing)?;
        let directory = Arc::new(directory);
        Ok(Self {
            drivers: Drivers::of_caches(directory.clone(), connections).into(),
            directory,
            keys: keys.into(),
            codec: codec.into(),
            policy,
            default_ttl,
            closed: Arc::default(),
            callers: Arc::default(),
            both: None,
        })
    }

    fn using(ruby: &Ruby, this: &Self, settings: RHash) -> Result<Self, Error> {
        let policy = |policy| {
            let settings: ViewSettings = changed(ruby, ViewSettings::default(), settings)?;
            checked(ruby, settings.changed(policy))
        };
        let both = this.both.as_ref().map(|both| both.with(policy).map(Arc::new)).transpose()?;
        Ok(Self { policy: policy(this.policy)?, both, ..this.clone() })
    }

    /// The value, its CAS token, who makes a new value (won, stale, already won), and what is known of its life (hit
    /// before, seconds since the last access, seconds left). `bumps`: whether this counts as an access.
    fn get_with_metadata(ruby: &Ruby, this: &Self, key: Value, bumps: bool) -> Returned {
        this.ask(ruby, key, Request::Get(Beside::Metadata { bumps }))
    }

    fn cas(ruby: &Ruby, this: &Self, key: Value, value: Value, cas: CasToken, ttl: Value, tags: Value) -> Returned {
        this.store_tagged(ruby, (Mode::Set, Some(cas.0)), key, value, ttl, tags)
    }

    /// Returns the new CAS token; true if the server does not tell it; false or nil if nothing was stored.
    fn store_for_cas(
        ruby: &Ruby,
        this: &Self,
        mode: Symbol,
        key: Value,
        value: Value,
        ttl: Value,
        cas: Option<u64>,
    ) -> Returned {
        this.store_as(ruby, Storing { mode: mode_of(mode)?, cas, returns_cas: true, tags: None }, key, value, ttl)
    }

    fn delete(ruby: &Ruby, this: &Self, key: Value) -> Returned {
        this.ask(ruby, key, Request::Delete)
    }

    fn mark_stale(ruby: &Ruby, this: &Self, key: Value, stale: Value) -> Returned {
        let ttl = ttl::limited(ruby, "stale", stale)?;
        this.ask(ruby, key, Request::MarkStale { ttl: Some(ttl), cas: None })
    }

    /// Marks the item stale; with `cas`, only if it still has this token. nil as ttl leaves its life as it is.
    fn invalidate(ruby: &Ruby, this: &Self, key: Value, ttl: Value, cas: Option<u64>) -> Returned {
        let ttl = (!ttl.is_nil()).then(|| ttl::limited(ruby, "ttl", ttl)).transpose()?;
        this.ask(ruby, key, Request::MarkStale { ttl, cas })
    }

    /// Adds to `found` what was found, and the lease if it was won: its token, and whether a stale value stays if it is
    /// given back. The caller has the array, so it also has what was won just before an interrupt.
    fn ask_lease(ruby: &Ruby, this: &Self, key: Value, lease: Value, recache: Value, into: RArray) -> Returned {
        let lease = ttl::limited(ruby, "lease", lease)?;
        let recache = checked(ruby, pinyon_cache::ttl::limited_or_none("recache", ttl::whole(ruby, recache)?))?;
        let mut found = this.find(ruby, key, Request::Lease { lease, recache }, None)?;
        for _ in 0..RENEWALS {
            let Some(renewal) = found.renewal(lease, recache) else { break };
            found = this.find(ruby, key, renewal, None)?;
        }
        into.concat(answers::leased(ruby, &found)?)?;
        Ok(into.as_value())
    }

    /// Gives back what was found and won, unless it was fulfilled or a parent process has won it. One call, because an
    /// interrupt may come between two.
    fn leave_lease(ruby: &Ruby, this: &Self, key: Value, found: RArray, process: u32) -> Returned {
        let Some((cas, keep)) = found.entry::<Option<(u64, bool)>>(3)?.filter(|_| process == std::process::id()) else {
            return Ok(ruby.qfalse().as_value());
        };
        let given_back = this.ask(ruby, key, Request::GiveBack(Win { cas, keep }));
        found.store(3, ruby.qnil())?;
        given_back
    }

    fn give_back(ruby: &Ruby, this: &Self, key: Value, cas: u64, keep: bool) -> Returned {
        this.ask(ruby, key, Request::GiveBack(Win { cas, keep }))
    }

    fn version(ruby: &Ruby, this: &Self, failed: Option<RHash>) -> Returned {
        this.ask_servers(ruby, ServerCommand::Version, failed)
    }

    fn stats(ruby: &Ruby, this: &Self, kind: Option<String>, failed: Option<RHash>) -> Returned {
        let kind = kind.as_deref().unwrap_or_default();
        this.ask_servers(ruby, checked(ruby, ServerCommand::stats(kind))?, failed)
    }

    fn flush_all(ruby: &Ruby, this: &Self, delay: Value) -> Returned {
        this.ask_servers(ruby, checked(ruby, ServerCommand::flush_all(ttl::whole(ruby, delay)?))?, None)
    }

    fn clear_namespace(ruby: &Ruby, this: &Self) -> Returned {
        this.ask_servers(ruby, checked(ruby, ServerCommand::clear_namespace(&this.keys))?, None)
    }

    /// The names of the servers that may hold the key, in the order in which they are asked.
    fn servers_of(ruby: &Ruby, this: &Self, key: Value) -> Result<RArray, Error> {
        let key = KeyBytes::of(ruby, key)?;
        let fleet = blocking::known(&this.directory, &RubyHost).map_err(|failed| from_failure(ruby, failed))?;
        let servers = fleet.candidates(&this.keys.routed(key.bytes()), this.policy.failover);
        Ok(ruby.ary_from_iter(fleet.names(servers)))
    }

    fn servers(ruby: &Ruby, this: &Self) -> RArray {
        ruby.ary_from_iter(this.directory.known().metrics().map(|metrics| metrics.server.to_string()))
    }

    fn namespace(ruby: &Ruby, this: &Self) -> Value {
        ruby.str_from_slice(this.keys.namespace()).as_value()
    }

    /// A line for people about each server.
    fn describe(ruby: &Ruby, this: &Self) -> RArray {
        ruby.ary_from_iter(this.directory.known().metrics().map(|metrics| metrics.line(false)))
    }

    fn has_events(&self) -> bool {
        self.directory.has_events()
    }

    /// For each event its kind, server, command, error, seconds, level and line for people.
    fn take_events(ruby: &Ruby, this: &Self) -> Result<RArray, Error> {
        answers::events(ruby, this.directory.take_events())
    }

    fn metrics(ruby: &Ruby, this: &Self) -> Result<RHash, Error> {
        answers::metrics(ruby, this.directory.known().metrics())
    }

    fn near_metrics(ruby: &Ruby, this: &Self) -> Result<RHash, Error> {
        answers::near_metrics(ruby, this.directory.near().map_or_else(Figures::default, |near| near.figures()))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.directory.close();
        self.drivers.close();
    }
}

impl Cache {
    /// Stores a value. nil as ttl is the client's default. `tags`: nil, or as in `tagging`.
    #[inline]
    fn store(&self, ruby: &Ruby, mode: Mode, key: Value, value: Value, ttl: Value, tags: Value) -> Returned {
        if !tags.is_nil() {
            return self.store_tagged(ruby, (mode, None), key, value, ttl, tags);
        }
        self.store_inlined(ruby, Storing { mode, cas: None, returns_cas: false, tags: None }, key, value, ttl)
    }

    fn store_as(&self, ruby: &Ruby, storing: Storing<'_>, key: Value, value: Value, ttl: Value) -> Returned {
        self.store_inlined(ruby, storing, key, value, ttl)
    }

    #[inline(always)]
    fn store_inlined(&self, ruby: &Ruby, storing: Storing<'_>, key: Value, value: Value, ttl: Value) -> Returned {
        let ttl = ttl::stored(ruby, ttl, self.default_ttl)?;
        let Storing { mode, cas, returns_cas, tags } = storing;
        let (encoded, client_flags) = self.codec.encode_for(ruby, mode, value)?;
        let request = Request::Store { mode, size: encoded.bytes().len(), client_flags, ttl, cas, returns_cas };
        let nil = ruby.qnil().as_value();
        if let Some(both) = &self.both {
            return both.ask(ruby, key, request, Some(encoded.into_bytes()), nil, tags);
        }
        if let Some(scheduler) = Scheduler::current(ruby)? {
            let answer = self.exchange_in_fiber(ruby, scheduler, key, request, Some(encoded.into_bytes()), tags)?;
            return answers::answered(ruby, self, key, &request, answer, nil);
        }
        let answer = self.exchange(ruby, key, request, encoded.data(), tags);
        encoded.stayed();
        answers::answered(ruby, self, key, &request, answer?, nil)
    }

    fn calculate(
        &self,
        ruby: &Ruby,
        direction: Direction,
        key: Value,
        Delta(delta): Delta,
        initial: Option<numbers::Initial>,
        ttl: Value,
    ) -> Returned {
        let initial = match initial {
            None => None,
            Some(numbers::Initial(number)) => {
                let ttl = ttl::stored(ruby, ttl, self.default_ttl)?;
                Some(Initial { number, ttl, client_flags: self.codec.counter_flags(number) })
            }
        };
        self.ask(ruby, key, checked(ruby, Request::arithmetic(direction, delta, initial))?)
    }

    /// Runs a request without a data block.
    fn ask(&self, ruby: &Ruby, key: Value, request: Request) -> Returned {
        self.ask_or(ruby, key, request, ruby.qnil().as_value())
    }

    #[inline(always)]
    fn ask_or(&self, ruby: &Ruby, key: Value, request: Request, default: Value) -> Returned {
        if let Some(both) = &self.both {
            return both.ask(ruby, key, request, None, default, None);
        }
        match Scheduler::current(ruby)? {
            Some(scheduler) => {
                let answer = self.exchange_in_fiber(ruby, scheduler, key, request, None, None)?;
                answers::answered(ruby, self, key, &request, answer, default)
            }
            None => {
                let answer = self.exchange(ruby, key, request, Data::None, None)?;
                answers::answered(ruby, self, key, &request, answer, default)
            }
        }
    }

    /// Carries out a request in a thread.
    #[inline(always)]
    fn exchange(
        &self,
        ruby: &Ruby,
        key: Value,
        request: Request,
        data: Data<'_>,
        tags: Option<&Tagging>,
    ) -> Result<Answer<Stored>, Error> {
        self.check_open(ruby)?;
        let (mut bytes, mut scratch) = (KeyBytes::room(), Vec::new());
        bytes.fill(ruby, key)?;
        let sent = bytes.sent(ruby, &self.keys, &mut scratch)?;
        let mut single = Single::new(request, sent, data, OnStack::new(ruby, &self.codec, &request), self.policy);
        if tags.is_some() {
            single.tag(tags.cloned());
        }
        blocking::run(&self.directory, &RubyHost, &mut single)?;
        single.take_answer().map_err(|failed| unanswered(ruby, failed))
    }

    fn exchange_in_fiber(
        &self,
        ruby: &Ruby,
        scheduler: Scheduler,
        key: Value,
        request: Request,
        data: Option<Vec<u8>>,
        tags: Option<&Tagging>,
    ) -> Result<Answer<Bytes>, Error> {
        self.check_open(ruby)?;
        let key = fibers::Key::new(keys::owned(ruby, &self.keys, key)?);
        let mut single = Single::new(request, key, data, AsBytes, self.policy);
        if tags.is_some() {
            single.tag(tags.cloned());
        }
        match self.drivers.operate(ruby, scheduler, single)? {
            fibers::Operation::Single(mut single) => single.take_answer().map_err(|failed| unanswered(ruby, failed)),
            _ => unreachable!("an operation stays what it is"),
        }
    }

    /// Carries out an operation on many keys or servers.
    fn carry_out<O: Carried>(&self, ruby: &Ruby, mut operation: O) -> Result<O, Error> {
        let Some(scheduler) = Scheduler::current(ruby)? else {
            blocking::run(&self.directory, &RubyHost, &mut operation)?;
            return Ok(operation);
        };
        match O::carried(self.drivers.operate(ruby, scheduler, operation)?) {
            Some(operation) => Ok(operation),
            None => unreachable!("an operation stays what it is"),
        }
    }

    fn ask_servers(&self, ruby: &Ruby, command: ServerCommand, failed: Option<RHash>) -> Returned {
        self.check_open(ruby)?;
        if let Some(both) = &self.both {
            return both.ask_servers(ruby, command, failed);
        }
        answers::of_servers(ruby, self.carry_out(ruby, Everywhere::new(command))?, failed)
    }

    fn check_open(&self, ruby: &Ruby) -> Result<(), Error> {
        match self.is_closed() {
            false => Ok(()),
            true => Err(exception(ruby, ErrorKind::Closed, "the client was closed; make another")),
        }
    }
}

/// How a value is stored.
struct Storing<'t> {
    mode: Mode,
    cas: Option<u64>,
    returns_cas: bool,
    tags: Option<&'t Tagging>,
}

fn mode_of(name: Symbol) -> Result<Mode, Error> {
    Ok(match &*name.name()? {
        "add" => Mode::Add,
        "replace" => Mode::Replace,
        "append" => Mode::Append,
        "prepend" => Mode::Prepend,
        _ => Mode::Set,
    })
}

#[cold]
fn unanswered(ruby: &Ruby, failed: Failed<Infallible>) -> Error {
    match failed {
        Failed::Error(error) => from_core(ruby, &error),
        Failed::Unreadable { error, .. } => match error {},
    }
}
