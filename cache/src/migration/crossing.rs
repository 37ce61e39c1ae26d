//! A request on both pools, as operations on one pool after another.

use std::convert::Infallible;
use std::sync::Arc;

use super::pools::{Pools, Unconverted, ValueOf};
use super::{Counts, Migration, Plan, Side, Step, StepOutcome, NEEDS_TTL};
use crate::operations::{
    Answer, AnyOperation, Beside, Change, Changed, Compared, DataBlock, Everywhere, Failed, Fetch, Fetched, FoundKey,
    Keys, Mode, Policy, Request, ServerCommand, Single, Tags, Unanswered, Unreadable, Values,
};
use crate::tags::KnownTags;
use crate::ttl::Ttl;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Error, Kind};

/// An operation on one of the pools.
pub type OnePool<P> = AnyOperation<<P as Pools>::Key, <P as Pools>::Data, <P as Pools>::Values>;

/// What a user asks for.
#[derive(Clone, Debug)]
pub enum Wanted {
    One(Request),
    /// `each`: the request for each of many keys, which reads.
    GetMany {
        each: Request,
        failing: Failing,
    },
    /// `ttl`: as it is sent.
    SetMany {
        ttl: i32,
    },
    /// The request for each of many keys.
    ChangeMany(Request),
    /// Asks every server of both pools.
    Everywhere(ServerCommand),
    /// Invalidates tags, which are those of the new pool.
    Invalidate {
        known: Arc<KnownTags>,
        tags: Tags,
    },
}

/// What failures of servers do to a request that reads many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The first one ends it.
    Ends,
    /// Users get them beside the values. Keys that the new pool cannot tell of are looked for in the old one.
    BesideValues,
    /// Each key that a pool cannot tell of fails by itself.
    OfKeys,
}

/// What to do next.
pub enum Next<P: Pools> {
    /// Run this on a pool, and pass it to [`Crossing::ran`].
    Run(Side, OnePool<P>),
    /// Nothing: see [`Crossing::finish`].
    Over,
    /// Nothing: converting a value was interrupted.
    Interrupted,
}

/// A request on both pools. It asks one pool after another, and never waits.
pub struct Crossing<P: Pools> {
    pub(super) pools: P,
    pub(super) wanted: Wanted,
    /// How many keys it is about.
    pub(super) keys: usize,
    machine: Machine<P>,
    /// The operation that is under way.
    asked: Asked,
    /// The values that were read last, with their pools: the machine chooses among two at most.
    pub(super) values: [Option<(ValueOf<P>, Side)>; 2],
    /// The place for the next one.
    next: Read,
    /// What was found of many keys, in the old pool and in the new one.
    pub(super) found: [Vec<FoundKey<ValueOf<P>>>; 2],
    pub(super) unreadable: [Option<Unreadable<ErrorOf<P>>>; 2],
    /// The failures of servers that did not end it.
    pub(super) beside: Vec<Error>,
    pub(super) unanswered: Vec<Unanswered>,
    /// Which of many keys were changed, in either pool.
    pub(super) done: Vec<bool>,
    pub(super) over: Vec<(Side, OnePool<P>)>,
}

enum Machine<P: Pools> {
    Migration(Box<MachineOf<P>>),
    /// The new pool alone is asked.
    New,
    /// All servers are asked.
    Everywhere,
}

type MachineOf<P> = Migration<Read, OnePool<P>>;
/// The place of a value that was read.
pub(super) type Read = usize;
pub(super) type ErrorOf<P> = <<P as Pools>::Values as Values>::Error;
pub(super) type FailedOf<P> = Failed<ErrorOf<P>>;
type StepOf<P> = Step<Read, OnePool<P>, FailedOf<P>>;
type OutcomeOf<P> = StepOutcome<Read, OnePool<P>, FailedOf<P>>;

