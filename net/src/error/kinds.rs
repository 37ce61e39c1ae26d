//! Every kind of error that a front end raises, and its place in the tree of errors.
//!
//! A front end maps each kind to one of its classes exhaustively: a new kind does not compile until it has a class. The
//! classes inherit from each other as the kinds do. If the language allows it, they also inherit from the language's
//! own error that the kind resembles. A miss is never an error.
//!
//! | kind | below | resembles | what it means |
//! |---|---|---|---|
//! | `Error` | | | the root; never raised itself |
//! | `Timeout` | `Error` | timeout | the operation did not finish within the client's timeout |
//! | `LeaseTimeout` | `Timeout` | timeout | another caller was still making the value when the time to wait for it was over |
//! | `ConnectError` | `Error` | connection | no connection could be made: refused, unreachable, or a name that does not resolve |
//! | `ConnectionLost` | `Error` | connection | the connection broke while the command was in flight |
//! | `ServerDown` | `Error` | connection | the server is marked down, and not tried until its back-off is over |
//! | `ProtocolError` | `Error` | | the server sent what the protocol does not allow, or a reply to another request |
//! | `ServerError` | `Error` | | the server answered with an error of its own |
//! | `Unsupported` | `Error` | | the server's version cannot do what was asked |
//! | `UsageError` | `Error` | argument | an argument, or the way something was used, makes no sense |
//! | `InvalidKey` | `UsageError` | argument | a key that cannot be sent: empty, too long, or with spaces or control bytes |
//! | `InvalidServers` | `UsageError` | argument | a server list that cannot be understood |
//! | `InvalidName` | `UsageError` | argument | a name that no lock can have: empty, too long, or with a NUL |
//! | `ValueTooLarge` | `Error` | argument | a value larger than the client's limit, or than the server stores |
//! | `UnsupportedType` | `Error` | type | a key or value of a type that the client does not take |
//! | `Unpicklable` | `UnsupportedType` | type | a value that the language's own serializer cannot write |
//! | `UndecodableValue` | `Error` | argument | a stored value that is not what its flags say |
//! | `UnknownFlags` | `UndecodableValue` | argument | a stored value whose flags the serializer does not know |
//! | `Closed` | `Error` | | the client was closed |
//! | `BatchError` | `Error` | | commands of a quiet batch failed; the others were carried out |
//! | `LockError` | `Error` | | what can go wrong with a lock: nothing is raised as it |
//! | `LockTimeout` | `LockError`, `Timeout` | timeout | the lock could not be acquired in time, because others held it |
//! | `LockLost` | `LockError` | | the lock is no longer held: it expired, was deleted, or was released by force |
//! | `AlreadyHeld` | `LockError` | | the caller already holds one of the names, and would wait for itself |
//! | `Deadlock` | `LockError` | | the holders of the names wait, in turn, for what the caller holds |
//!
//! All but the root carry a message, the server's name and the command if any, and whether the request was sent
//! ([`Sent`](super::Sent)). In addition, errors of operations on many keys carry the partial results, `BatchError` the
//! failed commands, and `Deadlock` the holders.

use super::Kind;

/// A kind of error, named like a front end's class. See the table in [this module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    Error,
    Timeout,
    LeaseTimeout,
    ConnectError,
    ConnectionLost,
    ServerDown,
    ProtocolError,
    ServerError,
    Unsupported,
    UsageError,
    InvalidKey,
    InvalidServers,
    InvalidName,
    ValueTooLarge,
    UnsupportedType,
    Unpicklable,
    UndecodableValue,
    UnknownFlags,
    Closed,
    BatchError,
    LockError,
    LockTimeout,
    LockLost,
    AlreadyHeld,
    Deadlock,
}

/// An error that most languages already have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standard {
    /// An operation took too long.
    Timeout,
    /// A connection could not be made, or broke.
    Connection,
    /// An argument or a value is invalid.
    Argument,
    /// An object is of the wrong type.
    Type,
}

impl ErrorKind {
    /// All kinds. Each stands after its parent.
    pub const ALL: [Self; 25] = [
        Self::Error,
        Self::Timeout,
        Self::LeaseTimeout,
        Self::ConnectError,
        Self::ConnectionLost,
        Self::ServerDown,
        Self::ProtocolError,
        Self::ServerError,
        Self::Unsupported,
        Self::UsageError,
        Self::InvalidKey,
        Self::InvalidServers,
        Self::InvalidName,
        Self::ValueTooLarge,
        Self::UnsupportedType,
        Self::Unpicklable,
        Self::UndecodableValue,
        Self::UnknownFlags,
        Self::Closed,
        Self::BatchError,
        Self::LockError,
        Self::LockTimeout,
        Self::LockLost,
        Self::AlreadyHeld,
        Self::Deadlock,
    ];

