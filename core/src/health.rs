//! Whether a server is worth trying: shared by all threads of a process, and free to ask while all is well.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::error::Error;

/// How many operations or connects must fail in a row before the server is marked down.
const FAILURES: u32 = 2;
/// How long it is left alone after that, doubled with every failed probe.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
/// A server that comes back is in use again within this, and a little jitter.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(1500);

/// One server's record.
#[derive(Debug, Default)]
pub struct Health {
    failures: AtomicU32,
    /// When the next probe is due, in nanoseconds since [`epoch`].
    retry_at: AtomicU64,
    /// Never waited for: in a forked child its lock may be held by a thread that is not there.
    last_error: Mutex<Option<Error>>,
}

/// What to do with a server now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Up,
    /// It is down, and the caller is the one to try it.
    Probe,
    Down,
}

impl Health {
    /// Of a server that is down, one caller per back-off period is told to probe it.
    pub fn verdict(&self, now: Instant) -> Verdict {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures < FAILURES {
            return Verdict::Up;
        }
        let due = self.retry_at.load(Ordering::Relaxed);
        if nanoseconds(now) < due {
            return Verdict::Down;
        }
        let next = nanoseconds(now + back_off(failures, now));
        match self.retry_at.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Verdict::Probe,
            Err(_) => Verdict::Down,
        }
    }

    /// Whether it is marked down, without claiming the probe.
    pub fn is_down(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES
    }

    pub fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    pub fn failed(&self, error: &Error, now: Instant) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures >= FAILURES {
            self.retry_at.store(nanoseconds(now + back_off(failures, now)), Ordering::Relaxed);
        }
        if let Ok(mut last_error) = self.last_error.try_lock() {
            *last_error = Some(error.clone());
        }
    }

    /// Why it failed last.
    pub fn last_error(&self) -> Option<Error> {
        self.last_error.try_lock().ok()?.clone()
    }
}

/// Doubled with every failure, up to the longest, and off by up to a quarter: the processes of a fleet must not
/// all knock at the same moment.
fn back_off(failures: u32, now: Instant) -> Duration {
    let doublings = (failures - FAILURES).min(8);
    let exact = (FIRST_BACK_OFF * (1 << doublings)).min(LONGEST_BACK_OFF);
    let noise = nanoseconds(now).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    exact * 3 / 4 + exact * noise as u32 / 2048
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
    use crate::error::Kind;

    fn error() -> Error {
        Error::new(Kind::Connect, &"cache1:11211".into(), "refused")
    }

    #[test]
    fn a_server_is_marked_down_after_failures_in_a_row_and_probed_by_one() {
        let health = Health::default();
        let now = epoch();
        health.failed(&error(), now);
        health.succeeded();
        health.failed(&error(), now);
        assert_eq!(health.verdict(now), Verdict::Up);
        health.failed(&error(), now);
        assert_eq!(health.verdict(now), Verdict::Down);
        let later = now + FIRST_BACK_OFF * 2;
        assert_eq!([health.verdict(later), health.verdict(later)], [Verdict::Probe, Verdict::Down]);
        health.succeeded();
        assert_eq!(health.verdict(later), Verdict::Up);
    }

    #[test]
    fn back_off_grows_to_its_bound_and_is_jittered() {
        let now = epoch();
        for failures in FAILURES..FAILURES + 40 {
            let exact = (FIRST_BACK_OFF * (1 << (failures - FAILURES).min(8))).min(LONGEST_BACK_OFF);
            for step in 0..200 {
                let actual = back_off(failures, now + Duration::from_micros(step));
                assert!(actual >= exact * 3 / 4 && actual <= exact * 5 / 4, "{actual:?} of {exact:?}");
            }
        }
        let spread: std::collections::HashSet<_> =
            (0..200).map(|step| back_off(FAILURES, now + Duration::from_micros(step))).collect();
        assert!(spread.len() > 100);
    }
}