#[derive(Clone, Debug)]
enum Asked {
    Nothing,
    /// A request of the machine's.
    Pool(Side),
    /// The user's request.
    Operation,
    /// Keys by index.
    Reading(Side, Vec<usize>),
}

impl Wanted {
    fn plan(&self) -> Option<Plan> {
        match self {
            Self::One(request) => Plan::of(request),
            Self::GetMany { each: Request::Get(Beside::Nothing), .. } => Some(Plan::GetMany),
            Self::GetMany { .. } => Some(Plan::FindMany),
            Self::SetMany { .. } => Some(Plan::Set),
            Self::ChangeMany(Request::Delete) => Some(Plan::Delete),
            Self::ChangeMany(_) => Some(Plan::FindMany),
            Self::Everywhere(_) | Self::Invalidate { .. } => None,
        }
    }
}

impl<P: Pools> Crossing<P> {
    /// `keys`: how many there are. `ttl`: see [`Migration::new`].
    pub fn new(pools: P, wanted: Wanted, keys: usize, counts: Arc<Counts>, ttl: Option<i64>) -> Self {
        let plan = wanted.plan();
        Self::planned(pools, wanted, plan, keys, counts, ttl)
    }

    /// A client's policy. Pools are always asked: what is in memory may be older than what the other pool has. A value with
    /// tags counts as missing in the old pool: the new one does not know what was invalidated.
    pub(super) fn policy(&self, side: Side) -> Policy {
        Policy { near: false, tagged_is_miss: side == Side::Old, ..self.pools.policy(side) }
    }

    /// The same by another plan; `None`: on the new pool alone.
    pub fn planned(
        pools: P,
        wanted: Wanted,
        plan: Option<Plan>,
        keys: usize,
        counts: Arc<Counts>,
        ttl: Option<i64>,
    ) -> Self {
        let tells_outages = matches!(wanted, Wanted::GetMany { failing, .. } if failing != Failing::Ends);
        let machine = match (plan, &wanted) {
            (_, Wanted::Everywhere(_)) => Machine::Everywhere,
            (Some(plan), _) => Machine::Migration(Migration::new(plan, keys, tells_outages, counts, ttl).into()),
            (None, _) => Machine::New,
        };
        Self {
            pools,
            wanted,
            keys,
            machine,
            asked: Asked::Nothing,
            values: [None, None],
            next: 0,
            found: [Vec::new(), Vec::new()],
            unreadable: [None, None],
            beside: Vec::new(),
            unanswered: Vec::new(),
            done: Vec::new(),
            over: Vec::new(),
        }
    }

    /// The first operation.
    pub fn begin(&mut self) -> Next<P> {
        match &mut self.machine {
            Machine::Migration(machine) => {
                let step = machine.begin();
                self.follow(step)
            }
            Machine::New => self.run(Side::New, Asked::Operation, Self::operation),
            Machine::Everywhere => self.run(Side::Old, Asked::Pool(Side::Old), Self::operation),
        }
    }

    /// Takes an operation that is over. Returns the next one.
    pub fn ran(&mut self, operation: OnePool<P>) -> Next<P> {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        let outcome = match (&self.machine, asked) {
            (Machine::Everywhere, Asked::Pool(side)) => {
                self.over.push((side, operation));
                return match side {
                    Side::Old => self.run(Side::New, Asked::Pool(Side::New), Self::operation),
                    Side::New => Next::Over,
                };
            }
            (Machine::Migration(_), Asked::Pool(side)) => self.answered(side, operation),
            (Machine::Migration(_), Asked::Reading(side, keys)) => self.read(side, keys, operation),
            (Machine::Migration(_), _) => operated::<P>(operation),
            (_, _) => {
                self.over.push((Side::New, operation));
                return Next::Over;
            }
        };
        let step = self.machine().next(outcome);
        self.follow(step)
    }

