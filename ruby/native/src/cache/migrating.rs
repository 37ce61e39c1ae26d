//! A client whose methods serve an old and a new pool. The core says what to ask of which.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use magnus::r_hash::ForEach;
use magnus::typed_data::Obj;
use magnus::value::ReprValue;
use magnus::{function, method, Error, IntoValue, Module, Object, RArray, RClass, RHash, Ruby, Value};
use pinyon_cache::blocking::run_on_both;
use pinyon_cache::calls::Gives;
use pinyon_cache::migration::{Counts, Crossing, Failing, Next, Pools, Progress, Side, Unconverted, Wanted};
use pinyon_cache::operations::{
    Answered, AnyOperation, AsBytes, Bytes, Changed, DataBlock, Everywhere, Fetched, OwnedKey, Policy, Request,
    SentKey, ServerCommand, Tagging,
};

use super::{answers, many, unanswered, Cache, Returned};
use crate::errors::{exception, own, ErrorKind};
use crate::fibers::{Key, Scheduler};
use crate::host::RubyHost;
use crate::keys;
use crate::ttl;

/// The clients of both pools.
#[derive(Clone)]
pub(super) struct Both {
    old: Cache,
    new: Cache,
    counts: Arc<Counts>,
    /// For items moved from servers that cannot report it.
    ttl: Option<i64>,
}

type Block = Option<Vec<u8>>;

pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_singleton_method("migrating", function!(Cache::migrating, 3))?;
    class.define_method("progress", method!(Cache::progress, 0))
}

impl Cache {
    fn migrating(ruby: &Ruby, old: Obj<Self>, new: Obj<Self>, given: Value) -> Result<Self, Error> {
        if old.both.is_some() || new.both.is_some() {
            let message = "a client that migrates already cannot be the old or the new one of another";
            return Err(exception(ruby, ErrorKind::UsageError, message));
        }
        let ttl = (!given.is_nil()).then(|| ttl::whole(ruby, given)).transpose()?;
        let (old, new) = (Self::clone(&old), Self::clone(&new));
        let both = Both { old, new: new.clone(), counts: Arc::default(), ttl };
        Ok(Self { both: Some(both.into()), ..new })
    }

    /// The fields of `Pinyon::MigratingClient::Progress`.
    fn progress(ruby: &Ruby, this: &Self) -> Value {
        let Some(both) = &this.both else { return ruby.qnil().as_value() };
        let Progress { new, old, moved, refused, missing } = both.counts.progress();
        (new, old, moved, refused, missing).into_value_with(ruby)
    }
}

impl Both {
    pub(super) fn old(&self) -> &Cache {
        &self.old
    }

    /// The same with other policies.
    pub(super) fn with(&self, mut policy: impl FnMut(Policy) -> Result<Policy, Error>) -> Result<Self, Error> {
        let old = Cache { policy: policy(self.old.policy)?, ..self.old.clone() };
        let new = Cache { policy: policy(self.new.policy)?, ..self.new.clone() };
        Ok(Self { old, new, ..self.clone() })
    }

