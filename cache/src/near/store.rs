//! The hot keys of one process.

use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

// It decides which keys share a stripe. In each run of the tests, they are the same.
#[cfg(test)]
use foldhash::fast::FixedState as Hashing;
#[cfg(not(test))]
use foldhash::fast::RandomState as Hashing;
use pinyon_net::fork;
use pinyon_proto::Key;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Lifecycle, OptionsBuilder, Weighter};

use super::{Held, Limits, Look, Read};

/// Keys that share an epoch. While one is written, the others of its stripe are not filled.
const STRIPES: usize = 512;

/// The bytes that an entry takes beside its key and its value: places in the tables, the counters of both boxes, and what
/// the allocator adds.
const OVERHEAD: usize = 200;

/// The usual size of an entry, which decides how many keys that were evicted are remembered.
const USUAL: usize = OVERHEAD + 128;

/// The parts of a store, each with a lock and a share of the bytes of its own: at most so many, and each of at least so many
/// bytes. What does not fit in one part is not kept.
const MOST_PARTS: usize = 16;
const BYTES_OF_A_PART: usize = 2 * 1024 * 1024;

/// Longer times are as long: a clock has no moment after all of them.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A child's epochs begin two to this power above its parent's, so that no ticket of the parent fits one of them.
const EPOCHS_OF_A_PROCESS: u32 = 44;

/// What a store of hot keys did in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Values returned without asking a server.
    pub hits: u64,
    /// Old values that were asked for again, and replaced by what was read, or found to be unchanged.
    pub revalidations: u64,
    /// Values that were asked of a server and kept, revalidations included.
    pub fills: u64,
    /// Values that made room for others.
    pub evictions: u64,
    /// The bytes in use, with what it takes to keep them.
    pub bytes: u64,
}

/// The right to fill a key with what is read from a server now.
#[derive(Debug)]
pub struct Ticket {
    stripe: usize,
    /// `None` if the key was being written.
    epoch: Option<u64>,
    /// The moment before the key is asked for.
    asked: Instant,
    known: Option<Arc<Held>>,
    has_claimed: bool,
}

#[derive(Debug, Default)]
struct Stripe {
    writes: Mutex<Writes>,
    hits: AtomicU64,
}

/// The writes of a stripe's keys.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Begins anew with each beginning and each end of a write.
    epoch: u64,
    under_way: usize,
}

/// A key as it is kept. Base64 of one key can be the plain text of another.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    wire: Box<[u8]>,
    is_base64: bool,
}

/// The same in the caller's memory. It has the same hash.
struct Sought<'k> {
    wire: &'k [u8],
    is_base64: bool,
}

#[derive(Debug)]
pub(super) struct Store {
    limits: Limits,
    values: Cache<Kept, Arc<Held>, Weight, Hashing, Evictions>,
    stripes: Box<[Stripe]>,
    hasher: Hashing,
    revalidations: AtomicU64,
    fills: AtomicU64,
    evictions: Evictions,
}

#[derive(Clone, Debug)]
struct Weight;

#[derive(Clone, Debug, Default)]
struct Evictions(Arc<AtomicU64>);

impl Writes {
    /// Whether what was read with this ticket may be kept: no write of the key has begun or ended since.
    fn allow(&self, ticket: &Ticket) -> bool {
        self.under_way == 0 && ticket.epoch == Some(self.epoch)
    }
}

impl<'k> Sought<'k> {
    #[inline]
    fn of(key: Key<'k>) -> Self {
        Self { wire: key.wire(), is_base64: key.is_base64() }
    }

    fn kept(&self) -> Kept {
        Kept { wire: self.wire.into(), is_base64: self.is_base64 }
    }
}

// Without the length, and without the form, which hardly ever tells two keys apart.
impl Hash for Sought<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.wire);
    }
}

impl Hash for Kept {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.wire);
    }
}

impl Equivalent<Kept> for Sought<'_> {
    #[inline]
    fn equivalent(&self, kept: &Kept) -> bool {
        *self.wire == *kept.wire && self.is_base64 == kept.is_base64
    }
}

impl Ticket {
    /// The value that was in memory, if it is asked for again.
    pub fn known(&self) -> Option<&Arc<Held>> {
        self.known.as_ref()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let (true, Some(held)) = (self.has_claimed, &self.known) {
            held.release();
        }
    }
}

impl Store {
    pub(super) fn new(limits: Limits) -> Self {
        let first = fork::generation() << EPOCHS_OF_A_PROCESS;
        let writes = || Writes { epoch: first, under_way: 0 }.into();
        let stripes = (0..STRIPES).map(|_| Stripe { writes: writes(), ..Stripe::default() }).collect();
        let (hasher, evictions) = (Hashing::default(), Evictions::default());
        let parts = 1 << (limits.bytes / BYTES_OF_A_PART).clamp(1, MOST_PARTS).ilog2();
        let options = OptionsBuilder::new()
            .shards(parts)
            .estimated_items_capacity(limits.bytes / USUAL + 1)
            .weight_capacity((limits.bytes / parts * parts) as u64)
            .build()
            .expect("all options are set");
        Self {
            limits: Limits { fresh: limits.fresh.min(FOREVER), ..limits },
            values: Cache::with_options(options, Weight, hasher.clone(), evictions.clone()),
            stripes,
            hasher,
            revalidations: AtomicU64::new(0),
            fills: AtomicU64::new(0),
            evictions,
        }
    }

