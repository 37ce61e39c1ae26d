//! Commands about servers rather than keys. Each goes to every server.

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Command, KeyRules, StatsKind, Status};

use super::failures::Failures;
use super::{Ask, Asks, End, Next, Operation, Policy, Sending};
use crate::calls;
use crate::fleet::{Choice, Fleet};
use crate::session::{Data, Generations, Refused, Reply, Session, Ticket, NOT_CLEARABLE};
use pinyon_net::error::{Error, Kind};
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
    /// Forgets all items of the client's namespace: see [`Self::clear_namespace`].
    ClearNamespace,
}

/// Asks every server, whatever its state.
///
/// A server that a clear of the namespace did not reach is cleared before the next command that this process sends to it.
pub struct Everywhere {
    command: ServerCommand,
    /// What is known of the namespace on each server, by the number of its ask, while the namespace is cleared.
    generations: Vec<(usize, Arc<Generations>)>,
    /// The asks to repeat in the next `begin`, on a new connection.
    again: Vec<u32>,
    /// Whether asks were repeated.
    is_repeated: bool,
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

    /// Forgets all items of a namespace, and nothing else, if these rules make it clearable.
    pub fn clear_namespace(keys: &KeyRules) -> Result<Self, InvalidArgument> {
        match keys.is_clearable() {
            true => Ok(Self::ClearNamespace),
            false => Err(InvalidArgument::usage(NOT_CLEARABLE)),
        }
    }

    /// `None` for what a session itself makes.
    fn command(&self) -> Option<Command<'_>> {
        match self {
            ServerCommand::Version => Some(Command::Version),
            ServerCommand::Stats(kind) => Some(Command::Stats(StatsKind::new(kind).unwrap_or_default())),
            ServerCommand::FlushAll { delay } => Some(Command::FlushAll { delay: *delay }),
            ServerCommand::ClearNamespace => None,
        }
    }
}

impl Everywhere {
    pub fn new(command: ServerCommand) -> Self {
        let nothing_is_forgiven = Policy { failover: false, near: false, ..Policy::default() };
        let name = command.command().map_or(calls::CLEAR_NAMESPACE.name, |command| command.name());
        let failures = Failures::new(name, nothing_is_forgiven);
        Self { command, generations: Vec::new(), again: Vec::new(), is_repeated: false, lines: Vec::new(), failures }
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
        if !self.again.is_empty() {
            self.is_repeated = true;
            let again = |part: u32| Ask { part, choice: Choice::regardless(self.generations[part as usize].0) };
            return Asks::of(std::mem::take(&mut self.again).into_iter().map(again).collect());
        }
        let mut asks = Vec::new();
        for server in fleet.members() {
            if self.command == ServerCommand::ClearNamespace {
                let of_server = fleet.servers()[server].generations().cloned();
                self.generations.extend(of_server.map(|generations| (server, generations)));
            }
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
        match self.command.command() {
            Some(command) => session.submit(&command, Data::None, sending.deadline),
            None => session.submit_clearing(sending.deadline),
        }
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
            End::Failed { error, in_time } => self.failed(part, error, in_time),
        }
        match self.again.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn fail(&mut self, error: Error) {
        self.failures.note(error);
    }
}

impl Everywhere {
    fn failed(&mut self, part: u32, error: Error, in_time: bool) {
        if let Some((_, generations)) = self.generations.get(part as usize) {
            // To clear twice does no harm, and the connection may have been closed while it was idle.
            if in_time && !self.is_repeated && matches!(error.kind, Kind::Closed | Kind::Lost) {
                return self.again.push(part);
            }
            generations.owe();
        }
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
