//! Waiters: their records, and their members in the queue or among the parked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Attempt, Name, Names};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub attempt: Attempt,
    pub names: Names,
    pub ttl: Duration,
    pub expiry: Duration,
    pub ticket: u64,
    pub class: Class,
    pub parked: bool,
    /// Whether it holds its names, and waits to write what it reads.
    pub upgrades: bool,
}

impl Waiter {
    /// Whether its record has modes.
    pub fn is_mixed(&self) -> bool {
        self.names.are_shared() || self.upgrades
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Nested,
    Plain,
}

/// Ordered as the server orders its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub name: Name,
    pub class: Class,
    pub ticket: u64,
    pub attempt: Attempt,
}

/// Like [`Member`], for parked waiters, with their names joined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParkedMember {
    pub names: Vec<u8>,
    pub ticket: u64,
    pub attempt: Attempt,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub records: Expiring<BTreeMap<Attempt, Waiter>>,
    /// The nested waiter of each owner that has one in the queue.
    pub nested: BTreeMap<(Arc<str>, u64), Attempt>,
    pub members: Expiring<BTreeSet<Member>>,
    pub parked: Expiring<BTreeSet<ParkedMember>>,
}

/// The content of a key, and when it expires.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiring<T> {
    pub content: T,
    expires: Option<Duration>,
}

impl<T: Default> Expiring<T> {
    /// Extends the ttl beyond that of a waiter.
    pub fn keep(&mut self, now: Duration, waiter_ttl: Duration) {
        if self.expires.is_none_or(|expires| expires < now + waiter_ttl * 3 / 2) {
            self.expires = Some(now + 2 * waiter_ttl);
        }
    }

    fn expire(&mut self, now: Duration, is_empty: impl Fn(&T) -> bool) {
        if is_empty(&self.content) || self.expires.is_some_and(|expires| expires < now) {
            *self = Self::default();
        }
    }
}

impl Queue {
    /// Whether there are no waiters at all, as an ordinary lock checks.
    pub fn is_empty(&self) -> bool {
        self.records.content.is_empty() && self.members.content.is_empty()
    }

    pub fn has_no_members(&self) -> bool {
        self.members.content.is_empty() && self.parked.content.is_empty()
    }

    pub fn waiter(&self, attempt: &Attempt) -> Option<&Waiter> {
        self.records.content.get(attempt)
    }

    /// Writes the record.
    pub fn save(&mut self, waiter: &Waiter, now: Duration, ttl: Duration) {
        if waiter.class == Class::Nested && !waiter.parked {
            self.nested.insert(owner(&waiter.attempt), waiter.attempt.clone());
        }
        self.records.content.insert(waiter.attempt.clone(), waiter.clone());
        self.records.keep(now, ttl);
    }

    pub fn add_members(&mut self, waiter: &Waiter, now: Duration, ttl: Duration) {
        self.members.content.extend(members(waiter));
        self.members.keep(now, ttl);
    }

    pub fn has_members(&self, waiter: &Waiter) -> bool {
        members(waiter).next().is_some_and(|member| self.members.content.contains(&member))
    }

    pub fn add_parked(&mut self, waiter: &Waiter, now: Duration, ttl: Duration) {
        self.parked.content.insert(parked_member(waiter));
        self.parked.keep(now, ttl);
    }

    pub fn forget(&mut self, waiter: &Waiter) {
        if waiter.parked {
            self.parked.content.remove(&parked_member(waiter));
        } else {
            for member in members(waiter) {
                self.members.content.remove(&member);
            }
        }
        let owner = owner(&waiter.attempt);
        if waiter.class == Class::Nested && self.nested.get(&owner) == Some(&waiter.attempt) {
            self.nested.remove(&owner);
        }
        self.records.content.remove(&waiter.attempt);
        self.settle();
    }

    /// The members for a name, in order.
    pub fn of<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = &'a Member> {
        let nobody = Attempt { client: "".into(), owner: 0, number: 0 };
        let start = Member { name: name.clone(), class: Class::Nested, ticket: 0, attempt: nobody };
        self.members.content.range(start..).take_while(move |member| member.name == *name)
    }

    /// The attempts that wait for a name and have not expired.
    pub fn live(&self, name: &Name, now: Duration) -> Vec<Attempt> {
        let is_live = |member: &&Member| {
            self.waiter(&member.attempt).is_some_and(|waiter| waiter.ticket == member.ticket && waiter.expiry > now)
        };
        self.of(name).filter(is_live).map(|member| member.attempt.clone()).collect()
    }

    pub fn expire(&mut self, now: Duration) {
        self.records.expire(now, BTreeMap::is_empty);
        if self.records.content.is_empty() {
            self.nested.clear();
        }
        self.members.expire(now, BTreeSet::is_empty);
        self.parked.expire(now, BTreeSet::is_empty);
    }

    /// Removes keys without content, with their ttl.
    pub fn settle(&mut self) {
        self.expire(Duration::ZERO);
    }

    pub fn expire_waiter(&mut self, attempt: &Attempt) {
        if let Some(waiter) = self.records.content.get_mut(attempt) {
            waiter.expiry = Duration::ZERO;
        }
    }

    pub fn delete_members(&mut self) {
        self.members = Expiring::default();
    }

    pub fn delete_records(&mut self) {
        self.records = Expiring::default();
        self.nested.clear();
    }
}

pub(super) fn owner(attempt: &Attempt) -> (Arc<str>, u64) {
    (attempt.client.clone(), attempt.owner)
}

pub(super) fn joined(names: &Names) -> Vec<u8> {
    names.join(&1)
}

fn members(waiter: &Waiter) -> impl Iterator<Item = Member> + '_ {
    waiter.names.iter().map(|name| Member {
        name: name.clone(),
        class: waiter.class,
        ticket: waiter.ticket,
        attempt: waiter.attempt.clone(),
    })
}

fn parked_member(waiter: &Waiter) -> ParkedMember {
    ParkedMember { names: joined(&waiter.names), ticket: waiter.ticket, attempt: waiter.attempt.clone() }
}
