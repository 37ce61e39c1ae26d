//! What events of caches and events of locks have in common.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::Error;

/// What is said of files of TLS, of caches and of locks.
pub const CERTIFICATES_ARE_NEW: &str = "the files of TLS have changed and were read again";
pub const CERTIFICATES_ARE_STALE: &str =
    "the files of TLS have changed but cannot be used, those read last stay in use";

/// How important an event is, in the words that logs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Useful for finding a cause.
    Debug,
    /// A change that is not a problem.
    Info,
    /// A problem that may need attention.
    Warning,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warning",
        }
    }
}

/// An event of caches or locks as hosts pass it on.
pub struct Report<'e> {
    pub kind: &'static str,
    pub level: Level,
    pub server: &'e str,
    /// The command's protocol name, if the event concerns one.
    pub command: Option<&'static str>,
    pub error: Option<&'e Error>,
    pub duration: Option<Duration>,
    /// A line for people.
    pub line: Cow<'e, str>,
    /// The former primary, if another server has taken over.
    pub previous: Option<&'e str>,
}
