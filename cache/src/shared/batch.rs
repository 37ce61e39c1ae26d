//! Quiet batches in event loops: a batch is a sequence of runs, each an operation that grows while it is under way.
//!
//! A run holds at most 512 commands. It keeps keys and values, so that commands that were never sent can go to another
//! server. While two full runs are under way, a coroutine waits; a host in C learns when to wait.

use std::time::Instant;

use super::{Running, Shared, Waiter};
use crate::operations::{Account, AnyOperation, Quiet, Request, SentData, SentKey, Unsuccessful, Values};
use pinyon_net::error::Error;

/// Limits of a run, in commands and in bytes of values. Beyond them another run begins.
const COMMANDS_PER_RUN: usize = 512;
const BYTES_PER_RUN: usize = 1024 * 1024;

/// With so many runs under way, a coroutine waits before it submits its next command.
const MOST_RUNS: usize = 2;

/// A quiet batch in an event loop. `C` is a coroutine that waits for it.
pub struct Batch<K, C> {
    failover: bool,
    /// The run that takes the next command, while it is under way.
    run: Option<Run>,
    /// How many runs are under way.
    open: usize,
    account: Account<K>,
    wait_for_room: Vec<C>,
    /// The coroutine that waits for the outcome of every command.
    leaving: Option<C>,
}

/// A coroutine that awaited the end of a batch, and the commands that were not carried out.
pub type Left<K, C> = (C, Vec<Unsuccessful<K>>);

/// A run, identified by its number among the operations under way.
#[derive(Clone, Copy)]
struct Run {
    id: usize,
    serial: u64,
    /// The number of its first command.
    first: usize,
}

impl<K: SentKey, C> Batch<K, C> {
    /// With `failover`, keys of a server that is down go to another server.
    pub fn new(failover: bool) -> Self {
        let (wait_for_room, leaving) = (Vec::new(), None);
        Self { failover, run: None, open: 0, account: Account::from(0), wait_for_room, leaving }
    }

    /// Whether a coroutine must wait for room before it submits more.
    pub fn is_full(&self) -> bool {
        self.open > MOST_RUNS
    }

    /// Lets the coroutine wait until the batch has room.
    pub fn wait_for_room(&mut self, coroutine: C) {
        self.wait_for_room.push(coroutine);
    }

    /// Returns the commands that were not carried out, in the order of submission. Returns `None` if some outcomes are
    /// unknown: then the coroutine waits for them.
    pub fn leave(&mut self, coroutine: C) -> Option<Vec<Unsuccessful<K>>> {
        if self.open == 0 {
            return Some(self.account.take_unsuccessful());
        }
        self.leaving = Some(coroutine);
        None
    }

    /// Takes a run of this batch that has [`Finished`](super::Finished). Returns the coroutines that have room now, and
    /// the coroutine that awaited the end of the batch.
    pub fn over<D: SentData>(&mut self, run: Quiet<K, D>) -> (Vec<C>, Option<Left<K, C>>) {
        self.open -= 1;
        self.account.add(run.finish());
        let have_room = if self.is_full() { Vec::new() } else { std::mem::take(&mut self.wait_for_room) };
        let leaving = if self.open == 0 { self.leaving.take() } else { None };
        (have_room, leaving.map(|coroutine| (coroutine, self.account.take_unsuccessful())))
    }
}

impl<K: SentKey, D: SentData, V: Values, W: Waiter> Shared<AnyOperation<K, D, V>, W> {
    /// Submits a command of a batch. It is sent at the end of the turn, like any other. Failures are reported with the
    /// outcomes. An error means that the value is too large to send.
    ///
    /// `waiter` identifies the batch to the host. It is handed out with each finished run, and it is never gone.
    pub fn submit_quietly<C>(
        &mut self,
        batch: &mut Batch<K, C>,
        (key, request, data): (K, Request, D),
        waiter: impl FnOnce() -> W,
        now: Instant,
    ) -> Result<(), Error> {
        request.check_size(key.routed(), self.fleet.options().limits.value)?;
        self.look(now);
        // Retries go first: they were submitted before this command.
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

    /// Like [`Batch::leave`], for hosts that take all outcomes from finished runs: if none is under way, an empty one begins.
    pub fn leave_quietly<C>(
        &mut self,
        batch: &mut Batch<K, C>,
        coroutine: C,
        waiter: impl FnOnce() -> W,
        now: Instant,
    ) {
        batch.leaving = Some(coroutine);
        if batch.open > 0 {
            return;
        }
        batch.open += 1;
        let id = self.insert(AnyOperation::Quiet(Quiet::new(batch.failover, 0).into()), waiter(), now);
        self.begin(id, now);
    }

    /// The operation of a run, if it is under way and takes more commands.
    fn open_run(&mut self, run: Run) -> Option<&mut Quiet<K, D>> {
        match self.running.get_mut(run.id)? {
            Running { operation: AnyOperation::Quiet(quiet), serial, .. } if *serial == run.serial => {
                Some(&mut **quiet).filter(|quiet| quiet.held() < BYTES_PER_RUN)
            }
            _ => None,
        }
    }

    /// Lets an operation that is under way ask for more.
    fn grown(&mut self, id: usize, now: Instant) {
        let running = &mut self.running[id];
        let waits_for_servers = running.open == 0;
        if !waits_for_servers {
            running.deadline = now + self.fleet.options().timeout;
            self.begin(id, now);
        }
    }
}
