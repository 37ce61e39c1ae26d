//! What an operation does when its server is down or fails, and with values that cannot be read.
//!
//! The keys of a server that is down follow the ring to the next server, go to the gutter, or go nowhere. The gutter
//! is a second set of servers with a ring of its own, where every ttl is cut short. A policy decides which, and
//! whether a failure is raised or counts as a miss. The policy belongs to the operation and not to the fleet, so
//! `client.using` makes a view that shares everything else.

use pinyon_net::error::Error;
use pinyon_net::invalid::{choose, InvalidArgument};

/// What an operation does when its server is down or fails, and with values that cannot be read. It belongs to the
/// operation rather than to the fleet, so that views of one client can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether the keys of a server that is down go to another server.
    pub failover: bool,
    /// Whether an operation that no server carried out, or a store whose value is refused, returns what an empty cache
    /// would, without raising an error.
    pub miss: bool,
    /// Whether a stored value that the host cannot read counts as missing.
    pub unreadable_is_miss: bool,
    /// Whether reading may return what the process keeps in memory, if the client keeps anything.
    pub near: bool,
    /// Whether a value with tags counts as missing: where it is moved from, its tags could not follow it.
    pub tagged_is_miss: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { failover: true, miss: false, unreadable_is_miss: false, near: true, tagged_is_miss: false }
    }
}

impl Policy {
    /// `on_failure`, `on_unreadable`: "raise" or "miss".
    pub fn new(failover: bool, on_failure: &str, on_unreadable: &str) -> Result<Self, InvalidArgument> {
        let miss = Self::is_miss("on_failure", on_failure)?;
        let unreadable_is_miss = Self::is_miss("on_unreadable", on_unreadable)?;
        Ok(Self { failover, miss, unreadable_is_miss, near: true, tagged_is_miss: false })
    }

    /// The meaning of "raise" or "miss" in the setting `name`.
    pub(crate) fn is_miss(name: &str, word: &str) -> Result<bool, InvalidArgument> {
        choose(name, word, &[("raise", false), ("miss", true)])
    }

    /// Whether to report this error as a miss.
    pub fn forgives(self, error: &Error) -> bool {
        self.miss && (error.is_outage() || error.refuses_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinyon_net::error::kinds::ErrorKind;
    use pinyon_net::error::{Kind, Sent};

    #[test]
    fn another_word_is_refused() {
        let refused = Policy::new(true, "return", "raise").unwrap_err();
        assert_eq!(refused.kind, ErrorKind::UsageError);
        assert_eq!(refused.message, "on_failure must be \"raise\" or \"miss\", not \"return\"");
        let refused = Policy::new(true, "raise", "skip").unwrap_err();
        assert_eq!(refused.message, "on_unreadable must be \"raise\" or \"miss\", not \"skip\"");
    }

    #[test]
    fn outages_and_full_servers_are_forgiven_where_failures_are_misses() {
        let missing = Policy { miss: true, ..Policy::default() };
        for kind in Kind::ALL {
            let of = |server: &str| Error {
                kind,
                sent: Sent::No,
                server: server.into(),
                command: "get",
                only_reads: true,
                message: String::new(),
            };
            let is_answer = matches!(kind, Kind::Server | Kind::NotNow | Kind::TooLarge | Kind::Unsupported);
            let is_forgiven = !is_answer && !matches!(kind, Kind::Usage | Kind::Unreadable | Kind::Maker);
            assert_eq!(missing.forgives(&of("cache1:11211")), is_forgiven, "{kind:?}");
            assert_eq!(missing.forgives(&of("")), kind == Kind::OutOfMemory, "{kind:?}");
            assert!(!Policy::default().forgives(&of("cache1:11211")), "{kind:?}");
        }
    }

    #[test]
    fn a_refused_value_is_forgiven_and_a_value_too_large_to_read_is_not() {
        let too_large = |command| Error {
            kind: Kind::TooLarge,
            sent: Sent::Yes,
            server: "cache1:11211".into(),
            command,
            only_reads: false,
            message: String::new(),
        };
        for miss in [true, false] {
            let policy = Policy { miss, ..Policy::default() };
            for command in ["set", "add", "replace", "append", "prepend", "cas"] {
                assert_eq!(policy.forgives(&too_large(command)), miss, "{command}");
            }
            assert!(!policy.forgives(&too_large("get")));
        }
    }
}
