//! The course of an operation on one key, on both pools.

use std::sync::Arc;

use super::bringing::{Bringing, Brought, Stopped};
use super::{Counts, Plan, Returned, Side, Step, StepOutcome};
use crate::operations::{Answer, Request};
use pinyon_net::error::kinds::ErrorKind;

#[derive(Debug)]
pub(super) struct OneKey<V, A> {
    plan: Plan,
    at: At<A>,
    bringing: Bringing<V>,
}

#[derive(Debug)]
enum At<A> {
    Operating,
    /// With the answer to return if neither pool has a value.
    Bringing(Option<A>),
    OperatingAgain,
    Creating,
    /// With the result to return afterwards.
    DeletingOld(A),
    DeletingOldFirst,
    /// Whether the old pool had a value.
    DeletingNew(bool),
    Over,
}

impl<V: Clone, A> OneKey<V, A> {
    pub(super) fn new(plan: Plan, counts: Arc<Counts>, ttl: Option<i64>) -> Self {
        Self { plan, at: At::Over, bringing: Bringing::new(counts, ttl) }
    }

    pub(super) fn begin<E>(&mut self) -> Step<V, A, E> {
        match self.plan {
            Plan::Get | Plan::Lease | Plan::Add => self.bring(None),
            Plan::Move => {
                self.at = At::Bringing(None);
                let brought = self.bringing.look();
                self.brought(brought)
            }
            Plan::Find | Plan::Change | Plan::Create | Plan::Set => self.go(At::Operating, Step::Operate),
            Plan::Delete => self.go(At::DeletingOldFirst, Step::Ask(Side::Old, Request::Delete)),
            Plan::GetMany | Plan::FindMany => unreachable!("it is about several keys"),
        }
    }

    pub(super) fn next<E>(&mut self, outcome: StepOutcome<V, A, E>) -> Step<V, A, E> {
        match (std::mem::replace(&mut self.at, At::Over), outcome) {
            (At::Bringing(missed), StepOutcome::Answered(answer)) => {
                self.at = At::Bringing(missed);
                let brought = self.bringing.answered(answer);
                self.brought(brought)
            }
            // A value that cannot be read is made anew, in the new pool.
            (At::Bringing(_), StepOutcome::Failed { kind, .. })
                if self.plan == Plan::Lease && kind.is_a(ErrorKind::UndecodableValue) =>
            {
                self.go(At::Operating, Step::Operate)
            }
            (At::Bringing(missed), StepOutcome::Failed { error, kind }) => {
                self.at = At::Bringing(missed);
                match self.bringing.failed(kind) {
                    Ok(brought) => self.brought(brought),
                    Err(Stopped::NeedTtl) => Step::NeedTtl(error),
                    Err(Stopped::Raise) => Step::Raise(error),
                }
            }
            (_, StepOutcome::Failed { error, .. }) => Step::Raise(error),
            (At::Operating, StepOutcome::Operated { answer, found }) => self.operated(answer, found),
            (At::OperatingAgain, StepOutcome::Operated { answer, found: true }) => self.succeeded(answer),
            (At::OperatingAgain, StepOutcome::Operated { answer, .. }) => self.missed(answer),
            (At::Creating, StepOutcome::Operated { answer, .. }) => Step::Return(Returned::Answer(answer)),
            (At::DeletingOld(answer), StepOutcome::Answered(_)) => Step::Return(Returned::Answer(answer)),
            (At::DeletingOldFirst, StepOutcome::Answered(answer)) => {
                self.go(At::DeletingNew(was_deleted(&answer)), Step::Ask(Side::New, Request::Delete))
            }
            (At::DeletingNew(old), StepOutcome::Answered(answer)) => {
                Step::Return(Returned::Done(old || was_deleted(&answer)))
            }
            _ => unreachable!("this is not the outcome of the last step"),
        }
    }

    fn operated<E>(&mut self, answer: A, found: bool) -> Step<V, A, E> {
        match self.plan {
            Plan::Set => self.delete_old(answer),
            Plan::Lease | Plan::Add => Step::Return(Returned::Answer(answer)),
            _ if found => self.succeeded(answer),
            _ => self.bring(Some(answer)),
        }
    }

    fn succeeded<E>(&mut self, answer: A) -> Step<V, A, E> {
        match self.plan {
            Plan::Change | Plan::Create => self.delete_old(answer),
            _ => Step::Return(Returned::Answer(answer)),
        }
    }

    fn missed<E>(&mut self, answer: A) -> Step<V, A, E> {
        match self.plan {
            Plan::Create => self.go(At::Creating, Step::Create),
            _ => Step::Return(Returned::Answer(answer)),
        }
    }

    fn bring<E>(&mut self, missed: Option<A>) -> Step<V, A, E> {
        self.at = At::Bringing(missed);
        let brought = self.bringing.begin();
        self.brought(brought)
    }

    fn brought<E>(&mut self, brought: Brought<V>) -> Step<V, A, E> {
        let found = match brought {
            Brought::Ask(pool, request) => return Step::Ask(pool, request),
            Brought::Store { value, cas, ttl } => return Step::Store { value, cas, ttl },
            Brought::Over(found) => found,
        };
        match (self.plan, std::mem::replace(&mut self.at, At::Over), found) {
            (Plan::Lease, ..) | (Plan::Add, _, None) => self.go(At::Operating, Step::Operate),
            (Plan::Add, _, Some(_)) => Step::Return(Returned::Done(false)),
            (_, At::Bringing(Some(answer)), None) => self.missed(answer),
            (_, At::Bringing(Some(_)), Some(_)) => self.go(At::OperatingAgain, Step::Operate),
            (_, _, Some(value)) => Step::Return(Returned::Value(value)),
            (_, _, None) => Step::Return(Returned::Missing),
        }
    }

    fn delete_old<E>(&mut self, answer: A) -> Step<V, A, E> {
        self.go(At::DeletingOld(answer), Step::Ask(Side::Old, Request::Delete))
    }

    fn go<E>(&mut self, at: At<A>, step: Step<V, A, E>) -> Step<V, A, E> {
        self.at = at;
        step
    }
}

fn was_deleted<V>(answer: &Answer<V>) -> bool {
    matches!(answer, Answer::Done(true))
}
