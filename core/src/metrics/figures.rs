//! What was counted, as it is told: a copy that does not change.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::counted::Purpose;
use super::{Counted, Latencies};
use crate::error::kinds::ErrorKind;
use crate::error::Kind;

/// What a client and its views have counted of one server, in this process.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    /// The server's name.
    pub server: Arc<str>,
    /// Whether it is in use; else it is marked down.
    pub is_up: bool,
    /// Whether it takes the keys of others only.
    pub is_gutter: bool,
    /// How many of its connections nobody uses. Those of event loops are shared, and never idle.
    pub idle: usize,
    pub traffic: Traffic,
}

impl ServerMetrics {
    /// A line for people: whether the server is up, and its connections. Those of event loops are `shared`, and never idle.
    pub fn line(&self, shared: bool) -> String {
        let gutter = if self.is_gutter { "gutter " } else { "" };
        let state = if self.is_up { "up" } else { "down" };
        let line = format!("{gutter}{} {state}, {} connected", self.server, self.traffic.connections);
        if shared {
            line
        } else {
            format!("{line}, {} idle", self.idle)
        }
    }
}

/// What happened on the connections to one server.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// How many connections there are.
    pub connections: usize,
    /// Bytes of the protocol, before TLS adds its own.
    pub sent: u64,
    pub received: u64,
    /// Those that were asked for.
    pub commands: Vec<CommandMetrics>,
}

/// What one command came to on one server. Each key of a command on many counts as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandMetrics {
    pub command: Counted,
    /// An item was found; of `delete`, `touch`, `incr` and the like, and was changed.
    pub hits: u64,
    /// There was none.
    pub misses: u64,
    /// Of commands that store: it was stored.
    pub stored: u64,
    /// Of the same: it was not, as by an `add` where there is an item already.
    pub not_stored: u64,
    /// All of these; of commands without a key, how many were answered.
    pub answered: u64,
    /// Requests that failed, by what failed. All keys of a line of many are one request.
    pub errors: Vec<(Kind, u64)>,
    /// How many of them were tried again, there or on another server.
    pub retries: u64,
    /// How long some of the answers took, chosen by chance.
    pub latencies: Latencies,
}

impl CommandMetrics {
    /// Of a command that was never asked for.
    pub fn none(command: Counted) -> Self {
        Self {
            command,
            hits: 0,
            misses: 0,
            stored: 0,
            not_stored: 0,
            answered: 0,
            errors: Vec::new(),
            retries: 0,
            latencies: Latencies::default(),
        }
    }

    /// How many requests failed, whatever of.
    pub fn failed(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// How many requests failed, by the kind that each is raised as.
    pub fn raised(&self) -> BTreeMap<&'static str, u64> {
        let mut raised = BTreeMap::new();
        for (kind, count) in &self.errors {
            *raised.entry(ErrorKind::from(*kind).as_str()).or_insert(0) += count;
        }
        raised
    }

    /// Adds what was done, and what was not.
    pub(super) fn count(&mut self, done: u64, refused: u64) {
        self.answered += done + refused;
        let (yes, no) = match self.command.purpose() {
            Purpose::Store => (&mut self.stored, &mut self.not_stored),
            Purpose::Item => (&mut self.hits, &mut self.misses),
            Purpose::Server => return,
        };
        *yes += done;
        *no += refused;
    }

    pub(super) fn was_asked_for(&self) -> bool {
        self.answered + self.retries > 0 || !self.errors.is_empty()
    }
}

/// Adds what another server, or another client, has counted of the same command.
impl AddAssign<&Self> for CommandMetrics {
    fn add_assign(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.stored += other.stored;
        self.not_stored += other.not_stored;
        self.answered += other.answered;
        self.retries += other.retries;
        self.latencies += &other.latencies;
        for (kind, count) in &other.errors {
            match self.errors.iter_mut().find(|(known, _)| known == kind) {
                Some((_, sum)) => *sum += count,
                None => self.errors.push((*kind, *count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_means_depends_on_the_command() {
        for command in Counted::ALL {
            let mut metrics = CommandMetrics::none(command);
            assert!(!metrics.was_asked_for());
            metrics.count(3, 2);
            let found = (metrics.hits, metrics.misses);
            let stored = (metrics.stored, metrics.not_stored);
            let expected = match command.as_str() {
                "set" | "add" | "replace" | "append" | "prepend" | "cas" => ((0, 0), (3, 2)),
                "version" | "stats" | "flush_all" | "mn" | "config get cluster" => ((0, 0), (0, 0)),
                _ => ((3, 2), (0, 0)),
            };
            assert_eq!((found, stored), expected, "{}", command.as_str());
            assert!(metrics.was_asked_for() && metrics.answered == 5);
        }
    }

    #[test]
    fn commands_are_added_up() {
        let mut all = CommandMetrics { errors: vec![(Kind::Timeout, 1)], ..CommandMetrics::none(Counted::Get) };
        all.count(1, 2);
        let other = CommandMetrics { errors: vec![(Kind::Closed, 4), (Kind::Timeout, 2)], retries: 5, ..all.clone() };
        all += &other;
        assert_eq!((all.hits, all.misses, all.answered, all.retries), (2, 4, 6, 5));
        assert_eq!((all.failed(), all.errors), (7, vec![(Kind::Timeout, 3), (Kind::Closed, 4)]));
    }

    #[test]
    fn failures_that_are_raised_as_one_kind_are_counted_together() {
        let errors = vec![(Kind::Timeout, 1), (Kind::Closed, 4), (Kind::Busy, 2)];
        let metrics = CommandMetrics { errors, ..CommandMetrics::none(Counted::Get) };
        assert_eq!(metrics.raised().into_iter().collect::<Vec<_>>(), [("ConnectionLost", 4), ("Timeout", 3)]);
    }

    #[test]
    fn a_line_says_what_a_server_is_and_has() {
        let traffic = Traffic { connections: 3, sent: 0, received: 0, commands: Vec::new() };
        let up = ServerMetrics { server: "a:1".into(), is_up: true, is_gutter: false, idle: 1, traffic };
        assert_eq!(
            (up.line(false), up.line(true)),
            ("a:1 up, 3 connected, 1 idle".into(), "a:1 up, 3 connected".into())
        );
        let spare = ServerMetrics { is_up: false, is_gutter: true, ..up };
        assert_eq!(spare.line(true), "gutter a:1 down, 3 connected");
    }
}
