//! Takes over a lock whose answer was lost: it draws another token.

use std::time::Duration;

use super::replies::is_of;
use super::{parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn poll(
        &self,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        holders: &[Option<Holder>],
        acts: &mut Acts,
    ) -> Then {
        if !holders.iter().all(|holder| is_of(holder, attempt)) {
            return Then::ScriptAnswer(ScriptAnswer::Unknown);
        }
        let drawn = acts.commands.len();
        acts.commands.push(parts(&[b"INCR", &self.keys.counter()]));
        self.prolong(names, ttl, acts);
        Then::Token(drawn)
    }
}
