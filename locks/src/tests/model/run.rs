//! One call's view of the queue: which waiter is next, and what happens to the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::queue::{owner, Class, Member, Waiter};
use super::{place_of, rank_of, Attempt, FirstHolder, Holder, Model, Name, Names, Push, Pushed, ScriptAnswer};

/// The work that one call may spend on the queue.
const BUDGET: i64 = 2500;
/// How many waiters are examined for one name, if they are nested or throughput has priority.
const NESTED_LOOK: usize = 64;
const THROUGHPUT_LOOK: usize = 16;
/// How many waiters are told at once that the lock in their way ends earlier than they know.
const TOLD: usize = 64;
/// One in so many tickets sweeps.
const SWEEP: u64 = 16;
/// How many owners a search for a cycle visits.
const OWNERS: usize = 1000;

pub(super) struct Run<'a> {
    pub(super) model: &'a mut Model,
    pub(super) now: Duration,
    /// The attempt that gets an answer rather than a push, and its token once it is granted.
    answered: Option<Attempt>,
    pub(super) token: Option<u64>,
    /// The ttl of the lock that this call ends.
    before: Duration,
    pub(super) budget: i64,
    heads: BTreeMap<Name, Option<Attempt>>,
    failed: BTreeSet<Attempt>,
    pub(super) taken: BTreeSet<Name>,
    due: Vec<Name>,
    is_due: BTreeSet<Name>,
}

/// The first live waiter for a name.
#[derive(PartialEq)]
pub(super) enum Head {
    Nobody,
    First(Attempt),
    /// The budget is used up.
    Unknown,
}

impl<'a> Run<'a> {
    pub fn new(model: &'a mut Model, now: Duration, answered: Option<&Attempt>) -> Self {
        Self {
            model,
            now,
            answered: answered.cloned(),
            token: None,
            before: Duration::ZERO,
            budget: BUDGET,
            heads: BTreeMap::new(),
            failed: BTreeSet::new(),
            taken: BTreeSet::new(),
            due: Vec::new(),
            is_due: BTreeSet::new(),
        }
    }

    /// Notes the ttl of the lock that this call ends.
    pub fn after(mut self, before: Duration) -> Self {
        self.before = before;
        self
    }

    /// Grants what it can for these names, and for the names of waiters that it drops on the way.
    pub fn grant(&mut self, names: &[Name]) {
        self.make_due(names);
        let mut at = 0;
        while at < self.due.len() && self.budget > 0 {
            let name = self.due[at].clone();
            at += 1;
            self.is_due.remove(&name);
            if self.taken.contains(&name) {
                continue;
            }
            if self.model.throughput {
                self.try_each(&name, None, THROUGHPUT_LOOK);
                continue;
            }
            let Head::First(first) = self.head(&name) else { continue };
            if self.waiter(&first).is_mixed() {
                self.try_in_turn(&name);
                continue;
            }
            match self.waiter(&first).class {
                Class::Nested => self.try_each(&name, Some(Class::Nested), NESTED_LOOK),
                Class::Plain => {
                    self.try_one(&first);
                }
            }
        }
        self.due.clear();
        self.is_due.clear();
    }

    /// Tells waiting clients of the pure handler which of these names are free.
    pub fn announce(&mut self, names: &[Name]) {
        let names: Vec<Name> = names.iter().filter(|name| !self.taken.contains(*name)).cloned().collect();
        if self.model.pure_waiters.is_some() && !names.is_empty() {
            self.model.pushes.push(Push { client: None, pushed: Pushed::Freed { names } });
        }
    }

    /// The answer to an attempt that the server knows.
    pub fn standing(&mut self, attempt: &Attempt, names: &Names, ttl: Duration) -> Option<ScriptAnswer> {
        if self.model.tombstones.contains_key(attempt) {
            return Some(ScriptAnswer::Cancelled);
        }
        if self.model.holds(attempt, names) {
            self.model.prolong(self.now, attempt, names, ttl);
            let written = names.iter().find_map(|name| self.model.locks.get(name));
            let token = match written {
                Some(lock) => lock.holder.token.unwrap_or(0),
                None => self.model.seen_number(self.now),
            };
            return Some(ScriptAnswer::Granted { token });
        }
        let waiter = self.model.queue.waiter(attempt)?.clone();
        if waiter.upgrades {
            // It has lost what it was to write.
            self.forget(attempt);
            return None;
        }
        Some(self.stay(waiter, names, ttl))
    }

