//! The one error of this front end. A language with classes has one for each kind.

use pinyon_core::dialect::{ValueError, ValueErrorKind};
use pinyon_core::error::kinds::ErrorKind;
use pinyon_core::invalid::{InvalidArgument, InvalidKind};
use pinyon_core::locks::{LockFailure, LockFailureKind, NameError, SeveralTags};
use pinyon_core::operations::{Failed, KeyError};
use pinyon_core::Error;

/// What a user is told.
#[derive(Debug, PartialEq, Eq)]
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

impl From<KeyError> for Raised {
    fn from(error: KeyError) -> Self {
        Self::new(ErrorKind::InvalidKey, &error)
    }
}

impl From<NameError> for Raised {
    fn from(error: NameError) -> Self {
        Self::new(ErrorKind::InvalidName, &error)
    }
}

impl From<SeveralTags> for Raised {
    fn from(error: SeveralTags) -> Self {
        Self::new(ErrorKind::InvalidName, &error)
    }
}

impl From<InvalidArgument> for Raised {
    fn from(error: InvalidArgument) -> Self {
        let kind = match error.kind {
            InvalidKind::Usage | InvalidKind::Unknown => ErrorKind::UsageError,
            InvalidKind::Type => ErrorKind::UnsupportedType,
            InvalidKind::Servers => ErrorKind::InvalidServers,
            InvalidKind::Key => ErrorKind::InvalidKey,
        };
        Self { kind, message: error.message }
    }
}

impl From<ValueError> for Raised {
    fn from(error: ValueError) -> Self {
        let kind = match error.kind {
            ValueErrorKind::Usage => ErrorKind::UsageError,
            ValueErrorKind::Unsupported => ErrorKind::UnsupportedType,
            ValueErrorKind::TooLarge => ErrorKind::ValueTooLarge,
            ValueErrorKind::UnknownFlags => ErrorKind::UnknownFlags,
            ValueErrorKind::Undecodable => ErrorKind::UndecodableValue,
        };
        Self { kind, message: error.message }
    }
}

impl From<LockFailure> for Raised {
    fn from(failure: LockFailure) -> Self {
        let kind = match &failure.kind {
            LockFailureKind::Timeout => ErrorKind::LockTimeout,
            LockFailureKind::Lost => ErrorKind::LockLost,
            LockFailureKind::AlreadyHeld => ErrorKind::AlreadyHeld,
            LockFailureKind::Deadlock { .. } => ErrorKind::Deadlock,
            LockFailureKind::Closed => ErrorKind::Closed,
            LockFailureKind::Server(error) => error.kind.into(),
        };
        Self { kind, message: failure.message }
    }
}
