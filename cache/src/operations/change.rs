//! Changing many keys, each by a command of its own.
//!
//! The commands are quiet meta commands, and a no-op ends them.

mod tagged;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Mode, Status};

use super::failures::Failures;
use super::keys::Keys;
use super::route::{choose_each, may_go_on};
use super::tagging::AskedTags;
use super::untaken::PutBacks;
use super::values::SentData;
use super::{Ask, Asks, End, Next, Operation, Policy, Request, Sending};
use crate::calls;
use crate::fleet::Fleet;
use crate::session::{Data, Refused, Reply, Session, Ticket};
use crate::tags::KnownTags;
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::Network;
use tagged::{Invalidated, Tagged};

/// Stores many keys, or does the same to each of them.
pub struct Change<D> {
    keys: Keys,
    what: What<D>,
    /// The keys to ask for in the next `begin`.
    wanted: Vec<u32>,
    done: Vec<bool>,
    /// Keys to send alone: the server failed one of several joined commands and did not say which one.
    alone: BTreeSet<u32>,
    put_backs: PutBacks,
    failures: Failures,
    /// If its values have tags.
    tagged: Option<Box<Tagged>>,
    /// What is known of tags that it invalidates.
    known: Option<Arc<KnownTags>>,
}

/// What to do with every key.
enum What<D> {
    /// Sends the same request.
    Each(Request),
    /// Stores the block that has the key's index.
    Store { blocks: Vec<DataBlock<D>>, ttl: i32 },
    /// Gives each tag another generation.
    Invalidate(Vec<Invalidated>),
}

/// A value to store.
pub struct DataBlock<D> {
    pub data: D,
    /// In bytes.
    pub size: usize,
    pub client_flags: u32,
}

/// The outcome of changing many keys.
#[derive(Debug)]
pub struct Changed {
    /// For each key, whether the server confirmed it.
    pub done: Vec<bool>,
    pub failures: Failures,
}

impl<D: SentData> Change<D> {
    /// Stores a block under each key. `ttl` is sent as it is.
    pub fn store(keys: Keys, blocks: Vec<DataBlock<D>>, ttl: i32, policy: Policy) -> Self {
        Self::new(keys, What::Store { blocks, ttl }, calls::SET_MANY.name, policy)
    }

    /// `request`: what is done to each key. It has no data block.
    pub fn each(keys: Keys, request: Request, policy: Policy) -> Self {
        Self::new(keys, What::Each(request), request.call_of_many().name, policy)
    }

    fn new(keys: Keys, what: What<D>, name: &'static str, policy: Policy) -> Self {
        let (wanted, done) = ((0..keys.len() as u32).collect(), vec![false; keys.len()]);
        Self {
            keys,
            what,
            wanted,
            done,
            alone: BTreeSet::new(),
            put_backs: PutBacks::default(),
            failures: Failures::new(name, policy),
            tagged: None,
            known: None,
        }
    }

    /// A change that is over: whether it was done to each key, and what it raises.
    pub(crate) fn over(keys: Keys, each: Request, done: Vec<bool>, error: Option<Error>, policy: Policy) -> Self {
        let mut over = Self { wanted: Vec::new(), done, ..Self::each(keys, each, policy) };
        over.failures.end(error);
        over
    }

    /// The error that it raises.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failures.first_raised()
    }

    /// The outcome. Call it once the operation is over.
    pub fn finish(self) -> Changed {
        Changed { done: self.done, failures: self.failures }
    }
}

