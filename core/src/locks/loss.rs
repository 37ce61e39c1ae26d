//! Why a lock is not held any more although its holder did not release it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its time ran out before the server confirmed a renewal.
    Expired,
    /// The server says that it is not held any more: it expired there, or was deleted.
    Gone,
    /// Somebody has released it by force.
    Forced,
    /// Its client was closed.
    Closed,
    /// It is held by the process that this one was forked from.
    Forked,
}

impl Loss {
    /// The reason, as a phrase that follows a colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "its ttl passed before a renewal was confirmed",
            Self::Gone => "it is gone from the server",
            Self::Forced => "it was released by force",
            Self::Closed => "its client was closed",
            Self::Forked => "it belongs to the process that this one was forked from",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
