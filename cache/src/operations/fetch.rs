//! Reading many keys, which may also set their ttl. Plain keys of the same server share a `get` line, or a `gat` line.
//!
//! A line holds up to two hundred keys. It costs the server about half as much as one `mg` for each key. It repeats
//! the keys, so replies are still verified. Keys that are sent as base64 use `mg`.

mod tagged;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::{Command, Head, Status};

use super::failures::Failures;
use super::keys::Keys;
use super::request::{without_tokens, Request};
use super::route::{by_server, may_go_on};
use super::tagging::AskedTags;
use super::untaken::PutBacks;
use super::values::Values;
use super::{Ask, Asks, End, Next, Operation, Policy, Sending};
use crate::fleet::{Choice, Fleet};
use crate::near::{Asked, Look, Near};
use crate::session::{Data, Destination, Refused, Reply, Session, Ticket, Value, BYTES_PER_GAT_LINE, BYTES_PER_LINE};
use crate::tags::TAGGED;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;
use tagged::Tagged;

/// Reads the values of many keys.
pub struct Fetch<V: Values> {
    keys: Keys,
    values: V,
    /// The request for each key.
    each: Request,
    /// Whether it asks for CAS tokens too.
    cas: bool,
    only_reads: bool,
    parts: Vec<Part>,
    /// The keys to ask for in the next `begin`.
    wanted: Vec<u32>,
    /// Keys whose value may be a placeholder. Each is asked for again by a command of its own, which can tell.
    in_doubt: Vec<u32>,
    /// The rights to renew that are put back, after the keys were answered.
    put_backs: PutBacks,
    /// The keys whose rights to ask about in the next `begin`.
    taken: Vec<u32>,
    /// If some of the values have tags.
    tagged: Option<Box<Tagged>>,
    found: Vec<FoundKey<V::Value>>,
    /// What keeps values in memory, by the keys' indexes, once memory was looked at.
    asked: Option<Vec<Option<Asked>>>,
    unreadable: Option<Unreadable<V::Error>>,
    failures: Failures,
    /// The failed requests whose keys are asked for again.
    retried: Vec<Unanswered>,
    unanswered: Vec<Unanswered>,
    /// How long the operation may take.
    timeout: Duration,
}

/// The keys of one request.
#[derive(Default)]
struct Part {
    keys: Vec<u32>,
    /// Whether the request is a command for one key rather than a shared line.
    alone: bool,
    in_doubt: Vec<u32>,
    /// The ask for a tag, of a part that has no keys.
    tag: Option<u32>,
}

/// What was found under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundKey<V> {
    /// The key's index.
    pub index: usize,
    pub value: V,
    pub cas: Option<u64>,
}

/// A value that the host could not read.
#[derive(Debug)]
pub struct Unreadable<E> {
    /// The key's index.
    pub index: usize,
    pub error: E,
}

/// Keys that no server answered.
#[derive(Debug)]
pub struct Unanswered {
    /// The keys' indexes.
    pub keys: Vec<u32>,
    pub error: Error,
}

/// The outcome of reading many keys. A key that is neither found, unreadable nor unanswered is missing.
#[derive(Debug)]
pub struct Fetched<V, E> {
    pub found: Vec<FoundKey<V>>,
    /// The first value that the host could not read.
    pub unreadable: Option<Unreadable<E>>,
    /// The same failures for each server.
    pub failures: Failures,
    /// The failures for each key.
    pub unanswered: Vec<Unanswered>,
}

impl<V: Values> Fetch<V> {
    /// `each`: the request for each key, which reads its value.
    pub fn new(keys: Keys, each: Request, values: V, policy: Policy) -> Self {
        Self {
            wanted: (0..keys.len() as u32).collect(),
            found: Vec::new(),
            keys,
            values,
            each,
            cas: each.reads_token(),
            only_reads: each.ttl().is_none(),
            parts: Vec::new(),
            in_doubt: Vec::new(),
            put_backs: PutBacks::default(),
            taken: Vec::new(),
            asked: None,
            tagged: None,
            unreadable: None,
            failures: Failures::new(each.call_of_many().name, policy),
            retried: Vec::new(),
            unanswered: Vec::new(),
            timeout: Duration::ZERO,
        }
    }

    /// The same with memory for what it finds.
    pub fn finding_into(mut self, found: Vec<FoundKey<V::Value>>) -> Self {
        self.found = found;
        self.found.clear();
        self
    }

    pub fn policy(&self) -> Policy {
        self.failures.policy()
    }

    /// What reads its values.
    pub fn values(&self) -> &V {
        &self.values
    }