impl<D: SentData> Operation for Change<D> {
    fn name(&self) -> &'static str {
        self.failures.name()
    }

    fn name_of(&self, part: u32) -> &'static str {
        self.of_tag(part).map_or(self.name(), AskedTags::name_of)
    }

    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        if self.tagged.is_some() {
            if let Some(asks) = self.begin_tags(fleet, now) {
                return asks;
            }
        }
        if let What::Invalidate(_) = self.what {
            self.known = fleet.tags().cloned();
        }
        let (wanted, keys) = (std::mem::take(&mut self.wanted), &self.keys);
        if let Some(near) = fleet.near() {
            wanted.iter().for_each(|index| near.forget(keys.key(*index as usize)));
        }
        let mut asks = Vec::with_capacity(wanted.len());
        let routed = |index| keys.routed(index as usize);
        let take = |part, choice| asks.push(Ask { part, choice });
        let down = choose_each(fleet, self.failures.policy().failover, now, &wanted, routed, take, |_, _| {});
        // A right that cannot be put back is no failure.
        let down = down.into_iter().filter(|_| wanted.iter().any(|key| self.put_backs.of(*key).is_none())).collect();
        self.failures.begin_again(fleet, down);
        Asks::of(asks)
    }

    fn routed(&self, part: u32) -> &[u8] {
        match (self.of_tag(part), &self.tagged) {
            (Some(tag), Some(tagged)) => tagged.asked.routed(tag),
            _ => self.keys.routed(part as usize),
        }
    }

    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        if let Some(tag) = self.of_tag(part) {
            return self.tagged().asked.submit(tag, session, sending);
        }
        let (mut request, mut data) = self.what.of(part as usize);
        let tagged = match self.tagged {
            Some(_) => self.with_tags_before(&data),
            None => None,
        };
        if let Some((tags, block)) = &tagged {
            (request, data) = (request.tagged(tags), Data::Copied(block));
        }
        let put_back = self.put_backs.of(part);
        let command = put_back.unwrap_or(request).command(self.keys.key(part as usize));
        let command = sending.longest_ttl.map_or(command, |most| command.expiring_within(most));
        match self.alone.contains(&part) || put_back.is_some() {
            true => session.submit(&command, data, sending.deadline),
            false => session.submit_joined(&command, data, sending.deadline),
        }
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        if let Some(tag) = self.of_tag(part) {
            return self.tagged().asked.reply(tag, &reply);
        }
        if self.put_backs.take(part, &reply.head.item) {
            return;
        }
        self.done[part as usize] = reply.head.status == Status::Done;
        if let (true, What::Each(request)) = (reply.head.item.won, &self.what) {
            self.put_backs.won(part, request);
        }
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        if let Some(tag) = self.of_tag(part) {
            return self.tagged().over(tag, end);
        }
        let again = match end {
            End::Answered => self.put_backs.of(part).is_some(),
            End::Withdrawn => true,
            End::Failed { .. } if self.put_backs.give_up(part) => false,
            End::Failed { error, in_time } => self.is_tried_again(part, error, in_time),
        };
        if again {
            self.wanted.push(part);
        } else if let (What::Invalidate(tags), Some(known)) = (&self.what, &self.known) {
            tags[part as usize].over(known, self.done[part as usize]);
        }
        match self.wanted.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn fail(&mut self, error: Error) {
        if self.wanted.is_empty() || self.wanted.iter().any(|key| self.put_backs.of(*key).is_none()) {
            self.failures.note(error);
        }
    }
}

impl<D: SentData> Change<D> {
    /// Whether to ask again: if nothing was sent, or for a store, which is harmless twice. A server that refuses to
    /// store a value has not failed: [`Changed::done`] says so.
    fn is_tried_again(&mut self, part: u32, error: Error, in_time: bool) -> bool {
        let stores = matches!(self.what, What::Store { .. });
        let is_in_doubt = stores && error.is_unattributed() && !self.alone.contains(&part);
        match in_time && (is_in_doubt || may_go_on(&error, false)) {
            true if is_in_doubt => drop(self.alone.insert(part)),
            true => self.failures.retry(error),
            false if stores && matches!(error.kind, Kind::Server | Kind::OutOfMemory | Kind::TooLarge) => return false,
            false => {
                self.failures.note(error);
                return false;
            }
        }
        true
    }
}

impl<D: SentData> What<D> {
    fn of(&self, index: usize) -> (Request, Data<'_>) {
        match self {
            What::Each(request) => (*request, Data::None),
            What::Store { blocks, ttl } => {
                let DataBlock { data, size, client_flags } = &blocks[index];
                let (size, client_flags, ttl) = (*size, *client_flags, *ttl);
                (
                    Request::Store { mode: Mode::Set, size, client_flags, ttl, cas: None, returns_cas: false },
                    data.data(),
                )
            }
            What::Invalidate(tags) => {
                let (text, mode) = (&tags[index].text[..], Mode::Set);
                let store =
                    Request::Store { mode, size: text.len(), client_flags: 0, ttl: 0, cas: None, returns_cas: false };
                (store, Data::Copied(text))
            }
        }
    }
}