    pub fn take(&mut self, attempt: &Attempt, names: &Names, ttl: Duration, wait: bool, nested: bool) -> ScriptAnswer {
        if let Some(answer) = self.standing(attempt, names, ttl) {
            return answer;
        }
        let leftovers = self.model.give_up(attempt, names);
        self.make_due(&leftovers);
        let mut free = self.all_free(names);
        let written = names.iter().any(|name| self.model.locks.contains_key(name));
        if !written && !nested && !self.model.throughput && self.anyone_waits(names) {
            self.grant(names);
            free = self.all_free(names) && !self.anyone_waits(names);
        }
        let answer = if free {
            let token = self.model.next_number(self.now);
            self.model.hold(self.now, attempt, names, ttl, token);
            self.taken.extend(names.iter().cloned());
            ScriptAnswer::Granted { token }
        } else if !wait {
            self.busy(names, self.soonest(names))
        } else {
            match nested.then(|| self.cycle(attempt, names)).flatten() {
                Some(cycle) => ScriptAnswer::Deadlock { cycle },
                None => {
                    self.enqueue(attempt, names, ttl, if nested { Class::Nested } else { Class::Plain });
                    if place_of(attempt.number).is_some() {
                        if self.all_free(names) {
                            self.make_due(names);
                        }
                        self.contest(attempt, names);
                    }
                    ScriptAnswer::Queued { pttl: self.soonest(names) }
                }
            }
        };
        self.grant(&[]);
        self.token.map_or(answer, |token| ScriptAnswer::Granted { token })
    }

    pub(super) fn busy(&self, names: &Names, pttl: Option<Duration>) -> ScriptAnswer {
        let first = names.iter().find_map(|name| self.model.locks.get(name));
        let sharing = names.iter().find_map(|name| Some(self.model.shares.get(name)?.holders().remove(0)));
        let sharing = sharing.map(|attempt| Holder { attempt, token: None });
        let holder = first.map(|lock| lock.holder.clone()).or(sharing);
        let first = holder.map(|holder| {
            let (age, said) = (first.and_then(|lock| lock.age(self.now)), self.model.said(&holder.attempt));
            FirstHolder { holder, age, said }.into()
        });
        ScriptAnswer::Busy { pttl, first }
    }

    /// Answers a waiter that asked again and keeps waiting.
    fn stay(&mut self, mut waiter: Waiter, names: &Names, ttl: Duration) -> ScriptAnswer {
        waiter.ttl = ttl;
        waiter.expiry = self.now + self.model.waiter_ttl;
        let (now, keep) = (self.now, self.model.waiter_ttl);
        self.model.queue.save(&waiter, now, keep);
        if waiter.parked {
            self.model.queue.parked.keep(now, keep);
            self.model.queue.settle();
            return ScriptAnswer::Queued { pttl: None };
        }
        if !waiter.names.are_shared() && self.model.queue.has_members(&waiter) {
            self.model.queue.members.keep(now, keep);
        } else {
            self.add_members(&waiter, keep);
        }
        self.try_one(&waiter.attempt);
        self.grant(&waiter.names);
        if let Some(token) = self.token {
            return ScriptAnswer::Granted { token };
        }
        if waiter.class == Class::Nested {
            if let Some(cycle) = self.cycle(&waiter.attempt, &waiter.names) {
                self.drop(&waiter.attempt);
                self.grant(&[]);
                return ScriptAnswer::Deadlock { cycle };
            }
        }
        if waiter.names.are_shared() {
            return ScriptAnswer::Queued { pttl: self.soonest_shared(&waiter.names) };
        }
        self.contest(&waiter.attempt, names);
        ScriptAnswer::Queued { pttl: self.soonest(names) }
    }

    pub(super) fn enqueue(&mut self, attempt: &Attempt, names: &Names, ttl: Duration, class: Class) {
        let waiter = self.new_waiter(attempt, names, ttl, class, false);
        let (now, keep) = (self.now, self.model.waiter_ttl);
        self.add_members(&waiter, keep);
        self.model.queue.save(&waiter, now, keep);
        self.sweep(waiter.ticket);
    }

    /// Tells the holders that this attempt waits, where it comes before them and is the first.
    fn contest(&mut self, attempt: &Attempt, names: &Names) {
        for name in names.iter() {
            if self.model.is_contested(name, attempt) && self.head(name) == Head::First(attempt.clone()) {
                self.model.tell_contested(name);
            }
        }
    }

