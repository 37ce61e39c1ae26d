//! What an operation of a migrating client does next on which pool: the core's machine, whose values are numbers that Ruby
//! has given to its objects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magnus::value::ReprValue;
use magnus::{
    function, method, Error, Exception, IntoValue, Module, Object, RArray, RModule, Ruby, Symbol, TryConvert, Value,
};
use pinyon_cache::migration::{self, Counts, Plan, Progress, Returned, Side, Step, StepOutcome, NEEDS_TTL};
use pinyon_cache::operations::{Answer, Compared, Finding, Found, Request, Win};

use crate::define_class;
use crate::errors::kind_of;
use crate::ttl;

/// Ruby's number of an object.
type Number = usize;
type Outcome = StepOutcome<Number, Number, ()>;

pub(crate) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let counts = define_class::<MigrationCounts>(ruby, native, "MigrationCounts")?;
    counts.define_singleton_method("new", function!(MigrationCounts::new, 0))?;
    counts.define_method("progress", method!(MigrationCounts::progress, 0))?;
    let class = define_class::<Migration>(ruby, native, "Migration")?;
    class.define_singleton_method("new", function!(Migration::new, 5))?;
    class.define_method("begin", method!(Migration::begin, 0))?;
    class.define_method("key", method!(Migration::key, 0))?;
    class.define_method("next", method!(Migration::next, 2))?;
    class.define_method("failed", method!(Migration::failed, 1))
}

/// The progress of a migrating client and its views.
#[magnus::wrap(class = "Pinyon::Native::MigrationCounts", free_immediately, frozen_shareable)]
struct MigrationCounts(Arc<Counts>);

impl MigrationCounts {
    fn new() -> Self {
        Self(Arc::default())
    }

    /// The fields of `Pinyon::MigratingClient::Progress`.
    fn progress(&self) -> (u64, u64, u64, u64, u64) {
        let Progress { new, old, moved, refused, missing } = self.0.progress();
        (new, old, moved, refused, missing)
    }
}

/// One operation. Each step is its name, and what it needs.
#[magnus::wrap(class = "Pinyon::Native::Migration", free_immediately)]
struct Migration(Mutex<migration::Migration<Number, Number>>);

impl Migration {
    /// `operation`: its name in the core's table of plans. `keys`: how many there are. `ttl`: for items from servers that
    /// cannot report it, or nil.
    fn new(
        ruby: &Ruby,
        operation: Symbol,
        keys: usize,
        tells_outages: bool,
        counts: &MigrationCounts,
        given: Value,
    ) -> Result<Self, Error> {
        let operation = operation.name()?;
        let Some(plan) = Plan::named(&operation) else { unreachable!("{operation} has no plan") };
        let ttl = (!given.is_nil()).then(|| ttl::whole(ruby, given)).transpose()?;
        Ok(Self(migration::Migration::new(plan, keys, tells_outages, counts.0.clone(), ttl).into()))
    }

    fn begin(ruby: &Ruby, this: &Self) -> RArray {
        step(ruby, this.machine().begin())
    }

    /// The index of the key that the current step is about.
    fn key(&self) -> usize {
        self.machine().key()
    }

    /// The step that follows this outcome.
    fn next(ruby: &Ruby, this: &Self, kind: Symbol, detail: Value) -> Result<RArray, Error> {
        let outcome = outcome(&kind.name()?, detail)?;
        Ok(step(ruby, this.machine().next(outcome)))
    }

    /// The step that follows a failure.
    fn failed(ruby: &Ruby, this: &Self, exception: Exception) -> RArray {
        let outcome = StepOutcome::Failed { error: (), kind: kind_of(exception) };
        step(ruby, this.machine().next(outcome))
    }

    fn machine(&self) -> MutexGuard<'_, migration::Migration<Number, Number>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn step(ruby: &Ruby, step: Step<Number, Number, ()>) -> RArray {
    let array = |name: &str, details: &[Value]| {
        let step = ruby.ary_from_iter([ruby.to_symbol(name).as_value()]);
        details.iter().try_for_each(|detail| step.push(*detail)).map_or_else(|_| unreachable!("it is new"), |()| step)
    };
    let pool = |side| ruby.to_symbol(if side == Side::Old { "old" } else { "new" }).as_value();
    let number = |number: i64| number.into_value_with(ruby);
    match step {
        Step::Ask(side, Request::Get { .. }) => array("get", &[pool(side)]),
        Step::Ask(side, Request::GetWithTtl) => array("get_with_ttl", &[pool(side)]),
        Step::Ask(side, Request::Delete) => array("delete", &[pool(side)]),
        Step::Ask(_, Request::Lease { lease, .. }) => array("lease", &[number(lease.into())]),
        Step::Ask(_, Request::GiveBack(_)) => array("give_back", &[]),
        Step::Ask(..) => unreachable!("no plan asks this"),
        Step::Store { value, ttl, .. } => array("store", &[number(value as i64), number(ttl)]),
        Step::Operate => array("operate", &[]),
        Step::Create => array("create", &[]),
        Step::Read { pool: side, keys, .. } => array("read", &[pool(side), ruby.ary_from_iter(keys).as_value()]),
        Step::Tell(()) => array("tell", &[]),
        Step::Return(returned) => match returned {
            Returned::Value(value) | Returned::Answer(value) => array("return_object", &[number(value as i64)]),
            Returned::Missing => array("return_default", &[]),
            Returned::Done(done) => array("return", &[done.into_value_with(ruby)]),
            Returned::Count(count) => array("return", &[number(count as i64)]),
            Returned::Values => array("return_values", &[]),
        },
        Step::Raise(()) => array("raise", &[]),
        Step::NeedTtl(()) => array("need_ttl", &[ruby.str_new(NEEDS_TTL).as_value()]),
    }
}

fn outcome(kind: &str, detail: Value) -> Result<Outcome, Error> {
    Ok(StepOutcome::Answered(match kind {
        "missing" => Answer::Missing,
        "value" => Answer::Value(usize::try_convert(detail)?),
        "value_and_ttl" => {
            let (value, ttl) = TryConvert::try_convert(detail)?;
            Answer::ValueAndTtl(value, ttl)
        }
        "lease" => Answer::Lease(found(detail)?.into()),
        "stored" if detail.to_bool() => Answer::Compared(Compared::Stored),
        "stored" => Answer::Compared(Compared::Changed),
        "done" => Answer::Done(detail.to_bool()),
        "operated" => {
            let (answer, found) = TryConvert::try_convert(detail)?;
            return Ok(StepOutcome::Operated { answer, found });
        }
        "found" => return Ok(StepOutcome::Found(RArray::try_convert(detail)?.to_vec()?)),
        "told" => return Ok(StepOutcome::Told),
        _ => unreachable!("no step ends with {kind}"),
    }))
}

/// The state of a lease, the number of its value or nil, and whether it can be fulfilled. Ruby keeps the lease itself.
fn found(detail: Value) -> Result<Found<Number>, Error> {
    let (state, value, is_open): (Symbol, Option<Number>, bool) = TryConvert::try_convert(detail)?;
    let finding = match &*state.name()? {
        "hit" => Finding::Hit,
        "stale" => Finding::Stale,
        "won" => Finding::Won(is_open.then_some(Win { cas: 0, keep: false })),
        _ => Finding::Filling,
    };
    Ok(Found { finding, value, cas: None })
}
