//! Whether a server is worth trying. All threads of a process share it, and the question is cheap while all is well.
//!
//! One timeout marks a server down, and so do two quick failures in a row: of operations or of connects, in any
//! thread. If an event loop was held up and saw a timeout late, this timeout counts as a quick failure
//! (`shared/blame.rs`). In each back-off period (a quarter of a second, doubled up to 1.5 s, with jitter) one caller
//! probes the server, and no other tries it until the result is known. A `Choice` of the fleet carries through the
//! operation whether it is this probe. Operations that began before the server went down change nothing any more: many
//! simultaneous timeouts do not lengthen the back-off, and an old reply does not bring a server up.
//!
//! Only a server that is silent on all connections of the process is down. Three rules say what is no evidence of
//! that:
//!
//! - **Bytes are a sign of life.** The metrics count what each connection receives. An operation that has waited for
//!   half of its time notes this count, and compares it when its time is over (`Listening` in threads, `Heard` in
//!   loops). Greetings do not count, because a server that answers nothing else is of no use. Before an operation
//!   fails, it reads once more what waits in the socket. If its request leaves only then, the loop held it up, and not
//!   the server.
//! - **One lost connection is not the server.** A connection that has rested is asked for a sign of life first
//!   (`session/rested.rs`).
//! - **A further connection that cannot be made is a limit.** The pool grows again later (`pool/growth.rs`). In a
//!   loop, requests that wait for such a connection take another (`shared/overflow.rs`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use pinyon_net::error::{Error, Kind};

/// How many operations or connection attempts must fail in a row before the server is marked down. A single timeout is
/// enough: the next operation would wait just as long.
const FAILURES: u32 = 2;
/// The first back-off period after that. It doubles with every failed probe.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
/// The longest back-off period: a server that returns is tried within this time.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(1500);

/// The record of one server.
#[derive(Debug, Default)]
pub struct Health {
    /// Failures in a row. From [`FAILURES`] on the server is down, and every failed probe adds one.
    failures: AtomicU32,
    /// When the next probe is due, in nanoseconds since [`epoch`].
    retry_at: AtomicU64,
    /// When it was marked down, in the same unit.
    down_since: AtomicU64,
    /// Never waited for: in a forked child, a thread that does not exist there may hold the mutex.
    last_error: Mutex<Option<Error>>,
}

/// What to do with a server that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has just come up.
    Up,
    /// Probe it: this caller was chosen.
    Probe,
    Down,
}

impl Health {
    pub fn is_up(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < FAILURES
    }

    /// Chooses one caller per back-off period to probe a server that is down. No other caller tries the server until
    /// the probe reports. A probe that has not reported after its `patience` is given up.
    pub fn verdict(&self, now: Instant, patience: Duration) -> Verdict {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures < FAILURES {
            return Verdict::Up;
        }
        let due = self.retry_at.load(Ordering::Relaxed);
        if nanoseconds(now) < due {
            return Verdict::Down;
        }
        let next = nanoseconds(now + patience + back_off(failures, now));
        match self.retry_at.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Verdict::Probe,
            Err(_) => Verdict::Down,
        }
    }

    /// Whether a success would change nothing.
    pub fn is_spotless(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// Takes note of an answer. Only the `probe` brings up a server that is down: other operations may have begun long
    /// ago. Returns how long the server was down, if it was.
    pub fn succeeded(&self, probe: bool, now: Instant) -> Option<Duration> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures >= FAILURES && !probe {
            return None;
        }
        self.failures.compare_exchange(failures, 0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let down_since = self.down_since.load(Ordering::Relaxed);
        (failures >= FAILURES).then(|| Duration::from_nanos(nanoseconds(now).saturating_sub(down_since)))
    }

    /// Takes note of a failed operation or connection attempt. Returns whether it marked the server down. While the
    /// server is down, only the `probe` counts: everything else began earlier.
    pub fn failed(&self, error: &Error, probe: bool, now: Instant) -> bool {
        self.count(if error.kind == Kind::Timeout { FAILURES } else { 1 }, error, probe, now)
    }

    /// Takes note of a timeout that may not be the server's fault: it counts as one failure.
    pub fn doubted(&self, error: &Error, now: Instant) -> bool {
        self.count(1, error, false, now)
    }

    fn count(&self, weight: u32, error: &Error, probe: bool, now: Instant) -> bool {
        let before = self.failures.load(Ordering::Relaxed);
        let after = match before {
            FAILURES.. if probe => before.saturating_add(1),
            FAILURES.. => return false,
            _ => FAILURES.min(before + weight),
        };
        if after >= FAILURES {
            self.retry_at.store(nanoseconds(now + back_off(after, now)), Ordering::Relaxed);
        }
        let marked_down = after >= FAILURES && before < FAILURES;
        if marked_down {
            self.down_since.store(nanoseconds(now), Ordering::Relaxed);
        }
        if let Ok(mut last_error) = self.last_error.try_lock() {
            *last_error = Some(error.clone());
        }
        match self.failures.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => marked_down,
            Err(_) => self.count(weight, error, probe, now),
        }
    }

    /// The last failure.
    pub fn last_error(&self) -> Option<Error> {
        self.last_error.try_lock().ok()?.clone()
    }
}