    /// What it came to: operations that are over and have its outcome, with the pool whose values they have. A request that
    /// reads many keys, or asks every server, has one for each pool, the old one first. Others have one.
    pub fn finish(self) -> (P, Vec<(Side, OnePool<P>)>) {
        (self.pools, self.over)
    }

    pub fn pools(&self) -> &P {
        &self.pools
    }

    fn machine(&mut self) -> &mut MachineOf<P> {
        match &mut self.machine {
            Machine::Migration(machine) => machine,
            _ => unreachable!("without a plan there are no steps"),
        }
    }

    fn run(&mut self, side: Side, asked: Asked, operation: impl FnOnce(&mut Self) -> OnePool<P>) -> Next<P> {
        self.asked = asked;
        Next::Run(side, operation(self))
    }

    fn follow(&mut self, mut step: StepOf<P>) -> Next<P> {
        loop {
            step = match step {
                Step::Ask(side, request) => return self.run(side, Asked::Pool(side), |own| own.ask(side, request)),
                Step::Operate => return self.run(Side::New, Asked::Operation, |own| own.operation_without_creating()),
                Step::Create => return self.run(Side::New, Asked::Operation, Self::operation),
                Step::Read { pool, keys } => {
                    let operation = self.operation_on(pool, &keys);
                    return self.run(pool, Asked::Reading(pool, keys), |_| operation);
                }
                Step::Store { value, cas, ttl } => match self.converted(value) {
                    Ok(block) => {
                        let ttl = if ttl == 0 { 0 } else { Ttl::from_seconds(ttl).0 };
                        let (mode, size, client_flags) = (Mode::Set, block.size, block.client_flags);
                        let request =
                            Request::Store { mode, size, client_flags, ttl, cas: Some(cas), returns_cas: false };
                        let key = self.pools.key(Side::New, self.key());
                        let (values, policy) = (self.pools.values(Side::New), self.policy(Side::New));
                        let store = Single::new(request, key, block.data, values, policy);
                        return self.run(Side::New, Asked::Pool(Side::New), |_| store.into());
                    }
                    Err(Unconverted::Interrupted) => return Next::Interrupted,
                    Err(Unconverted::Refused) => {
                        let error = Error::new(Kind::Usage, &"".into(), "the new client does not take the value");
                        let (error, kind) = (Failed::Error(error.into()), ErrorKind::UnsupportedType);
                        self.machine().next(StepOutcome::Failed { error, kind })
                    }
                },
                Step::Tell(error) => {
                    self.tell(error);
                    self.machine().next(StepOutcome::Told)
                }
                Step::Return(returned) => return self.returned(returned),
                Step::Raise(error) => return self.raise(error),
                Step::NeedTtl(error) => return self.raise(needing_ttl(error)),
            };
        }
    }

    /// A request of the machine's about its key.
    fn ask(&mut self, side: Side, request: Request) -> OnePool<P> {
        if let Wanted::SetMany { .. } | Wanted::ChangeMany(Request::Delete) = self.wanted {
            return Change::each(self.all_keys(side), Request::Delete, self.policy(side)).into();
        }
        let (key, data) = (self.pools.key(side, self.key()), P::Data::default());
        Single::new(request, key, data, self.pools.values(side), self.policy(side)).into()
    }

    /// The user's request, which creates nothing as long as the old pool may have the item.
    fn operation_without_creating(&mut self) -> OnePool<P> {
        match self.wanted {
            Wanted::One(Request::Arithmetic { direction, delta, initial: Some(_) }) => {
                self.single(Request::Arithmetic { direction, delta, initial: None }).into()
            }
            _ => self.operation(),
        }
    }

