//! Commands about servers rather than keys. Each goes to every server.

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Command, StatsKind, Status};

use super::failures::Failures;
use super::{Ask, Asks, End, Next, Operation, Policy, Sending};
use crate::fleet::{Choice, Fleet};
use crate::session::{Data, Refused, Reply, Session, Ticket};
use pinyon_net::error::Error;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::network::Network;

/// A command for every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerCommand {
    Version,
    /// The kind of statistics, as memcached names it; "" for the general ones.
    Stats(String),
    /// `delay`: in seconds.
    FlushAll {
        delay: u32,
    },
}

/// Asks every server, whatever its state.
pub struct Everywhere {
    command: ServerCommand,
    /// The lines of each server, by the number of its ask.
    lines: Vec<(Arc<str>, Vec<String>)>,
    failures: Failures,
}

/// Reply lines, by server name.
pub type ServerLines = Vec<(Arc<str>, Vec<String>)>;

impl ServerCommand {
    /// Asks for statistics of this kind, if the kind is valid.
    pub fn stats(kind: &str) -> Result<Self, InvalidArgument> {
        match StatsKind::new(kind) {
            Some(_) => Ok(ServerCommand::Stats(kind.to_owned())),
            None => {
                let message = format!("stats kind {kind:?}: only letters, digits, spaces and underscores, 250 at most");
                Err(InvalidArgument::usage(message))
            }
        }
    }

    /// Forgets all items after so many seconds.
    pub fn flush_all(delay: i64) -> Result<Self, InvalidArgument> {
        let refused = |_| {
            let most = u32::MAX;
            InvalidArgument::usage(format!("delay must be 0 to {most} seconds, not {delay}"))
        };
        delay.try_into().map(|delay| Self::FlushAll { delay }).map_err(refused)
    }

    fn command(&self) -> Command<'_> {
        match self {
            ServerCommand::Version => Command::Version,
            ServerCommand::Stats(kind) => Command::Stats(StatsKind::new(kind).unwrap_or_default()),
            ServerCommand::FlushAll { delay } => Command::FlushAll { delay: *delay },
        }
    }
}

impl Everywhere {
    pub fn new(command: ServerCommand) -> Self {
        let nothing_is_forgiven = Policy { failover: false, miss: false, unreadable_is_miss: false };
        let failures = Failures::new(command.command().name(), nothing_is_forgiven);
        Self { command, lines: Vec::new(), failures }
    }

    /// The command that every server gets.
    pub fn asked(&self) -> &ServerCommand {
        &self.command
    }

    /// The failure of each failed server, for callers that accept partial results. They are then not raised.
    pub fn of_servers(&mut self) -> Vec<Error> {
        let failures = self.failures.of_servers();
        self.lines.retain(|(server, _)| failures.iter().all(|error| *error.server != **server));
        failures
    }

    /// The lines from all servers, or the first failure. Call it once the operation is over.
    pub fn finish(mut self) -> Result<ServerLines, Error> {
        match self.failures.raised() {
            Some(error) => Err(error),
            None => Ok(self.lines),
        }
    }
}

impl Operation for Everywhere {
    fn name(&self) -> &'static str {
        self.failures.name()
    }

    fn begin(&mut self, fleet: &Fleet, _now: Instant) -> Asks {
        let mut asks = Vec::new();
        for server in fleet.members() {
            asks.push(Ask { part: self.lines.len() as u32, choice: Choice::regardless(server) });
            self.lines.push((fleet.servers()[server].name.clone(), Vec::new()));
        }
        Asks::of(asks)
    }

    fn routed(&self, _part: u32) -> &[u8] {
        &[]
    }

    fn submit<N: Network>(
        &mut self,
        _part: u32,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Result<Ticket, Refused> {
        session.submit(&self.command.command(), Data::None, sending.deadline)
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        if let Status::Version | Status::Stat = reply.head.status {
            self.lines[part as usize].1.push(String::from_utf8_lossy(reply.line).into_owned());
        }
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        match end {
            End::Answered => {}
            // The server left before it was asked, so it is reported like servers that left earlier.
            End::Withdrawn => self.lines[part as usize].1.clear(),
            End::Failed { error, .. } => self.failures.note(error),
        }
        Next::Nothing
    }

    fn fail(&mut self, error: Error) {
        self.failures.note(error);
    }
}

/// The version in a server's reply line.
pub fn version(lines: &[String]) -> &str {
    lines.first().map_or("", |line| line.trim_start_matches("VERSION "))
}

/// The names and values in a server's reply lines.
pub fn statistics(lines: &[String]) -> impl Iterator<Item = (&str, &str)> {
    lines.iter().map(|line| {
        let mut words = line.splitn(3, ' ').skip(1);
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    })
}
