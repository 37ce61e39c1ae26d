//! Releases names.

use super::replies::is_of;
use super::{parts, with_each, Acts, Pure, Stage, Then};
use crate::call::{Attempt, Call, Holder, Name, Names, ScriptAnswer};
use crate::names::joined;

impl Pure {
    pub(super) fn unlock(&self, attempt: &Attempt, names: &Names, holders: &[Option<Holder>], acts: &mut Acts) -> Then {
        let mine = names.iter().zip(holders).filter(|(_, holder)| is_of(holder, attempt));
        let released = self.delete(mine.map(|(name, _)| name.clone()).collect(), acts);
        Then::ScriptAnswer(ScriptAnswer::Released { released })
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