    /// The user's request.
    fn operation(&mut self) -> OnePool<P> {
        match &self.wanted {
            Wanted::One(request) => self.single(*request).into(),
            Wanted::Everywhere(command) => Everywhere::new(command.clone()).into(),
            Wanted::Invalidate { known, tags } => Change::invalidate(known, tags).into(),
            Wanted::SetMany { ttl } => {
                let (keys, ttl) = (self.all_keys(Side::New), *ttl);
                Change::store(keys, self.pools.blocks(), ttl, self.policy(Side::New))
                    .with_tags(self.pools.tags())
                    .into()
            }
            Wanted::GetMany { .. } | Wanted::ChangeMany(_) => unreachable!("the machine reads and changes them"),
        }
    }

    /// The user's request for some of many keys.
    fn operation_on(&self, side: Side, indexes: &[usize]) -> OnePool<P> {
        let (keys, policy) = (self.keys_of(side, indexes.iter().copied()), self.policy(side));
        match self.wanted {
            Wanted::GetMany { each, .. } => self.named(Fetch::new(keys, each, self.pools.values(side), policy)).into(),
            Wanted::ChangeMany(each) => Change::each(keys, each, policy).into(),
            _ => unreachable!("it is about one key, or stores many"),
        }
    }

    fn single(&self, request: Request) -> Single<P::Key, P::Data, P::Values> {
        let (values, policy) = (self.pools.values(Side::New), self.policy(Side::New));
        let single = Single::new(request, self.pools.key(Side::New, 0), self.pools.data(), values, policy);
        single.with_tags(self.pools.tags())
    }

    /// The failures of keys are those of gets.
    pub(super) fn named(&self, fetch: Fetch<P::Values>) -> Fetch<P::Values> {
        match self.wanted {
            Wanted::GetMany { failing: Failing::OfKeys, .. } => fetch.named("get"),
            _ => fetch,
        }
    }

    pub(super) fn key(&self) -> usize {
        match &self.machine {
            Machine::Migration(machine) => machine.key(),
            _ => 0,
        }
    }

    pub(super) fn all_keys(&self, side: Side) -> Keys {
        self.keys_of(side, 0..self.keys)
    }

    fn keys_of(&self, side: Side, indexes: impl ExactSizeIterator<Item = usize>) -> Keys {
        let mut keys = Keys::with_capacity(indexes.len());
        indexes.for_each(|index| keys.push_formed(&self.pools.key(side, index)));
        keys
    }

    fn keep(&mut self, value: ValueOf<P>, side: Side) -> Read {
        let place = self.next;
        self.next = 1 - place;
        self.values[place] = Some((value, side));
        place
    }

    fn converted(&mut self, value: Read) -> Result<DataBlock<P::Data>, Unconverted> {
        match &self.values[value] {
            Some((value, _)) => self.pools.convert(value),
            None => unreachable!("it was read"),
        }
    }

    /// What an operation of the machine's came to.
    fn answered(&mut self, side: Side, operation: OnePool<P>) -> OutcomeOf<P> {
        let mut single = match operation {
            AnyOperation::Single(single) => single,
            AnyOperation::Change(change) => {
                let Changed { done, mut failures } = change.finish();
                self.note_done(0..self.keys, &done);
                return match failures.raised() {
                    Some(error) => failed(Failed::Error(error.into())),
                    None => StepOutcome::Answered(Answer::Done(done.contains(&true))),
                };
            }
            _ => unreachable!("the machine asks about one key, or deletes many"),
        };
        let passes_over = single.request().passes_over_unreadable(single.policy());
        match single.take_answer() {
            Ok(answer) => match answer.read(|value| Ok::<_, Infallible>(Some(self.keep(value, side)))) {
                Ok(answer) => StepOutcome::Answered(answer),
                Err(never) => match never {},
            },
            Err(Failed::Unreadable { .. }) if passes_over => StepOutcome::Answered(Answer::Missing),
            Err(error) => failed(error),
        }
    }

    fn note_done(&mut self, keys: impl Iterator<Item = usize>, done: &[bool]) {
        self.done.resize(self.keys, false);
        keys.zip(done).for_each(|(key, done)| self.done[key] |= done);
    }

