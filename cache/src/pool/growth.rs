//! Whether a pool may open a further connection, after the server or this process has refused one.
//!
//! memcached takes as many connections as its option `-c` says, for all its clients together. A refused connection says
//! nothing about the server's health: those that exist work. So callers wait for one of these, and the pool tries to grow
//! again later.
//!
//! An answer that names the limit means "not now": a process without any connection asks again within the caller's
//! time. A pool with several connections gives one up, because another process may have none.

use std::time::{Duration, Instant};

/// The pause after the first refusal. It doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// After so much time without a refusal, pauses begin anew, and a refusal is told again.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// What is known of a limit.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    refused_at: Option<Instant>,
    told_at: Option<Instant>,
    pause: Duration,
}

impl Growth {
    /// Until when no further connection is tried, if one was refused.
    pub(crate) fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.refused_at.map(|at| at + self.pause).filter(|until| *until > now)
    }

    /// Whether a connection was refused since then.
    pub(crate) fn refused_since(&self, since: Instant) -> bool {
        self.refused_at.is_some_and(|at| at >= since)
    }

    /// Takes note of a refused connection. Returns whether to tell people.
    pub(crate) fn refused(&mut self, now: Instant) -> bool {
        if self.pauses_until(now).is_some() {
            return false; // it was tried together with another
        }
        let is_known = self.refused_at.is_some_and(|at| now.saturating_duration_since(at) < FORGOTTEN);
        self.pause = if is_known { (self.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        self.refused_at = Some(now);
        let is_told = self.told_at.is_some_and(|at| now.saturating_duration_since(at) < FORGOTTEN);
        if !is_told {
            self.told_at = Some(now);
        }
        !is_told
    }

    /// Begins pauses anew: without any connection, waiting longer helps nobody.
    pub(crate) fn is_urgent(&mut self) {
        self.pause = self.pause.min(FIRST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_refused_connections_double_up_to_a_bound() {
        let (mut growth, start) = (Growth::default(), Instant::now());
        assert_eq!(growth.pauses_until(start), None);
        let mut now = start;
        for pause in [1, 2, 4, 8, 16, 32, 64, 80, 80].map(|times| FIRST_PAUSE * times) {
            growth.refused(now);
            assert_eq!(growth.pauses_until(now), Some(now + pause));
            now += pause;
            assert_eq!(growth.pauses_until(now), None);
        }
        growth.refused(now + FORGOTTEN + LONGEST_PAUSE);
        assert_eq!(growth.pause, FIRST_PAUSE);
    }

    #[test]
    fn refusals_at_the_same_time_are_one() {
        let (mut growth, now) = (Growth::default(), Instant::now());
        assert!(growth.refused(now));
        assert!(!growth.refused(now + FIRST_PAUSE / 2));
        assert_eq!(growth.pauses_until(now), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn people_are_told_once_a_minute() {
        let (mut growth, start) = (Growth::default(), Instant::now());
        let told = (0..600).filter(|tenth| growth.refused(start + Duration::from_millis(200) * *tenth)).count();
        assert_eq!(told, 2);
    }
}
