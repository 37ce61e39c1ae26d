//! One operation: how it uses the two pools, for one key or for several.

use std::sync::Arc;

use super::many_keys::ManyKeys;
use super::one_key::OneKey;
use super::{Counts, Step, StepOutcome};
use crate::operations::{Beside, Mode, Request};

/// How an operation uses the two pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Returns the value. Moves it to the new pool if only the old one has it.
    Get,
    /// Moves a value that the new pool is known not to have, and returns it.
    Move,
    /// Moves the value, then operates in any case.
    Lease,
    /// Moves the value, and operates if there is none.
    Add,
    /// Operates. If that finds nothing, moves the value and operates again.
    Find,
    /// Like `Find`, but after a change deletes the old pool's item.
    Change,
    /// Like `Change`, but creates the item if neither pool has one.
    Create,
    /// Operates, then deletes the old pool's item.
    Set,
    /// Deletes in the old pool first, so that no caller can still move the value.
    Delete,
    /// Reads several keys from both pools, and moves some of those that only the old one has.
    GetMany,
    /// Operates on several keys. Moves all that only the old pool has, then operates on those.
    FindMany,
}

impl Plan {
    /// The plan for a request about one key. Without one, it goes to the new pool alone.
    pub fn of(request: &Request) -> Option<Self> {
        Some(match *request {
            Request::Get(Beside::Nothing) => Self::Get,
            Request::Lease { .. } => Self::Lease,
            Request::Store { mode: Mode::Add, .. } => Self::Add,
            Request::Get(_) | Request::GetAndTouch { .. } | Request::Metadata | Request::Touch { .. } => Self::Find,
            Request::Store { mode: Mode::Set, cas: None, .. } => Self::Set,
            Request::Store { .. } | Request::MarkStale { .. } | Request::Arithmetic { initial: None, .. } => {
                Self::Change
            }
            Request::Arithmetic { initial: Some(_), .. } => Self::Create,
            Request::Delete => Self::Delete,
            Request::Renew { .. } | Request::GiveBack(_) => return None,
        })
    }

    /// Whether the operation addresses several keys, by index.
    pub fn is_of_many(self) -> bool {
        matches!(self, Self::GetMany | Self::FindMany)
    }
}

/// One operation of a migrating client.
#[derive(Debug)]
pub struct Migration<V, A>(Keys<V, A>);

#[derive(Debug)]
enum Keys<V, A> {
    One(OneKey<V, A>),
    Many(ManyKeys<V, A>),
}

impl<V: Clone, A> Migration<V, A> {
    /// `keys`: the number of different keys, if the operation addresses them by index ([`Plan::is_of_many`]).
    /// `tells_outages`: failed servers are reported ([`Step::Tell`]), and the operation returns what the others have.
    /// `ttl`: the ttl in seconds of moved items if the old servers cannot report ttls; 0 means that they never expire.
    pub fn new(plan: Plan, keys: usize, tells_outages: bool, counts: Arc<Counts>, ttl: Option<i64>) -> Self {
        Self(match plan.is_of_many() {
            true => Keys::Many(ManyKeys::new(plan, keys, tells_outages, counts, ttl)),
            false => Keys::One(OneKey::new(plan, counts, ttl)),
        })
    }

    /// The first step.
    pub fn begin<E>(&mut self) -> Step<V, A, E> {
        match &mut self.0 {
            Keys::One(key) => key.begin(),
            Keys::Many(keys) => keys.begin(),
        }
    }

    /// The step that follows this outcome.
    pub fn next<E>(&mut self, outcome: StepOutcome<V, A, E>) -> Step<V, A, E> {
        match &mut self.0 {
            Keys::One(key) => key.next(outcome),
            Keys::Many(keys) => keys.next(outcome),
        }
    }

    /// The index of the key that the current step concerns.
    pub fn key(&self) -> usize {
        match &self.0 {
            Keys::One(_) => 0,
            Keys::Many(keys) => keys.key(),
        }
    }
}
