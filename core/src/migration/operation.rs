//! One operation: how the two pools take part, on one key or on several.

use std::sync::Arc;

use super::many_keys::ManyKeys;
use super::one_key::OneKey;
use super::{Counts, Step, StepOutcome};

/// How the two pools take part in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Moves the value to the new pool if only the old one has it, and returns it.
    Get,
    /// Moves a value that the new pool is known not to have, and returns it.
    Move,
    /// Moves the value, and operates whatever was found.
    Lease,
    /// Moves the value, and operates if there is none.
    Add,
    /// Operates. If that finds nothing, moves the value and operates again.
    Find,
    /// The same, and deletes what the old pool has once something was changed.
    Change,
    /// The same, and makes the item if neither pool has one.
    Create,
    /// Operates, and deletes what the old pool has.
    Set,
    /// Deletes in the old pool first: what nobody can read there any more, nobody can move.
    Delete,
    /// Reads several keys in both pools, and moves some of those that only the old one has.
    GetMany,
    /// Moves all keys that only the old pool has, and reads them in the new one, whose tokens count.
    GetsMany,
    /// Deletes several keys in both pools.
    DeleteMany,
}

impl Plan {
    /// By the operation's name, as all front ends have it.
    pub fn of(operation: &str) -> Option<Self> {
        Some(match operation {
            "get" => Self::Get,
            "get_or_set" | "lease" => Self::Lease,
            "add" => Self::Add,
            "gets" | "get_with_ttl" | "gat" | "meta" | "touch" => Self::Find,
            "replace" | "append" | "prepend" | "cas" | "incr" | "decr" | "mark_stale" => Self::Change,
            "incr_or_create" | "decr_or_create" => Self::Create,
            "set" | "set_many" => Self::Set,
            "delete" => Self::Delete,
            "get_many" => Self::GetMany,
            "gets_many" => Self::GetsMany,
            "delete_many" => Self::DeleteMany,
            _ => return None,
        })
    }

    /// Whether the operation asks for keys one by one, each by its index.
    pub fn is_of_many(self) -> bool {
        matches!(self, Self::GetMany | Self::GetsMany | Self::DeleteMany)
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
    /// `keys`: how many different ones the operation is about, where it tells them apart ([`Plan::is_of_many`]).
    /// `tells_outages`: the user of such an operation is told of servers that fail ([`Step::Tell`]), and gets what the others
    /// have. `ttl`: seconds that moved items live where the old servers cannot tell; 0 for no end.
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

    /// The step after one that came to this.
    pub fn next<E>(&mut self, outcome: StepOutcome<V, A, E>) -> Step<V, A, E> {
        match &mut self.0 {
            Keys::One(key) => key.next(outcome),
            Keys::Many(keys) => keys.next(outcome),
        }
    }

    /// The key that the step under way is about, by its index.
    pub fn key(&self) -> usize {
        match &self.0 {
            Keys::One(_) => 0,
            Keys::Many(keys) => keys.key(),
        }
    }
}