    /// What was changed of many keys.
    fn changed(&mut self, keys: &[usize], change: Change<P::Data>) -> OutcomeOf<P> {
        let Changed { done, mut failures } = change.finish();
        self.note_done(keys.iter().copied(), &done);
        match failures.raised() {
            Some(error) => failed(Failed::Error(error.into())),
            None => StepOutcome::Found(keys.iter().copied().filter(|key| self.done[*key]).collect()),
        }
    }

    /// What was read of many keys.
    fn read(&mut self, side: Side, keys: Vec<usize>, operation: OnePool<P>) -> OutcomeOf<P> {
        let fetch = match operation {
            AnyOperation::Fetch(fetch) => fetch,
            AnyOperation::Change(change) => return self.changed(&keys, *change),
            _ => unreachable!("it is about many keys"),
        };
        let policy = fetch.policy();
        let Fetched { found, unreadable, mut failures, unanswered } = fetch.finish();
        let failing = match self.wanted {
            Wanted::GetMany { failing, .. } => failing,
            _ => Failing::Ends,
        };
        if failing == Failing::BesideValues {
            self.beside.extend(failures.of_servers());
        }
        let mut known: Vec<usize> = found.iter().map(|one| keys[one.index]).collect();
        if failing == Failing::OfKeys {
            for Unanswered { keys: of, error } in unanswered.into_iter().filter(|one| !policy.forgives(&one.error)) {
                let of: Vec<u32> = of.into_iter().map(|key| keys[key as usize] as u32).collect();
                if side == Side::New {
                    known.extend(of.iter().map(|key| *key as usize));
                }
                self.unanswered.push(Unanswered { keys: of, error });
            }
        } else if let Some(error) = failures.raised() {
            return failed(Failed::Error(error.into()));
        }
        self.found[side as usize].extend(found.into_iter().map(|one| FoundKey { index: keys[one.index], ..one }));
        if let Some(Unreadable { index, error }) = unreadable {
            known.push(keys[index]);
            self.unreadable[side as usize].get_or_insert(Unreadable { index: keys[index], error });
        }
        StepOutcome::Found(known)
    }
}

/// What the user's request came to on the new pool.
fn operated<P: Pools>(operation: OnePool<P>) -> OutcomeOf<P> {
    match operation {
        AnyOperation::Single(mut single) => {
            let passes_over = single.request().passes_over_unreadable(single.policy());
            let answered = single.take_answer();
            let found = match &answered {
                Ok(answer) => is_hit(answer),
                Err(Failed::Unreadable { .. }) if passes_over => false,
                Err(_) => match answered {
                    Err(error) => return failed(error),
                    Ok(_) => unreachable!("it failed"),
                },
            };
            single.end(answered);
            StepOutcome::Operated { answer: AnyOperation::Single(single), found }
        }
        AnyOperation::Change(change) => match change.failure() {
            Some(error) => failed(Failed::Error(error.clone().into())),
            None => StepOutcome::Operated { answer: AnyOperation::Change(change), found: true },
        },
        _ => unreachable!("users' requests are about one key, or store many"),
    }
}

fn is_hit<V>(answer: &Answer<V>) -> bool {
    !matches!(answer, Answer::Missing | Answer::Done(false) | Answer::Compared(Compared::Changed | Compared::Gone))
}

fn failed<V, A, E>(error: Failed<E>) -> StepOutcome<V, A, Failed<E>> {
    let kind = match &error {
        Failed::Error(error) => error.kind.into(),
        Failed::Unreadable { .. } => ErrorKind::UndecodableValue,
    };
    StepOutcome::Failed { error, kind }
}

fn needing_ttl<E>(error: Failed<E>) -> Failed<E> {
    match error {
        Failed::Error(mut error) => {
            error.message = format!("{}; {NEEDS_TTL}", error.message);
            Failed::Error(error)
        }
        unreadable => unreadable,
    }
}
