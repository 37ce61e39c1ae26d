//! Takes names of which some are shared, or waits for them.

use std::time::Duration;

use super::queue::{Class, Member};
use super::run::{Head, Run};
use super::{Attempt, Mode, Name, Names, ScriptAnswer};

impl Run<'_> {
    pub fn share(&mut self, attempt: &Attempt, names: &Names, ttl: Duration, wait: bool, nested: bool) -> ScriptAnswer {
        if let Some(answer) = self.standing(attempt, names, ttl) {
            return answer;
        }
        for (name, mode) in names.each() {
            let left = self.model.give_up(attempt, &[name.clone()].into());
            self.make_due(&left);
            if self.model.set_limit(name, mode) {
                self.make_due(std::slice::from_ref(name));
            }
        }
        let in_order = !nested && !self.model.throughput;
        if in_order && self.anyone_waits(names) {
            self.grant(names);
        }
        let answer = if self.finds_room(attempt, names, in_order) {
            let token = self.token_for(names);
            self.occupy(attempt, names, ttl, token);
            ScriptAnswer::Granted { token }
        } else if !wait {
            self.busy(names, self.soonest_shared(names))
        } else {
            let pttl = self.soonest_shared(names);
            match nested.then(|| self.cycle(attempt, names)).flatten() {
                Some(cycle) => ScriptAnswer::Deadlock { cycle },
                None => {
                    self.enqueue(attempt, names, ttl, if nested { Class::Nested } else { Class::Plain });
                    ScriptAnswer::Queued { pttl }
                }
            }
        };
        self.grant(&[]);
        self.token.map_or(answer, |token| ScriptAnswer::Granted { token })
    }

    pub(super) fn token_for(&mut self, names: &Names) -> u64 {
        match names.are_written() {
            true => self.model.next_number(self.now),
            false => self.model.seen_number(self.now),
        }
    }

    /// Gives the names to the attempt.
    pub(super) fn occupy(&mut self, attempt: &Attempt, names: &Names, ttl: Duration, token: u64) {
        self.model.hold(self.now, attempt, names, ttl, token);
        self.taken.extend(names.each().filter(|(_, mode)| *mode == Mode::Write).map(|(name, _)| name.clone()));
    }

    /// Whether there is room at each name and, if `in_order`, it is the attempt's turn. A newcomer's turn is after those
    /// that wait.
    pub(super) fn finds_room(&mut self, attempt: &Attempt, names: &Names, in_order: bool) -> bool {
        names.each().all(|(name, mode)| {
            !self.taken.contains(name)
                && self.model.has_room(name, mode)
                && (!in_order || self.is_in_turn(attempt, name, mode))
        })
    }

    fn is_in_turn(&mut self, attempt: &Attempt, name: &Name, mode: Mode) -> bool {
        if mode == Mode::Read {
            return self.only_readers_before(attempt, name);
        }
        match self.head(name) {
            Head::Nobody => true,
            Head::First(first) => first == *attempt,
            Head::Unknown => false,
        }
    }

    fn only_readers_before(&mut self, attempt: &Attempt, name: &Name) -> bool {
        let members: Vec<Member> = self.model.queue.of(name).cloned().collect();
        for member in members {
            if self.budget <= 0 {
                return false;
            }
            let is_live = self.is_live(&member);
            if is_live && member.attempt == *attempt {
                return true;
            }
            if is_live && !self.reads(&member) {
                return false;
            }
        }
        true
    }

    fn reads(&self, member: &Member) -> bool {
        self.waiter(&member.attempt).names.mode_of(&member.name) == Some(Mode::Read)
    }

    /// Tries the waiters for a name that several can have, in their order. A reader that waits for other names, too,
    /// lets the readers behind it pass; others let nobody pass.
    pub(super) fn try_in_turn(&mut self, name: &Name) {
        loop {
            let mut granted = 0;
            let members: Vec<Member> = self.model.queue.of(name).take(64).cloned().collect();
            for member in members {
                if self.budget <= 0 {
                    return;
                }
                if !self.is_live(&member) {
                    continue;
                }
                let reads = self.reads(&member);
                if self.try_one(&member.attempt) {
                    if self.taken.contains(name) {
                        return;
                    }
                    granted += 1;
                } else if member.class == Class::Plain && !reads {
                    return;
                }
            }
            if granted == 0 {
                return;
            }
        }
    }

    /// Those who keep a waiter from this name, if they hold it. That all permits are taken is no cycle.
    pub(super) fn in_the_way(&self, name: &Name, mode: Mode) -> Vec<Attempt> {
        let readers = self.model.shares.get(name).filter(|_| mode == Mode::Write);
        let holder = self.model.holder(name).cloned();
        holder.into_iter().chain(readers.into_iter().flat_map(|share| share.holders())).collect()
    }

    /// The time until some of the names may be free.
    pub(super) fn soonest_shared(&self, names: &Names) -> Option<Duration> {
        let ends =
            names.each().filter_map(|(name, mode)| match (self.model.locks.get(name), self.model.shares.get(name)) {
                (Some(lock), _) => Some(lock.expires),
                (None, Some(share)) if mode == Mode::Read || mode == Mode::Write => share.ends_last(),
                (None, Some(share)) => share.ends_first(),
                (None, None) => None,
            });
        ends.min().map(|ends| ends - self.now)
    }
}