    fn cache(&self, side: Side) -> &Cache {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn ask(
        &self,
        ruby: &Ruby,
        key: Value,
        request: Request,
        data: Block,
        default: Value,
        tags: Option<&Tagging>,
    ) -> Returned {
        let (keys, tags) = (vec![self.both_keys(ruby, key)?], tags.cloned());
        let over = self.run(ruby, Wanted::One(request), Given { keys, data, blocks: Vec::new(), tags })?;
        let Some((side, Came::Answer(answer))) = over.into_iter().next() else {
            unreachable!("a request about one key has one outcome")
        };
        let answer = answer.map_err(|failed| unanswered(ruby, failed))?;
        answers::answered(ruby, self.cache(side), key, &request, answer, default)
    }

    pub(super) fn ask_servers(&self, ruby: &Ruby, command: ServerCommand, failed: Option<RHash>) -> Returned {
        let mut result = ruby.qnil().as_value();
        for (_, operation) in self.run(ruby, Wanted::Everywhere(command), Given::default())? {
            let Came::Everywhere(everywhere) = operation else { unreachable!("all servers are asked") };
            add(&mut result, answers::of_servers(ruby, *everywhere, failed)?)?;
        }
        Ok(result)
    }

    pub(super) fn read_many(&self, ruby: &Ruby, given: RArray, each: Request, failed: Option<RHash>) -> Returned {
        let given = distinct(given)?;
        let failing = if failed.is_some() { Failing::BesideValues } else { Failing::Ends };
        let mut result = ruby.qnil().as_value();
        for (side, operation) in self.run(ruby, Wanted::GetMany { each, failing }, self.given(ruby, given)?)? {
            let Came::Fetched(fetched) = operation else { unreachable!("many keys are read") };
            add(&mut result, self.cache(side).fetched(ruby, given, fetched, failed)?)?;
        }
        Ok(result)
    }

    pub(super) fn set_many(
        &self,
        ruby: &Ruby,
        given: RArray,
        blocks: Vec<DataBlock<Block>>,
        ttl: i32,
        tags: Option<Tagging>,
    ) -> Returned {
        let keys = Given { blocks, tags, ..self.given(ruby, given)? };
        many::changed(ruby, given, self.change(ruby, Wanted::SetMany { ttl }, keys)?, Gives::NotStored)
    }

    pub(super) fn change_many(&self, ruby: &Ruby, given: RArray, each: Request) -> Returned {
        let given = distinct(given)?;
        let changed = self.change(ruby, Wanted::ChangeMany(each), self.given(ruby, given)?)?;
        many::changed(ruby, given, changed, each.call_of_many().gives)
    }

    fn change(&self, ruby: &Ruby, wanted: Wanted, given: Given) -> Result<Changed, Error> {
        match self.run(ruby, wanted, given)?.pop() {
            Some((_, Came::Changed(changed))) => Ok(changed),
            _ => unreachable!("many keys are changed"),
        }
    }

    fn given(&self, ruby: &Ruby, keys: RArray) -> Result<Given, Error> {
        let keys = keys.into_iter().map(|key| self.both_keys(ruby, key)).collect::<Result<_, _>>()?;
        Ok(Given { keys, ..Given::default() })
    }

    fn both_keys(&self, ruby: &Ruby, key: Value) -> Result<[OwnedKey; 2], Error> {
        Ok([keys::owned(ruby, &self.old.keys, key)?, keys::owned(ruby, &self.new.keys, key)?])
    }

    /// Runs a request. Returns what it came to.
    fn run(&self, ruby: &Ruby, wanted: Wanted, given: Given) -> Result<Vec<(Side, Came)>, Error> {
        self.old.check_open(ruby)?;
        self.new.check_open(ruby)?;
        match Scheduler::current(ruby)? {
            None => {
                let mut crossing = self.crossing::<OwnedKey>(ruby, wanted, given);
                let (old, new) = (&self.old.directory, &self.new.directory);
                let is_over = run_on_both(old, new, &RubyHost, &mut crossing)?;
                came(crossing, is_over)
            }
            Some(scheduler) => {
                let mut crossing = self.crossing::<Key>(ruby, wanted, given);
                let mut next = crossing.begin();
                while let Next::Run(side, operation) = next {
                    next = crossing.ran(self.cache(side).drivers.operate(ruby, scheduler, operation)?);
                }
                came(crossing, matches!(next, Next::Over))
            }
        }
    }

    /// It stays on the stack, where the garbage collector sees what was raised.
    fn crossing<'r, K: SentKey + From<OwnedKey>>(
        &'r self,
        ruby: &'r Ruby,
        wanted: Wanted,
        given: Given,
    ) -> Crossing<OfBoth<'r, K>> {
        let keys = given.keys.len();
        let pools = OfBoth { ruby, both: self, given, raised: None, kind: PhantomData };
        Crossing::new(pools, wanted, keys, self.counts.clone(), self.ttl)
    }
}

