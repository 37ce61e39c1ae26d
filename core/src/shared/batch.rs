//! Quiet batches in event loops: a batch is a sequence of runs, each an operation that grows while it is under way.

use std::time::Instant;

use super::{Running, Shared, Waiter};
use crate::error::Error;
use crate::operations::{Account, AnyOperation, Quiet, Request, SentData, SentKey, Unsuccessful, Values};

/// How many commands a run has, and after how many bytes of values another one begins.
const COMMANDS_PER_RUN: usize = 512;
const BYTES_PER_RUN: usize = 1024 * 1024;

/// So many runs may be under way before a coroutine waits with its next command.
const MOST_RUNS: usize = 2;

/// A quiet batch in an event loop, and the coroutines that wait for it: each is a `C`.
pub struct Batch<K, C> {
    failover: bool,
    /// The run that takes the next command, as long as it is under way.
    run: Option<Run>,
    /// How many runs are under way.
    open: usize,
    account: Account<K>,
    wait_for_room: Vec<C>,
    /// Who waits until the outcome of every command is known.
    leaving: Option<C>,
}

/// A coroutine that has waited for the end of a batch, and what was not carried out.
pub type Left<K, C> = (C, Vec<Unsuccessful<K>>);

/// Which of the operations under way a run is.
#[derive(Clone, Copy)]
struct Run {
    id: usize,
    serial: u64,
    /// The number of its first command.
    first: usize,
}

impl<K: SentKey, C> Batch<K, C> {
    /// With `failover`, the keys of a server that is down go to another one.
    pub fn new(failover: bool) -> Self {
        let (wait_for_room, leaving) = (Vec::new(), None);
        Self { failover, run: None, open: 0, account: Account::from(0), wait_for_room, leaving }
    }

    /// Whether a coroutine is to wait for room before it submits more.
    pub fn is_full(&self) -> bool {
        self.open > MOST_RUNS
    }

    /// The coroutine waits until the batch is no longer full.
    pub fn wait_for_room(&mut self, coroutine: C) {
        self.wait_for_room.push(coroutine);
    }

    /// The commands that were not carried out, in the order they were submitted; or None, and the coroutine waits until
    /// the outcome of every command is known.
    pub fn leave(&mut self, coroutine: C) -> Option<Vec<Unsuccessful<K>>> {
        if self.open == 0 {
            return Some(self.account.take_unsuccessful());
        }
        self.leaving = Some(coroutine);
        None
    }

    /// A run of this batch is [`Finished`](super::Finished). Returns the coroutines that have room now, and the one that
    /// leaves.
    pub fn over<D: SentData>(&mut self, run: Quiet<K, D>) -> (Vec<C>, Option<Left<K, C>>) {
        self.open -= 1;
        self.account.add(run.finish());
        let have_room = if self.is_full() { Vec::new() } else { std::mem::take(&mut self.wait_for_room) };
        let leaving = if self.open == 0 { self.leaving.take() } else { None };
        (have_room, leaving.map(|coroutine| (coroutine, self.account.take_unsuccessful())))
    }
}

impl<K: SentKey, D: SentData, V: Values, W: Waiter> Shared<AnyOperation<K, D, V>, W> {
    /// Submits a command of a batch. It leaves at the end of the turn, like any other. What fails is told with the outcomes;
    /// an error says that the value is too large to be sent at all.
    ///
    /// `waiter` makes what the host knows the batch by. It is handed out with each run of the batch that is over, so it is
    /// never gone.
    pub fn submit_quietly<C>(
        &mut self,
        batch: &mut Batch<K, C>,
        (key, request, data): (K, Request, D),
        waiter: impl FnOnce() -> W,
        now: Instant,
    ) -> Result<(), Error> {
        request.check_size(self.fleet.options().limits.value)?;
        self.look(now);
        // Commands that failed before were submitted before this one, and go first.
        self.begin_again(now);
        let number = batch.account.next_number();
        if let Some(run) = batch.run.filter(|run| number - run.first < COMMANDS_PER_RUN) {
            if let Some(quiet) = self.open_run(run) {
                quiet.push(key, request, data);
                self.grown(run.id, now);
                return Ok(());
            }
        }
        let mut quiet = Quiet::new(batch.failover, number);
        quiet.push(key, request, data);
        let id = self.insert(AnyOperation::Quiet(quiet.into()), waiter(), now);
        batch.run = Some(Run { id, serial: self.started, first: number });
        batch.open += 1;
        self.begin(id, now);
        Ok(())
    }

    /// The commands of a run, if it is under way and takes more.
    fn open_run(&mut self, run: Run) -> Option<&mut Quiet<K, D>> {
        match self.running.get_mut(run.id)? {
            Running { operation: AnyOperation::Quiet(quiet), serial, .. } if *serial == run.serial => {
                Some(&mut **quiet).filter(|quiet| quiet.held() < BYTES_PER_RUN)
            }
            _ => None,
        }
    }

    /// An operation that is under way asks for more.
    fn grown(&mut self, id: usize, now: Instant) {
        let running = &mut self.running[id];
        let waits_for_servers = running.open == 0;
        if !waits_for_servers {
            running.deadline = now + self.fleet.options().timeout;
            self.begin(id, now);
        }
    }
}
