//! What an operation does when its server is down or fails.

use super::checks::choose;
use super::table::settings;
use crate::error::Error;
use crate::invalid::InvalidArgument;

/// What an operation does when its server is down or fails. It belongs to the operation rather than to the fleet, so
/// that views of one client can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether the keys of a server that is down go to another server.
    pub failover: bool,
    /// Whether an operation that no server carried out, or a store whose value is refused, returns what an empty cache
    /// would, without raising an error.
    pub miss: bool,
}

settings! {
    /// The settings of a view of a client. The others stay as they are.
    pub struct ViewSettings {
        /// As for the client.
        failover: Option<bool> = None,
        /// As for the client.
        on_failure: Option<String> = None,
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self { failover: true, miss: false }
    }
}

impl Policy {
    /// `on_failure`: "raise" or "miss".
    pub fn new(failover: bool, on_failure: &str) -> Result<Self, InvalidArgument> {
        let miss = choose("on_failure", on_failure, &[("raise", false), ("miss", true)])?;
        Ok(Self { failover, miss })
    }

    /// This policy with a view's changes.
    pub fn with(self, view: &ViewSettings) -> Result<Self, InvalidArgument> {
        let failover = view.failover.unwrap_or(self.failover);
        match &view.on_failure {
            Some(on_failure) => Self::new(failover, on_failure),
            None => Ok(Self { failover, ..self }),
        }
    }

    /// Whether to report this error as a miss.
    pub fn forgives(self, error: &Error) -> bool {
        self.miss && (error.is_outage() || error.refuses_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::kinds::ErrorKind;
    use crate::error::{Kind, Sent};

    #[test]
    fn a_view_changes_what_it_is_given() {
        let view =
            |failover, on_failure: Option<&str>| ViewSettings { failover, on_failure: on_failure.map(Into::into) };
        let policy = Policy::default();
        assert_eq!(policy, Policy::new(true, "raise").unwrap());
        assert_eq!(policy.with(&view(None, None)).unwrap(), policy);
        assert_eq!(policy.with(&view(Some(false), None)).unwrap(), Policy { failover: false, miss: false });
        assert_eq!(policy.with(&view(None, Some("miss"))).unwrap(), Policy { failover: true, miss: true });
        let missing = Policy { failover: false, miss: true };
        assert_eq!(missing.with(&view(Some(true), Some("raise"))).unwrap(), policy);
        assert!(policy.with(&view(None, Some("return"))).is_err());
    }

    #[test]
    fn another_word_is_refused() {
        let refused = Policy::new(true, "return").unwrap_err();
        assert_eq!(refused.kind, ErrorKind::UsageError);
        assert_eq!(refused.message, "on_failure must be \"raise\" or \"miss\", not \"return\"");
    }

    #[test]
    fn outages_and_full_servers_are_forgiven_where_failures_are_misses() {
        let missing = Policy { failover: true, miss: true };
        for kind in Kind::ALL {
            let of = |server: &str| Error {
                kind,
                sent: Sent::No,
                server: server.into(),
                command: "get",
                only_reads: true,
                message: String::new(),
            };
            let is_forgiven = !matches!(kind, Kind::Server | Kind::TooLarge | Kind::Unsupported | Kind::Usage);
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
            let policy = Policy { failover: true, miss };
            for command in ["set", "add", "replace", "append", "prepend", "cas"] {
                assert_eq!(policy.forgives(&too_large(command)), miss, "{command}");
            }
            assert!(!policy.forgives(&too_large("get")));
        }
    }
}
