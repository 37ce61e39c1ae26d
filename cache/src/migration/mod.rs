//! Moving from one pool of servers to another while both are in use: what each request does on each pool.
//!
//! A [`Crossing`] is one request. It says which operation to run on which pool next, and in the end has operations with its
//! outcome. It never waits. [`run_on_both`](crate::blocking::run_on_both) runs it in a thread; in an event loop, the host
//! starts each operation on its pool's connections. The host's [`Pools`] supply keys, data and values by the conventions of
//! each pool's client, and convert values that are moved.
//!
//! Below it is [`Migration`], the machine that decides: it knows no operations, keys or values.

mod bringing;
mod counts;
mod crossing;
mod ending;
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
use operation::Migration;
pub use operation::Plan;
pub use pools::{Pools, Unconverted, ValueOf};

/// Why a migration needs a ttl. It completes the old server's message.
const NEEDS_TTL: &str = "it cannot say when items expire: give the migrating client a ttl for those that are moved";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The pool to leave.
    Old,
    /// The pool to move to.
    New,
}

/// The next step. `V` is a value, `A` the result of the user's operation, `E` an error.
#[derive(Clone, Debug, PartialEq)]
enum Step<V, A, E> {
    /// Send a request about the operation's key ([`Migration::key`]): [`StepOutcome::Answered`].
    Ask(Side, Request),
    /// Store a value under that key in the new pool, with a ttl in seconds, if the item still has this token:
    /// [`StepOutcome::Answered`] with [`Answer::Compared`].
    Store { value: V, cas: u64, ttl: i64 },
    /// Run the user's operation on the new pool: [`StepOutcome::Operated`].
    Operate,
    /// The same, but create a missing item: [`StepOutcome::Operated`].
    Create,
    /// Send the user's request for several keys, by index, and keep the values: [`StepOutcome::Found`]. A value that is read
    /// later replaces an earlier one.
    Read { pool: Side, keys: Vec<usize> },
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
enum StepOutcome<V, A, E> {
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
enum Returned<V, A> {
    /// A value from one of the pools.
    Value(V),
    /// Neither pool had a value.
    Missing,
    /// The result of the user's operation on the new pool.
    Answer(A),
    /// Whether it was done.
    Done(bool),
    /// The values that were read.
    Values,
}