    pub(super) fn new_waiter(
        &mut self,
        attempt: &Attempt,
        names: &Names,
        ttl: Duration,
        class: Class,
        parked: bool,
    ) -> Waiter {
        let rank = rank_of(attempt.number).filter(|_| !parked);
        let ticket = rank.unwrap_or_else(|| self.model.next_number(self.now));
        let expiry = self.now + self.model.waiter_ttl;
        Waiter { attempt: attempt.clone(), names: names.clone(), ttl, expiry, ticket, class, parked, upgrades: false }
    }

    /// Removes a waiter that blocks others.
    pub fn drop(&mut self, attempt: &Attempt) {
        let Some(waiter) = self.forget(attempt) else { return };
        self.budget -= waiter.names.len() as i64;
        if !waiter.parked {
            self.failed.clear();
            self.make_due(&waiter.names);
        }
    }

    pub(super) fn forget(&mut self, attempt: &Attempt) -> Option<Waiter> {
        let waiter = self.model.queue.waiter(attempt)?.clone();
        self.model.queue.forget(&waiter);
        for name in waiter.names.iter() {
            self.heads.remove(name);
        }
        Some(waiter)
    }

    pub(super) fn add_members(&mut self, waiter: &Waiter, keep: Duration) {
        self.model.queue.add_members(waiter, self.now, keep);
        for name in waiter.names.iter() {
            self.heads.remove(name);
        }
    }

    pub(super) fn make_due(&mut self, names: &[Name]) {
        for name in names {
            if self.is_due.insert(name.clone()) {
                self.due.push(name.clone());
            }
        }
    }

    pub(super) fn waiter(&self, attempt: &Attempt) -> &Waiter {
        self.model.queue.waiter(attempt).expect("a live waiter has a record")
    }

    /// Whether the member belongs to a live waiter. Removes it otherwise.
    pub(super) fn is_live(&mut self, member: &Member) -> bool {
        self.budget -= 1;
        let waiter = self.model.queue.waiter(&member.attempt);
        let Some(waiter) = waiter.filter(|waiter| !waiter.parked && waiter.ticket == member.ticket) else {
            self.model.queue.members.content.remove(member);
            self.model.queue.settle();
            return false;
        };
        if waiter.expiry > self.now {
            return true;
        }
        self.drop(&member.attempt);
        false
    }

    pub(super) fn head(&mut self, name: &Name) -> Head {
        if let Some(cached) = self.heads.get(name) {
            return cached.clone().map_or(Head::Nobody, Head::First);
        }
        loop {
            if self.budget <= 0 {
                return Head::Unknown;
            }
            let first = self.model.queue.of(name).next().cloned();
            let attempt = first.as_ref().map(|member| member.attempt.clone());
            if first.as_ref().is_none_or(|member| self.is_live(member)) {
                self.heads.insert(name.clone(), attempt.clone());
                return attempt.map_or(Head::Nobody, Head::First);
            }
        }
    }

    pub(super) fn anyone_waits(&mut self, names: &Names) -> bool {
        names.iter().any(|name| self.head(name) != Head::Nobody)
    }

    fn all_free(&self, names: &Names) -> bool {
        names.iter().all(|name| self.model.is_free(name))
    }

    fn try_each(&mut self, name: &Name, class: Option<Class>, most: usize) {
        let wanted = |member: &&Member| class.is_none_or(|class| member.class == class);
        let members: Vec<Member> = self.model.queue.of(name).filter(wanted).take(most).cloned().collect();
        for member in members {
            if self.budget <= 0 {
                return;
            }
            if self.is_live(&member) && self.try_one(&member.attempt) && self.taken.contains(name) {
                return;
            }
        }
    }

    /// Grants the waiter its names, if possible. Drops a waiter whose client has gone.
    pub(super) fn try_one(&mut self, attempt: &Attempt) -> bool {
        if self.failed.contains(attempt) {
            return false;
        }
        let waiter = self.waiter(attempt).clone();
        self.budget -= waiter.names.len() as i64;
        if !self.fits(&waiter) {
            self.failed.insert(attempt.clone());
            return false;
        }
        let token = self.token_for(&waiter.names);
        let ttl = self.lasting(&waiter);
        if self.answered.as_ref() == Some(attempt) {
            self.token = Some(token);
        } else if !self.model.tell(&attempt.client, Pushed::Granted { attempt: attempt.clone(), token }) {
            self.drop(attempt);
            return false;
        }
        self.forget(attempt);
        self.occupy(attempt, &waiter.names, ttl, token);
        if ttl < self.before {
            waiter.names.iter().for_each(|name| self.have_look(name));
        }
        true
    }

