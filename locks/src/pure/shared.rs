//! Names that several locks have at once, by plain commands: the sorted sets that the functions use.
//!
//! A section reads the sets of its calls under `WATCH`, with the server's clock, and its transaction writes them.

use std::time::Duration;

use pinyon_proto::resp::{Command, Value};

use super::replies::number;
use super::{milliseconds, parts, with_each, Acts, Pure, Then};
use crate::call::{Attempt, Call, Holder, Mode, Name, Names, ScriptAnswer};
use crate::names::joined;

/// More than any time in milliseconds; a pool's limit is added.
const BEYOND: u64 = 1 << 52;
const LIMIT: &[u8] = b"#";

/// What a section has read of one name.
pub(super) struct Seen<'v> {
    pub(super) name: &'v Name,
    pub(super) mode: Mode,
    /// The holder of the name, if it is written.
    pub(super) holder: Option<&'v Holder>,
    /// The members of its set that are not over, and when they end.
    pub(super) members: Vec<(&'v [u8], u64)>,
}

/// The time of a section, in milliseconds of the server's clock.
pub(super) type Now = u64;

impl<'v> Seen<'v> {
    pub(super) fn all(names: &'v Names, holders: &'v [Option<Holder>], sets: &'v [Value], now: Now) -> Vec<Self> {
        let all = names.each().zip(holders).zip(sets);
        all.map(|(((name, mode), holder), set)| {
            let members = members(set).into_iter().filter(|(_, ends)| (now..BEYOND).contains(ends)).collect();
            Self { name, mode, holder: holder.as_ref(), members }
        })
        .collect()
    }

    fn has_room(&self) -> bool {
        match self.mode {
            _ if self.holder.is_some() => false,
            Mode::Write => self.members.is_empty(),
            Mode::Read => true,
            Mode::Permits { count, limit } => self.members.len() + count as usize <= limit as usize,
        }
    }

    fn is_of(&self, attempt: &Attempt, own: &[Vec<u8>]) -> bool {
        let has = |part: &Vec<u8>| self.members.iter().any(|(member, _)| member == part);
        self.holder.is_some_and(|holder| holder.attempt == *attempt) || self.mode != Mode::Write && own.iter().all(has)
    }

    /// The time until there may be room, if it is known.
    fn ends(&self) -> Option<u64> {
        let ends = self.members.iter().map(|(_, ends)| *ends);
        if self.mode == Mode::Write {
            ends.max()
        } else {
            ends.min()
        }
    }
}

/// The members and scores in a reply to `ZRANGE … WITHSCORES`: in one list, or as pairs.
pub(super) fn members(set: &Value) -> Vec<(&[u8], u64)> {
    let Value::Array(items) = set else { return Vec::new() };
    let flat = items.iter().flat_map(|item| match item {
        Value::Array(pair) => &pair[..],
        _ => std::slice::from_ref(item),
    });
    flat.collect::<Vec<_>>()
        .chunks_exact(2)
        .filter_map(|pair| match pair[0] {
            Value::Bytes(member) => Some((&**member, whole(pair[1])?)),
            _ => None,
        })
        .collect()
}

/// How many of a pool's permits are taken, and its limit.
pub(super) fn permits(set: &Value) -> Option<(u32, u32)> {
    let members = members(set);
    let (_, limit) = members.iter().find(|(member, _)| *member == LIMIT)?;
    Some((members.len() as u32 - 1, limit.saturating_sub(BEYOND) as u32))
}

fn whole(score: &Value) -> Option<u64> {
    match score {
        Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse::<f64>().ok().map(|score| score as u64),
        Value::Double(score) => Some(*score as u64),
        _ => number(score),
    }
}

/// The attempt in a member.
pub(super) fn attempt_in(member: &[u8]) -> Option<Attempt> {
    member.split(|byte| *byte == b' ').next().and_then(Attempt::parse)
}

pub(super) fn own(attempt: &Attempt, mode: Mode) -> Vec<Vec<u8>> {
    match mode {
        Mode::Permits { count, .. } => (1..=count).map(|part| format!("{attempt} {part}").into_bytes()).collect(),
        _ => vec![attempt.to_string().into_bytes()],
    }
}