    /// The same under another name, in errors and events.
    pub fn named(mut self, name: &'static str) -> Self {
        self.failures.set_name(name);
        self
    }

    /// A reading that is over, and has found these values.
    pub(crate) fn over(keys: Keys, each: Request, values: V, policy: Policy, found: Vec<FoundKey<V::Value>>) -> Self {
        Self { found, wanted: Vec::new(), ..Self::new(keys, each, values, policy) }
    }

    pub(crate) fn with_unreadable(self, unreadable: Option<Unreadable<V::Error>>) -> Self {
        Self { unreadable, ..self }
    }

    /// The same with failures: those of servers, one to raise, and those of keys.
    pub(crate) fn failing(mut self, servers: Vec<Error>, error: Option<Error>, unanswered: Vec<Unanswered>) -> Self {
        self.failures.add(servers);
        self.failures.end(error);
        Self { unanswered, ..self }
    }

    /// The outcome. Call it once the operation is over.
    pub fn finish(mut self) -> Fetched<V::Value, V::Error> {
        if !self.unanswered.is_empty() {
            self.complete_unanswered();
        }
        let Self { found, unreadable, failures, unanswered, .. } = self;
        Fetched { found, unreadable, failures, unanswered }
    }

    /// Asks for keys, by shared lines or one command each. Returns an error for each server that cannot be asked.
    fn ask(&mut self, fleet: &Fleet, now: Instant, wanted: Vec<u32>, alone: bool, asks: &mut Vec<Ask>) -> Vec<Error> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let (keys, failover) = (&self.keys, self.failures.policy().failover);
        let (unanswered, retried) = (&mut self.unanswered, &self.retried);
        let mut earlier: Option<HashMap<u32, &Error>> = None;
        let refuse = |key, error: &Error| {
            let of = |one| Unanswered::each(one);
            let earlier = earlier.get_or_insert_with(|| retried.iter().flat_map(of).collect());
            refuse(unanswered, key, earlier.get(&key).copied().unwrap_or(error));
        };
        let (by_server, down) = by_server(fleet, failover, now, wanted, |index| keys.routed(index as usize), refuse);
        for (choice, keys) in by_server {
            match !alone && self.fit_on_line(&keys) == keys.len() {
                true => self.ask_for(choice, keys, false, asks),
                false => self.ask_apart(choice, &keys, alone, asks),
            }
        }
        down
    }

    /// How many of these keys, counted from the first, share a line.
    fn fit_on_line(&self, keys: &[u32]) -> usize {
        self.keys.fit_on_line(keys, if self.only_reads { BYTES_PER_LINE } else { BYTES_PER_GAT_LINE })
    }

    fn ask_for(&mut self, choice: Choice, keys: Vec<u32>, alone: bool, asks: &mut Vec<Ask>) {
        asks.push(Ask { part: self.parts.len() as u32, choice });
        self.parts.push(Part { keys, alone, in_doubt: Vec::new(), tag: None });
    }

    /// Asks one server for keys that do not fit on one line or must not share one.
    fn ask_apart(&mut self, choice: Choice, keys: &[u32], alone: bool, asks: &mut Vec<Ask>) {
        let mut rest = keys;
        while let [first, others @ ..] = rest {
            let on_line = if alone { 0 } else { self.fit_on_line(rest) };
            if on_line == 0 {
                self.ask_for(choice, vec![*first], true, asks);
                rest = others;
                continue;
            }
            let (line, others) = rest.split_at(on_line);
            self.ask_for(choice, line.to_vec(), false, asks);
            rest = others;
        }
    }
}

impl Unanswered {
    fn each(&self) -> impl Iterator<Item = (u32, &Error)> {
        self.keys.iter().map(|key| (*key, &self.error))
    }
}

/// Notes a key whose server cannot be asked, with the others that failed in the same way.
fn refuse(unanswered: &mut Vec<Unanswered>, key: u32, error: &Error) {
    let is_same = |one: &&mut Unanswered| {
        (one.error.kind, one.error.sent, &one.error.server) == (error.kind, error.sent, &error.server)
    };
    match unanswered.iter_mut().rfind(is_same) {
        Some(one) => one.keys.push(key),
        None => unanswered.push(Unanswered { keys: vec![key], error: error.clone() }),
    }
}