    /// Has those who wait for the name ask again: its lock ends earlier than the one that they have seen.
    pub(super) fn have_look(&mut self, name: &Name) {
        let members: Vec<Attempt> = self.model.queue.of(name).take(TOLD).map(|member| member.attempt.clone()).collect();
        for attempt in members {
            self.model.tell(&attempt.client.clone(), Pushed::Look { attempt });
        }
    }

    fn fits(&mut self, waiter: &Waiter) -> bool {
        let in_order = waiter.class == Class::Plain && !self.model.throughput;
        if waiter.upgrades {
            let is_alone = |name: &Name| !self.taken.contains(name) && self.model.has_alone(&waiter.attempt, name);
            return waiter.names.iter().all(is_alone);
        }
        if waiter.names.are_shared() {
            return self.finds_room(&waiter.attempt, &waiter.names, in_order);
        }
        let attempt = &waiter.attempt;
        let after = |first: &Option<Attempt>| first.as_ref().is_some_and(|first| first != attempt);
        for name in waiter.names.iter() {
            if self.taken.contains(name) || (in_order && self.heads.get(name).is_some_and(after)) {
                return false;
            }
        }
        if !self.all_free(&waiter.names) {
            return false;
        }
        !in_order || waiter.names.iter().all(|name| self.head(name) == Head::First(attempt.clone()))
    }

    /// The time until the first of the names expires.
    fn soonest(&self, names: &Names) -> Option<Duration> {
        let locks = names.iter().filter_map(|name| self.model.locks.get(name)).map(|lock| lock.expires);
        let shares = names.iter().filter_map(|name| self.model.shares.get(name)?.ends_last());
        locks.min().or(shares.min()).map(|ends| ends - self.now)
    }

    /// The holders of a cycle, from those of `names` to the attempt's own owner. Each waits for the next.
    pub(super) fn cycle(&self, attempt: &Attempt, names: &Names) -> Option<Vec<Attempt>> {
        let me = owner(attempt);
        let mut found: Vec<(Attempt, Option<usize>)> = Vec::new();
        let mut seen = BTreeSet::new();
        let (mut names, mut from, mut who) = (names.clone(), None, attempt.clone());
        let mut at = 0;
        loop {
            let others = names.each().flat_map(|(name, mode)| self.in_the_way(name, mode));
            for holder in others.filter(|holder| *holder != who) {
                if owner(&holder) == me {
                    return Some(path(&found, &holder, from));
                }
                if !seen.contains(&owner(&holder)) && found.len() < OWNERS {
                    seen.insert(owner(&holder));
                    found.push((holder, from));
                }
            }
            let (holder, _) = found.get(at)?;
            from = Some(at);
            at += 1;
            let waiting = self.model.queue.nested.get(&owner(holder));
            let waiter = waiting.and_then(|attempt| self.model.queue.waiter(attempt));
            (names, who) = match waiter {
                Some(waiter) if waiter.expiry > self.now => (waiter.names.clone(), waiter.attempt.clone()),
                _ => (Names::default(), who),
            };
        }
    }

    /// Examines one member of the queue and one of the parked, selected by one in so many tickets.
    pub(super) fn sweep(&mut self, ticket: u64) {
        if ticket % SWEEP != 0 {
            return;
        }
        let index = ticket / SWEEP;
        let queue = &self.model.queue.members.content;
        if let Some(member) = chosen(index, queue.len()).and_then(|at| queue.iter().nth(at)).cloned() {
            self.is_live(&member);
        }
        let parked = &self.model.queue.parked.content;
        let Some(member) = chosen(index, parked.len()).and_then(|at| parked.iter().nth(at)).cloned() else { return };
        match self.model.queue.waiter(&member.attempt) {
            Some(waiter) if waiter.parked && waiter.ticket == member.ticket => {
                if waiter.expiry <= self.now {
                    self.forget(&member.attempt);
                }
            }
            _ => {
                self.model.queue.parked.content.remove(&member);
                self.model.queue.settle();
            }
        }
    }
}

fn chosen(index: u64, size: usize) -> Option<usize> {
    (size > 0).then(|| (index % size as u64) as usize)
}

fn path(found: &[(Attempt, Option<usize>)], last: &Attempt, mut from: Option<usize>) -> Vec<Attempt> {
    let mut turns = vec![last.clone()];
    while let Some(at) = from {
        let (holder, before) = &found[at];
        turns.push(holder.clone());
        from = *before;
    }
    turns.reverse();
    turns
}
