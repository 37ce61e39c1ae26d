//! `fetch_many`: carries out the steps that the core decides on for many keys.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use magnus::block::Proc;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    function, gc, method, DataTypeFunctions, Error, Module, Object, RArray, RHash, RModule, Ruby, TypedData, Value,
};
use pinyon_cache::blocking::{self, give_back_late};
use pinyon_cache::lease::{
    Behind, Ended, FlightKey, GetOrSetMany, LeftOut, ManyOutcome, ManyStep, Refusal, StepOutcome, Storing,
};
use pinyon_cache::operations::{
    Answer, AsBytes, Bytes, Compared, Found, Mode, OwnedKey, Request, SentKey, Several, Single, Tagging, Win,
};
use pinyon_cache::ttl::Ttl;

use super::callers::{Follower, Here, Types};
use super::fetching::{agreed, failed, found, said, Agreed};
use super::{unanswered, Cache, Returned};
use crate::define_class;
use crate::errors::{at_index, beside, checked, exception, unstorable, unsupported};
use crate::fibers::{self, Scheduler};
use crate::host::RubyHost;
use crate::keys::{self, KeyBytes};

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<FetchingMany>(ruby, native, "FetchingMany")?;
    class.define_singleton_method("new", function!(FetchingMany::new, 4))?;
    class.define_method("run", method!(FetchingMany::run, 2))?;
    class.define_method("leave", method!(FetchingMany::leave, 0))
}

/// One caller's way to the values of many keys.
#[derive(TypedData)]
#[magnus(class = "Pinyon::Native::FetchingMany", free_immediately, mark)]
pub(super) struct FetchingMany {
    machine: Mutex<GetOrSetMany<Types>>,
    cache: Opaque<Obj<Cache>>,
    keys: Opaque<RArray>,
    sent: Vec<OwnedKey>,
    /// Every value that the machine was ever given: it keeps them where the garbage collector does not look.
    values: Opaque<RArray>,
    /// What tells the ttl of a value, or nil.
    own_ttl: Opaque<Value>,
    /// Of each value.
    tags: Option<Tagging>,
    /// Rooted alive and in place, because their addresses identify them.
    scope_and_caller: [Opaque<Value>; 2],
}

impl DataTypeFunctions for FetchingMany {
    fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.cache);
        marker.mark(self.keys);
        marker.mark(self.values);
        marker.mark(self.own_ttl);
        self.scope_and_caller.iter().for_each(|object| marker.mark(*object));
    }
}

type Step = ManyStep<Types>;
type Outcome = StepOutcome<Types, LeftOut>;
type Data = Option<Vec<u8>>;
type Asked = Single<fibers::Key, Data, AsBytes>;

impl FetchingMany {
    /// As for `Fetching`.
    fn new(ruby: &Ruby, cache: Obj<Cache>, keys: RArray, term: Value, terms: RHash) -> Result<Obj<Self>, Error> {
        cache.check_open(ruby)?;
        let Agreed { terms, own_ttl, tags } = agreed(ruby, &cache, term, terms, Behind::WAITS)?;
        let (here, keys) = (Here::current(ruby)?, ruby.ary_from_iter(keys));
        let (mut sent, mut flight_keys) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for (index, key) in keys.into_iter().enumerate() {
            let owned = keys::owned(ruby, &cache.keys, key).map_err(|error| at_index(ruby, error, index))?;
            sent.push(owned);
            let key = KeyBytes::of(ruby, key)?.bytes().into();
            flight_keys.push(FlightKey { scope: here.scope_number(), key, policy: cache.policy });
        }
        let (chance, caller) = (RandomState::new().hash_one(()), here.caller_number());
        let machine = GetOrSetMany::new(&cache.callers.flights, flight_keys, caller, terms, chance, Instant::now());
        let values = ruby.ary_new();
        let this = ruby.obj_wrap(Self {
            machine: machine.into(),
            cache: cache.into(),
            keys: keys.into(),
            sent,
            values: values.into(),
            own_ttl: own_ttl.into(),
            tags,
            scope_and_caller: [here.scope.into(), here.caller.into()],
        });
        // Before the object is there, which marks them, its memory is: nothing else had these two.
        std::hint::black_box((keys, values));
        Ok(this)
    }