/// The back-off period after so many failures. It is shortened by up to a quarter at random, so that the processes of a
/// cluster do not all return at once.
fn back_off(failures: u32, now: Instant) -> Duration {
    let doublings = (failures - FAILURES).min(8);
    let exact = (FIRST_BACK_OFF * (1 << doublings)).min(LONGEST_BACK_OFF);
    let noise = nanoseconds(now).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    exact * 3 / 4 + exact * noise as u32 / 4096
}

fn nanoseconds(at: Instant) -> u64 {
    at.saturating_duration_since(epoch()).as_nanos() as u64
}

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn refused() -> Error {
        Error::new(Kind::Connect, &"cache1:11211".into(), "refused")
    }

    fn unanswered() -> Error {
        Error::unanswered(&"cache1:11211".into())
    }

    /// A server, and the instant at which it was marked down.
    fn down() -> (Health, Instant) {
        let (health, now) = (Health::default(), epoch() + Duration::from_secs(1));
        assert!(health.failed(&unanswered(), false, now));
        (health, now)
    }

    #[test]
    fn it_is_marked_down_after_quick_failures_in_a_row() {
        let health = Health::default();
        let now = epoch();
        assert!(!health.failed(&refused(), false, now));
        assert_eq!(health.succeeded(false, now), None);
        assert!(!health.failed(&refused(), false, now));
        assert!(health.is_up());
        assert!(health.failed(&refused(), false, now));
        assert_eq!(health.verdict(now, PATIENCE), Verdict::Down);
    }

    #[test]
    fn one_timeout_marks_it_down() {
        let (health, now) = down();
        assert_eq!(health.verdict(now, PATIENCE), Verdict::Down);
        assert_eq!(health.last_error().map(|error| error.kind), Some(Kind::Timeout));
    }

    #[test]
    fn a_doubtful_timeout_counts_once() {
        let (health, now) = (Health::default(), epoch());
        assert!(!health.doubted(&unanswered(), now));
        assert_eq!(health.succeeded(false, now), None);
        assert!(!health.doubted(&unanswered(), now));
        assert!(health.doubted(&unanswered(), now));
    }

    #[test]
    fn one_caller_in_a_back_off_period_probes_it_and_brings_it_up() {
        let (health, now) = down();
        let later = now + FIRST_BACK_OFF;
        let verdicts = [health.verdict(later, PATIENCE), health.verdict(later, PATIENCE)];
        assert_eq!(verdicts, [Verdict::Probe, Verdict::Down]);
        assert_eq!(health.succeeded(true, later), Some(FIRST_BACK_OFF));
        assert!(health.is_up());
        assert_eq!(health.succeeded(false, later), None);
    }

    #[test]
    fn there_is_one_probe_at_a_time_however_long_it_takes() {
        let (health, now) = down();
        let later = now + FIRST_BACK_OFF;
        assert_eq!(health.verdict(later, PATIENCE), Verdict::Probe);
        assert_eq!(health.verdict(later + PATIENCE, PATIENCE), Verdict::Down);
        health.failed(&unanswered(), true, later + PATIENCE);
        assert_eq!(health.verdict(later + PATIENCE + FIRST_BACK_OFF, PATIENCE), Verdict::Down);
        assert_eq!(health.verdict(later + PATIENCE + 2 * FIRST_BACK_OFF, PATIENCE), Verdict::Probe);
    }

    #[test]
    fn a_probe_that_says_nothing_is_given_up() {
        let (health, now) = down();
        let later = now + FIRST_BACK_OFF;
        assert_eq!(health.verdict(later, PATIENCE), Verdict::Probe);
        assert_eq!(health.verdict(later + PATIENCE + FIRST_BACK_OFF, PATIENCE), Verdict::Probe);
    }

    #[test]
    fn what_was_begun_before_it_was_marked_down_changes_nothing() {
        let (health, now) = down();
        for _ in 0..10 {
            assert!(!health.failed(&unanswered(), false, now + FIRST_BACK_OFF / 2));
            assert_eq!(health.succeeded(false, now), None);
        }
        assert!(!health.is_up());
        assert_eq!(health.verdict(now + FIRST_BACK_OFF, PATIENCE), Verdict::Probe);
    }

    #[test]
    fn back_off_grows_to_its_bound_and_is_jittered() {
        let now = epoch();
        for failures in FAILURES..FAILURES + 40 {
            let exact = (FIRST_BACK_OFF * (1 << (failures - FAILURES).min(8))).min(LONGEST_BACK_OFF);
            for step in 0..200 {
                let actual = back_off(failures, now + Duration::from_micros(step));
                assert!(actual >= exact * 3 / 4 && actual <= exact, "{actual:?} of {exact:?}");
            }
        }
        let spread: std::collections::HashSet<_> =
            (0..200).map(|step| back_off(FAILURES, now + Duration::from_micros(step))).collect();
        assert!(spread.len() > 100);
    }
}
