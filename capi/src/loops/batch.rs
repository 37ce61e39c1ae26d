//! Batches in an event loop: commands whose outcomes the library reports together.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::operations::{OwnedData, OwnedKey, Quiet, Unsuccessful};
use pinyon_cache::shared;

use crate::awaited::callers::{Caller, Callers};
use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::status::Status;
use crate::structs::Reply;
use crate::submitted::{Failed, Submitted};

pub type Run = Quiet<OwnedKey, OwnedData>;

/// A batch, for its host and for its loop.
#[derive(Clone)]
pub struct LoopBatch {
    pub view: Client,
    /// Whose number its runs have.
    pub caller: Arc<Caller>,
    event_loop: u64,
    state: Arc<Mutex<State>>,
}

pub struct State {
    pub batch: shared::Batch<OwnedKey, Arc<Caller>>,
    /// The commands whose outcomes nobody was told yet.
    pub commands: VecDeque<Submitted>,
    /// The number of the first of them.
    first: usize,
    failed: VecDeque<Failed>,
    /// Who waits for the outcome.
    pub finishing: Vec<Arc<Caller>>,
}

/// A batch with runs under way.
struct Open {
    batch: LoopBatch,
    runs: usize,
}

impl LoopBatch {
    pub fn state(&self) -> MutexGuard<'_, State> {
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

/// The batches of one loop.
pub struct Batches {
    /// The loop's. No other of the process has it.
    number: u64,
    made: u64,
    open: HashMap<u64, Open>,
    /// The outcomes that were not told yet.
    outcomes: VecDeque<(Arc<Caller>, Status)>,
}

impl Default for Batches {
    fn default() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Self { number, made: 0, open: HashMap::new(), outcomes: VecDeque::new() }
    }
}

impl Batches {
    /// A new one.
    pub fn batch(&mut self, view: Client) -> LoopBatch {
        self.made += 1;
        let state = State {
            batch: shared::Batch::new(view.policy.failover),
            commands: VecDeque::new(),
            first: 0,
            failed: VecDeque::new(),
            finishing: Vec::new(),
        };
        let (caller, state) = (Arc::new(Caller::numbered(self.made)), Arc::new(Mutex::new(state)));
        LoopBatch { view, caller, event_loop: self.number, state }
    }

    pub fn check(&self, batch: &LoopBatch) -> Result<(), Error> {
        match batch.event_loop == self.number {
            true => Ok(()),
            false => Err(Failure::usage("this batch is of another event loop")),
        }
    }

    /// Notes that so many runs of a batch are under way.
    pub fn opened(&mut self, batch: &LoopBatch, runs: usize) {
        if runs > 0 {
            let open = || Open { batch: batch.clone(), runs: 0 };
            self.open.entry(batch.caller.ticket).or_insert_with(open).runs += runs;
        }
    }

    /// Takes a run that is over. True: so is its batch.
    #[cold]
    pub fn over(&mut self, number: u64, run: Run) -> bool {
        let Some(Open { batch, runs }) = self.open.get_mut(&number) else { return false };
        let batch = batch.clone();
        *runs -= 1;
        if *runs == 0 {
            self.open.remove(&number);
        }
        let mut state = batch.state();
        let (_, Some((_, failed))) = state.batch.over(run) else { return false };
        let status = state.told(failed);
        let finishing = std::mem::take(&mut state.finishing);
        self.outcomes.extend(finishing.into_iter().map(|caller| (caller, status)));
        true
    }

    #[inline]
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Tells one of those who wait for a batch. False: nobody does.
    #[cold]
    pub fn next_outcome(&mut self, callers: &mut Callers, reply: &mut Reply) -> bool {
        while let Some((caller, status)) = self.outcomes.pop_front() {
            if caller.is_gone() {
                continue;
            }
            let room = reply.begin(caller.context);
            reply.keep(room);
            reply.ticket = caller.ticket;
            callers.end(caller.ticket);
            reply.finish(status);
            return true;
        }
        false
    }
}