impl<V: Values> Operation for Fetch<V> {
    fn name(&self) -> &'static str {
        self.failures.name()
    }

    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        let mut asks = Vec::new();
        self.timeout = fleet.options().timeout;
        if let Some(near) = fleet.near() {
            self.look_in_memory(near, now);
        }
        let (wanted, in_doubt) = (std::mem::take(&mut self.wanted), std::mem::take(&mut self.in_doubt));
        self.found.reserve(wanted.len());
        let mut down = self.ask(fleet, now, wanted, false, &mut asks);
        down.extend(self.ask(fleet, now, in_doubt, true, &mut asks));
        self.put_back(fleet, now, &mut asks);
        self.retried.clear();
        self.failures.begin_again(fleet, down);
        if self.tagged.is_some() {
            self.begin_tags(fleet, now, &mut asks);
        }
        Asks::of(asks)
    }

    fn name_of(&self, part: u32) -> &'static str {
        self.parts[part as usize].tag.map_or(self.name(), AskedTags::name_of)
    }

    fn routed(&self, part: u32) -> &[u8] {
        match (&self.parts[part as usize], &self.tagged) {
            (Part { tag: Some(tag), .. }, Some(tagged)) => tagged.asked.routed(*tag),
            (Part { alone: true, keys, .. }, _) => self.keys.routed(keys[0] as usize),
            _ => &[],
        }
    }

    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        let Part { keys, alone, tag, .. } = &self.parts[part as usize];
        if let (Some(tag), Some(tagged)) = (tag, &self.tagged) {
            return tagged.asked.submit(*tag, session, sending);
        }
        let command = match alone {
            true => self.put_backs.of(keys[0]).unwrap_or(self.each).command(self.keys.key(keys[0] as usize)),
            false => Command::GetMany { keys: self.keys.join(keys), cas: self.cas, ttl: self.each.ttl() },
        };
        let command = sending.longest_ttl.map_or(command, |most| command.expiring_within(most));
        session.submit(&command, Data::None, sending.deadline)
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        let part = &mut self.parts[part as usize];
        // The reply to a shared line tells of no right.
        if part.alone && self.put_backs.takes(part.keys[0], &self.each, &reply.head.item) {
            return;
        }
        if reply.head.status != Status::Hit {
            return;
        }
        let Some(&key) = part.keys.get(reply.index) else {
            let tag = part.tag;
            return self.reply_of_tag(tag, &reply);
        };
        if reply.head.is_placeholder() {
            return;
        }
        if reply.head.may_be_placeholder() && !part.alone {
            return part.in_doubt.push(key);
        }
        let (index, cas) = (key as usize, reply.head.item.cas.filter(|_| self.cas));
        if cas == Some(0) {
            return self.failures.note(without_tokens(reply.server).of("", Sent::Yes));
        }
        let is_tagged = reply.head.item.client_flags & TAGGED != 0;
        if let Some(asked) = self.asked.as_mut().and_then(|asked| asked[index].take()) {
            match is_tagged {
                true => asked.missing(self.keys.key(index)),
                false => asked.fill(self.keys.key(index), reply.to_keep()),
            }
        }
        if is_tagged {
            return self.keep(key, reply);
        }
        match self.values.read_of(index, reply.head, reply.value, reply.server) {
            Ok(value) => self.found.push(FoundKey { index, value, cas }),
            Err(error) => drop(self.unreadable.get_or_insert(Unreadable { index, error })),
        }
    }

    fn destination(&mut self, part: u32, index: usize, head: &Head) -> Box<dyn Destination> {
        let Some(key) = self.parts[part as usize].keys.get(index) else {
            return Box::new(vec![0; head.size.unwrap_or_default()]);
        };
        self.values.destination_of(*key as usize, head)
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        let mut part = std::mem::take(&mut self.parts[part as usize]);
        if let Some(tag) = part.tag {
            return self.over_tag(tag, end);
        }
        match end {
            End::Answered => {
                self.forget_missing(&part);
                if part.alone {
                    self.taken.extend(self.put_backs.of(part.keys[0]).map(|_| part.keys[0]));
                }
            }
            End::Withdrawn if self.puts_back(&part) => self.taken.push(part.keys[0]),
            End::Failed { .. } if self.puts_back(&part) => drop(self.put_backs.give_up(part.keys[0])),
            End::Withdrawn => self.ask_again(&mut part),
            End::Failed { error, in_time: true } if may_go_on(&error, self.only_reads) => {
                self.retried.push(Unanswered { keys: part.keys.clone(), error: error.clone() });
                self.failures.retry(error);
                self.ask_again(&mut part);
            }
            End::Failed { error, .. } => {
                let error = self.explained(error);
                part.keys.retain(|key| !part.in_doubt.contains(key));
                self.unanswered.push(Unanswered { keys: std::mem::take(&mut part.keys), error: error.clone() });
                self.failures.note(error);
            }
        }
        self.in_doubt.extend(&part.in_doubt);
        let is_over = self.wanted.is_empty() && self.in_doubt.is_empty() && self.taken.is_empty();
        match is_over && !self.keeps_some() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn only_reads(&self, part: u32) -> bool {
        let part = &self.parts[part as usize];
        part.tag.map_or(self.only_reads && !self.puts_back(part), AskedTags::only_reads)
    }

    fn fail(&mut self, error: Error) {
        if !self.taken.is_empty() && self.wanted.is_empty() && self.in_doubt.is_empty() {
            return;
        }
        let keys = (0..self.keys.len() as u32).collect();
        self.unanswered.push(Unanswered { keys, error: error.clone() });
        self.failures.note(error);
    }
}

