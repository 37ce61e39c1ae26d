//! Hot keys in memory: what a process has read of a key a moment ago, for all its threads and loops.
//!
//! A [`Near`] holds raw bytes, client flags and CAS tokens, and never the host's objects, so callers never share an object
//! that can change. Its keys are keys as they are sent. It never waits for a server and reads no clock: a reader
//! [looks](Near::look) first, and if it is told to [`Ask`](Look::Ask), it asks a server and reports what it read.
//!
//! # What may be stale, and for how long
//!
//! An age counts from the moment before the value was asked for, so a value of age `a` was current at some moment of the
//! last `a` seconds.
//!
//! - A value younger than `fresh` is returned without asking.
//! - An older one is asked for again by one reader at a time. Until `fresh + grace`, other readers get the old value
//!   meanwhile. From then on they ask too, so nobody gets a value older than that, even if no server answers.
//!
//! # Revalidation
//!
//! A value that is asked for again is not sent again if the item still has its CAS token, by memcached from 1.6.40 on
//! (`C` on `mg`). So values are read with their tokens where the server can make use of them: if they are read alone, or
//! if the key was in memory before. Many that are read for the first time share a classic line, and have none.
//!
//! memcached counts its tokens from 1 after each start, so a token proves nothing to another process than the one that
//! gave it. It is used only on a connection that was there before the value was asked for: what is at its other end gave
//! the token, as long as one name means one process.
//!
//! # Writes of this process
//!
//! A writer [begins a write](Near::write) before it sends its command, and ends it when the command is over, however it ended.
//! The key is forgotten at once. Nothing that was asked for before the end of the write is kept afterwards, because it may
//! be what was there before the write: the beginning and the end begin new *epochs* of the key's stripe, and a read that
//! began in another epoch does not fill. Its caller gets what it read nevertheless.
//!
//! Sessions do this for every command that changes an item ([`session`](crate::session)), so no operation, driver or
//! binding can miss one. A clear of the namespace, made here or learned of, forgets all keys.
//!
//! # The crate underneath
//!
//! quick_cache brings two small dependencies and no thread. A hit takes a read lock of a shard, one look into a hash table
//! and one counter of the entry. moka has a queue of reads that somebody must drain, timers, and three times the
//! dependencies; expiry is decided here in any case. Admission is quick_cache's (Clock-PRO): a new key enters a cold part,
//! and moves to the hot part if it is asked for again, so a scan flushes only the cold part.

mod held;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use held::{Held, Read};
pub use store::{Figures, Ticket};

use pinyon_net::fork::{self, PerProcess};
use pinyon_proto::{Key, KeyRules};
use store::Store;

/// The limits of a store of hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of all keys and values, with what it takes to keep them.
    pub bytes: usize,
    /// The age until which a value is returned without asking.
    pub fresh: Duration,
    /// How much longer readers get an old value while another reader asks: the client's timeout.
    pub grace: Duration,
}

/// What to do about a key.
#[derive(Debug)]
pub enum Look {
    /// Return this value.
    Hit(Arc<Held>),
    /// Ask a server, and report the outcome with this ticket.
    Ask(Ticket),
}

/// The hot keys of a client and its views, in each process. A forked child begins without any.
#[derive(Debug)]
pub struct Near {
    stores: PerProcess<Store>,
}

/// A write of a key that is under way. Dropping it ends the write.
#[derive(Debug)]
pub struct Write {
    near: Arc<Near>,
    stripe: usize,
    /// The process that began it.
    generation: u64,
}

/// A key that is being asked for, to be kept.
#[derive(Debug)]
pub struct Asked {
    near: Arc<Near>,
    ticket: Ticket,
}

impl Near {
    pub fn new(limits: Limits) -> Self {
        Self { stores: PerProcess::new(Store::new(limits)) }
    }

    /// Looks for a key.
    #[inline]
    pub fn look(&self, key: Key<'_>, now: Instant) -> Look {
        self.store().look(key, now)
    }

    /// A value that may be returned without asking, for callers that make no operation of a hit. Count its use
    /// ([`Self::used`]). `given`: the user's key. One that is not found may be there nevertheless: an operation finds it.
    #[inline]
    pub fn fresh(&self, rules: &KeyRules, given: &[u8], now: Instant) -> Option<Arc<Held>> {
        match rules.leaves(given) {
            true => self.store().fresh(given, false, now),
            false => self.fresh_of_written(rules, given, now),
        }
    }

    #[inline(never)]
    fn fresh_of_written(&self, rules: &KeyRules, given: &[u8], now: Instant) -> Option<Arc<Held>> {
        let mut wire = Vec::new();
        let is_base64 = rules.push(given, &mut wire).ok()?;
        self.store().fresh(&wire, is_base64, now)
    }

    /// Counts a value of [`Self::fresh`] that is returned.
    #[inline]
    pub fn used(&self, held: &Held) {
        self.store().used(held);
    }

    /// Keeps what a server answered, unless the key was written meanwhile.
    pub fn fill(&self, key: Key<'_>, ticket: Ticket, value: Read<'_>) {
        self.store().fill(key, ticket, value);
    }

    /// Takes note that a server has no such key.
    pub fn missing(&self, key: Key<'_>, ticket: Ticket) {
        self.store().missing(key, ticket);
    }

    /// Begins a write of a key.
    pub fn write(self: &Arc<Self>, key: Key<'_>) -> Write {
        let (stripe, generation) = (self.store().begin_write(key), fork::generation());
        Write { near: self.clone(), stripe, generation }
    }

    /// Forgets a key, and what any read that is under way will read of it.
    pub fn forget(&self, key: Key<'_>) {
        self.store().forget(key);
    }

    /// Forgets all keys, and what any read that is under way will read.
    pub fn forget_all(&self) {
        self.store().forget_all();
    }

    pub fn figures(&self) -> Figures {
        self.store().figures()
    }

    #[inline]
    fn store(&self) -> &Store {
        self.stores.get(Store::for_child)
    }
}

impl Asked {
    pub fn new(near: Arc<Near>, ticket: Ticket) -> Self {
        Self { near, ticket }
    }

    /// The value that was in memory before.
    pub fn known(&self) -> Option<&Arc<Held>> {
        self.ticket.known()
    }

    /// The CAS token by which the server at the other end of a connection can tell whether this value has changed.
    /// `connected`: since when the connection is there, at the latest.
    pub fn token(&self, server: &str, connected: Instant) -> Option<u64> {
        self.near.store().token(&self.ticket, server, connected)
    }

    /// Keeps the value that was in memory before, as it is now known to be current, and returns it.
    pub fn unchanged(self, key: Key<'_>) -> Option<Arc<Held>> {
        let known = self.ticket.known()?.clone();
        self.near.fill(key, self.ticket, known.read());
        Some(known)
    }

    /// Keeps what a server answered: see [`Near::fill`].
    pub fn fill(self, key: Key<'_>, value: Read<'_>) {
        self.near.fill(key, self.ticket, value);
    }

    /// Takes note that a server has no such key.
    pub fn missing(self, key: Key<'_>) {
        self.near.missing(key, self.ticket);
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // A forked child's store knows nothing of its parent's writes.
        if self.generation == fork::generation() {
            self.near.store().end_write(self.stripe);
        }
    }
}
