//! What front ends raise about locks: a kind, which each language maps to a class of its own, and a text.

use std::fmt;
use std::sync::Arc;

use super::call::{Attempt, Names};
use super::keys::shown;
use super::loss::Loss;
use super::machine::Failure;
use crate::error::Error;

/// An operation on locks that failed.
#[derive(Clone, Debug)]
pub struct LockFailure {
    pub kind: LockFailureKind,
    pub message: String,
}

#[derive(Clone, Debug)]
pub enum LockFailureKind {
    /// The names could not be acquired in time.
    Timeout,
    /// The lock is not held.
    Lost,
    /// The owner holds one of the names already.
    AlreadyHeld,
    /// The lock would wait for an owner that waits for it. `cycle`: the holders in turn.
    Deadlock { cycle: Vec<Attempt> },
    /// The client was closed before.
    Closed,
    /// The server, or the way to it, failed.
    Server(Error),
}

impl LockFailure {
    /// Why an operation on the lock of these names failed, if it was about one.
    pub(super) fn of(failure: Failure, names: Option<&Names>, server: &Arc<str>) -> Self {
        let lock = names.map_or_else(|| "the lock".to_owned(), described);
        let (kind, message) = match failure {
            Failure::Timeout => {
                (LockFailureKind::Timeout, format!("{server}: {lock} could not be acquired in time"))
            }
            Failure::Busy { .. } => (LockFailureKind::Timeout, format!("{server}: somebody else holds {lock}")),
            Failure::AlreadyHeld => (
                LockFailureKind::AlreadyHeld,
                format!(
                    "you hold {lock} already, or one of its names; a lock can be acquired again if it is reentrant and \
                     asks for no further names"
                ),
            ),
            Failure::Deadlock { cycle } => (
                LockFailureKind::Deadlock { cycle },
                format!(
                    "{lock} can never be acquired: its holders wait, in turn, for a lock that you hold; release that one \
                     and begin again"
                ),
            ),
            Failure::NotHeld => (LockFailureKind::Lost, format!("{lock} is not held")),
            Failure::Server(error) => {
                let message = error.to_string();
                (LockFailureKind::Server(error), message)
            }
        };
        Self { kind, message }
    }

    /// A lock is not held, for a reason that is known or not.
    pub(super) fn not_held(names: &Names, loss: Option<Loss>) -> Self {
        let why = loss.map_or("it was released, or its ttl has passed", Loss::as_str);
        Self { kind: LockFailureKind::Lost, message: format!("{} is not held any more: {why}", described(names)) }
    }

    /// A lock was lost before its holder released it.
    pub(super) fn lost_early(names: &Names, loss: Option<Loss>) -> Self {
        let why = loss.map_or("its ttl has passed, or somebody took it away", Loss::as_str);
        let message = format!("{} was lost before it was released: {why}", described(names));
        Self { kind: LockFailureKind::Lost, message }
    }

    pub(super) fn closed() -> Self {
        let message = "the locks' client was closed; make another".to_owned();
        Self { kind: LockFailureKind::Closed, message }
    }
}

impl From<Error> for LockFailure {
    fn from(error: Error) -> Self {
        Self { message: error.to_string(), kind: LockFailureKind::Server(error) }
    }
}

impl fmt::Display for LockFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LockFailure {}

/// The names of a lock for people to read: the first few.
fn described(names: &Names) -> String {
    const FEW: usize = 3;
    let few: Vec<String> = names.iter().take(FEW).map(|name| shown(name)).collect();
    match names.len() {
        1 => format!("the lock {}", few[0]),
        count if count <= FEW => format!("the lock on {}", few.join(", ")),
        count => format!("the lock on {} and {} more", few.join(", "), count - FEW),
    }
}