    /// Returns the values by key. `make`: makes those of many keys. `failed`: a Hash for the errors of keys, which are not
    /// raised then.
    fn run(ruby: &Ruby, this: &Self, make: Proc, failed_keys: Option<RHash>) -> Returned {
        let (here, cache) = (Here::current(ruby)?, ruby.get_inner(this.cache));
        let mut followers: HashMap<usize, Follower> = HashMap::new();
        let mut step = this.machine().begin(Instant::now());
        loop {
            cache.callers.unblock(ruby)?;
            let (done, is_of_servers) = match step {
                Step::Ask(requests) | Step::GiveBack(requests) => (this.ask(ruby, &cache, requests), true),
                Step::Store(all) => (this.store(ruby, &cache, all), true),
                Step::Make(keys) => (this.make(ruby, &keys, make), false),
                Step::Share(key) => (cache.shared(ruby, this.value(ruby, key)).map(ManyOutcome::All), false),
                Step::Copy(_, shared) => (this.copy(ruby, &cache, (*shared).clone()), false),
                Step::Listen(keys) => {
                    for key in keys {
                        let follower = here.follower(&cache.callers);
                        this.machine().follow(key, follower.clone());
                        followers.insert(key, follower);
                    }
                    (DONE, true)
                }
                Step::Follow(key, time) => {
                    let waited = followers.get(&key).map_or(Ok(()), |follower| follower.wait(ruby, time));
                    (waited.and(DONE), true)
                }
                Step::Pause(time) => (here.follower(&cache.callers).wait(ruby, time).and(DONE), true),
                Step::End(ended) => return this.result(ruby, ended, failed_keys),
                Step::Raise(error) => return Err(error.object(ruby).into()),
                Step::Refuse(key, refusal) => return Err(this.refused(ruby, key, refusal)?),
            };
            let outcome = match done {
                Ok(outcome) => outcome,
                Err(raised) => ManyOutcome::All(failed(ruby, raised, is_of_servers)?),
            };
            step = this.machine().next(outcome, Instant::now());
            let suppressed = this.machine().suppressed();
            for (key, error) in suppressed {
                cache.kept_stale(ruby, this.sent[key].routed(), &error)?;
            }
        }
    }

    /// Ends a caller, wherever it is, and gives back the leases that it has. Others continue without it.
    fn leave(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        let cache = ruby.get_inner(this.cache);
        let won = this.machine().leave();
        let given_back = match won.is_empty() {
            true => Ok(()),
            false => {
                let single = |(key, win)| this.single(&cache, key, Request::GiveBack(win), None);
                cache.carry_out_several(ruby, won.into_iter().map(single).collect()).map(drop)
            }
        };
        cache.callers.unblock(ruby)?;
        given_back
    }

    fn ask(&self, ruby: &Ruby, cache: &Cache, requests: Vec<(usize, Request)>) -> Result<ManyOutcome<Types>, Error> {
        let single = |(key, request)| {
            let single = self.single(cache, key, request, None);
            Ok((key, single.with_tags(self.tags.clone())))
        };
        self.exchange(ruby, cache, requests.into_iter().map(single).collect())
    }

    fn store(&self, ruby: &Ruby, cache: &Cache, all: Vec<Storing>) -> Result<ManyOutcome<Types>, Error> {
        let mut asked = Vec::with_capacity(all.len());
        for Storing { key, cas, ttl } in all {
            let encoded = cache.codec.encode(ruby, self.value(ruby, key));
            asked.push(match encoded.map_err(|error| unstorable(ruby, error, self.key(ruby, key))) {
                Ok((encoded, client_flags)) => {
                    let (data, ttl) = (encoded.into_bytes(), Ttl::from_seconds(ttl).0);
                    let (mode, size, cas) = (Mode::Set, data.len(), Some(cas));
                    let request = Request::Store { mode, size, client_flags, ttl, cas, returns_cas: false };
                    let tags = self.machine().tags(key).cloned();
                    let single = self.single(cache, key, request, Some(data));
                    Ok((key, single.with_tags(tags.map(Tagging::Read))))
                }
                Err(error) => Err(failed(ruby, error, false)?),
            });
        }
        self.exchange(ruby, cache, asked)
    }

