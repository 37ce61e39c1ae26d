//! Batches in an event loop: commands whose outcomes the library reports together.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::operations::{OwnedKey, Unsuccessful};
use pinyon_cache::shared;

use super::callers::{Caller, Waiting};
use super::client::{data_of, Asked, ClientLoop, Run};
use crate::batch::{verb_of, Failed, Submitted};
use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::replies::Status;
use crate::requests::{Keyed, Verb};
use crate::structs::{Reply, Request};

/// A batch, for its host and for its loop.
#[derive(Clone)]
pub struct LoopBatch {
    view: Client,
    /// Whose number its runs have.
    caller: Arc<Caller>,
    event_loop: u64,
    state: Arc<Mutex<State>>,
}

struct State {
    batch: shared::Batch<OwnedKey, Arc<Caller>>,
    /// The commands whose outcomes nobody was told yet.
    commands: VecDeque<Submitted>,
    /// The number of the first of them.
    first: usize,
    failed: VecDeque<Failed>,
    /// Who waits for the outcome.
    finishing: Vec<Arc<Caller>>,
}

/// A batch with runs under way.
pub struct Open {
    batch: LoopBatch,
    runs: usize,
}

impl LoopBatch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_full(&self) -> bool {
        self.state().batch.is_full()
    }

    pub fn next_failure(&self) -> Option<Failed> {
        self.state().failed.pop_front()
    }
}

impl State {
    /// Keeps what was not carried out for the host, now that all outcomes are known.
    fn told(&mut self, failed: Vec<Unsuccessful<OwnedKey>>) -> Status {
        for Unsuccessful { number, command, why, .. } in failed {
            let Some(submitted) = self.commands.get(number - self.first) else { continue };
            self.failed.push_back(Unsuccessful { number, key: *submitted, command, why });
        }
        self.first += self.commands.len();
        self.commands.clear();
        if self.failed.is_empty() {
            Status::Done
        } else {
            Status::Failed
        }
    }
}

impl ClientLoop {
    /// A batch for the loop's client, or a view of it.
    pub fn batch(&mut self, view: Option<&Client>) -> Result<LoopBatch, Error> {
        let view = self.view_of(view)?.clone();
        view.check_open()?;
        self.batches_made += 1;
        let state = State {
            batch: shared::Batch::new(view.policy.failover),
            commands: VecDeque::new(),
            first: 0,
            failed: VecDeque::new(),
            finishing: Vec::new(),
        };
        let (caller, state) = (Arc::new(Caller::numbered(self.batches_made)), Arc::new(Mutex::new(state)));
        Ok(LoopBatch { view, caller, event_loop: self.number, state })
    }

    /// Begins a command of a batch.
    ///
    /// # Safety
    /// The request's bytes stay as they are during the call.
    pub unsafe fn begin_in_batch(&mut self, batch: &LoopBatch, asked: &Request) -> Result<(), Error> {
        self.check_batch(batch)?;
        batch.view.check_open()?;
        let verb = verb_of(asked)?;
        // SAFETY: the caller says so.
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
        self.opened(batch, runs);
        Ok(())
    }

    /// Begins to wait for the outcome of all its commands. Returns the ticket.
    pub fn begin_finish(&mut self, batch: &LoopBatch, context: *mut c_void) -> Result<u64, Error> {
        self.check_batch(batch)?;
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
        self.opened(batch, runs);
        Ok(caller.ticket)
    }

    /// Takes a run that is over. True: the reply to whoever waits for the batch is filled.
    #[cold]
    pub(super) fn run_over(&mut self, number: u64, run: Run, reply: &mut Reply) -> bool {
        let Some(Open { batch, runs }) = self.open_batches.get_mut(&number) else { return false };
        let batch = batch.clone();
        *runs -= 1;
        if *runs == 0 {
            self.open_batches.remove(&number);
        }
        let mut state = batch.state();
        let (_, Some((_, failed))) = state.batch.over(run) else { return false };
        let status = state.told(failed);
        let finishing = std::mem::take(&mut state.finishing);
        self.outcomes.extend(finishing.into_iter().map(|caller| (caller, status)));
        self.next_outcome(reply)
    }

    /// Tells one of those who wait for a batch. False: nobody does.
    #[cold]
    pub(super) fn next_outcome(&mut self, reply: &mut Reply) -> bool {
        while let Some((caller, status)) = self.outcomes.pop_front() {
            if caller.is_gone() {
                continue;
            }
            let room = reply.begin(caller.context);
            reply.keep(room);
            reply.ticket = caller.ticket;
            self.callers.end(caller.ticket);
            reply.finish(status);
            return true;
        }
        false
    }

    fn opened(&mut self, batch: &LoopBatch, runs: usize) {
        if runs > 0 {
            let open = || Open { batch: batch.clone(), runs: 0 };
            self.open_batches.entry(batch.caller.ticket).or_insert_with(open).runs += runs;
        }
    }

    fn check_batch(&self, batch: &LoopBatch) -> Result<(), Error> {
        match batch.event_loop == self.number {
            true => Ok(()),
            false => Err(Failure::usage("this batch is of another event loop")),
        }
    }
}

/// What identifies a run of the batch.
fn run_of(batch: &LoopBatch) -> Asked {
    Asked { waiting: Waiting(batch.caller.clone()), verb: Verb::Set }
}
