//! The outcomes and durations of commands. Each connection counts for itself; reading the metrics adds them up.
//!
//! A `Block` of counters has a single writer, the session that holds its `Meter`, so counting is a plain addition to
//! memory without contention. A block whose connection is gone serves a later one and keeps its counts. So there are
//! never more blocks than simultaneous connections. Failures are rare, and counted per server.
//!
//! Every answer is counted, and one in `TIMED`, chosen at random, is timed: reading the clock costs more than
//! everything else here.
//!
//! The session counts, because every exchange of every driver ends there. Drivers count what fails before a session
//! has it (`Fleet::unsubmitted`). An answer is chosen for timing by its ticket, before the request is sent, so
//! blocking clients rarely read the clock a second time. The counters belong to the server's pool, so each process has
//! its own.

mod counted;
mod figures;

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use counted::Counted;
pub use figures::{CommandMetrics, ServerMetrics, Traffic};

use pinyon_net::connection::Ticket;
use pinyon_net::error::{Error, Kind};
use pinyon_net::latencies::{Counter, Histogram};
use pinyon_net::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pinyon_net::sync::{Mutex, PoisonError};

/// On average, one in so many answers is timed.
const TIMED: u32 = 32;

/// The counters of one server, in one process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    blocks: Mutex<Vec<Arc<Block>>>,
    failures: [Failures; Counted::ALL.len()],
    /// How often an old value was kept, as a new one could not be made.
    kept: AtomicU64,
}

/// The failures of one command.
#[derive(Debug, Default)]
struct Failures {
    errors: [AtomicU64; Kind::ALL.len()],
    retries: AtomicU64,
}

/// The counters of one connection.
#[derive(Debug, Default)]
struct Block {
    taken: AtomicBool,
    connected: AtomicBool,
    sent: Counter,
    received: Counter,
    /// What was received when the connection became ready.
    greeted: Counter,
    /// What earlier connections received after they were ready.
    heard: Counter,
    commands: [OnceLock<Box<Answers>>; Counted::ALL.len()],
}

/// The answers to one command.
#[derive(Debug, Default)]
struct Answers {
    /// The counts of what was not done (misses, not stored), and of what was done.
    outcomes: [Counter; 2],
    latencies: Histogram,
}

/// A session's exclusive use of a block. Dropping it frees the block.
#[derive(Debug)]
pub(crate) struct Meter {
    metrics: Arc<Metrics>,
    block: Arc<Block>,
    /// The client's timeout in nanoseconds.
    timeout: u64,
    /// The first answered exchange with this ticket or a later one is timed.
    timed: Cell<Ticket>,
    /// The state of the random choice.
    chance: Cell<u32>,
    /// The bytes counted as sent before the session connected.
    sent_before: u64,
    /// When the last bytes had arrived.
    arrived: Instant,
}

impl Metrics {
    /// Counters for a connection of a client with this timeout.
    pub(crate) fn meter(self: &Arc<Self>, timeout: Duration) -> Meter {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let free = blocks.iter().find(|block| !block.taken.swap(true, Ordering::Acquire)).cloned();
        let block = free.unwrap_or_else(|| {
            let block = Arc::new(Block { taken: true.into(), ..Block::default() });
            blocks.push(block.clone());
            block
        });
        let arrived = Instant::now();
        let chance = RandomState::new().hash_one(blocks.len()) as u32 | 1;
        let meter = Meter {
            metrics: self.clone(),
            timeout: nanoseconds(timeout),
            timed: Cell::default(),
            chance: chance.into(),
            sent_before: block.sent.get(),
            block,
            arrived,
        };
        meter.skip(Ticket(0));
        meter
    }

