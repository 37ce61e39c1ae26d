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
    /// Whether the command changes nothing, so that it does not matter whether the server ran it.
    pub only_reads: bool,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No connection could be made.
    Connect,
    /// The server refuses this client, or is not one that it can use. Trying again does not help.
    Refused,
    /// The deadline passed.
    Timeout,
    /// The connection broke.
    Closed,
    /// The reply violates the protocol, or belongs to another request.
    Protocol,
    /// The server answered with an error.
    Server,
    /// The server answered that it cannot do it now.
    NotNow,
    /// The server has no memory for a value.
    OutOfMemory,
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
    /// The server takes no further connection, or this process may open none. Those that exist work.
    Crowded,
    /// A connection that had been idle was dropped on its way to the server, as firewalls do.
    Lost,
    /// The host cannot read a stored value.
    Unreadable,
    /// The host's function returned no credentials for a connection.
    Credentials,
    /// The host's function could not make a value.
    Maker,
    /// The namespace was cleared while the command was on its way, so the command had no effect.
    Outdated,
}

impl Kind {
    pub const ALL: [Self; 19] = [
        Self::Connect,
        Self::Refused,
        Self::Timeout,
        Self::Closed,
        Self::Protocol,
        Self::Server,
        Self::NotNow,
        Self::OutOfMemory,
        Self::TooLarge,
        Self::Unsupported,
        Self::Usage,
        Self::Down,
        Self::Busy,
        Self::Crowded,
        Self::Lost,
        Self::Unreadable,
        Self::Credentials,
        Self::Maker,
        Self::Outdated,
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
    pub fn new(kind: Kind, server: &Arc<str>, message: impl Into<String>) -> Self {
        Self { kind, sent: Sent::No, server: server.clone(), command: "", only_reads: false, message: message.into() }
    }

    pub fn unanswered(server: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, server, "the server did not answer in time")
    }

    /// The time was over while the reply arrived.
    pub fn cut_short(server: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, server, "the reply was still arriving when the time was over: raise \"timeout\"")
    }

    /// The server's name could not be resolved.
    pub fn unresolved(kind: Kind, server: &Arc<str>, why: &str) -> Self {
        Self::new(kind, server, format!("cannot connect: {}", Self::why_unresolved(why)))
    }

    /// What is wrong with a name, and what to do about it.
    pub fn why_unresolved(why: &str) -> String {
        format!(
            "its name does not resolve ({why}): check that it is spelled right, and that this machine's resolver knows it"
        )
    }

    /// No server became known in time.
    pub fn no_servers(asked: &Arc<str>) -> Self {
        Self::new(Kind::Timeout, asked, "the servers are not known yet: discovery did not answer in time")
    }

    pub fn of(mut self, command: &'static str, sent: Sent) -> Self {
        self.command = command;
        self.sent = sent;
        self
    }

    /// The same error, of a command that only reads if so said.
    pub fn reading(self, only_reads: bool) -> Self {
        Self { only_reads, ..self }
    }

    /// Whether another server or connection may succeed, if the command may be repeated.
    pub fn may_pass(&self) -> bool {
        let connects = matches!(self.kind, Kind::Connect | Kind::Refused | Kind::Crowded);
        connects || matches!(self.kind, Kind::Timeout | Kind::Closed | Kind::Down | Kind::Lost | Kind::Outdated)
    }

    /// Whether the same server may succeed later, without a change by anybody.
    pub fn may_pass_here(&self) -> bool {
        self.kind == Kind::NotNow || self.kind == Kind::Busy || self.may_pass() && self.kind != Kind::Refused
    }

    /// Whether the server failed one of several commands without saying which. Then this command may have run.
    pub fn is_unattributed(&self) -> bool {
        matches!(self.kind, Kind::Server | Kind::OutOfMemory | Kind::TooLarge) && self.sent == Sent::Maybe
    }

    /// Whether a server failed, rather than refusing the request.
    pub fn is_outage(&self) -> bool {
        ErrorKind::from(self.kind).is_outage() && !self.server.is_empty()
    }

    /// Whether the value of a store was refused: it is too large for the client or the server, or the server is full.
    pub fn refuses_value(&self) -> bool {
        match self.kind {
            Kind::OutOfMemory => true,
            // A `get` meets it too, if the stored value is larger than the client's limit.
            Kind::TooLarge => ["set", "add", "replace", "append", "prepend", "cas"].contains(&self.command),
            _ => false,
        }
    }

    /// Whether it counts against the server's health: a refused or unanswered request does. An unknown command does
    /// not, nor does what befell one connection.
    pub fn blames_server(&self) -> bool {
        matches!(self.kind, Kind::Connect | Kind::Refused | Kind::Timeout | Kind::Closed | Kind::Protocol)
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
            Sent::Maybe if !self.only_reads => f.write_str(" (the command may have been executed)"),
            Sent::No | Sent::Maybe | Sent::Yes => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