    /// A forked child's store. It takes nothing of the parent's, whose locks may be held by threads that do not exist.
    pub(super) fn for_child(parents: &Self) -> Self {
        Self::new(parents.limits)
    }

    #[inline]
    pub(super) fn look(&self, key: Key<'_>, now: Instant) -> Look {
        match self.values.get(&Sought::of(key)) {
            Some(held) if held.is_fresh(now) => self.hit(held),
            known => self.look_again(key, now, known),
        }
    }

    #[inline]
    pub(super) fn fresh(&self, wire: &[u8], is_base64: bool, now: Instant) -> Option<Arc<Held>> {
        self.values.get(&Sought { wire, is_base64 }).filter(|held| held.is_fresh(now))
    }

    #[inline]
    pub(super) fn used(&self, held: &Held) {
        self.stripes[held.stripe].hits.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn hit(&self, held: Arc<Held>) -> Look {
        self.used(&held);
        Look::Hit(held)
    }

    #[cold]
    fn look_again(&self, key: Key<'_>, now: Instant, known: Option<Arc<Held>>) -> Look {
        let has_claimed = known.as_ref().is_some_and(|held| held.claim());
        match known {
            Some(held) if !has_claimed && held.is_stale_for(now) < self.limits.grace => self.hit(held),
            known => {
                let stripe = self.stripe(key);
                let writes = *self.writes(stripe);
                let epoch = (writes.under_way == 0).then_some(writes.epoch);
                Look::Ask(Ticket { stripe, epoch, asked: now, known, has_claimed })
            }
        }
    }

    pub(super) fn fill(&self, key: Key<'_>, ticket: Ticket, value: Read<'_>) {
        let held = Arc::new(Held::new(value, ticket.stripe, self.stale_from(&ticket)));
        let writes = self.writes(ticket.stripe);
        if !writes.allow(&ticket) || self.has_newer(key, &ticket) {
            return;
        }
        self.values.insert(Sought::of(key).kept(), held);
        self.fills.fetch_add(1, Ordering::Relaxed);
        if ticket.known.is_some() {
            self.revalidations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The CAS token of the value that is asked for again, if the server at the other end of a connection gave it to this
    /// item. `server`: its name. `connected`: since when the connection is there, at the latest.
    pub(super) fn token(&self, ticket: &Ticket, server: &str, connected: Instant) -> Option<u64> {
        let known = ticket.known.as_ref()?;
        let is_of_this_server = *known.server == *server && connected + self.limits.fresh <= known.stale_from;
        known.token.filter(|_| is_of_this_server).map(NonZeroU64::get)
    }

    pub(super) fn missing(&self, key: Key<'_>, ticket: Ticket) {
        let writes = self.writes(ticket.stripe);
        if writes.allow(&ticket) && !self.has_newer(key, &ticket) {
            self.values.remove(&Sought::of(key));
        }
    }

    pub(super) fn forget(&self, key: Key<'_>) {
        self.writes(self.stripe(key)).epoch += 1;
        self.values.remove(&Sought::of(key));
    }

    /// Begins a write. Returns the key's stripe.
    pub(super) fn begin_write(&self, key: Key<'_>) -> usize {
        let stripe = self.stripe(key);
        let mut writes = self.writes(stripe);
        writes.epoch += 1;
        writes.under_way += 1;
        drop(writes);
        self.values.remove(&Sought::of(key));
        stripe
    }

    pub(super) fn end_write(&self, stripe: usize) {
        let mut writes = self.writes(stripe);
        writes.epoch += 1;
        writes.under_way -= 1;
    }

    pub(super) fn forget_all(&self) {
        (0..STRIPES).for_each(|stripe| self.writes(stripe).epoch += 1);
        self.values.clear();
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            hits: self.stripes.iter().map(|stripe| stripe.hits.load(Ordering::Relaxed)).sum(),
            revalidations: self.revalidations.load(Ordering::Relaxed),
            fills: self.fills.load(Ordering::Relaxed),
            evictions: self.evictions.0.load(Ordering::Relaxed),
            bytes: self.values.weight(),
        }
    }

    /// Whether another reader has asked after this moment, and was faster.
    fn has_newer(&self, key: Key<'_>, ticket: &Ticket) -> bool {
        self.values.peek(&Sought::of(key)).is_some_and(|held| held.stale_from > self.stale_from(ticket))
    }

    /// Until when a value is fresh that is asked for with this ticket.
    fn stale_from(&self, ticket: &Ticket) -> Instant {
        ticket.asked + self.limits.fresh
    }

    fn stripe(&self, key: Key<'_>) -> usize {
        self.hasher.hash_one(Sought::of(key)) as usize % STRIPES
    }

    /// The writes of a stripe. None of its keys begins to be written, or is filled, until this is dropped.
    fn writes(&self, stripe: usize) -> MutexGuard<'_, Writes> {
        self.stripes[stripe].writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Weighter<Kept, Arc<Held>> for Weight {
    fn weight(&self, key: &Kept, held: &Arc<Held>) -> u64 {
        (key.wire.len() + held.bytes.len() + OVERHEAD) as u64
    }
}

impl Lifecycle<Kept, Arc<Held>> for Evictions {
    type RequestState = Option<Arc<Held>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Kept, held: Arc<Held>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        *evicted = Some(held);
    }
}