    #[cold]
    pub(crate) fn failed(&self, error: &Error, command: &str) {
        self.failures_of(command).errors[error.kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retried(&self, command: &str) {
        self.failures_of(command).retries.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    fn failures_of(&self, command: &str) -> &Failures {
        &self.failures[Counted::named(command).place()]
    }

    /// How many bytes of replies this process has received from the server, on all connections. Greetings do not count:
    /// a server that answers nothing else is of no use.
    #[cold]
    pub(crate) fn heard(&self) -> u64 {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|block| block.heard()).sum()
    }

    /// How many connections are ready.
    pub(crate) fn connections(&self) -> usize {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().filter(|block| block.connected.load(Ordering::Relaxed)).count()
    }

    /// All counts so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let commands = Counted::apart().map(|command| self.command(command, &blocks));
        Traffic {
            connections: blocks.iter().filter(|block| block.connected.load(Ordering::Relaxed)).count(),
            sent: blocks.iter().map(|block| block.sent.get()).sum(),
            received: blocks.iter().map(|block| block.received.get()).sum(),
            commands: commands.filter(CommandMetrics::was_asked_for).collect(),
        }
    }

    fn command(&self, command: Counted, blocks: &[Arc<Block>]) -> CommandMetrics {
        let Failures { errors, retries } = &self.failures[command.place()];
        let errors = Kind::ALL.into_iter().zip(errors).map(|(kind, count)| (kind, count.load(Ordering::Relaxed)));
        let mut all = CommandMetrics {
            errors: errors.filter(|(_, count)| *count > 0).collect(),
            retries: retries.load(Ordering::Relaxed),
            kept: if command == Counted::Lease { self.kept.load(Ordering::Relaxed) } else { 0 },
            ..CommandMetrics::none(command)
        };
        for answers in blocks.iter().filter_map(|block| block.commands[command.place()].get()) {
            let [refused, done] = &answers.outcomes;
            all.count(done.get(), refused.get());
            answers.latencies.add_to(&mut all.latencies);
        }
        all
    }
}

impl Block {
    fn heard(&self) -> u64 {
        let now = match self.connected.load(Ordering::Relaxed) {
            true => self.received.get().saturating_sub(self.greeted.get()),
            false => 0,
        };
        self.heard.get() + now
    }
}

impl Meter {
    /// Begins a new connection, whose session counts sent bytes from zero.
    pub(crate) fn begin(&mut self) {
        self.sent_before = self.block.sent.get();
    }

    /// Notes that its connection is ready, or no longer is.
    pub(crate) fn connected(&self, stands: bool) {
        let block = &*self.block;
        let stood = block.connected.swap(stands, Ordering::Relaxed);
        match stands {
            true if !stood => block.greeted.set(block.received.get()),
            false if stood => block.heard.add(block.received.get() - block.greeted.get()),
            _ => {}
        }
    }

    /// See [`Metrics::heard`].
    pub(crate) fn heard(&self) -> u64 {
        self.metrics.heard()
    }

    /// Says that everything counted from now on had arrived by then.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Instant) {
        self.arrived = now;
    }

    /// Whether the exchange to time comes before this one.
    #[inline]
    pub(crate) fn times_before(&self, ticket: Ticket) -> bool {
        self.timed.get() < ticket
    }

    /// Chooses the next exchange to time at random (xorshift), so that a pattern in a program's commands has no
    /// influence.
    fn skip(&self, from: Ticket) {
        let mut chance = self.chance.get();
        chance ^= chance << 13;
        chance ^= chance >> 17;
        chance ^= chance << 5;
        self.chance.set(chance);
        self.timed.set(Ticket(from.0 + u64::from(chance % (2 * TIMED - 1))));
    }

    /// Counts `times` answers. `done`: whether the command was done, or missed.
    #[inline]
    pub(crate) fn answered(&self, command: Counted, done: bool, times: u64) {
        self.answers(command).outcomes[usize::from(done)].add(times);
    }

    /// Records the duration of an exchange with one or more answers. It was due by `deadline`, so it began one timeout
    /// earlier.
    #[cold]
    pub(crate) fn took(&self, command: Counted, answers: u64, deadline: Instant, ticket: Ticket) {
        self.skip(Ticket(ticket.0 + 1));
        let left = nanoseconds(deadline.saturating_duration_since(self.arrived));
        self.answers(command).latencies.record(self.timeout.saturating_sub(left), answers);
    }

    #[inline]
    fn answers(&self, command: Counted) -> &Answers {
        self.block.commands[command.place()].get_or_init(Box::default)
    }

    /// Counts received bytes. `sent`: all bytes that the session has sent so far.
    #[inline]
    pub(crate) fn received(&self, bytes: u64, sent: u64) {
        self.block.received.add(bytes);
        self.block.sent.set(self.sent_before + sent);
    }

    pub(crate) fn failed(&self, error: &Error) {
        self.metrics.failed(error, error.command);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.connected(false);
        self.block.taken.store(false, Ordering::Release);
    }
}