    /// The name of its class. Metrics use it too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Timeout => "Timeout",
            Self::LeaseTimeout => "LeaseTimeout",
            Self::ConnectError => "ConnectError",
            Self::ConnectionLost => "ConnectionLost",
            Self::ServerDown => "ServerDown",
            Self::ProtocolError => "ProtocolError",
            Self::ServerError => "ServerError",
            Self::Unsupported => "Unsupported",
            Self::UsageError => "UsageError",
            Self::InvalidKey => "InvalidKey",
            Self::InvalidServers => "InvalidServers",
            Self::InvalidName => "InvalidName",
            Self::ValueTooLarge => "ValueTooLarge",
            Self::UnsupportedType => "UnsupportedType",
            Self::Unpicklable => "Unpicklable",
            Self::UndecodableValue => "UndecodableValue",
            Self::UnknownFlags => "UnknownFlags",
            Self::Closed => "Closed",
            Self::BatchError => "BatchError",
            Self::LockError => "LockError",
            Self::LockTimeout => "LockTimeout",
            Self::LockLost => "LockLost",
            Self::AlreadyHeld => "AlreadyHeld",
            Self::Deadlock => "Deadlock",
        }
    }

    /// Its parents, the most specific first; none for the root.
    pub fn parents(self) -> &'static [Self] {
        match self {
            Self::Error => &[],
            Self::LeaseTimeout => &[Self::Timeout],
            Self::InvalidKey | Self::InvalidServers | Self::InvalidName => &[Self::UsageError],
            Self::Unpicklable => &[Self::UnsupportedType],
            Self::UnknownFlags => &[Self::UndecodableValue],
            Self::LockTimeout => &[Self::LockError, Self::Timeout],
            Self::LockLost | Self::AlreadyHeld | Self::Deadlock => &[Self::LockError],
            _ => &[Self::Error],
        }
    }

    /// Whether it is this kind, or below it.
    pub fn is_a(self, kind: Self) -> bool {
        self == kind || self.parents().iter().any(|parent| parent.is_a(kind))
    }

    /// The language's own error that resembles it.
    pub fn resembles(self) -> Option<Standard> {
        match self {
            Self::Timeout => Some(Standard::Timeout),
            Self::ConnectError | Self::ConnectionLost | Self::ServerDown => Some(Standard::Connection),
            Self::UsageError | Self::ValueTooLarge | Self::UndecodableValue => Some(Standard::Argument),
            Self::UnsupportedType => Some(Standard::Type),
            other => other.parents().iter().find_map(|parent| parent.resembles()),
        }
    }

    /// Whether a server failed, rather than refusing the request. An operation can be told to report these failures as
    /// misses.
    pub fn is_outage(self) -> bool {
        match self {
            Self::Timeout | Self::ConnectError | Self::ConnectionLost => true,
            Self::ServerDown | Self::ProtocolError => true,
            // Not an outage: the server answered, and others hold the lock.
            Self::LockTimeout => false,
            other => other.parents().iter().any(|parent| parent.is_outage()),
        }
    }
}

impl Standard {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Argument => "argument",
            Self::Type => "type",
        }
    }
}

/// The kind in which a failed command is raised.
impl From<Kind> for ErrorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Connect | Kind::Refused | Kind::Crowded | Kind::Credentials => Self::ConnectError,
            Kind::Timeout | Kind::Busy | Kind::Outdated => Self::Timeout,
            Kind::Closed | Kind::Lost => Self::ConnectionLost,
            Kind::Protocol => Self::ProtocolError,
            Kind::Server | Kind::NotNow | Kind::OutOfMemory => Self::ServerError,
            Kind::TooLarge => Self::ValueTooLarge,
            Kind::Unsupported => Self::Unsupported,
            Kind::Usage => Self::UsageError,
            Kind::Down => Self::ServerDown,
            Kind::Unreadable => Self::UndecodableValue,
            // It is never raised: the host has an error of its own.
            Kind::Maker => Self::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_kinds_say() {
        let rows = include_str!("kinds.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows: Vec<Vec<String>> = rows
            .map(|row| row.split('|').take(3).map(|cell| cell.replace('`', "").trim().to_owned()).collect())
            .collect();
        let kinds = ErrorKind::ALL.map(|kind| {
            let parents = kind.parents().iter().map(|parent| parent.as_str()).collect::<Vec<_>>().join(", ");
            let resembles = kind.resembles().map_or("", Standard::as_str);
            vec![kind.as_str().to_owned(), parents, resembles.to_owned()]
        });
        assert_eq!(rows, kinds);
    }

    #[test]
    fn every_kind_is_named_once_and_stands_behind_its_parent() {
        for (place, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(format!("{kind:?}"), kind.as_str());
            assert_eq!(kind.parents().is_empty(), place == 0);
            assert!(kind.parents().iter().all(|parent| (*parent as usize) < place));
        }
    }

    #[test]
    fn outages_are_of_servers_and_not_of_what_is_asked() {
        let outages = Kind::ALL.into_iter().filter(|kind| ErrorKind::from(*kind).is_outage());
        let unreachable = [Kind::Connect, Kind::Refused, Kind::Timeout, Kind::Closed, Kind::Protocol, Kind::Down];
        let expected =
            [&unreachable[..], &[Kind::Busy, Kind::Crowded, Kind::Lost, Kind::Credentials, Kind::Outdated]].concat();
        assert_eq!(outages.collect::<Vec<_>>(), expected);
        assert!(ErrorKind::LeaseTimeout.is_outage() && !ErrorKind::LockTimeout.is_outage());
    }
}
