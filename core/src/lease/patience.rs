//! How long a caller waits for another, and how long it pauses before it asks the server again.

use std::time::{Duration, Instant};

/// How long a caller pauses before it asks again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct Patience {
    give_up: Instant,
    pause: Duration,
    chance: u64,
}

impl Patience {
    /// `chance`: any number; callers with different ones pause for different times.
    pub(super) fn new(wait: Duration, chance: u64, now: Instant) -> Self {
        Self { give_up: now + wait, pause: FIRST_PAUSE, chance: chance | 1 }
    }

    /// How long the caller still waits.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.give_up.saturating_duration_since(now)
    }

    /// The next pause, which ends with the patience; `None` where that is over.
    pub(super) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let left = self.left(now);
        (!left.is_zero()).then(|| self.next().min(left))
    }

    /// Between a half and the whole of a pause that doubles.
    fn next(&mut self) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause / 2 + pause.mul_f64((self.chance % 1024) as f64 / 2048.0)
    }
}
