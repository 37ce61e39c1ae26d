//! What this process knows of the generation of a namespace on one server. All connections to the server share it.
//!
//! A known generation may be used for a time ([`Clearing`]); then the next command is preceded by a question, in the same
//! send. Answers arrive on several connections and in any order. Each counts only as much as its question allows: if the
//! generation changed here after the question was submitted, nobody knows which is later, so the next command asks again.
//! What was cleared here stays cleared here, whatever older answers say.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::generation::new_generation;
use crate::near::Near;
use pinyon_net::fork::PerProcess;
use pinyon_proto::{Generation, KeyRules};

/// A namespace that can be cleared.
#[derive(Debug)]
pub struct Clearing {
    namespace: Box<[u8]>,
    /// The key of the item with its generation.
    key: Box<[u8]>,
    /// How long a known generation is used without asking.
    ttl: Duration,
    clock: fn() -> Instant,
    /// The client's hot keys, which a clear makes obsolete.
    near: Option<Arc<Near>>,
}

impl Clearing {
    pub fn new(namespace: &[u8], ttl: Duration) -> Self {
        let key = KeyRules::generation_key(namespace).into();
        Self { namespace: namespace.into(), key, ttl, clock: Instant::now, near: None }
    }

    /// The same of a client that keeps hot keys in memory.
    pub fn keeping(self, near: Option<&Arc<Near>>) -> Self {
        Self { near: near.cloned(), ..self }
    }

    /// The same with another clock.
    #[cfg(test)]
    pub fn by_clock(self, clock: fn() -> Instant) -> Self {
        Self { clock, ..self }
    }

    /// Forgets hot keys, which may be of an earlier generation. Call it once the later one is known.
    fn forget(&self) {
        self.near.iter().for_each(|near| near.forget_all());
    }

    pub(super) fn namespace(&self) -> &[u8] {
        &self.namespace
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

#[derive(Debug)]
pub(crate) struct Generations {
    clearing: Arc<Clearing>,
    known: PerProcess<Mutex<Known>>,
}

/// The present state, for the process that has the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) generation: Option<Generation>,
    /// When the last question was submitted whose answer confirmed it.
    asked_at: Option<Instant>,
    /// How often it changed here.
    changes: u64,
    /// Whether a clear did not reach the server, so that the next command has to be preceded by it: the number of the change.
    owed_since: Option<u64>,
}

/// A question about the generation, or its replacement, whose answer is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) purpose: Purpose,
    at: Instant,
    /// How often the generation had changed here.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Ask,
    /// To ask, and to begin with this one if there is none.
    Begin(Generation),
    Replace(Generation),
}

impl Generations {
    pub(crate) fn new(clearing: Arc<Clearing>) -> Self {
        Self { clearing, known: PerProcess::new(Mutex::default()) }
    }

    pub(super) fn clearing(&self) -> &Clearing {
        &self.clearing
    }

    pub(super) fn known(&self) -> Known {
        *self.lock()
    }

    pub(super) fn now(&self) -> Instant {
        (self.clearing.clock)()
    }

    /// Whether what was asked at that time may be used now.
    pub(super) fn is_recent(&self, asked_at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(asked_at) < self.clearing.ttl
    }

    /// Whether the known generation may be used now.
    pub(super) fn is_fresh(&self, known: &Known, now: Instant) -> bool {
        known.asked_at.is_some_and(|asked_at| self.is_recent(asked_at, now))
    }

    pub(super) fn question(&self, purpose: Purpose) -> Question {
        Question { purpose, at: self.now(), changes: self.lock().changes }
    }

    /// A generation that was never there.
    pub(super) fn new_generation(&self) -> Generation {
        new_generation(self.lock().generation)
    }

    /// Takes the answer to a question: the server's generation, or that it has none.
    pub(super) fn settle(&self, question: &Question, heard: Option<Generation>) {
        let mut known = self.lock();
        let replaces = matches!(question.purpose, Purpose::Replace(_));
        if replaces && known.is_paid_by(question) {
            known.owed_since = None;
        }
        if heard.is_some() && heard == known.generation {
            known.asked_at = known.asked_at.max(Some(question.at));
            return;
        }
        let is_ordered = known.changes == question.changes;
        if is_ordered || replaces {
            known.generation = heard;
            known.changes += 1;
        }
        known.asked_at = is_ordered.then_some(question.at);
        drop(known);
        self.clearing.forget();
    }

    /// Takes note of a clear that may not have reached the server.
    pub(crate) fn owe(&self) {
        let mut known = self.lock();
        known.changes += 1;
        known.owed_since = Some(known.changes);
        drop(known);
        self.clearing.forget();
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Whether the server still has to be cleared, before the next command.
    pub(super) fn owes(&self) -> bool {
        self.owed_since.is_some()
    }

    /// Whether no clear is owed that failed after this replacement was submitted.
    pub(super) fn is_paid_by(&self, replacement: &Question) -> bool {
        self.owed_since.is_none_or(|since| replacement.changes >= since)
    }
}

impl Question {
    pub(super) fn is_recent(&self, generations: &Generations, now: Instant) -> bool {
        generations.is_recent(self.at, now)
    }
}
