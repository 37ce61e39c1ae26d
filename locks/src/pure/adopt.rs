//! Takes a lock over from the attempt that was handed over.

use std::time::Duration;

use super::replies::is_of;
use super::{milliseconds, parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn adopt(
        &self,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        from: &Attempt,
        holders: &[Option<Holder>],
        acts: &mut Acts,
    ) -> Then {
        let are_of = |attempt: &Attempt| holders.iter().all(|holder| is_of(holder, attempt));
        if are_of(attempt) {
            // The reply to an earlier try was lost. As with a poll, another token is drawn.
            return self.poll(attempt, names, ttl, holders, acts);
        }
        if !are_of(from) {
            return Then::ScriptAnswer(ScriptAnswer::NotHeld);
        }
        let drawn = acts.commands.len();
        acts.commands.push(parts(&[b"INCR", &self.keys.counter()]));
        let (value, ttl) = (attempt.to_string(), milliseconds(ttl));
        for name in names.iter() {
            acts.commands.push(parts(&[b"SET", &self.keys.lock(name), value.as_bytes(), b"PX", &ttl]));
        }
        acts.messages.push(parts(&[b"PUBLISH", &self.keys.freed(), &names.join(&0)]));
        Then::Token(drawn)
    }
}
