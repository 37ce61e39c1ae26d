//! An event loop of a client: its requests share one connection to each server.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pinyon_cache::operations::{AnyOperation, Everywhere, OwnedData, OwnedKey, Quiet, Single};
use pinyon_cache::shared::{Finished, Shared};
use pinyon_cache::spare::{Reused, Spare, Vacant};
use pinyon_cache::LARGE;
use pinyon_net::driven::Stepwise;

use super::batch::Open;
use super::callers::{Caller, Callers, Waiting};
use super::reading::Wanted;
use super::values::{LoopValues, OneValue};
use crate::client::{Client, View};
use crate::errors::{Error, Failure};
use crate::placing::Placing;
use crate::replies::Status;
use crate::requests::{for_all, with, Keyed, Verb};
use crate::run::asked_servers;
use crate::structs::{Place, Reply, Request};

type OneKey = Single<OwnedKey, OwnedData, LoopValues>;
pub(super) type Operation = AnyOperation<OwnedKey, OwnedData, LoopValues>;
pub type Run = Quiet<OwnedKey, OwnedData>;

/// Memory for values that is kept for later ones, in pieces and in bytes of each.
const MOST_ROOMS: usize = 256;
const LARGEST_ROOM: usize = 4096;

/// The caller, and what it asked for.
pub struct Asked {
    pub(super) waiting: Waiting,
    pub(super) verb: Verb,
}

impl pinyon_cache::shared::Waiter for Asked {
    fn is_gone(&self) -> bool {
        self.waiting.is_gone()
    }
}

pub struct ClientLoop {
    client: Client,
    place: Option<Place>,
    pub(super) machine: Stepwise<Shared<Operation, Asked>>,
    pub(super) callers: Callers,
    spare: Spare<Vacant<OneKey>>,
    rooms: Vec<Vec<u8>>,
    /// Memory of keys and data blocks for others.
    texts: Vec<Vec<u8>>,
    /// No other loop of the process has it.
    pub(super) number: u64,
    pub(super) batches_made: u64,
    pub(super) open_batches: HashMap<u64, Open>,
    /// The outcomes of batches that were not told yet.
    pub(super) outcomes: VecDeque<(Arc<Caller>, Status)>,
    /// The keys that are read for callers, by ticket.
    pub(super) wanted: HashMap<u64, Arc<Wanted>>,
}

