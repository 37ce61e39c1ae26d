//! The scripts' meaning in Rust: a server in memory, for the simulation, and for traces that run on both. Each rule has
//! a file, of the name that its file in Lua has.

mod adopt;
mod change;
mod extend;
mod force_release;
mod inspect;
mod lock;
mod notify;
mod open;
mod park;
mod poll;
mod queue;
mod raise;
mod rate;
mod remark;
mod run;
mod share;
mod shared;
mod unlock;
mod unpark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::call::{Attempt, Call, FirstHolder, Holder, Inspected, Mode, Name, Names, Pushed, Said, ScriptAnswer};
use super::claim::{place_of, rank_of};
use queue::Queue;
use run::Run;
use shared::Share;

/// Tokens per millisecond of the clock.
const PER_MS: u64 = 4096;
const PER_US: u64 = 4;
const TOMBSTONE_TTL: Duration = Duration::from_secs(60);

/// A server. Times in arguments are its clock: the time since the beginning of 2024.
#[derive(Clone, Debug)]
pub struct Model {
    /// How long a silent waiter counts as alive. Callers may differ in this and in `throughput`.
    pub waiter_ttl: Duration,
    /// Whether free names go to any caller that asks, without order.
    pub throughput: bool,
    counter: Option<u64>,
    locks: BTreeMap<Name, Lock>,
    shares: BTreeMap<Name, Share>,
    queue: Queue,
    tombstones: BTreeMap<Attempt, Duration>,
    pure_waiters: Option<Duration>,
    clients: BTreeSet<Arc<str>>,
    pushes: Vec<Push>,
    rates: BTreeMap<Name, rate::Schedule>,
    /// With the time when each ends.
    remarks: BTreeMap<Attempt, (Arc<str>, Duration)>,
}

/// A message that the server publishes, and its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The client whose channel it is; `None` for the channel of freed names.
    pub client: Option<Arc<str>>,
    pub pushed: Pushed,
}

#[derive(Clone, Debug)]
struct Lock {
    holder: Holder,
    expires: Duration,
    granted: Duration,
    /// What it was granted for; unknown once it was renewed.
    ttl: Option<Duration>,
}

impl Lock {
    /// How long ago it was granted; unknown if the pure handler took it.
    fn age(&self, now: Duration) -> Option<Duration> {
        self.holder.token.map(|_| now.saturating_sub(self.granted))
    }
}

impl Model {
    pub fn new(waiter_ttl: Duration, throughput: bool) -> Self {
        Self {
            waiter_ttl,
            throughput,
            counter: None,
            locks: BTreeMap::new(),
            shares: BTreeMap::new(),
            queue: Queue::default(),
            tombstones: BTreeMap::new(),
            pure_waiters: None,
            clients: BTreeSet::new(),
            pushes: Vec::new(),
            rates: BTreeMap::new(),
            remarks: BTreeMap::new(),
        }
    }

    /// Runs one call. `now` goes back only if the server's clock does.
    pub fn call(&mut self, now: Duration, call: &Call) -> ScriptAnswer {
        self.expire(now);
        match call {
            Call::Open { seen } => self.open(now, *seen),
            Call::Lock { attempt, names, ttl, wait, nested } if names.are_shared() => {
                Run::new(self, now, Some(attempt)).share(attempt, names, *ttl, *wait, *nested)
            }
            Call::Lock { attempt, names, ttl, wait, nested } => self.lock(now, attempt, names, *ttl, *wait, *nested),
            Call::Unlock { attempt, names, tombstone, rest } => self.unlock(now, attempt, names, *tombstone, *rest),
            Call::Adopt { attempt, names, ttl, from } => self.adopt(now, attempt, names, *ttl, from),
            Call::Change { attempt, names, ttl, wait, seen } => {
                Run::new(self, now, Some(attempt)).change(attempt, names, *ttl, *wait, *seen)
            }
            Call::Poll { attempt, names, ttl, .. } => self.poll(now, attempt, names, *ttl),
            Call::Extend { held } => self.extend(now, held),
            Call::Raise { attempt, names, ttl, floor } => self.raise(now, attempt, names, *ttl, *floor),
            Call::Park { attempt, names, ttl } => self.park(now, attempt, names, *ttl),
            Call::Unpark { attempt, names, ttl } => self.unpark(now, attempt, names, *ttl),
            Call::Notify { attempt, names, most } => self.notify(now, attempt, names, *most),
            Call::Inspect { names, .. } => self.inspect(now, names),
            Call::ForceRelease { names, token } => self.force_release(now, names, *token),
            Call::Rate { name, cost, most, ticks } => self.rate(now, name, [*cost, *most, *ticks]),
            Call::Remark { attempt, remark, ttl } => self.remark(now, attempt, remark.as_ref(), *ttl),
            Call::Remarks { inspected } => self.remarks(inspected),
        }
    }

