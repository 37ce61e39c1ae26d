//! How this host waits: in the calling thread, or in its own event loop. The core does the rest.

use std::collections::HashMap;
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::blocking::{run, Batch, Failure};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{BorrowedKey, OwnedKey, Policy, SentData, SentKey};
use pinyon_cache::shared::{Batch as LoopBatch, Finished, Shared, Waiter};
use pinyon_net::driven::{Driven, Polled, Wake};
use pinyon_net::host::NoHost;
use pinyon_net::Error;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::cache::{Command, NotDone, Operation, Way};

/// Waits in the calling thread. The core's pools lend connections to threads.
pub struct Blocking(pub Arc<Directory>);

impl Way for Blocking {
    fn carry_out(&mut self, mut operation: Operation) -> Operation {
        let Ok(()) = run(&self.0, &NoHost, &mut operation);
        operation
    }

    fn carry_out_quietly(&mut self, commands: Vec<Command>, policy: Policy) -> Result<Vec<NotDone>, Error> {
        let mut batch = Batch::new(self.0.clone(), policy.failover);
        for Command { key, request, block } in commands {
            // The batch keeps only what it needs for reports. Bytes that it cannot send now were copied, or are
            // referenced if pinned.
            let sent = BorrowedKey { wire: key.wire(), routed: key.routed() };
            batch.submit(&NoHost, &sent, request, &block.data(), key.clone()).map_err(never_interrupted)?;
        }
        // A host with other work sends what it can now, and asks for the outcomes later.
        batch.send()?;
        batch.finish(&NoHost).map_err(never_interrupted)
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn close(&mut self) {}
}

fn never_interrupted(failure: Failure<Infallible>) -> Error {
    match failure {
        Failure::Error(error) => error,
        Failure::Interrupted(never) => match never {},
    }
}

/// The number of a coroutine, if this host had any. It says which one to resume.
struct Coroutine(usize);

impl Waiter for Coroutine {
    fn is_gone(&self) -> bool {
        false
    }
}

/// An event loop: all its operations share one connection to each server.
pub struct OnLoop {
    polled: Polled<Shared<Operation, Coroutine>>,
    begun: usize,
    over: HashMap<usize, Operation>,
}

impl OnLoop {
    pub fn new(directory: Arc<Directory>, connections: usize) -> Self {
        let polled = Polled::new(Shared::new(directory, connections)).expect("descriptors are left");
        Self { polled, begun: 0, over: HashMap::new() }
    }

    /// Begins an operation. It leaves in one send with all others that begin before the loop waits.
    pub fn begin(&mut self, operation: Operation) -> usize {
        self.begun += 1;
        let coroutine = Coroutine(self.begun);
        self.polled.begin(|machine, now| machine.start(operation, coroutine, now)).expect("it is this process's");
        self.begun
    }

    /// Runs the loop until this operation is over.
    pub fn end(&mut self, number: usize) -> Operation {
        loop {
            if let Some(operation) = self.over.remove(&number) {
                return operation;
            }
            let over = &mut self.over;
            turn(&mut self.polled, |Finished { operation, waiter: Coroutine(number) }| {
                over.insert(number, operation);
            });
        }
    }
}

impl OnLoop {
    /// Runs one turn of the loop. Returns the failed commands of a batch, once the batch is over.
    fn turn_of(&mut self, batch: &mut LoopBatch<OwnedKey, ()>) -> Option<Vec<NotDone>> {
        let (over, mut outcome) = (&mut self.over, None);
        turn(&mut self.polled, |Finished { operation, waiter: Coroutine(number) }| match operation {
            Operation::Quiet(run) => {
                let (_, left) = batch.over(*run);
                outcome = left.map(|((), not_done)| not_done);
            }
            operation => drop(over.insert(number, operation)),
        });
        outcome
    }
}

impl Way for OnLoop {
    fn carry_out(&mut self, operation: Operation) -> Operation {
        let number = self.begin(operation);
        self.end(number)
    }

    fn carry_out_quietly(&mut self, commands: Vec<Command>, policy: Policy) -> Result<Vec<NotDone>, Error> {
        self.begun += 1;
        let (number, mut batch) = (self.begun, LoopBatch::new(policy.failover));
        for Command { key, request, block } in commands {
            let submit = |machine: &mut Shared<_, _>, now| {
                machine.submit_quietly(&mut batch, (key, request, block), || Coroutine(number), now)
            };
            self.polled.begin(submit).expect("it is this process's")?;
            while batch.is_full() {
                self.turn_of(&mut batch);
            }
        }
        let mut outcome = batch.leave(());
        while outcome.is_none() {
            outcome = self.turn_of(&mut batch);
        }
        Ok(outcome.unwrap_or_default())
    }

    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.polled.wait(until).expect("the system watches descriptors") != Wake::Deadline {
            while let Some(Finished { operation, waiter: Coroutine(number) }) = self.polled.next_finished() {
                self.over.insert(number, operation);
            }
        }
    }

    fn close(&mut self) {
        self.polled.close().expect("it is this process's");
    }
}

/// One turn of this host's event loop: it sends, waits for the machine's only descriptor, and resumes the waiters of
/// finished operations. A loop with more descriptors waits for all of them at once.
pub fn turn<M: Driven>(polled: &mut Polled<M>, mut resume: impl FnMut(M::Finished)) {
    polled.send().expect("it is this process's");
    let mut resumed = 0;
    while let Some(finished) = polled.next_finished() {
        resume(finished);
        resumed += 1;
    }
    if resumed > 0 {
        return;
    }
    let second = Duration::from_secs(1);
    let left = polled.deadline().map_or(second, |due| due.saturating_duration_since(Instant::now()).min(second));
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    // A signal that ends the wait does no harm.
    let _ = poll(&mut [PollFd::from_borrowed_fd(polled.as_fd(), PollFlags::IN)], Some(&left));
    polled.receive().expect("the system watches descriptors");
    while let Some(finished) = polled.next_finished() {
        resume(finished);
    }
}
