//! Why a setting or an argument is refused.

use crate::address::ServerListError;
use crate::dialect::ValueError;
use crate::error::kinds::ErrorKind;
use crate::locks::keys::{NameError, SeveralTags};
use crate::ring::RingError;
use crate::shown::shown;
use crate::tls::TlsError;
use pinyon_proto::KeyError;

/// Why a setting or an operation's argument is refused. A front end raises its own error class for the kind, with this
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument {
    pub kind: ErrorKind,
    pub message: String,
}

impl InvalidArgument {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::UsageError, message)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A key that cannot be sent. The message names it.
    #[cold]
    pub fn key(error: &KeyError, given: &[u8]) -> Self {
        Self::new(ErrorKind::InvalidKey, error.about(&shown(given)))
    }
}

impl std::fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidArgument {}

impl From<ServerListError> for InvalidArgument {
    fn from(error: ServerListError) -> Self {
        Self::new(ErrorKind::InvalidServers, error.to_string())
    }
}

impl From<RingError> for InvalidArgument {
    fn from(error: RingError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ValueError> for InvalidArgument {
    fn from(ValueError { kind, message }: ValueError) -> Self {
        Self { kind, message }
    }
}

impl From<TlsError> for InvalidArgument {
    fn from(error: TlsError) -> Self {
        Self::usage(format!("TLS cannot be used: {error}"))
    }
}

impl From<KeyError> for InvalidArgument {
    fn from(error: KeyError) -> Self {
        Self::new(ErrorKind::InvalidKey, error.to_string())
    }
}

impl From<NameError> for InvalidArgument {
    fn from(error: NameError) -> Self {
        Self::new(ErrorKind::InvalidName, error.to_string())
    }
}

impl From<SeveralTags> for InvalidArgument {
    fn from(error: SeveralTags) -> Self {
        Self::new(ErrorKind::InvalidName, error.to_string())
    }
}
