//! Gives a held lock other modes of its names. One that is to write what others read tries again when they have gone.

use std::time::Duration;

use super::shared::{attempt_in, own, Now, Seen};
use super::{milliseconds, parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Mode, Name, ScriptAnswer};
use crate::names::joined;

impl Pure {
    pub(super) fn change(
        &self,
        (attempt, ttl, wait): (&Attempt, Duration, bool),
        seen: &[Seen<'_>],
        now: Now,
        acts: &mut Acts,
    ) -> Then {
        if !seen.iter().all(|one| has(attempt, one)) {
            return Then::ScriptAnswer(ScriptAnswer::NotHeld);
        }
        let gains = |one: &&Seen<'_>| one.mode == Mode::Write && one.holder.is_none();
        let me = attempt.to_string();
        let others = seen.iter().filter(gains).flat_map(|one| &one.members);
        let last = others.filter(|(member, _)| *member != me.as_bytes()).max_by_key(|(_, ends)| *ends);
        if let Some((other, ends)) = last {
            return self.wait_for_readers(other, Duration::from_millis(ends - now), wait, acts);
        }
        let (expires, mut read) = (milliseconds(ttl), Vec::<Name>::new());
        let token = seen.iter().any(|one| gains(&one)).then(|| {
            acts.commands.push(parts(&[b"INCR", &self.keys.counter()]));
            acts.commands.len() - 1
        });
        for one in seen {
            let key = self.keys.lock(one.name);
            match (one.mode, one.holder) {
                (Mode::Write, Some(_)) => acts.commands.push(parts(&[b"PEXPIRE", &key, &expires])),
                (Mode::Write, None) => acts.commands.push(parts(&[b"SET", &key, me.as_bytes(), b"PX", &expires])),
                (_, None) => self.join(attempt, ttl, one, None, now, acts),
                (_, Some(_)) => {
                    acts.commands.push(parts(&[b"DEL", &key]));
                    self.join(attempt, ttl, one, None, now, acts);
                    read.push(one.name.clone());
                }
            }
        }
        if !read.is_empty() {
            acts.messages.push(parts(&[b"PUBLISH", &self.keys.freed(), &joined(&read)]));
        }
        token.map_or(Then::ScriptAnswer(ScriptAnswer::Granted { token: 0 }), Then::Token)
    }

    fn wait_for_readers(&self, other: &[u8], pttl: Duration, wait: bool, acts: &mut Acts) -> Then {
        if wait {
            let ttl = milliseconds(self.waiter_ttl);
            acts.asides.push(parts(&[b"SET", &self.keys.pure_waiters(), b"1", b"PX", &ttl]));
        }
        let holder = attempt_in(other).map(|attempt| Holder { attempt, token: None });
        Then::ScriptAnswer(ScriptAnswer::busy(Some(pttl), holder))
    }
}

/// Whether the attempt has the name, in whatever mode.
fn has(attempt: &Attempt, one: &Seen<'_>) -> bool {
    let is_there = |part: &Vec<u8>| one.members.iter().any(|(member, _)| member == part);
    match one.holder {
        Some(holder) => holder.attempt == *attempt,
        None => own(attempt, one.mode).iter().all(is_there),
    }
}
