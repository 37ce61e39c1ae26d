//! The course of an operation on several keys, on both pools.

use std::sync::Arc;
use std::vec;

use super::one_key::OneKey;
use super::{Counts, Plan, Progress, Returned, Side, Step, StepOutcome};

/// How many keys one read of many moves from the old pool. The remaining keys are moved by later reads.
const MOVED_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct ManyKeys<V, A> {
    plan: Plan,
    keys: usize,
    tells_outages: bool,
    counts: Arc<Counts>,
    ttl: Option<i64>,
    at: At,
    /// Keys that no pool was found to have so far.
    missing: Vec<usize>,
    found_in_new: usize,
    /// Keys that only the old pool has or had.
    found_in_old: Vec<usize>,
    /// Keys that are still to be moved, each by its own operation.
    left: vec::IntoIter<usize>,
    key: usize,
    operation: OneKey<V, A>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    ReadingNew,
    ReadingOld,
    /// Reading the new pool again: other callers may have moved keys meanwhile.
    ReadingAgain,
    OneByOne,
    Telling,
    /// Reading the moved keys from the new pool.
    ReadingMoved,
    Over,
}

impl<V: Clone, A> ManyKeys<V, A> {
    pub(super) fn new(plan: Plan, keys: usize, tells_outages: bool, counts: Arc<Counts>, ttl: Option<i64>) -> Self {
        Self {
            plan,
            keys,
            tells_outages,
            ttl,
            at: At::Over,
            missing: Vec::new(),
            found_in_new: 0,
            found_in_old: Vec::new(),
            left: Vec::new().into_iter(),
            key: 0,
            operation: OneKey::new(Plan::Get, counts.clone(), ttl),
            counts,
        }
    }

    pub(super) fn key(&self) -> usize {
        self.key
    }

    pub(super) fn begin<E>(&mut self) -> Step<V, A, E> {
        self.missing = (0..self.keys).collect();
        self.read(At::ReadingNew, Side::New, self.missing.clone())
    }

    pub(super) fn next<E>(&mut self, outcome: StepOutcome<V, A, E>) -> Step<V, A, E> {
        match (self.at, outcome) {
            (At::OneByOne, outcome) => self.one_went_on(outcome),
            (At::Telling, StepOutcome::Told) => self.next_one(),
            (_, StepOutcome::Failed { error, .. }) => Step::Raise(error),
            (At::ReadingNew, StepOutcome::Found(found)) => {
                self.found_in_new = found.len();
                self.forget(&found);
                match self.plan {
                    Plan::FindMany => self.one_by_one(self.missing.clone()),
                    _ if self.missing.is_empty() => self.move_some(),
                    _ => self.read(At::ReadingOld, Side::Old, self.missing.clone()),
                }
            }
            (At::ReadingOld, StepOutcome::Found(found)) => {
                self.forget(&found);
                self.found_in_old = found;
                match self.missing.is_empty() {
                    true => self.move_some(),
                    false => self.read(At::ReadingAgain, Side::New, self.missing.clone()),
                }
            }
            (At::ReadingAgain, StepOutcome::Found(found)) => {
                self.found_in_new += found.len();
                self.forget(&found);
                self.move_some()
            }
            (At::ReadingMoved, StepOutcome::Found(_)) => Step::Return(Returned::Values),
            _ => unreachable!("this is not the outcome of the last step"),
        }
    }

    fn read<E>(&mut self, at: At, pool: Side, keys: Vec<usize>) -> Step<V, A, E> {
        self.at = at;
        Step::Read { pool, keys }
    }

    /// Moves some keys, now that everything was read.
    fn move_some<E>(&mut self) -> Step<V, A, E> {
        let mut moved = std::mem::take(&mut self.found_in_old);
        let kept = moved.len().saturating_sub(MOVED_AT_ONCE);
        moved.truncate(MOVED_AT_ONCE);
        let (new, old, missing) = (self.found_in_new as u64, kept as u64, self.missing.len() as u64);
        self.counts.add(Progress { new, old, missing, ..Progress::default() });
        self.one_by_one(moved)
    }

    fn one_by_one<E>(&mut self, keys: Vec<usize>) -> Step<V, A, E> {
        self.left = keys.into_iter();
        self.next_one()
    }

    fn next_one<E>(&mut self) -> Step<V, A, E> {
        let plan = match self.plan {
            Plan::GetMany => Plan::Move,
            _ => Plan::Get,
        };
        let Some(key) = self.left.next() else { return self.finish() };
        self.at = At::OneByOne;
        self.key = key;
        self.operation = OneKey::new(plan, self.counts.clone(), self.ttl);
        self.operation.begin()
    }

    fn one_went_on<E>(&mut self, outcome: StepOutcome<V, A, E>) -> Step<V, A, E> {
        let is_outage = matches!(&outcome, StepOutcome::Failed { kind, .. } if kind.is_outage());
        match self.operation.next(outcome) {
            Step::Return(end) => {
                if let Returned::Value(_) = end {
                    self.found_in_old.push(self.key);
                }
                self.next_one()
            }
            Step::Raise(error) if is_outage && self.tells_outages => {
                self.at = At::Telling;
                Step::Tell(error)
            }
            step => step,
        }
    }

    fn finish<E>(&mut self) -> Step<V, A, E> {
        self.at = At::Over;
        match self.plan {
            Plan::FindMany if !self.found_in_old.is_empty() => {
                let moved = std::mem::take(&mut self.found_in_old);
                self.read(At::ReadingMoved, Side::New, moved)
            }
            _ => Step::Return(Returned::Values),
        }
    }

    fn forget(&mut self, found: &[usize]) {
        let mut is_missing = vec![false; self.keys];
        self.missing.iter().for_each(|key| is_missing[*key] = true);
        found.iter().for_each(|key| is_missing[*key] = false);
        self.missing.retain(|key| is_missing[*key]);
    }
}