/// What a request came to. Threads and fibers have keys of their own, so that each has code of its own.
enum Came {
    Answer(Answered<AsBytes>),
    Fetched(Fetched<Bytes, Infallible>),
    Changed(Changed),
    Everywhere(Box<Everywhere>),
}

fn came<K: SentKey + From<OwnedKey>>(
    crossing: Crossing<OfBoth<'_, K>>,
    is_over: bool,
) -> Result<Vec<(Side, Came)>, Error> {
    let (OfBoth { raised, .. }, over) = crossing.finish();
    if let (Some(raised), false) = (raised, is_over) {
        return Err(raised);
    }
    let came = over.into_iter().map(|(side, operation)| {
        let came = match operation {
            AnyOperation::Single(mut single) => Came::Answer(single.take_answer()),
            AnyOperation::Fetch(fetch) => Came::Fetched(fetch.finish()),
            AnyOperation::Change(change) => Came::Changed(change.finish()),
            AnyOperation::Everywhere(everywhere) => Came::Everywhere(everywhere),
            AnyOperation::Quiet(_) | AnyOperation::Several(_) => unreachable!("there are no batches"),
        };
        (side, came)
    });
    Ok(came.collect())
}

/// Each key once.
fn distinct(given: RArray) -> Result<RArray, Error> {
    given.funcall("uniq", ())
}

/// Adds the results of a pool.
fn add(result: &mut Value, more: Value) -> Result<(), Error> {
    match (RHash::from_value(*result), RHash::from_value(more)) {
        (Some(all), Some(more)) => more.foreach(|key: Value, value: Value| {
            all.aset(key, value)?;
            Ok(ForEach::Continue)
        }),
        _ => {
            *result = more;
            Ok(())
        }
    }
}

/// The keys and values of a request, for the old pool and for the new one.
#[derive(Default)]
struct Given {
    keys: Vec<[OwnedKey; 2]>,
    data: Block,
    blocks: Vec<DataBlock<Block>>,
    /// Of what is stored.
    tags: Option<Tagging>,
}

struct OfBoth<'r, K> {
    ruby: &'r Ruby,
    both: &'r Both,
    given: Given,
    /// What ended the conversion of a value.
    raised: Option<Error>,
    kind: PhantomData<K>,
}

impl<K: SentKey + From<OwnedKey>> Pools for OfBoth<'_, K> {
    type Key = K;
    type Data = Block;
    type Values = AsBytes;

    fn key(&self, side: Side, index: usize) -> K {
        self.given.keys[index][side as usize].clone().into()
    }

    fn data(&self) -> Block {
        self.given.data.clone()
    }

    fn tags(&self) -> Option<Tagging> {
        self.given.tags.clone()
    }

    fn blocks(&mut self) -> Vec<DataBlock<Block>> {
        std::mem::take(&mut self.given.blocks)
    }

    fn values(&self, _side: Side) -> AsBytes {
        AsBytes
    }

    fn policy(&self, side: Side) -> Policy {
        self.both.cache(side).policy
    }

    fn convert(&mut self, value: &Bytes) -> Result<DataBlock<Block>, Unconverted> {
        let ruby = self.ruby;
        let written = self.both.old.codec.decode(ruby, value.clone());
        match written.and_then(|value| self.both.new.codec.encode(ruby, value)) {
            Ok((encoded, client_flags)) => {
                let bytes = encoded.into_bytes();
                Ok(DataBlock { size: bytes.len(), data: Some(bytes), client_flags })
            }
            Err(error) if own(ruby, &error).is_ok_and(|own| own.is_some()) => Err(Unconverted::Refused),
            Err(error) => {
                self.raised = Some(error);
                Err(Unconverted::Interrupted)
            }
        }
    }
}