    fn single(&self, cache: &Cache, key: usize, request: Request, data: Data) -> Asked {
        Single::new(request, fibers::Key::new(self.sent[key].clone()), data, AsBytes, cache.policy)
    }

    /// Sends requests together, and reads the answers. Some have an outcome without being sent.
    fn exchange(
        &self,
        ruby: &Ruby,
        cache: &Cache,
        asked: Vec<Result<(usize, Asked), Outcome>>,
    ) -> Result<ManyOutcome<Types>, Error> {
        let (mut singles, mut positions) = (Vec::with_capacity(asked.len()), Vec::with_capacity(asked.len()));
        let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(asked.len());
        for asked in asked {
            outcomes.push(match asked {
                Ok((key, single)) => {
                    positions.push((outcomes.len(), key));
                    singles.push(single);
                    None
                }
                Err(outcome) => Some(outcome),
            });
        }
        let mut answered = cache.carry_out_several(ruby, singles)?.into_iter().zip(positions);
        while let Some((mut single, (position, key))) = answered.next() {
            match self.outcome(ruby, cache, key, &mut single) {
                Ok(outcome) => outcomes[position] = Some(outcome),
                Err(raised) => {
                    cache.forsake(answered.map(|(single, _)| single));
                    return Err(raised);
                }
            }
        }
        Ok(ManyOutcome::Each(outcomes.into_iter().flatten().collect()))
    }

    fn outcome(&self, ruby: &Ruby, cache: &Cache, key: usize, single: &mut Asked) -> Result<Outcome, Error> {
        match single.take_answer() {
            Ok(Answer::Lease(found)) => self.found(ruby, cache, key, single, *found),
            Ok(Answer::Compared(compared)) => Ok(StepOutcome::Stored(compared == Compared::Stored)),
            Ok(_) => Ok(StepOutcome::Done),
            Err(why) => failed(ruby, unanswered(ruby, why), true),
        }
    }

    fn found(
        &self,
        ruby: &Ruby,
        cache: &Cache,
        key: usize,
        single: &Asked,
        answer: Found<Bytes>,
    ) -> Result<Outcome, Error> {
        let win = answer.win();
        let read = answer.read(|stored| match cache.codec.read(ruby, stored) {
            Ok(value) => self.keep(ruby, value).map(Some),
            Err(error) => cache.unreadable(ruby, self.key(ruby, key), "lease", error, true).map(|()| None),
        });
        match read {
            Ok(read) => Ok(found(read)),
            Err(error) => {
                win.into_iter().for_each(|win| cache.give_back_later(single, win));
                failed(ruby, error, true)
            }
        }
    }

    /// Has the values made, and notes how long each is kept.
    fn make(&self, ruby: &Ruby, keys: &[usize], make: Proc) -> Result<ManyOutcome<Types>, Error> {
        let given = ruby.ary_from_iter(keys.iter().map(|key| self.key(ruby, *key)));
        let made = by_key(ruby, make.call((given,))?)?;
        let mut outcomes = Vec::with_capacity(keys.len());
        for key in keys {
            outcomes.push(match made.get(self.key(ruby, *key)) {
                None => StepOutcome::Nothing(LeftOut),
                Some(value) => {
                    let (value, how) = said(ruby, value, ruby.get_inner(self.own_ttl))?;
                    let taken = self.machine().made_with(*key, how);
                    checked(ruby, taken)?;
                    StepOutcome::Value(self.keep(ruby, value)?.into())
                }
            });
        }
        Ok(ManyOutcome::Each(outcomes))
    }