/// Exact for every duration that a caller might wait.
#[inline]
fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "interleavings")]
    mod interleavings;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn get(metrics: &Metrics) -> CommandMetrics {
        metrics.traffic().commands.into_iter().find(|of| of.command == Counted::Get).expect("a get was counted")
    }

    #[test]
    fn connections_count_apart_and_are_added_up() {
        let metrics = Arc::new(Metrics::default());
        let meters = [metrics.meter(SECOND), metrics.meter(SECOND)];
        for meter in &meters {
            meter.answered(Counted::Get, true, 2);
            meter.answered(Counted::Get, false, 1);
            meter.received(5, 10);
        }
        let all = get(&metrics);
        assert_eq!((all.hits, all.misses, all.answered), (4, 2, 6));
        assert_eq!((metrics.traffic().sent, metrics.traffic().received), (20, 10));
    }

    #[test]
    fn the_next_connection_counts_where_one_that_is_gone_did() {
        let metrics = Arc::new(Metrics::default());
        for _ in 0..100 {
            let meter = metrics.meter(SECOND);
            meter.connected(true);
            assert_eq!(metrics.traffic().connections, 1);
            meter.answered(Counted::Get, true, 1);
            meter.received(1, 4);
            meter.received(1, 10);
        }
        assert_eq!(metrics.blocks.lock().unwrap().len(), 1);
        assert_eq!((get(&metrics).hits, metrics.traffic().sent, metrics.traffic().connections), (100, 1000, 0));
    }

    #[test]
    fn replies_are_heard_on_every_connection_and_greetings_are_not() {
        let metrics = Arc::new(Metrics::default());
        let meters = [metrics.meter(SECOND), metrics.meter(SECOND)];
        for meter in &meters {
            meter.received(20, 0);
            meter.connected(true);
        }
        assert_eq!(metrics.heard(), 0);
        meters[0].received(5, 0);
        meters[1].received(7, 0);
        assert_eq!(meters[0].heard(), 12);
        meters[0].connected(false);
        meters[0].received(20, 0);
        assert_eq!(metrics.heard(), 12);
        meters[0].connected(true);
        meters[0].received(1, 0);
        assert_eq!(metrics.heard(), 13);
        drop(meters);
        assert_eq!(metrics.heard(), 13);
    }

    #[test]
    fn many_at_once_are_gets_like_others() {
        let metrics = Arc::new(Metrics::default());
        let meter = metrics.meter(SECOND);
        meter.answered(Counted::Get, true, 1);
        meter.answered(Counted::GetMany, true, 7);
        assert_eq!(get(&metrics).hits, 8);
        assert_eq!(metrics.traffic().commands.len(), 1);
    }

    #[test]
    fn an_answer_took_what_the_timeout_has_lost() {
        let metrics = Arc::new(Metrics::default());
        let mut meter = metrics.meter(SECOND);
        let begun = Instant::now();
        meter.arrived(begun + Duration::from_millis(30));
        meter.answered(Counted::Get, true, 1);
        meter.took(Counted::Get, 1, begun + SECOND, Ticket(0));
        assert_eq!(get(&metrics).latencies.nanoseconds, 30_000_000);
        meter.arrived(begun + 3 * SECOND);
        meter.took(Counted::Get, 1, begun + SECOND, Ticket(1));
        assert_eq!(get(&metrics).latencies.nanoseconds, 1_030_000_000);
    }

    #[test]
    fn one_in_so_many_is_timed_by_chance() {
        let metrics = Arc::new(Metrics::default());
        let meter = metrics.meter(SECOND);
        let mut timed = Vec::new();
        for ticket in (0..80_000).map(Ticket).filter(|ticket| ticket.0 % 1000 != 500) {
            if meter.times_before(Ticket(ticket.0 + 1)) {
                meter.took(Counted::Get, 1, meter.arrived + SECOND, ticket);
                timed.push(ticket.0);
            }
        }
        let gaps: Vec<u64> = timed.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((2350..2650).contains(&gaps.len()), "{}", gaps.len());
        assert!((1..2 * u64::from(TIMED)).all(|gap| gaps.contains(&gap)));
        assert!(gaps.iter().all(|gap| *gap <= 2 * u64::from(TIMED)));
    }

    #[test]
    fn failures_are_counted_by_command_and_kind() {
        let metrics = Metrics::default();
        let error = Error::unanswered(&"a".into());
        metrics.failed(&error, "get");
        metrics.failed(&error, "get_many");
        metrics.retried("get");
        let all = get(&metrics);
        assert_eq!((all.failed(), all.errors, all.retries, all.answered), (2, vec![(Kind::Timeout, 2)], 1, 0));
    }
}
