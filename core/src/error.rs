//! Failures of commands. Each says whether the request was sent, which decides whether a caller may repeat it.

pub mod kinds;

use std::sync::Arc;

use kinds::ErrorKind;

/// A failed command.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub sent: Sent,
    /// The server's name as the caller gave it; empty if no server was involved.
    pub server: Arc<str>,
    /// The command's protocol name; empty if there was none.
    pub command: &'static str,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No connection could be made.
    Connect,
    /// The deadline passed.
    Timeout,
    /// The connection broke.
    Closed,
    /// The reply violates the protocol, or belongs to another request.
    Protocol,
    /// The server answered with an error.
    Server,
    /// A value is larger than allowed, in a request or in a reply.
    TooLarge,
    /// The server's version does not support the request.
    Unsupported,
    /// The caller's request cannot be carried out.
    Usage,
    /// The server is marked down, and is not tried now.
    Down,
    /// All of the client's connections to the server stayed in use.
    Busy,
    /// The host's function returned no credentials for a connection.
    Credentials,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Connect,
        Self::Timeout,
        Self::Closed,
        Self::Protocol,
        Self::Server,
        Self::TooLarge,
        Self::Unsupported,
        Self::Usage,
        Self::Down,
        Self::Busy,
        Self::Credentials,
    ];
}

/// Whether the server may have run the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    /// No: nothing of it was sent.
    No,
    /// Perhaps: it was sent, at least in part, and no answer came.
    Maybe,
    /// Yes: the server answered.
    Yes,
}

impl Sent {
    pub fn as_str(self) -> &'static str {
        match self {
            Sent::No => "no",
            Sent::Maybe => "maybe",
            Sent::Yes => "yes",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, server: &Arc<str>, message: impl Into<String>) -> Self {
        Self { kind, sent: Sent::No, server: server.clone(), command: "", message: message.into() }
    }

    pub(crate) fn unanswered(server: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, server, "the server did not answer in time")
    }

    /// The server's name could not be resolved.
    pub(crate) fn unresolved(kind: Kind, server: &Arc<str>, why: &str) -> Self {
        Self::new(kind, server, format!("cannot connect: {}", Self::why_unresolved(why)))
    }

    /// What is wrong with a name, and what to do about it.
    pub(crate) fn why_unresolved(why: &str) -> String {
        format!(
            "its name does not resolve ({why}): check that it is spelled right, and that this machine's resolver knows it"
        )
    }

    /// No server became known in time.
    pub(crate) fn no_servers(asked: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, asked, "the servers are not known yet: discovery did not answer in time")
    }

    pub(crate) fn of(mut self, command: &'static str, sent: Sent) -> Self {
        self.command = command;
        self.sent = sent;
        self
    }

    /// Whether another server or connection may succeed, if the command may be repeated.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Connect | Kind::Timeout | Kind::Closed | Kind::Down)
    }

    /// Whether the server failed one of several commands without saying which. Then this command may have run.
    pub fn is_unattributed(&self) -> bool {
        matches!(self.kind, Kind::Server | Kind::TooLarge) && self.sent == Sent::Maybe
    }

    /// Whether a server failed, rather than refusing the request.
    pub fn is_outage(&self) -> bool {
        ErrorKind::from(self.kind).is_outage() && !self.server.is_empty()
    }

    /// Whether it counts against the server's health: a refused or unanswered request does, an unknown command does
    /// not.
    pub fn blames_server(&self) -> bool {
        matches!(self.kind, Kind::Connect | Kind::Timeout | Kind::Closed | Kind::Protocol)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.server.is_empty() {
            write!(f, "{}: ", self.server)?;
        }
        if !self.command.is_empty() {
            write!(f, "{}: ", self.command)?;
        }
        f.write_str(&self.message)?;
        match self.sent {
            Sent::Maybe => f.write_str(" (the command may have been executed)"),
            Sent::No | Sent::Yes => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
