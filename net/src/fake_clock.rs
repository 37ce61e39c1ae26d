//! A clock for tests, which only [`pass`] moves. Each thread has its own time, so tests do not meet.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The time.
pub fn clock() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now) + PASSED.get()
}

pub fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}
