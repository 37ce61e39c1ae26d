//! Takes all names or none: in one transaction, whether or not they are free.

use std::time::Duration;

use pinyon_proto::resp::{Command, ServerError, Value};

use super::replies::{executed, holders, is_of, positive, token_if_taken, unexpected, was_carried_out};
use super::{milliseconds, parts, Acts, Pure, Stage, Then, NOBODY};
use crate::call::{Attempt, Call, Holder, Names, ScriptAnswer};

impl Pure {
    /// Whether one transaction can take it without reading first.
    pub(super) fn takes_at_once(&self, call: &Call) -> bool {
        matches!(call, Call::Lock { names, .. } if !names.are_shared() && (names.len() == 1 || self.expire_nx))
    }

    pub(super) fn take(&mut self, id: u64, call: Call) {
        let mut commands = vec![parts(&[b"MULTI"])];
        commands.extend(self.taking(&call));
        commands.push(parts(&[b"EXEC"]));
        self.send(Stage::Take { id, call }, commands);
    }

    /// The commands that draw a token and then take the names.
    pub(super) fn taking(&self, call: &Call) -> Vec<Command> {
        let Call::Lock { attempt, names, ttl, .. } = call else { return Vec::new() };
        let (value, ttl) = (attempt.to_string(), milliseconds(*ttl));
        let counter = parts(&[b"INCR", &self.keys.counter()]);
        if let [name] = &names[..] {
            return vec![counter, parts(&[b"SET", &self.keys.lock(name), value.as_bytes(), b"NX", b"PX", &ttl])];
        }
        let mut set = parts(&[b"MSETNX"]);
        for name in names.iter() {
            set.push(self.keys.lock(name));
            set.push(&value);
        }
        let mut commands = vec![counter, set];
        commands.extend(names.iter().map(|name| parts(&[b"PEXPIRE", &self.keys.lock(name), &ttl, b"NX"])));
        commands
    }

    pub(super) fn taken(&mut self, id: u64, call: Call, replies: Vec<Value>) {
        let halfway = was_carried_out(&replies);
        match executed(replies) {
            Err(error) => self.not_taken(id, call, halfway, error),
            Ok(results) => match token_if_taken(&results) {
                Some(token) => self.granted(id, call, token),
                None if self.is_given_up(&call) => self.answers.push((id, Ok(ScriptAnswer::Cancelled))),
                None if self.watching => self.held_back.push_back((id, call)),
                None => self.take_or_tell(id, call),
            },
        }
    }

    /// Releases all names after a transaction failed halfway, since the server does not roll back.
    pub(super) fn not_taken(&mut self, id: u64, call: Call, halfway: bool, error: ServerError) {
        if let (Call::Lock { attempt, names, .. }, true) = (call, halfway) {
            self.gathered.push((NOBODY, Call::Unlock { attempt, names, tombstone: false, rest: None }));
        }
        self.answers.push((id, Err(error)));
    }

    /// Hands out the token. If the counter was lost, raises it first, and the lock draws another token.
    pub(super) fn granted(&mut self, id: u64, call: Call, token: u64) {
        if token > self.highest {
            self.highest = token;
            return self.answers.push((id, Ok(ScriptAnswer::Granted { token })));
        }
        let Call::Lock { attempt, names, ttl, .. } = call else { return };
        self.gathered.push((NOBODY, Call::Open { seen: self.highest }));
        self.gathered.push((id, Call::Poll { attempt, names, ttl, nested: false }));
    }

    pub(super) fn take_or_tell(&mut self, id: u64, call: Call) {
        let Call::Lock { names, wait, .. } = &call else { return };
        if *wait {
            let ttl = milliseconds(self.waiter_ttl);
            self.send(Stage::Aside, vec![parts(&[b"SET", &self.keys.pure_waiters(), b"1", b"PX", &ttl])]);
        }
        let mut commands = vec![parts(&[b"MULTI"])];
        commands.extend(self.taking(&call));
        commands.push(self.values_of(names));
        commands.extend(names.iter().map(|name| parts(&[b"PTTL", &self.keys.lock(name)])));
        commands.push(parts(&[b"EXEC"]));
        self.send(Stage::TakeOrTell { id, call }, commands);
    }

    pub(super) fn taken_or_told(&mut self, id: u64, call: Call, replies: Vec<Value>) {
        let halfway = was_carried_out(&replies);
        let results = match executed(replies) {
            Err(error) => return self.not_taken(id, call, halfway, error),
            Ok(results) => results,
        };
        if let Some(token) = token_if_taken(&results) {
            return self.granted(id, call, token);
        }
        let Call::Lock { attempt, names, ttl, .. } = call else { return };
        let Some(at) = results.len().checked_sub(names.len() + 1) else {
            return self.answers.push((id, Err(unexpected(&results))));
        };
        let values = holders(&results[at]);
        if values.iter().all(|holder| is_of(holder, &attempt)) {
            // The reply to an earlier try was lost.
            return self.gathered.push((id, Call::Poll { attempt, names, ttl, nested: false }));
        }
        let pttl = results[at + 1..].iter().filter_map(positive).min();
        let holder = values.into_iter().flatten().next();
        self.answers.push((id, Ok(ScriptAnswer::busy(pttl, holder))));
    }

    /// Takes the names within a section.
    pub(super) fn lock_if_free(
        &self,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        are_free: bool,
        holders: Vec<Option<Holder>>,
        acts: &mut Acts,
    ) -> Then {
        if !are_free {
            let holder = holders.into_iter().flatten().next();
            return Then::ScriptAnswer(ScriptAnswer::busy(None, holder));
        }
        let drawn = acts.commands.len();
        acts.commands.push(parts(&[b"INCR", &self.keys.counter()]));
        let (value, ttl) = (attempt.to_string(), milliseconds(ttl));
        for name in names.iter() {
            acts.commands.push(parts(&[b"SET", &self.keys.lock(name), value.as_bytes(), b"PX", &ttl]));
        }
        Then::Token(drawn)
    }
}
