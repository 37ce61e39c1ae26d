//! Names that several locks have at once: those that are read, and pools of permits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Attempt, Mode, Model, Name, PER_MS};

/// Who shares a name, and the limit if it is a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    holders: BTreeMap<Attempt, Part>,
    limit: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    expires: Duration,
    count: u32,
}

impl Share {
    /// Forgets those whose time is over. Returns whether others are left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.holders.retain(|_, part| part.expires >= now);
        !self.holders.is_empty()
    }

    /// Those who share it, and who ends first is first.
    pub(super) fn holders(&self) -> Vec<Attempt> {
        let mut holders: Vec<_> = self.holders.iter().map(|(attempt, part)| (part.expires, attempt)).collect();
        holders.sort();
        holders.into_iter().map(|(_, attempt)| attempt.clone()).collect()
    }

    pub(super) fn ends_first(&self) -> Option<Duration> {
        self.holders.values().map(|part| part.expires).min()
    }

    pub(super) fn ends_last(&self) -> Option<Duration> {
        self.holders.values().map(|part| part.expires).max()
    }

    /// How many permits are taken, and the limit.
    pub(super) fn permits(&self) -> Option<(u32, u32)> {
        Some((self.taken(), self.limit?))
    }

    fn taken(&self) -> u32 {
        self.holders.values().map(|part| part.count).sum()
    }
}

impl Model {
    /// Whether there is room beside those who have the name.
    pub(super) fn has_room(&self, name: &Name, mode: Mode) -> bool {
        match (mode, self.shares.get(name)) {
            _ if self.locks.contains_key(name) => false,
            (_, None) | (Mode::Read, _) => true,
            (Mode::Write, Some(_)) => false,
            (Mode::Permits { count, limit }, Some(share)) => share.taken() + count <= share.limit.unwrap_or(limit),
        }
    }

    /// Whether the attempt has the name, and nobody else has a part of it.
    pub(super) fn has_alone(&self, attempt: &Attempt, name: &Name) -> bool {
        match self.shares.get(name) {
            Some(share) => share.holders.keys().eq([attempt]),
            None => self.holder(name) == Some(attempt),
        }
    }

    /// When the last of the others that share the name ends, and who that is.
    pub(super) fn others_end(&self, attempt: &Attempt, name: &Name) -> Option<(Duration, Attempt)> {
        let others = self.shares.get(name)?.holders.iter().filter(|(other, _)| *other != attempt);
        others.map(|(other, part)| (part.expires, other.clone())).max()
    }

    /// When the attempt's part of the name ends.
    pub(super) fn part_ends(&self, attempt: &Attempt, name: &Name) -> Option<Duration> {
        self.shares.get(name)?.holders.get(attempt).map(|part| part.expires)
    }

    /// Adds the attempt, or extends its part.
    pub(super) fn join(&mut self, now: Duration, name: &Name, attempt: &Attempt, mode: Mode, ttl: Duration) {
        let share = self.shares.entry(name.clone()).or_default();
        let count = match mode {
            Mode::Permits { count, limit } => {
                share.limit.get_or_insert(limit);
                count
            }
            _ => 1,
        };
        share.holders.insert(attempt.clone(), Part { expires: now + ttl, count });
    }

    /// Removes the attempt. Returns whether it had a part.
    pub(super) fn leave(&mut self, name: &Name, attempt: &Attempt) -> bool {
        let Some(share) = self.shares.get_mut(name) else { return false };
        let had = share.holders.remove(attempt).is_some();
        if share.holders.is_empty() {
            self.shares.remove(name);
        }
        had
    }

    pub(super) fn has_part(&self, name: &Name, attempt: &Attempt) -> bool {
        self.shares.get(name).is_some_and(|share| share.holders.contains_key(attempt))
    }

    /// Takes a pool's limit from the latest request. Returns whether it has changed.
    pub(super) fn set_limit(&mut self, name: &Name, mode: Mode) -> bool {
        let (Mode::Permits { limit, .. }, Some(share)) = (mode, self.shares.get_mut(name)) else { return false };
        share.limit.replace(limit) != Some(limit)
    }

    /// The token of a lock that writes nothing.
    pub(super) fn seen_number(&mut self, now: Duration) -> u64 {
        match self.counter {
            Some(counter) if counter >= PER_MS => counter,
            _ => self.next_number(now),
        }
    }
}