impl ClientLoop {
    pub fn new(client: Client, place: Option<Place>) -> Result<Self, Error> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        client.check_open()?;
        let shared = Shared::new(client.shared.directory.clone(), client.shared.connections);
        Ok(Self {
            client,
            place,
            machine: Stepwise::new(shared),
            callers: Callers::default(),
            spare: Spare::default(),
            rooms: Vec::new(),
            texts: Vec::new(),
            number: MADE.fetch_add(1, Ordering::Relaxed),
            batches_made: 0,
            open_batches: HashMap::new(),
            outcomes: VecDeque::new(),
            wanted: HashMap::new(),
        })
    }

    pub fn machine(&mut self) -> &mut Stepwise<impl pinyon_net::driven::Driven> {
        &mut self.machine
    }

    /// Begins a request. Returns its ticket.
    ///
    /// # Safety
    /// The request's bytes stay as they are during the call, and its context may be passed to the loop's `place`.
    pub unsafe fn begin(&mut self, view: Option<&Client>, asked: &Request) -> Result<u64, Error> {
        // SAFETY: the caller says so.
        unsafe {
            match view {
                None => self.begin_for(&self.client.clone(), asked),
                Some(view) if self.is_of(view) => self.begin_for(view, asked),
                Some(_) => Err(no_view()),
            }
        }
    }

    #[inline]
    fn is_of(&self, view: &Client) -> bool {
        Arc::ptr_eq(&view.shared, &self.client.shared) && view.migrating.is_none()
    }

    pub(super) fn view_of<'v>(&'v self, view: Option<&'v Client>) -> Result<&'v Client, Error> {
        match view {
            None => Ok(&self.client),
            Some(view) if self.is_of(view) => Ok(view),
            Some(_) => Err(no_view()),
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    #[inline]
    unsafe fn begin_for(&mut self, view: &View, asked: &Request) -> Result<u64, Error> {
        view.check_open()?;
        let verb = Verb::of(asked)?;
        if verb.is_for_all() {
            let asking = Everywhere::new(for_all(verb, asked)?);
            return self.start(asked, verb, |_, _| asking.into());
        }
        // SAFETY: the caller says so.
        let (key, Keyed { request, data }) = unsafe {
            let mut scratch = Vec::new();
            let key = asked.key(view, &mut scratch)?;
            let keyed = Keyed::of(view, verb, asked)?;
            (OwnedKey::copied_to(self.texts.pop().unwrap_or_default(), key), keyed)
        };
        let data = data_of(data, || self.texts.pop().unwrap_or_default());
        let (packing, policy, is_raw) = (view.shared.packing.clone(), asked.policy(view), asked.has(with::RAW));
        self.start(asked, verb, |of, caller| {
            let room = Cell::new(of.rooms.pop().unwrap_or_default());
            let placing = Placing { packing, place: of.place, context: asked.context, is_raw, room };
            let value = OneValue { placing, caller: caller.0.clone(), is_placed: Cell::new(false) };
            let single = Single::new(request, key, data, LoopValues::One(value), policy);
            AnyOperation::Single(Reused::new(single, of.spare.take()))
        })
    }

    #[inline]
    fn start(
        &mut self,
        asked: &Request,
        verb: Verb,
        operation: impl FnOnce(&mut Self, &Waiting) -> Operation,
    ) -> Result<u64, Error> {
        let waiting = Waiting(self.callers.begin(asked.context));
        let ticket = waiting.0.ticket;
        let operation = operation(self, &waiting);
        self.start_operation(operation, Asked { waiting, verb }).map(|()| ticket)
    }

    #[inline]
    pub(super) fn start_operation(&mut self, operation: Operation, asked: Asked) -> Result<(), Error> {
        let ticket = asked.waiting.0.ticket;
        let begun = self.machine.begin(|machine, now| machine.start(operation, asked, now));
        begun.map_err(|error| {
            self.callers.end(ticket);
            Failure::usage(error.to_string())
        })
    }

    pub fn abandon(&mut self, ticket: u64) {
        self.callers.abandon(ticket);
        if !self.wanted.is_empty() {
            self.wanted.remove(&ticket);
        }
    }

    /// Whether no caller waits.
    pub fn is_idle(&self) -> bool {
        self.callers.is_empty()
    }

    /// Fills the next reply. False: there is none.
    #[inline(always)]
    pub fn next_reply(&mut self, reply: &mut Reply) -> bool {
        while let Some(finished) = self.machine.next_finished() {
            if finished.waiter.waiting.0.is_gone() {
                // It can only fail in a forked child, where a lease of the parent's is not given back.
                let _ = self.machine.begin(|machine, now| machine.take_back(finished, now));
                continue;
            }
            let Finished { operation, waiter: Asked { waiting: Waiting(caller), verb } } = finished;
            let operation = match operation {
                AnyOperation::Quiet(run) => match self.run_over(caller.ticket, *run, reply) {
                    true => return true,
                    false => continue,
                },
                other => other,
            };
            let room = reply.begin(caller.context);
            if room.capacity() > 0 && room.capacity() <= LARGEST_ROOM && self.rooms.len() < MOST_ROOMS {
                self.rooms.push(room);
            }
            reply.ticket = caller.ticket;
            self.callers.end(caller.ticket);
            drop(caller);
            self.fill(reply, verb, operation);
            return true;
        }
        !self.outcomes.is_empty() && self.next_outcome(reply)
    }

    #[inline]
    fn fill(&mut self, reply: &mut Reply, verb: Verb, operation: Operation) -> Status {
        match operation {
            AnyOperation::Single(mut single) => {
                let (directory, policy) = (&self.client.shared.directory, single.policy());
                let status = reply.fill::<LoopValues>(directory, policy, verb, single.take_answer());
                for memory in single.take_memory() {
                    if self.texts.len() < MOST_ROOMS && (1..=LARGEST_ROOM).contains(&memory.capacity()) {
                        self.texts.push(memory);
                    }
                }
                self.spare.give(single.vacate());
                status
            }
            AnyOperation::Everywhere(asking) => asked_servers([*asking], reply),
            AnyOperation::Fetch(fetch) => {
                let status = self.end_reading(reply.ticket, *fetch);
                reply.finish(status)
            }
            _ => unreachable!("no other operations are begun"),
        }
    }
}

/// A copy of the data block to send. It is in `memory`, unless it is large.
#[inline(always)]
pub(super) fn data_of(data: Option<Cow<'_, [u8]>>, memory: impl FnOnce() -> Vec<u8>) -> OwnedData {
    match data {
        None => OwnedData::Nothing,
        Some(Cow::Borrowed(bytes)) if bytes.len() < LARGE => {
            let mut copy = memory();
            copy.clear();
            copy.extend_from_slice(bytes);
            OwnedData::Copied(copy)
        }
        Some(bytes) if bytes.len() < LARGE => OwnedData::Copied(bytes.into_owned()),
        Some(bytes) => OwnedData::Shared(Arc::new(bytes.into_owned())),
    }
}

#[cold]
fn no_view() -> Error {
    Failure::usage("this is not a view of the loop's client, but another client")
}