    fn copy(&self, ruby: &Ruby, cache: &Cache, shared: Bytes) -> Result<ManyOutcome<Types>, Error> {
        let value = self.keep(ruby, cache.codec.decode(ruby, shared)?)?;
        Ok(ManyOutcome::All(StepOutcome::Value(value.into())))
    }

    fn result(&self, ruby: &Ruby, ended: Vec<(usize, Ended<Types>)>, failed: Option<RHash>) -> Returned {
        let (values, mut first) = (ruby.hash_new(), None);
        for (key, ended) in ended {
            let error: Error = match ended {
                Ended::Nothing => continue,
                Ended::Value(value) => {
                    values.aset(self.key(ruby, key), ruby.get_inner(value))?;
                    continue;
                }
                Ended::Failed(error) => error.object(ruby).into(),
                Ended::Refused(refusal) => self.refused(ruby, key, refusal)?,
            };
            match (failed, error.value()) {
                (Some(failed), Some(error)) => failed.aset(self.key(ruby, key), error)?,
                _ => drop(first.get_or_insert(error)),
            }
        }
        let repeated = self.machine().repeated().to_vec();
        for (key, first) in repeated {
            if let Some(value) = values.get(self.key(ruby, first)) {
                values.aset(self.key(ruby, key), value)?;
            }
        }
        match first {
            Some(error) => Err(beside(ruby, error, values.as_value())),
            None => Ok(values.as_value()),
        }
    }

    fn refused(&self, ruby: &Ruby, key: usize, refusal: Refusal) -> Result<Error, Error> {
        Ok(exception(ruby, refusal.kind(), &refusal.message(&self.key(ruby, key).inspect())))
    }

    fn key(&self, ruby: &Ruby, key: usize) -> Value {
        ruby.get_inner(self.keys).entry(key as isize).unwrap_or_else(|_| ruby.qnil().as_value())
    }

    /// The value of a key, to store or to share.
    fn value(&self, ruby: &Ruby, key: usize) -> Value {
        self.machine().value(key).map_or_else(|| ruby.qnil().as_value(), |value| ruby.get_inner(*value))
    }

    fn keep(&self, ruby: &Ruby, value: Value) -> Returned {
        ruby.get_inner(self.values).push(value)?;
        Ok(value)
    }

    fn machine(&self) -> MutexGuard<'_, GetOrSetMany<Types>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const DONE: Result<ManyOutcome<Types>, Error> = Ok(ManyOutcome::All(StepOutcome::Done));

/// What a block has made, by key.
fn by_key(ruby: &Ruby, made: Value) -> Result<RHash, Error> {
    let expected = "the block of fetch_many returns a Hash of keys and values, or pairs of them";
    for conversion in ["to_hash", "to_h"] {
        if !made.is_nil() && made.respond_to(conversion, false)? {
            return made.funcall(conversion, ());
        }
    }
    Err(unsupported(ruby, expected, made))
}

impl Cache {
    /// Carries out requests together.
    fn carry_out_several(&self, ruby: &Ruby, singles: Vec<Asked>) -> Result<Vec<Asked>, Error> {
        self.check_open(ruby)?;
        let mut several = Several::new(singles);
        if let Some(scheduler) = Scheduler::current(ruby)? {
            return match self.drivers.operate(ruby, scheduler, several)? {
                fibers::Operation::Several(several) => Ok(several.finish()),
                _ => unreachable!("an operation stays what it is"),
            };
        }
        let done = blocking::run(&self.directory, &RubyHost, &mut several);
        let singles = several.finish();
        match done {
            Ok(()) => Ok(singles),
            Err(interrupt) => {
                self.forsake(singles);
                Err(interrupt)
            }
        }
    }

    /// Gives back what requests have won whose caller has gone.
    fn forsake(&self, singles: impl IntoIterator<Item = Asked>) {
        for mut single in singles {
            if let Ok(Answer::Lease(found)) = single.take_answer() {
                found.win().into_iter().for_each(|win| self.give_back_later(&single, win));
            }
        }
    }

    fn give_back_later(&self, single: &Asked, win: Win) {
        give_back_late(&self.directory, single.key().owned(), win, self.policy);
    }
}
