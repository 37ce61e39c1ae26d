//! What can go wrong, and the one fact a caller needs to decide about trying again: was the request sent?

pub mod kinds;

use std::sync::Arc;

use kinds::ErrorKind;

/// A failed command.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub sent: Sent,
    /// The server's name as the caller gave it; empty where no server was involved.
    pub server: Arc<str>,
    /// The command's protocol name; empty where there was none.
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
    /// The server's reply was not what the protocol allows, or belonged to another request.
    Protocol,
    /// The server answered with an error of its own.
    Server,
    /// A value, or one in a server's reply, is larger than allowed.
    TooLarge,
    /// The server's version cannot do what was asked.
    Unsupported,
    /// The caller asked for something that cannot be done.
    Usage,
    /// The server is marked down and not tried now.
    Down,
    /// All of the client's connections to the server stayed in use.
    Busy,
}

impl Kind {
    pub const ALL: [Self; 10] = [
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
    ];
}

/// Whether the server may have carried out the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    /// No: nothing of it was handed to the network.
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

    /// The server's name could not be made an address.
    pub(crate) fn unresolved(kind: Kind, server: &Arc<str>, why: &str) -> Self {
        Self::new(kind, server, format!("cannot connect: {}", Self::why_unresolved(why)))
    }

    /// What is wrong with a name, and what to do.
    pub(crate) fn why_unresolved(why: &str) -> String {
        format!(
            "its name does not resolve ({why}): check that it is spelled right, and that this machine's resolver knows it"
        )
    }

    /// Nobody has said in time which servers there are.
    pub(crate) fn no_servers(asked: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, asked, "the servers are not known yet: discovery did not answer in time")
    }

    pub(crate) fn of(mut self, command: &'static str, sent: Sent) -> Self {
        self.command = command;
        self.sent = sent;
        self
    }

    /// Whether another server, or another connection, may do better; unless the command may not be sent twice.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Connect | Kind::Timeout | Kind::Closed | Kind::Down)
    }

    /// Whether the server failed one of several commands and did not say which, so that this one may have been done.
    pub fn is_unattributed(&self) -> bool {
        matches!(self.kind, Kind::Server | Kind::TooLarge) && self.sent == Sent::Maybe
    }

    /// Whether a server failed, and not what was asked of it.
    pub fn is_outage(&self) -> bool {
        ErrorKind::from(self.kind).is_outage() && !self.server.is_empty()
    }

    /// Whether it says something about the server's health, as a refused or unanswered request does and an
    /// unknown command does not.
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
