//! What this process knows of the generations of tags. All connections of a client share it.
//!
//! An answer counts only as much as its question allows: if the tag was invalidated here after the question was asked, or
//! while it was under way, nobody knows which is later, so the next reader asks again. What was invalidated here stays so
//! here, whatever older answers say. Memory is bounded: the tags that were used least lately are forgotten, which costs a
//! question.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::generation::new_generation;
use foldhash::HashMap;
use pinyon_net::fork::PerProcess;
use pinyon_proto::{Generation, KeyRules};

/// So many tags are remembered at least, and twice as many at most.
const REMEMBERED: usize = 4096;

/// What a client knows of its tags.
#[derive(Debug)]
pub struct KnownTags {
    rules: KeyRules,
    /// How long a generation is used without asking.
    ttl: Duration,
    clock: fn() -> Instant,
    remembered: usize,
    known: PerProcess<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Those that were used since it was empty.
    young: HashMap<Box<[u8]>, Tag>,
    /// Those that were used before.
    old: HashMap<Box<[u8]>, Tag>,
    /// How often a tag was invalidated here, each counted when it begins and when it ends.
    changes: u64,
    /// The latest change of a tag that was forgotten.
    forgotten: u64,
    /// The last generation that was made here.
    made: Option<Generation>,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    generation: Option<Generation>,
    /// When the question was asked whose answer this is.
    asked_at: Option<Instant>,
    /// Its latest change here.
    changed: u64,
}

/// When something was asked of a server or stored there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    at: Instant,
    changes: u64,
}

impl KnownTags {
    /// `rules`: how the client forms keys. `ttl`: how long a generation is used without asking.
    pub fn new(rules: KeyRules, ttl: Duration) -> Self {
        let known = PerProcess::new(Mutex::default());
        Self { rules, ttl, clock: Instant::now, remembered: REMEMBERED, known }
    }

    /// The same with another clock, and room for so many tags.
    #[cfg(test)]
    pub(crate) fn with(self, clock: fn() -> Instant, remembered: usize) -> Self {
        Self { clock, remembered, ..self }
    }

    pub(crate) fn rules(&self) -> &KeyRules {
        &self.rules
    }

    /// The generation of a tag, if it may be used without asking.
    pub(crate) fn fresh(&self, name: &[u8]) -> Option<Generation> {
        let now = (self.clock)();
        let tag = self.lock().used(name, self.remembered)?;
        let is_fresh = tag.asked_at.is_some_and(|at| now.saturating_duration_since(at) < self.ttl);
        tag.generation.filter(|_| is_fresh)
    }

    /// Whether a generation was heard, however long ago.
    pub(crate) fn was_there(&self, name: &[u8]) -> bool {
        self.lock().used(name, self.remembered).is_some_and(|tag| tag.generation.is_some())
    }

    /// To be called before something is asked of a server.
    pub(crate) fn question(&self) -> Question {
        Question { at: (self.clock)(), changes: self.lock().changes }
    }

    /// Takes the server's answer: its generation of the tag, or that it has none.
    pub(crate) fn heard(&self, name: &[u8], question: &Question, generation: Option<Generation>) {
        let mut known = self.lock();
        let tag = known.used(name, self.remembered);
        let changed = tag.map_or(known.forgotten, |tag| tag.changed);
        let is_older = tag.is_some_and(|tag| tag.asked_at > Some(question.at));
        if changed <= question.changes && !is_older {
            known.keep(name, Tag { generation, asked_at: Some(question.at), changed }, self.remembered);
        }
    }

    /// Begins to invalidate a tag: until the server has answered, readers ask. Returns what [`Self::invalidated`] takes.
    pub(crate) fn invalidating(&self, name: &[u8]) -> Question {
        let mut known = self.lock();
        let changes = known.change(name, self.remembered, None, None);
        Question { at: (self.clock)(), changes }
    }

    /// Takes note that the server has the new generation. `None`: perhaps it has it.
    pub(crate) fn invalidated(&self, name: &[u8], question: &Question, generation: Option<Generation>) {
        let mut known = self.lock();
        let is_only = known.used(name, self.remembered).is_some_and(|tag| tag.changed == question.changes);
        let generation = generation.filter(|_| is_only);
        known.change(name, self.remembered, generation, generation.map(|_| question.at));
    }

    /// A generation that no tag ever had: later than all that this process has made.
    pub(crate) fn new_generation(&self) -> Generation {
        let mut known = self.lock();
        let new = new_generation(known.made);
        known.made = Some(new);
        new
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// What is known of a tag, which is used now.
    fn used(&mut self, name: &[u8], remembered: usize) -> Option<Tag> {
        if let Some(tag) = self.young.get(name) {
            return Some(*tag);
        }
        let tag = self.old.remove(name)?;
        self.keep(name, tag, remembered);
        Some(tag)
    }

    fn keep(&mut self, name: &[u8], tag: Tag, remembered: usize) {
        self.old.remove(name);
        self.young.insert(name.into(), tag);
        if self.young.len() > remembered {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.forgotten = forgotten.values().map(|tag| tag.changed).fold(self.forgotten, u64::max);
        }
    }

    fn change(
        &mut self,
        name: &[u8],
        remembered: usize,
        generation: Option<Generation>,
        asked_at: Option<Instant>,
    ) -> u64 {
        self.changes += 1;
        let changed = self.changes;
        self.keep(name, Tag { generation, asked_at, changed }, remembered);
        changed
    }
}