/// Whether the attempt has each of these.
fn has_all(attempt: &Attempt, seen: &[Seen<'_>]) -> bool {
    seen.iter().all(|one| one.is_of(attempt, &own(attempt, one.mode)))
}

impl Pure {
    /// The names whose sets a section reads.
    pub(super) fn sets_of(call: &Call) -> Vec<&Name> {
        match call {
            Call::Unlock { names, .. } | Call::Poll { names, .. } if names.are_shared() => names.iter().collect(),
            Call::Lock { names, .. } | Call::Change { names, .. } | Call::ForceRelease { names, .. } => {
                names.iter().collect()
            }
            Call::Extend { held } => {
                held.iter().filter(|(_, names, _)| names.are_shared()).flat_map(|(_, names, _)| names.iter()).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn set(&self, name: &[u8]) -> Command {
        parts(&[b"ZRANGE", &self.keys.lock(name), b"0", b"-1", b"WITHSCORES"])
    }

    pub(super) fn share(
        &self,
        (attempt, ttl, wait): (&Attempt, Duration, bool),
        seen: &[Seen<'_>],
        (counter, now): (u64, Now),
        acts: &mut Acts,
    ) -> Then {
        if has_all(attempt, seen) {
            return self.keep(attempt, ttl, seen, (counter, now), acts);
        }
        if !seen.iter().all(Seen::has_room) {
            if wait {
                let ttl = milliseconds(self.waiter_ttl);
                acts.asides.push(parts(&[b"SET", &self.keys.pure_waiters(), b"1", b"PX", &ttl]));
            }
            let holder = seen.iter().find_map(|one| {
                let sharing = || Some(Holder { attempt: attempt_in(one.members.first()?.0)?, token: None });
                one.holder.cloned().or_else(sharing)
            });
            let ends = seen.iter().filter(|one| !one.has_room()).filter_map(Seen::ends).min();
            let pttl = ends.map(|ends| Duration::from_millis(ends - now));
            return Then::ScriptAnswer(ScriptAnswer::busy(pttl, holder));
        }
        let drawn = self.draw(seen, counter, acts);
        for one in seen {
            match one.mode {
                Mode::Write => {
                    let (value, ttl) = (attempt.to_string(), milliseconds(ttl));
                    let set = [b"SET", &self.keys.lock(one.name)[..], value.as_bytes(), b"PX", &ttl];
                    acts.commands.push(parts(&set));
                }
                Mode::Read => self.join(attempt, ttl, one, None, now, acts),
                Mode::Permits { limit, .. } => self.join(attempt, ttl, one, Some(limit), now, acts),
            }
        }
        Then::Token(drawn)
    }

    /// Extends what the attempt has, which is all of it.
    pub(super) fn keep(
        &self,
        attempt: &Attempt,
        ttl: Duration,
        seen: &[Seen<'_>],
        (counter, now): (u64, Now),
        acts: &mut Acts,
    ) -> Then {
        let drawn = self.draw(seen, counter, acts);
        self.prolong_parts(attempt, ttl, seen, now, acts);
        Then::Token(drawn)
    }

    pub(super) fn extend_parts(
        &self,
        attempt: &Attempt,
        ttl: Duration,
        seen: &[Seen<'_>],
        now: Now,
        acts: &mut Acts,
    ) -> bool {
        let held = has_all(attempt, seen);
        if held {
            self.prolong_parts(attempt, ttl, seen, now, acts);
        }
        held
    }

    pub(super) fn poll_shared(
        &self,
        attempt: &Attempt,
        ttl: Duration,
        seen: &[Seen<'_>],
        at: (u64, Now),
        acts: &mut Acts,
    ) -> Then {
        match has_all(attempt, seen) {
            true => self.keep(attempt, ttl, seen, at, acts),
            false => Then::ScriptAnswer(ScriptAnswer::Unknown),
        }
    }

    pub(super) fn leave(&self, attempt: &Attempt, seen: &[Seen<'_>], acts: &mut Acts) -> Then {
        let mut freed: Vec<Name> = Vec::new();
        for one in seen {
            let (key, own) = (self.keys.lock(one.name), own(attempt, one.mode));
            if !one.is_of(attempt, &own) {
                continue;
            }
            freed.push(one.name.clone());
            let others = one.members.iter().filter(|(member, _)| !own.iter().any(|part| part == member));
            match others.map(|(_, ends)| *ends).max() {
                Some(last) if one.holder.is_none() => {
                    acts.commands.push(with_each(b"ZREM", &[std::slice::from_ref(&key), &own[..]].concat()));
                    acts.commands.push(parts(&[b"PEXPIREAT", &key, last.to_string().as_bytes()]));
                }
                _ => acts.commands.push(parts(&[b"DEL", &key])),
            }
        }
        if !freed.is_empty() {
            acts.messages.push(parts(&[b"PUBLISH", &self.keys.freed(), &joined(&freed)]));
        }
        Then::ScriptAnswer(ScriptAnswer::Released { released: freed.len() })
    }

    /// Draws a token if anything is written, or else looks at the last one. Returns the place of the reply.
    fn draw(&self, seen: &[Seen<'_>], counter: u64, acts: &mut Acts) -> usize {
        let written = seen.iter().any(|one| one.mode == Mode::Write);
        let draw: &[u8] = if written || counter == 0 { b"INCR" } else { b"GET" };
        acts.commands.push(parts(&[draw, &self.keys.counter()]));
        acts.commands.len() - 1
    }

    fn prolong_parts(&self, attempt: &Attempt, ttl: Duration, seen: &[Seen<'_>], now: Now, acts: &mut Acts) {
        for one in seen {
            match one.holder {
                Some(_) => acts.commands.push(parts(&[b"PEXPIRE", &self.keys.lock(one.name), &milliseconds(ttl)])),
                // The pool has a limit, which may be a later one.
                None => self.join(attempt, ttl, one, None, now, acts),
            }
        }
    }

    /// Adds the attempt, or extends its part. With a `limit`, that is the pool's from now on.
    pub(super) fn join(
        &self,
        attempt: &Attempt,
        ttl: Duration,
        one: &Seen<'_>,
        limit: Option<u32>,
        now: Now,
        acts: &mut Acts,
    ) {
        let (key, own, ends) =
            (self.keys.lock(one.name), own(attempt, one.mode), now.saturating_add(ttl.as_millis() as u64));
        let mut add = parts(&[b"ZADD", &key]);
        for part in &own {
            add.push(ends.to_string());
            add.push(part);
        }
        if let Some(limit) = limit {
            add.push((BEYOND + u64::from(limit)).to_string());
            add.push(LIMIT);
        }
        let others = one.members.iter().filter(|(member, _)| !own.iter().any(|part| part == member));
        let last = others.map(|(_, ends)| *ends).max().map_or(ends, |last| last.max(ends));
        acts.commands.push(parts(&[b"ZREMRANGEBYSCORE", &key, b"-inf", format!("({now}").as_bytes()]));
        acts.commands.push(add);
        acts.commands.push(parts(&[b"PEXPIREAT", &key, last.to_string().as_bytes()]));
    }
}
