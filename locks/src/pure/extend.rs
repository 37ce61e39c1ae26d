//! Extends locks.

use std::time::Duration;

use super::replies::is_of;
use super::{milliseconds, parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn extend(
        &self,
        held: &[(Attempt, Names, Duration)],
        holders: &[Option<Holder>],
        acts: &mut Acts,
    ) -> Then {
        let mut at = 0;
        let mut each = Vec::with_capacity(held.len());
        for (attempt, names, ttl) in held {
            let is_held = holders[at..at + names.len()].iter().all(|holder| is_of(holder, attempt));
            at += names.len();
            each.push(is_held);
            if is_held {
                self.prolong(names, *ttl, acts);
            }
        }
        Then::ScriptAnswer(ScriptAnswer::Extended(each))
    }

    pub(super) fn prolong(&self, names: &Names, ttl: Duration, acts: &mut Acts) {
        let ttl = milliseconds(ttl);
        acts.commands.extend(names.iter().map(|name| parts(&[b"PEXPIRE", &self.keys.lock(name), &ttl])));
    }
}
