//! An event loop of a client: its requests share one connection to each server.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use pinyon_cache::operations::{AnyOperation, Everywhere, OwnedData, OwnedKey, Single};
use pinyon_cache::shared::{Finished, Shared};
use pinyon_cache::spare::{Reused, Spare, Vacant};
use pinyon_cache::LARGE;
use pinyon_net::driven::Stepwise;

use super::batch::{Batches, LoopBatch};
use crate::awaited::callers::{Callers, Waiting};
use crate::awaited::{LoopValues, OneValue, Operation, Wanted};
use crate::client::{Client, View};
use crate::errors::{Error, Failure};
use crate::placing::Placing;
use crate::requests::{for_all, with, Keyed, Verb};
use crate::single::{asked_servers, invalidated};
use crate::status::Status;
use crate::structs::{Place, Reply, Request};
use crate::submitted::{verb_of, Submitted};

type OneKey = Single<OwnedKey, OwnedData, LoopValues>;

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
    batches: Batches,
    /// The keys that are read for callers, by ticket.
    pub(super) wanted: HashMap<u64, Arc<Wanted>>,
}

impl ClientLoop {
    pub fn new(client: Client, place: Option<Place>) -> Result<Self, Error> {
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
            batches: Batches::default(),
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
        // SAFETY: the caller keeps the request's bytes as they are during the call, and lets `place` have its context.
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
        if verb.has_no_key() {
            // SAFETY: the caller keeps the request's bytes as they are during the call.
            let operation = unsafe { without_key(view, verb, asked)? };
            return self.start(asked, verb, |_, _| Ok(operation));
        }
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        let (key, Keyed { request, data }) = unsafe {
            let mut scratch = Vec::new();
            let key = asked.key(view, &mut scratch)?;
            let keyed = Keyed::of(view, verb, asked)?;
            (OwnedKey::copied_to(self.texts.pop().unwrap_or_default(), key), keyed)
        };
        let data = data_of(data, || self.texts.pop().unwrap_or_default());
        let (packing, policy, is_raw) = (view.shared.packing.clone(), asked.policy(view), asked.has(with::RAW));
        self.start(asked, verb, |of, caller| {
            let memory = of.spare.take();
            let room = Cell::new(of.rooms.pop().unwrap_or_default());
            let placing = Placing { packing, place: of.place, context: asked.context, is_raw, room };
            let value = OneValue { placing, caller: caller.0.clone(), is_placed: Cell::new(false) };
            let mut single = Single::new(request, key, data, LoopValues::One(value), policy);
            // SAFETY: the caller keeps the request's tags alive during the call.
            unsafe { asked.tag(view, verb, &mut single)? };
            Ok(AnyOperation::Single(Reused::new(single, memory)))
        })
    }

    #[inline]
    fn start(
        &mut self,
        asked: &Request,
        verb: Verb,
        operation: impl FnOnce(&mut Self, &Waiting) -> Result<Operation, Error>,
    ) -> Result<u64, Error> {
        let waiting = Waiting(self.callers.begin(asked.context));
        let ticket = waiting.0.ticket;
        let operation = match operation(self, &waiting) {
            Ok(operation) => operation,
            Err(error) => {
                self.callers.end(ticket);
                return Err(error);
            }
        };
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

    /// A batch for the loop's client, or a view of it.
    pub fn batch(&mut self, view: Option<&Client>) -> Result<LoopBatch, Error> {
        let view = self.view_of(view)?.clone();
        view.check_open()?;
        Ok(self.batches.batch(view))
    }

    /// Begins a command of a batch.
    ///
    /// # Safety
    /// The request's bytes stay as they are during the call.
    pub unsafe fn begin_in_batch(&mut self, batch: &LoopBatch, asked: &Request) -> Result<(), Error> {
        self.batches.check(batch)?;
        batch.view.check_open()?;
        let verb = verb_of(asked)?;
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        let (key, Keyed { request, data }) = unsafe {
            let key = OwnedKey::from(asked.key(&batch.view, &mut Vec::new())?);
            (key, Keyed::of(&batch.view, verb, asked)?)
        };
        let (command, mut runs) = ((key, request, data_of(data, Vec::new)), 0);
        let mut state = batch.state();
        let begun = self.machine.begin(|machine, now| {
            let waiter = || {
                runs = 1;
                run_of(batch)
            };
            machine.submit_quietly(&mut state.batch, command, waiter, now)
        });
        begun.map_err(|error| Failure::usage(error.to_string()))?.map_err(|error| Error::from(&error))?;
        state.commands.push_back(Submitted { context: asked.context as usize, verb });
        self.batches.opened(batch, runs);
        Ok(())
    }

    /// Begins to wait for the outcome of all commands of a batch. Returns the ticket.
    pub fn begin_finish(&mut self, batch: &LoopBatch, context: *mut c_void) -> Result<u64, Error> {
        self.batches.check(batch)?;
        let mut state = batch.state();
        let (caller, mut runs) = (self.callers.begin(context), 0);
        let begun = self.machine.begin(|machine, now| {
            let waiter = || {
                runs = 1;
                run_of(batch)
            };
            machine.leave_quietly(&mut state.batch, caller.clone(), waiter, now);
        });
        if let Err(error) = begun {
            self.callers.end(caller.ticket);
            return Err(Failure::usage(error.to_string()));
        }
        state.finishing.push(caller.clone());
        self.batches.opened(batch, runs);
        Ok(caller.ticket)
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
                AnyOperation::Quiet(run) => {
                    let is_over = self.batches.over(caller.ticket, *run);
                    match is_over && self.batches.next_outcome(&mut self.callers, reply) {
                        true => return true,
                        false => continue,
                    }
                }
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
        self.batches.has_outcomes() && self.batches.next_outcome(&mut self.callers, reply)
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
            AnyOperation::Change(change) => invalidated(*change, reply),
            AnyOperation::Fetch(fetch) => {
                let wanted = self.wanted.remove(&reply.ticket);
                reply.finish(wanted.map_or(Status::Failed, |wanted| wanted.end(*fetch)))
            }
            _ => unreachable!("no other operations are begun"),
        }
    }
}

/// # Safety
/// As for [`ClientLoop::begin`].
#[cold]
unsafe fn without_key(view: &View, verb: Verb, asked: &Request) -> Result<Operation, Error> {
    match verb {
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        Verb::InvalidateTags => unsafe { asked.invalidation(view) }.map(Operation::from),
        _ => Ok(Everywhere::new(for_all(view, verb, asked)?).into()),
    }
}

/// What identifies a run of a batch.
fn run_of(batch: &LoopBatch) -> Asked {
    Asked { waiting: Waiting(batch.caller.clone()), verb: Verb::Set }
}

/// A copy of the data block to send. It is in `memory`, unless it is large.
#[inline(always)]
fn data_of(data: Option<Cow<'_, [u8]>>, memory: impl FnOnce() -> Vec<u8>) -> OwnedData {
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
