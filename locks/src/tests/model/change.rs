//! Gives a held lock other modes of its names.

use std::time::Duration;

use super::queue::{Class, Waiter};
use super::run::Run;
use super::{Attempt, Holder, Mode, Name, Names, ScriptAnswer};

impl Run<'_> {
    pub(super) fn change(
        &mut self,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        wait: bool,
        seen: u64,
    ) -> ScriptAnswer {
        let before = self.model.queue.waiter(attempt).filter(|waiter| waiter.upgrades).cloned();
        if !self.model.holds(attempt, names) {
            self.drop_upgrade(&before);
            self.grant(&[]);
            return ScriptAnswer::NotHeld;
        }
        let token = |name: &Name| self.model.locks.get(name).map(|lock| lock.holder.token.unwrap_or(0));
        let writes_on = |name: &Name, mode| mode == Mode::Write || token(name).is_some_and(|token| token > seen);
        let written: Vec<Name> =
            names.each().filter(|(name, mode)| writes_on(name, *mode)).map(|(name, _)| name.clone()).collect();
        let old = written.iter().filter_map(token).max().unwrap_or(0);
        let gains = written.iter().any(|name| token(name).is_none());
        let others = written.iter().filter_map(|name| self.model.others_end(attempt, name)).max();
        let (written, at_once) = (Names::from(written), gains && others.is_none());

        let mut read = Vec::new();
        for (name, mode) in names.each() {
            let (is_written, is_held) = (written.contains(name), self.model.locks.contains_key(name));
            if is_written && (at_once || is_held) {
                if !at_once {
                    self.model.prolong(self.now, attempt, &[name.clone()].into(), ttl);
                }
                continue;
            }
            if is_held {
                self.model.locks.remove(name);
                read.push(name.clone());
            }
            let mode = if mode == Mode::Write { Mode::Read } else { mode };
            self.model.join(self.now, name, attempt, mode, ttl);
        }
        self.make_due(&read);
        let answer = match others {
            _ if at_once => {
                if before.is_some() {
                    self.forget(attempt);
                }
                let token = self.model.next_number(self.now);
                let ttl = self.lasting(&self.upgrade(attempt, &written, ttl, 0));
                self.occupy(attempt, &written, ttl, token);
                ScriptAnswer::Granted { token }
            }
            None => {
                self.drop_upgrade(&before);
                ScriptAnswer::Granted { token: old }
            }
            Some((ends, other)) if !wait => {
                self.drop_upgrade(&before);
                let holder = Some(Holder { attempt: other, token: None });
                ScriptAnswer::busy(Some(ends - self.now), holder)
            }
            Some((ends, _)) => self.wait_to_write(attempt, &written, ttl, before, ends - self.now),
        };
        self.grant(&[]);
        self.announce(&read);
        self.token.map_or(answer, |token| ScriptAnswer::Granted { token })
    }

    fn wait_to_write(
        &mut self,
        attempt: &Attempt,
        written: &Names,
        ttl: Duration,
        before: Option<Waiter>,
        pttl: Duration,
    ) -> ScriptAnswer {
        if let Some(cycle) = self.cycle(attempt, written) {
            self.drop_upgrade(&before);
            return ScriptAnswer::Deadlock { cycle };
        }
        let ticket = match &before {
            Some(waiter) => {
                self.forget(attempt);
                waiter.ticket
            }
            None => self.model.next_number(self.now),
        };
        let (waiter, now, keep) =
            (self.upgrade(attempt, written, ttl, ticket), self.now, self.model.waiter_ttl.min(ttl));
        self.add_members(&waiter, keep);
        self.model.queue.save(&waiter, now, keep);
        if before.is_none() {
            self.sweep(ticket);
        }
        ScriptAnswer::Queued { pttl: Some(pttl) }
    }

    fn upgrade(&self, attempt: &Attempt, names: &Names, ttl: Duration, ticket: u64) -> Waiter {
        let expiry = self.now + self.model.waiter_ttl.min(ttl);
        let (attempt, names, class) = (attempt.clone(), names.clone(), Class::Nested);
        Waiter { attempt, names, ttl, expiry, ticket, class, parked: false, upgrades: true }
    }

    fn drop_upgrade(&mut self, before: &Option<Waiter>) {
        if let Some(waiter) = before {
            self.drop(&waiter.attempt);
        }
    }

    /// The ttl of what a waiter is given. Who holds it already may have extended it meanwhile.
    pub(super) fn lasting(&self, waiter: &Waiter) -> Duration {
        let ends = |name: &Name| {
            let part = self.model.part_ends(&waiter.attempt, name);
            part.or_else(|| self.model.locks.get(name).map(|lock| lock.expires))
        };
        let held = waiter.names.iter().filter(|_| waiter.upgrades).filter_map(ends);
        held.map(|ends| ends - self.now).fold(waiter.ttl, Duration::max)
    }
}