impl<V: Values> Fetch<V> {
    /// Takes the values that are in memory, and prepares to keep the others. Keys that are changed are forgotten.
    #[cold]
    #[inline(never)]
    fn look_in_memory(&mut self, near: &Arc<Near>, now: Instant) {
        let (keys, wanted) = (&self.keys, &mut self.wanted);
        if self.each.changes() {
            wanted.iter().for_each(|index| near.forget(keys.key(*index as usize)));
        }
        if !self.each.may_be_near(self.failures.policy()) || self.asked.is_some() {
            return;
        }
        let mut all: Vec<Option<Asked>> = Vec::new();
        all.resize_with(keys.len(), || None);
        wanted.retain(|of| {
            let index = *of as usize;
            let held = match near.look(keys.key(index), now) {
                Look::Hit(held) => held,
                Look::Ask(ticket) => {
                    all[index] = Some(Asked::new(near.clone(), ticket));
                    return true;
                }
            };
            match self.values.read_of(index, &held.head(), Value::Borrowed(&held.bytes), &held.server) {
                Ok(value) => self.found.push(FoundKey { index, value, cas: None }),
                Err(error) => drop(self.unreadable.get_or_insert(Unreadable { index, error })),
            }
            false
        });
        self.asked = Some(all);
    }

    /// Takes note of the keys of a request that were not found.
    fn forget_missing(&mut self, part: &Part) {
        let Some(asked) = &mut self.asked else { return };
        for key in part.keys.iter().filter(|key| !part.in_doubt.contains(key)) {
            if let Some(missing) = asked[*key as usize].take() {
                missing.missing(self.keys.key(*key as usize));
            }
        }
    }

    /// Leaves out the keys that were found before their request failed.
    #[cold]
    fn complete_unanswered(&mut self) {
        let mut is_found = vec![false; self.keys.len()];
        self.found.iter().for_each(|one| is_found[one.index] = true);
        for Unanswered { keys, error } in &mut self.unanswered {
            keys.retain(|key| !is_found[*key as usize]);
            *error = self.failures.told(error.clone());
        }
    }

    /// Whether a request puts a right back rather than reads.
    fn puts_back(&self, part: &Part) -> bool {
        part.alone && self.put_backs.of(part.keys[0]).is_some()
    }

    /// Goes on with the rights that are put back. Where that cannot be done, the read is over nevertheless.
    fn put_back(&mut self, fleet: &Fleet, now: Instant, asks: &mut Vec<Ask>) {
        for key in std::mem::take(&mut self.taken) {
            match fleet.choose(self.keys.routed(key as usize), self.failures.policy().failover, now) {
                Ok(choice) => self.ask_for(choice, vec![key], true, asks),
                Err(_) => drop(self.put_backs.give_up(key)),
            }
        }
    }

    /// Says how far an operation came whose time is over.
    #[cold]
    fn explained(&self, error: Error) -> Error {
        if error.kind != Kind::Timeout || self.found.is_empty() {
            return error.reading(self.only_reads);
        }
        let (found, keys, timeout) = (self.found.len(), self.keys.len(), self.timeout.as_secs_f64());
        let message =
            format!("{found} of {keys} values arrived within {timeout} s: raise \"timeout\", or ask for fewer keys");
        Error { message, ..error.reading(self.only_reads) }
    }

    /// Asks for all keys of a request again.
    fn ask_again(&mut self, part: &mut Part) {
        self.found.retain(|one| !part.keys.contains(&(one.index as u32)));
        self.forget_kept(&part.keys);
        part.in_doubt.clear();
        let asked = if part.alone { &mut self.in_doubt } else { &mut self.wanted };
        asked.append(&mut part.keys);
    }
}
