//! Why a setting or an argument is refused.

use crate::address::ServerListError;
use crate::ring::RingError;
use crate::tls::TlsError;

/// Why a setting, or an argument of an operation, cannot be used. A front end raises its own error for the kind, with this
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument {
    pub kind: InvalidKind,
    pub message: String,
}

/// What kind of error it is. A front end maps each kind to an error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKind {
    /// An argument, or two together, make no sense.
    Usage,
    /// A server list or URL cannot be read.
    Servers,
    /// No key can begin with this namespace.
    Key,
    /// A value has the wrong type.
    Type,
    /// There is no setting of this name.
    Unknown,
}

impl InvalidArgument {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(InvalidKind::Usage, message)
    }

    pub(crate) fn new(kind: InvalidKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
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
        Self::new(InvalidKind::Servers, error.to_string())
    }
}

impl From<RingError> for InvalidArgument {
    fn from(error: RingError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<TlsError> for InvalidArgument {
    fn from(error: TlsError) -> Self {
        Self::usage(format!("TLS cannot be used: {error}"))
    }
}
