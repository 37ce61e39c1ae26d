//! Extends locks.

use std::time::Duration;

use pinyon_proto::resp::Value;

use super::replies::is_of;
use super::shared::{Now, Seen};
use super::{milliseconds, parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn extend(
        &self,
        held: &[(Attempt, Names, Duration)],
        (holders, sets): (&[Option<Holder>], &[Value]),
        now: Now,
        acts: &mut Acts,
    ) -> Then {
        let (mut at, mut set) = (0, 0);
        let mut each = Vec::with_capacity(held.len());
        for (attempt, names, ttl) in held {
            let holders = &holders[at..at + names.len()];
            at += names.len();
            if names.are_shared() {
                let seen = Seen::all(names, holders, &sets[set..set + names.len()], now);
                set += names.len();
                each.push(self.extend_parts(attempt, *ttl, &seen, now, acts));
                continue;
            }
            let is_held = holders.iter().all(|holder| is_of(holder, attempt));
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