    /// The messages published since the last call, in order.
    pub fn take_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.pushes)
    }

    fn next_number(&mut self, now: Duration) -> u64 {
        let mut number = self.counter.unwrap_or(0) + 1;
        if number < PER_MS {
            number = number.max(floor(now));
        }
        self.counter = Some(number);
        number
    }

    fn holder(&self, name: &Name) -> Option<&Attempt> {
        self.locks.get(name).map(|lock| &lock.holder.attempt)
    }

    /// Whether this attempt comes before the holder of a name.
    fn is_contested(&self, name: &Name, attempt: &Attempt) -> bool {
        let order = |attempt: &Attempt| Some((place_of(attempt.number)?, attempt.clone()));
        let holder = self.holder(name).and_then(order);
        holder.zip(order(attempt)).is_some_and(|(holder, attempt)| attempt < holder)
    }

    fn tell_contested(&mut self, name: &Name) {
        let Some(attempt) = self.holder(name).cloned() else { return };
        self.tell(&attempt.client.clone(), Pushed::Contested { attempt });
    }

    fn holds(&self, attempt: &Attempt, names: &Names) -> bool {
        names.iter().all(|name| self.has(attempt, name))
    }

    fn has(&self, attempt: &Attempt, name: &Name) -> bool {
        self.holder(name) == Some(attempt) || self.has_part(name, attempt)
    }

    fn is_free(&self, name: &Name) -> bool {
        !self.locks.contains_key(name) && !self.shares.contains_key(name)
    }

    /// The ttl of a lock that ends now. Those who wait for it have seen none that ends later.
    fn ttl_of(&self, attempt: &Attempt, names: &Names) -> Duration {
        match names.iter().all(|name| self.holder(name) == Some(attempt)) {
            true => self.locks[&names[0]].ttl.unwrap_or(Duration::MAX),
            false => Duration::ZERO,
        }
    }

    fn hold(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration, token: u64) {
        for (name, mode) in names.each() {
            if mode != Mode::Write {
                self.join(now, name, attempt, mode, ttl);
                continue;
            }
            let holder = Holder { attempt: attempt.clone(), token: Some(token) };
            self.shares.remove(name);
            self.locks.insert(name.clone(), Lock { holder, expires: now + ttl, granted: now, ttl: Some(ttl) });
        }
    }

    fn prolong(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration) {
        for (name, mode) in names.each() {
            match self.locks.get_mut(name) {
                Some(lock) => (lock.expires, lock.ttl) = (now + ttl, None),
                None => self.join(now, name, attempt, mode, ttl),
            }
        }
    }

    /// Deletes those names that the attempt holds.
    fn give_up(&mut self, attempt: &Attempt, names: &Names) -> Vec<Name> {
        let freed: Vec<Name> = names.iter().filter(|name| self.has(attempt, name)).cloned().collect();
        for name in &freed {
            if !self.leave(name, attempt) {
                self.locks.remove(name);
            }
        }
        freed
    }

    /// Publishes to the client. Returns whether it is connected.
    fn tell(&mut self, client: &Arc<str>, pushed: Pushed) -> bool {
        let heard = self.clients.contains(client);
        if heard {
            self.pushes.push(Push { client: Some(client.clone()), pushed });
        }
        heard
    }

    fn expire(&mut self, now: Duration) {
        self.locks.retain(|_, lock| lock.expires >= now);
        self.shares.retain(|_, share| share.expire(now));
        self.tombstones.retain(|_, expires| *expires >= now);
        self.pure_waiters = self.pure_waiters.filter(|expires| *expires >= now);
        self.queue.expire(now);
        self.remarks.retain(|_, (_, expires)| *expires >= now);
    }
}

