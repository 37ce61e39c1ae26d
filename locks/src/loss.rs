//! Why a lock is no longer held although its holder did not release it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its ttl ran out before the server confirmed a renewal.
    Expired,
    /// The server reports that it is not held: it expired there, or was deleted.
    Gone,
    /// It was released by force.
    Forced,
    /// Its client was closed.
    Closed,
    /// The parent of this forked process holds it.
    Forked,
    /// It was released with all others of its client.
    Released,
    /// It was handed over to whoever has its ticket.
    HandedOver,
}

impl Loss {
    pub const ALL: [Self; 7] =
        [Self::Expired, Self::Gone, Self::Forced, Self::Closed, Self::Forked, Self::Released, Self::HandedOver];

    /// Whether the servers were away or have forgotten it, and nobody meant it to end.
    pub(super) fn is_by_servers(self) -> bool {
        matches!(self, Self::Expired | Self::Gone)
    }

    /// A word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::Forced => "forced",
            Self::Closed => "closed",
            Self::Forked => "forked",
            Self::Released => "released",
            Self::HandedOver => "handed_over",
        }
    }

    /// The reason, as a phrase that follows a colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "its ttl passed before a renewal was confirmed",
            Self::Gone => "it is gone from the server",
            Self::Forced => "it was released by force",
            Self::Closed => "its client was closed",
            Self::Forked => "it belongs to the process that this one was forked from",
            Self::Released => "it was released with all other locks of its client",
            Self::HandedOver => "it was handed over",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
