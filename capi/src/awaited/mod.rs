//! Callers of event loops, who may leave while their value arrives, and where values go meanwhile.

pub mod callers;

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use pinyon_cache::dialect::{Packing, ValueError};
use pinyon_cache::operations::{AnyOperation, Fetch, Fetched, Head, OwnedData, OwnedKey, Policy, Values};
use pinyon_cache::{Destination, Value};

use callers::Caller;

use crate::many::keys::Slotted;
use crate::many::reading::{tell, Slots};
use crate::placing::{Placed, Placing};
use crate::status::Status;

/// What a loop carries out, and each pool of two.
pub type Operation = AnyOperation<OwnedKey, OwnedData, LoopValues>;

/// Takes the values of one operation of a loop.
pub enum LoopValues {
    One(OneValue),
    Many(ManyValues),
    /// Keeps values, for requests on two pools.
    Kept(Placing<Arc<Packing>>),
}

impl From<Placing<Arc<Packing>>> for LoopValues {
    fn from(placing: Placing<Arc<Packing>>) -> Self {
        Self::Kept(placing)
    }
}

impl Values for LoopValues {
    type Value = Placed;
    type Error = ValueError;

    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Placed, ValueError> {
        match self {
            Self::One(one) => one.read(head, value, server),
            Self::Kept(placing) => placing.read(head, value, server),
            Self::Many(_) => unreachable!("each key is read by its index"),
        }
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        match self {
            Self::One(one) => one.destination(head),
            Self::Kept(placing) => placing.destination(head),
            Self::Many(_) => unreachable!("as above"),
        }
    }

    fn read_of(&self, index: usize, head: &Head, value: Value<'_>, server: &str) -> Result<Placed, ValueError> {
        match self {
            Self::One(one) => one.read(head, value, server),
            Self::Kept(placing) => placing.read(head, value, server),
            Self::Many(many) => Ok(many.read_of(index, head, value, server)),
        }
    }

    fn destination_of(&self, index: usize, head: &Head) -> Box<dyn Destination> {
        match self {
            Self::One(one) => one.destination(head),
            Self::Kept(placing) => placing.destination(head),
            Self::Many(many) => many.destination_of(index, head),
        }
    }
}

/// The structs of keys that a caller wants.
pub struct Wanted {
    pub slots: Slotted<Arc<Packing>>,
    pub policy: Policy,
}

// SAFETY: the host says that its structs may be used, and that its pointers may be passed to `place`, from the thread that
// drives the loop. No other thread uses them.
unsafe impl Send for Wanted {}
// SAFETY: whoever shares it reads and writes the structs in that thread alone.
unsafe impl Sync for Wanted {}

impl Wanted {
    /// Fills the structs with what was read.
    #[cold]
    pub fn end(&self, fetch: Fetch<LoopValues>) -> Status {
        let Fetched { found, unanswered, .. } = fetch.finish();
        tell(&self.slots, self.policy, &found, unanswered);
        self.slots.status()
    }
}

/// Takes the values of many keys. Each value goes to the host's memory, and is noted in the key's struct. Neither is used once
/// the caller has left.
pub struct ManyValues {
    pub wanted: Arc<Wanted>,
    pub caller: Arc<Caller>,
}

impl ManyValues {
    #[inline]
    fn read_of(&self, index: usize, head: &Head, value: Value<'_>, server: &str) -> Placed {
        if !self.caller.is_gone() {
            self.wanted.slots.take(index, |placing| placing.read(head, value, server));
        }
        Placed { client_flags: head.item.client_flags, kept: None }
    }

    fn destination_of(&self, index: usize, head: &Head) -> Box<dyn Destination> {
        let size = head.size.unwrap_or_default();
        if self.caller.is_gone() {
            return Box::new(vec![0; size]);
        }
        let placing = self.wanted.slots.placing(index);
        match placing.host_memory(head) {
            Some(memory) => Box::new(WhileAwaited { memory, caller: self.caller.clone(), instead: Vec::new(), size }),
            None => placing.destination(head),
        }
    }
}

/// Takes the value of one request. It asks for no place, and uses none, once its caller has left.
pub struct OneValue {
    pub placing: Placing<Arc<Packing>>,
    pub caller: Arc<Caller>,
    /// Whether a large value is being received into the host's memory.
    pub is_placed: Cell<bool>,
}

impl OneValue {
    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, server: &str) -> Result<Placed, ValueError> {
        let client_flags = head.item.client_flags;
        if self.caller.is_gone() {
            return Ok(Placed { client_flags, kept: Some(Vec::new()) });
        }
        match value {
            Value::Received(_) if self.is_placed.take() => Ok(Placed { client_flags, kept: None }),
            value => self.placing.read(head, value, server),
        }
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        let size = head.size.unwrap_or_default();
        self.is_placed.set(false);
        if self.caller.is_gone() {
            return Box::new(vec![0; size]);
        }
        match self.placing.host_memory(head) {
            Some(memory) => {
                self.is_placed.set(true);
                Box::new(WhileAwaited { memory, caller: self.caller.clone(), instead: Vec::new(), size })
            }
            None => self.placing.destination(head),
        }
    }
}

/// Memory of the host's, as long as the caller waits. What arrives later goes elsewhere: the host may have freed it.
#[derive(Debug)]
struct WhileAwaited {
    memory: Box<dyn Destination>,
    caller: Arc<Caller>,
    instead: Vec<u8>,
    size: usize,
}

impl Destination for WhileAwaited {
    fn bytes(&self) -> &[u8] {
        match self.caller.is_gone() {
            false => self.memory.bytes(),
            true => &self.instead,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if !self.caller.is_gone() {
            return self.memory.bytes_mut();
        }
        self.instead.resize(self.size, 0);
        &mut self.instead
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
