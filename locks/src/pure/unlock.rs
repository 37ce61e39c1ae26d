//! Releases names, or keeps them locked for a while although nobody holds them.

use std::time::Duration;

use super::replies::is_of;
use super::{milliseconds, parts, with_each, Acts, Pure, Stage, Then};
use crate::call::{Attempt, Call, Holder, Name, Names, ScriptAnswer};
use crate::names::joined;

impl Pure {
    pub(super) fn unlock(
        &self,
        attempt: &Attempt,
        names: &Names,
        rest: Option<Duration>,
        holders: &[Option<Holder>],
        acts: &mut Acts,
    ) -> Then {
        let has_all = holders.iter().all(|holder| is_of(holder, attempt));
        if let Some(rest) = rest.filter(|_| has_all) {
            return self.keep_locked(attempt, names, rest, holders, acts);
        }
        let mine = names.iter().zip(holders).filter(|(_, holder)| is_of(holder, attempt));
        let released = self.delete(mine.map(|(name, _)| name.clone()).collect(), acts);
        Then::ScriptAnswer(ScriptAnswer::Released { released })
    }

    /// Leaves the names to nobody for `rest`. Their waiters ask again, and learn how long that is.
    fn keep_locked(
        &self,
        attempt: &Attempt,
        names: &Names,
        rest: Duration,
        holders: &[Option<Holder>],
        acts: &mut Acts,
    ) -> Then {
        let (kept, rest) = (attempt.kept(), milliseconds(rest.max(Duration::from_millis(1))));
        for (name, holder) in names.iter().zip(holders) {
            let token = holder.as_ref().and_then(|holder| holder.token);
            let value = token.map_or_else(|| kept.to_string(), |token| format!("{kept} {token}"));
            acts.commands.push(parts(&[b"SET", &self.keys.lock(name), value.as_bytes(), b"PX", &rest]));
        }
        acts.messages.push(parts(&[b"PUBLISH", &self.keys.freed(), &names.join(&0)]));
        Then::ScriptAnswer(ScriptAnswer::Released { released: names.len() })
    }

    /// Deletes the keys of the names and tells their waiters. Returns the number of keys.
    pub(super) fn delete(&self, names: Vec<Name>, acts: &mut Acts) -> usize {
        if names.is_empty() {
            return 0;
        }
        let keys: Vec<Vec<u8>> = names.iter().map(|name| self.keys.lock(name)).collect();
        acts.commands.push(with_each(b"DEL", &keys));
        acts.messages.push(parts(&[b"PUBLISH", &self.keys.freed(), &joined(&names)]));
        names.len()
    }

    /// Drops calls that take names for an attempt that was given up, if they have not begun.
    pub(super) fn cancel(&mut self, attempt: &Attempt) {
        let is_cancelled = |call: &Call| call.taker() == Some(attempt);
        let cancelled = self.held_back.iter().chain(&self.gathered).filter(|(_, call)| is_cancelled(call));
        self.answers.extend(cancelled.map(|(id, _)| (*id, Ok(ScriptAnswer::Cancelled))));
        self.held_back.retain(|(_, call)| !is_cancelled(call));
        self.gathered.retain(|(_, call)| !is_cancelled(call));
    }

    /// Whether the call takes names for an attempt whose unlock has begun. Sent again, it would run after the unlock.
    pub(super) fn is_given_up(&self, call: &Call) -> bool {
        let Some(attempt) = call.taker() else { return false };
        let sections = self.jobs.values().flat_map(|job| match &job.stage {
            Stage::Watch { calls } | Stage::Commit { calls, .. } => &calls[..],
            _ => &[],
        });
        let gives_up = |call: &Call| matches!(call, Call::Unlock { attempt: of, .. } if of == attempt);
        sections.chain(&self.gathered).any(|(_, call)| gives_up(call))
    }
}
