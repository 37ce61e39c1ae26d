//! Ends of locks other than their owner's release.

use std::time::Duration;

use super::entry::Stage;
use super::stages::Why;
use super::{Machine, Moment, NotHeld};
use crate::call::{Attempt, Names};

impl Machine {
    pub fn ttl(&self, number: u64) -> Duration {
        self.entries.get(&number).map_or(Duration::ZERO, |entry| entry.ttl)
    }

    /// Whether the names of a lock stay locked for a least time.
    pub fn has_least(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.keep_until().is_some())
    }

    /// Lets a lock end with its release, although it was to last longer.
    pub fn end_early(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.rare.iter_mut().for_each(|rare| (rare.at_least, rare.keep_until) = (Duration::ZERO, None));
        }
    }

    /// Releases a lock as [`Self::release`] does, however many times its owner has acquired it. The caller waits for so
    /// long, as far as there is a server.
    pub fn release_wholly(&mut self, number: u64, wait: Duration, now: Moment) -> Result<(), NotHeld> {
        let entry = self.entries.get_mut(&number).ok_or(NotHeld)?;
        entry.holds = 1;
        self.release(number, now)?;
        if let Some(Stage::Releasing { deadline, .. }) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) {
            *deadline = now + wait;
            self.wake_by(now + wait);
        }
        Ok(())
    }

    /// Forgets a lock that is handed over: it is neither renewed nor released here any more. Returns who takes it over
    /// from whom, on which names, and for how long they stay locked in any case.
    pub fn hand_over(&mut self, number: u64, now: Moment) -> Option<(Attempt, Names, Duration)> {
        self.held(number, now)?;
        let attempt = self.attempt(number);
        if let Some(rare) = self.entries.get_mut(&number).and_then(|entry| entry.rare.as_mut()) {
            rare.is_remarked = false; // Whoever adopts the lock erases it.
        }
        let entry = self.remove(number, Why::HandOver, now)?;
        let rest = entry.rest(now).unwrap_or_default();
        Some((attempt, entry.names, rest))
    }
}
