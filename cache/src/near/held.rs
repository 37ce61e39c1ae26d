//! A value in memory, and when it was last known to be current.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::{Head, Item, Status};

/// A value that a server has sent.
#[derive(Clone, Copy, Debug)]
pub struct Read<'r> {
    pub bytes: &'r [u8],
    pub client_flags: u32,
    /// The server's name.
    pub server: &'r Arc<str>,
    /// The item's CAS token, if the server told it.
    pub token: Option<u64>,
}

/// A value in memory.
#[derive(Debug)]
pub struct Held {
    pub bytes: Box<[u8]>,
    pub client_flags: u32,
    /// The name of the server that sent it.
    pub server: Arc<str>,
    /// The item's CAS token, if it is known.
    pub(super) token: Option<NonZeroU64>,
    /// The number of the key's stripe.
    pub(super) stripe: usize,
    /// From then on it is asked for again. How long a value is fresh counts from the moment before it was asked for.
    pub(super) stale_from: Instant,
    /// Whether a reader asks for it again.
    is_asked_for: AtomicBool,
}

impl Held {
    pub(super) fn new(read: Read<'_>, stripe: usize, stale_from: Instant) -> Self {
        let Read { bytes, client_flags, server, token } = read;
        // A server that was started with -C gives every item the token 0.
        let (token, is_asked_for) = (token.and_then(NonZeroU64::new), AtomicBool::new(false));
        Self { bytes: bytes.into(), client_flags, server: server.clone(), token, stripe, stale_from, is_asked_for }
    }

    /// The same, as it was read.
    pub(super) fn read(&self) -> Read<'_> {
        let token = self.token.map(NonZeroU64::get);
        Read { bytes: &self.bytes, client_flags: self.client_flags, server: &self.server, token }
    }

    /// The head of a reply that has this value.
    #[inline]
    pub fn head(&self) -> Head {
        let item = Item { client_flags: self.client_flags, ..Item::default() };
        Head { size: Some(self.bytes.len()), item, ..Head::of(Status::Hit) }
    }

    #[inline]
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        now < self.stale_from
    }

    /// How long it is no longer fresh.
    pub(super) fn is_stale_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.stale_from)
    }

    /// Whether the caller is now the only one to ask for it again.
    pub(super) fn claim(&self) -> bool {
        !self.is_asked_for.swap(true, Ordering::Acquire)
    }

    pub(super) fn release(&self) {
        self.is_asked_for.store(false, Ordering::Release);
    }
}
