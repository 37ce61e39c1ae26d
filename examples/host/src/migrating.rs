//! Two pools as one: carries out the core's steps with a cache for each pool.

use std::sync::Arc;

use pinyon_cache::dialect::Plain;
use pinyon_cache::migration::{Counts, Migration, Plan, Progress, Returned, Side, Step, StepOutcome, NEEDS_TTL};
use pinyon_cache::operations::Answer;
use pinyon_net::error::kinds::ErrorKind;

use crate::cache::{Block, Cache};
use crate::raised::Raised;

pub struct Migrating {
    pub old: Cache,
    pub new: Cache,
    counts: Arc<Counts>,
}

/// A user's operation. In this host, its result also says whether it found something.
type Operate<'o> = &'o mut dyn FnMut(&mut Cache) -> Result<bool, Raised>;

/// The result of an operation, and the values that it read.
type Carried = (Returned<Plain, bool>, Vec<Option<Plain>>);

impl Migrating {
    pub fn new(old: Cache, new: Cache) -> Self {
        Self { old, new, counts: Arc::default() }
    }

    pub fn progress(&self) -> Progress {
        self.counts.progress()
    }

    pub fn get(&mut self, key: &str) -> Result<Option<Plain>, Raised> {
        match self.run("get", &[key], &mut |_| unreachable!("the core gets it"))?.0 {
            Returned::Value(value) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    /// The values that were found, by the indexes of their keys.
    pub fn get_many(&mut self, keys: &[&str]) -> Result<Vec<Option<Plain>>, Raised> {
        Ok(self.run("get_many", keys, &mut |_| unreachable!("the core reads them"))?.1)
    }

    pub fn set(&mut self, key: &str, value: &Plain, ttl: i64) -> Result<bool, Raised> {
        let (end, _) = self.run("set", &[key], &mut |new| new.set(key, value, ttl))?;
        Ok(end == Returned::Answer(true))
    }

    pub fn touch(&mut self, key: &str, ttl: i64) -> Result<bool, Raised> {
        let (end, _) = self.run("touch", &[key], &mut |new| new.touch(key, ttl))?;
        Ok(end == Returned::Answer(true))
    }

    pub fn delete(&mut self, key: &str) -> Result<bool, Raised> {
        let (end, _) = self.run("delete", &[key], &mut |_| unreachable!("the core deletes it"))?;
        Ok(end == Returned::Done(true))
    }

    /// Returns the number of deleted items.
    pub fn delete_many(&mut self, keys: &[&str]) -> Result<usize, Raised> {
        match self.run("delete_many", keys, &mut |_| unreachable!("the core deletes them"))?.0 {
            Returned::Count(count) => Ok(count),
            other => unreachable!("deleting comes to {other:?}"),
        }
    }

    pub fn close(&mut self) {
        self.old.close();
        self.new.close();
    }

    /// Carries out an operation.
    fn run(&mut self, operation: &str, keys: &[&str], operate: Operate<'_>) -> Result<Carried, Raised> {
        let plan = Plan::of(operation).expect("the core knows it");
        let mut machine = Migration::new(plan, keys.len(), false, self.counts.clone(), None);
        let mut values = vec![None; keys.len()];
        let mut step = machine.begin();
        loop {
            let outcome = match step {
                Step::Return(end) => return Ok((end, values)),
                Step::Raise(error) => return Err(error),
                Step::NeedTtl(Raised { kind, message }) => {
                    return Err(Raised { kind, message: format!("{message}; {NEEDS_TTL}") })
                }
                step => self.carry_out(keys, machine.key(), step, operate, &mut values),
            };
            step = machine.next(outcome.unwrap_or_else(|error| {
                let kind: ErrorKind = error.kind;
                StepOutcome::Failed { error, kind }
            }));
        }
    }

    fn carry_out(
        &mut self,
        keys: &[&str],
        key: usize,
        step: Step<Plain, bool, Raised>,
        operate: Operate<'_>,
        values: &mut [Option<Plain>],
    ) -> Result<StepOutcome<Plain, bool, Raised>, Raised> {
        Ok(match step {
            Step::Ask(pool, request) => {
                StepOutcome::Answered(self.pool(pool).ask(keys[key], request, Block::Nothing)?)
            }
            Step::Store { value, cas, ttl } => {
                StepOutcome::Answered(Answer::Compared(self.new.compare_and_set(keys[key], &value, cas, ttl)?))
            }
            Step::Operate | Step::Create => {
                let answer = operate(&mut self.new)?;
                StepOutcome::Operated { answer, found: answer }
            }
            Step::Read { pool, keys: wanted, cas } => {
                let names: Vec<_> = wanted.iter().map(|key| keys[*key]).collect();
                let (found, mut failures) = self.pool(pool).get_many(&names, cas)?;
                if let Some(error) = failures.raised() {
                    return Err(error.into());
                }
                let read: Vec<_> = found.iter().map(|one| wanted[one.index]).collect();
                read.iter().zip(found).for_each(|(key, one)| values[*key] = Some(one.value));
                StepOutcome::Found(read)
            }
            _ => unreachable!("this ends the operation, or tells of outages"),
        })
    }

    fn pool(&mut self, pool: Side) -> &mut Cache {
        match pool {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }
}
