//! Moving from one pool of servers to another while both are in use: what each operation does on each pool.
//!
//! [`Migration`] is the machine of one operation. It never waits and calls nothing. The host carries out each [`Step`]
//! with its clients for the two pools, and reports the [`StepOutcome`].

mod bringing;
mod counts;
mod crossing;
mod many_keys;
mod one_key;
mod operation;
mod pools;
#[cfg(test)]
mod tests;

use crate::operations::{Answer, Request};
use pinyon_net::error::kinds::ErrorKind;

pub use counts::{Counts, Progress};
pub use crossing::{Crossing, Failing, Next, OnePool, Wanted};
pub use operation::{Migration, Plan};
pub use pools::{Pools, Unconverted, ValueOf};

/// Why a migration needs a ttl. It completes the old server's message.
pub const NEEDS_TTL: &str = "it cannot say when items expire: give the migrating client a ttl for those that are moved";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The pool to leave.
    Old,
    /// The pool to move to.
    New,
}

/// The next step for the host. `V` is the host's value, `A` the result of its own operations, `E` its error.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<V, A, E> {
    /// Send a request about the operation's key ([`Migration::key`]): [`StepOutcome::Answered`].
    Ask(Side, Request),
    /// Store a value under that key in the new pool, with a ttl in seconds, if the item still has this token:
    /// [`StepOutcome::Answered`] with [`Answer::Compared`].
    Store { value: V, cas: u64, ttl: i64 },
    /// Run the user's operation on the new pool: [`StepOutcome::Operated`].
    Operate,
    /// The same, but create a missing item: [`StepOutcome::Operated`].
    Create,
    /// Read several keys, by index, and keep the values: [`StepOutcome::Found`]. A value that is read later replaces an
    /// earlier one.
    Read { pool: Side, keys: Vec<usize>, cas: bool },
    /// Report a failure to the user together with those of other servers, without raising it: [`StepOutcome::Told`].
    Tell(E),
    /// The end: return this.
    Return(Returned<V, A>),
    /// The end: raise this error.
    Raise(E),
    /// The end: the old server is too old. [`NEEDS_TTL`] says what to do.
    NeedTtl(E),
}

/// The outcome of a [`Step`].
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome<V, A, E> {
    Answered(Answer<V>),
    /// `found`: whether it hit. An operation that changes something has then changed it.
    Operated {
        answer: A,
        found: bool,
    },
    /// The indexes of the keys that were found. Failed servers are [`StepOutcome::Failed`], unless the user gets
    /// failures beside the values.
    Found(Vec<usize>),
    Told,
    Failed {
        error: E,
        kind: ErrorKind,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned<V, A> {
    /// A value from one of the pools.
    Value(V),
    /// Neither pool had a value.
    Missing,
    /// The result of the user's operation on the new pool.
    Answer(A),
    /// Whether it was done.
    Done(bool),
    /// The values that the host has read.
    Values,
    /// The number of deleted items.
    Count(usize),
}
