//! The only error type of this front end. A language with classes has one for each kind.

use pinyon_cache::dialect::ValueError;
use pinyon_cache::operations::{Failed, KeyError};
use pinyon_locks::{LockFailure, NameError, SeveralTags};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::Error;

/// The error that a user gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    pub kind: ErrorKind,
    pub message: String,
}

impl Raised {
    fn new(kind: ErrorKind, error: &impl ToString) -> Self {
        Self { kind, message: error.to_string() }
    }
}

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        Self::new(error.kind.into(), &error)
    }
}

impl<E: std::fmt::Debug> From<Failed<E>> for Raised {
    fn from(failed: Failed<E>) -> Self {
        match failed {
            Failed::Error(error) => (*error).into(),
            Failed::Unreadable { .. } => unreachable!("bytes are always read"),
        }
    }
}

impl From<InvalidArgument> for Raised {
    fn from(error: InvalidArgument) -> Self {
        Self { kind: error.kind, message: error.message }
    }
}

/// Converts the core's refusals of arguments.
macro_rules! invalid {
    ($($refused:ty)*) => {
        $(impl From<$refused> for Raised {
            fn from(refused: $refused) -> Self {
                InvalidArgument::from(refused).into()
            }
        })*
    };
}

invalid!(KeyError NameError SeveralTags);

impl From<ValueError> for Raised {
    fn from(error: ValueError) -> Self {
        Self { kind: error.kind, message: error.message }
    }
}

impl From<LockFailure> for Raised {
    fn from(failure: LockFailure) -> Self {
        Self { kind: failure.kind, message: failure.message }
    }
}
