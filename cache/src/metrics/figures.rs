//! The metrics as they are reported: a copy that does not change.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::counted::Purpose;
use super::Counted;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::Kind;
use pinyon_net::latencies::Latencies;

/// The counts of a client and its views for one server, in this process.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    /// The server's name.
    pub server: Arc<str>,
    /// Whether it is in use. Otherwise it is marked down.
    pub is_up: bool,
    /// Whether it belongs to the gutter.
    pub is_gutter: bool,
    /// The number of idle connections. Connections of event loops are shared, and never idle.
    pub idle: usize,
    pub traffic: Traffic,
}

impl ServerMetrics {
    /// A line for people: the server's state and its connections. Connections of event loops are `shared`, and never
    /// idle.
    pub fn line(&self, shared: bool) -> String {
        let gutter = if self.is_gutter { "gutter " } else { "" };
        if self.is_up && self.traffic.is_untouched() {
            return format!("{gutter}{} not used yet", self.server);
        }
        let state = if self.is_up { "up" } else { "down" };
        let line = format!("{gutter}{} {state}, {} connected", self.server, self.traffic.connections);
        if shared {
            line
        } else {
            format!("{line}, {} idle", self.idle)
        }
    }
}

/// The traffic on the connections to one server.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The number of connections.
    pub connections: usize,
    /// Bytes of the protocol, without those that TLS adds.
    pub sent: u64,
    pub received: u64,
    /// The commands that were used.
    pub commands: Vec<CommandMetrics>,
}

impl Traffic {
    /// Whether there was none yet, and nobody has tried to connect.
    fn is_untouched(&self) -> bool {
        self.connections == 0 && self.sent == 0 && self.commands.is_empty()
    }
}

/// The outcomes of one command on one server. Each key of a command on many keys counts as one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandMetrics {
    pub command: Counted,
    /// The item was found. For `delete`, `touch`, `incr` and others: it was found and changed.
    pub hits: u64,
    /// There was no item.
    pub misses: u64,
    /// For commands that store: the value was stored.
    pub stored: u64,
    /// For commands that store: the value was not stored, as by an `add` to an existing item.
    pub not_stored: u64,
    /// For leases: how often the old value was kept, because a new one could not be made.
    pub kept: u64,
    /// The sum of hits, misses, stored and not stored; for commands without a key, the number of answers.
    pub answered: u64,
    /// Failed requests, by kind of failure. All keys of a shared line are one request.
    pub errors: Vec<(Kind, u64)>,
    /// How many of them were tried again, on the same server or another one.
    pub retries: u64,
    /// The durations of some answers, chosen at random.
    pub latencies: Latencies,
}

impl CommandMetrics {
    /// For a command that was never used.
    pub fn none(command: Counted) -> Self {
        Self {
            command,
            hits: 0,
            misses: 0,
            stored: 0,
            not_stored: 0,
            kept: 0,
            answered: 0,
            errors: Vec::new(),
            retries: 0,
            latencies: Latencies::default(),
        }
    }

    /// The number of failed requests.
    pub fn failed(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// The number of failed requests, by the kind of error that is raised.
    pub fn raised(&self) -> BTreeMap<&'static str, u64> {
        let mut raised = BTreeMap::new();
        for (kind, count) in &self.errors {
            *raised.entry(ErrorKind::from(*kind).as_str()).or_insert(0) += count;
        }
        raised
    }

    /// Adds what was done, and what was refused.
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
        self.answered + self.retries + self.kept > 0 || !self.errors.is_empty()
    }
}

/// Adds the counts for the same command on another server or client.
impl AddAssign<&Self> for CommandMetrics {
    fn add_assign(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.stored += other.stored;
        self.not_stored += other.not_stored;
        self.kept += other.kept;
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
        let untouched = Traffic { connections: 0, sent: 0, received: 0, commands: Vec::new() };
        let untouched = ServerMetrics { traffic: untouched, ..up.clone() };
        assert_eq!(untouched.line(false), "a:1 not used yet");
        assert_eq!(ServerMetrics { is_up: false, ..untouched }.line(true), "a:1 down, 0 connected");
        let spare = ServerMetrics { is_up: false, is_gutter: true, ..up };
        assert_eq!(spare.line(true), "gutter a:1 down, 3 connected");
    }
}