/// Actions of clients with the pure handler, and faults of servers.
impl Model {
    /// Subscribes the client to its channel.
    pub fn connect(&mut self, client: &Arc<str>) {
        self.clients.insert(client.clone());
    }

    pub fn disconnect(&mut self, client: &Arc<str>) {
        self.clients.remove(client);
    }

    /// Runs `SET … NX PX`, by which the pure handler takes a name. Only the holder knows the token.
    pub fn set_nx(&mut self, now: Duration, name: &Name, attempt: &Attempt, ttl: Duration) -> bool {
        self.expire(now);
        let free = self.is_free(name);
        if free {
            let holder = Holder { attempt: attempt.clone(), token: None };
            self.locks.insert(name.clone(), Lock { holder, expires: now + ttl, granted: now, ttl: None });
        }
        free
    }

    /// Notes that clients of the pure handler wait. They repeat this within `ttl`.
    pub fn pure_waits(&mut self, now: Duration, ttl: Duration) {
        self.pure_waiters = Some(now + ttl);
    }

    /// Deletes a name's key, as an operator or its ttl might.
    pub fn delete(&mut self, name: &Name) {
        self.shares.remove(name);
        self.locks.remove(name);
    }

    /// Ends a waiter's ttl.
    pub fn expire_waiter(&mut self, attempt: &Attempt) {
        self.queue.expire_waiter(attempt);
    }

    /// Deletes the queue, but not the waiters' records.
    pub fn delete_queue(&mut self) {
        self.queue.delete_members();
    }

    /// Deletes the waiters' records, but not the queue.
    pub fn delete_waiters(&mut self) {
        self.queue.delete_records();
    }

    /// Deletes all keys. Connections stay.
    pub fn flush(&mut self) {
        let clients = std::mem::take(&mut self.clients);
        let pushes = std::mem::take(&mut self.pushes);
        *self = Self { clients, pushes, ..Self::new(self.waiter_ttl, self.throughput) };
    }

    /// Ends the ttl of tombstones, and that of clients of the pure handler.
    pub fn end_tombstones(&mut self) {
        self.tombstones.clear();
        self.pure_waiters = None;
    }

    pub fn set_counter(&mut self, counter: u64) {
        self.counter = Some(counter);
    }

    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// The number of names that an attempt holds.
    pub fn holding(&self, attempt: &Attempt) -> usize {
        let parts = self.shares.keys().filter(|name| self.has_part(name, attempt)).count();
        self.locks.values().filter(|lock| lock.holder.attempt == *attempt).count() + parts
    }

    /// The number of names that a client's attempts hold.
    pub fn holding_of(&self, client: &Arc<str>) -> usize {
        self.locks.values().filter(|lock| lock.holder.attempt.client == *client).count()
    }

    /// Whether only the counter and tombstones are left.
    pub fn is_idle(&self) -> bool {
        self.locks.is_empty() && self.shares.is_empty() && self.queue.is_empty() && self.queue.has_no_members()
    }
}

fn floor(now: Duration) -> u64 {
    now.as_millis() as u64 * PER_MS + u64::from(now.subsec_micros()) % 1000 * PER_US
}
