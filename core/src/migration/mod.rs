//! Moving from one pool of servers to another while both are in use: what each operation does on which pool.
//!
//! [`Migration`] is the machine of one operation. It waits for nothing and calls nothing: the host does as each [`Step`]
//! says, with its clients of the two pools, and tells the [`StepOutcome`].

mod bringing;
mod counts;
mod many_keys;
mod one_key;
mod operation;
#[cfg(test)]
mod tests;

use crate::error::kinds::ErrorKind;
use crate::operations::{Answer, Request};

pub use counts::{Counts, Progress};
pub use operation::{Migration, Plan};

/// Why a migration needs to know a ttl, for the end of the old server's message.
pub const NEEDS_TTL: &str = "it cannot say when items expire: give migrating() a ttl for those that are moved";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is to go.
    Old,
    /// The one that is to stay.
    New,
}

/// What the host is to do next. `V` is the host's value, `A` what its own operations return, `E` its error.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<V, A, E> {
    /// Carry out a request on the operation's key ([`Migration::key`]): [`StepOutcome::Answered`].
    Ask(Side, Request),
    /// Store a value under that key in the new pool with a ttl in seconds, if the item still has this token:
    /// [`StepOutcome::Answered`] with [`Answer::Compared`].
    Store { value: V, cas: u64, ttl: i64 },
    /// Carry out the user's operation on the new pool: [`StepOutcome::Operated`].
    Operate,
    /// The same, so that it makes a missing item: [`StepOutcome::Operated`].
    Create,
    /// Read several keys, by their indexes, and keep the values: [`StepOutcome::Found`]. A value that is read later takes the place
    /// of one that was read before.
    Read { pool: Side, keys: Vec<usize>, cas: bool },
    /// Put a failure with those of other servers that the user is told of, but raise nothing: [`StepOutcome::Told`].
    Tell(E),
    /// Nothing: this is what the operation returns.
    Return(Returned<V, A>),
    /// Nothing: this went wrong.
    Raise(E),
    /// Nothing: the old server is too old, and [`NEEDS_TTL`] says what to do.
    NeedTtl(E),
}

/// What came of a [`Step`].
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome<V, A, E> {
    Answered(Answer<V>),
    /// `found`: it did not miss. An operation that changes something has changed it.
    Operated {
        answer: A,
        found: bool,
    },
    /// The keys that were found, by their indexes. That servers failed is [`StepOutcome::Failed`] unless the user is told of it
    /// beside the values.
    Found(Vec<usize>),
    Told,
    Failed {
        error: E,
        kind: ErrorKind,
    },
}

/// What an operation returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned<V, A> {
    /// The value that one of the pools had.
    Value(V),
    /// Neither pool had a value.
    Missing,
    /// What the user's operation returned on the new pool.
    Answer(A),
    /// Whether it was done.
    Done(bool),
    /// The values that the host was told to read.
    Values,
    /// How many were deleted.
    Count(usize),
}
