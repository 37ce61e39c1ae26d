//! How long a caller waits for another, and the pauses between its questions to the server.

use std::time::{Duration, Instant};

/// The first pause. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct Patience {
    give_up: Instant,
    pause: Duration,
    chance: u64,
}

impl Patience {
    /// `chance`: any number; callers with different numbers pause for different times.
    pub(super) fn new(wait: Duration, chance: u64, now: Instant) -> Self {
        Self { give_up: now + wait, pause: FIRST_PAUSE, chance: chance | 1 }
    }

    /// The remaining time to wait.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.give_up.saturating_duration_since(now)
    }

    /// The next pause, shortened to the remaining time; `None` if none is left.
    pub(super) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let left = self.left(now);
        (!left.is_zero()).then(|| self.next().min(left))
    }

    /// Between half and all of a pause that doubles.
    fn next(&mut self) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause / 2 + pause.mul_f64((self.chance % 1024) as f64 / 2048.0)
    }
}
