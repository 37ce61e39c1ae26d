//! What fibers ask of caches.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use magnus::{Error, Ruby};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{
    self, AnyOperation, AsBytes, BorrowedKey, Change, Everywhere, Fetch, Next, Operation as _, OwnedKey, SentKey,
    Unsuccessful,
};
use pinyon_cache::shared::{Finished, Shared, Waiter};
use pinyon_proto::Key as WireKey;

use super::batch::SharedBatch;
use super::driver::Connections;
use super::{Call, Driver, Drivers, Scheduler, Serves, Shares};

/// Every operation of fibers. It owns what it sends: the fiber that began it may be gone before it is over.
pub(crate) type Operation = AnyOperation<Key, Option<Vec<u8>>, AsBytes>;

pub(crate) type Machine = Shared<Operation, Awaiting>;

/// A key as it is sent, and in batches also as the caller gave it.
pub(crate) struct Key {
    sent: OwnedKey,
    pub(crate) given: Vec<u8>,
}

impl Key {
    pub(crate) fn new(sent: OwnedKey) -> Self {
        Self { sent, given: Vec::new() }
    }

    pub(crate) fn reported(sent: BorrowedKey<'_>, given: &[u8]) -> Self {
        Self { sent: sent.into(), given: given.to_vec() }
    }
}

impl From<OwnedKey> for Key {
    fn from(sent: OwnedKey) -> Self {
        Self::new(sent)
    }
}

impl SentKey for Key {
    fn wire(&self) -> WireKey<'_> {
        self.sent.wire()
    }

    fn routed(&self) -> &[u8] {
        self.sent.routed()
    }
}

/// An operation that is carried out as an [`Operation`] in a fiber, and as itself in a thread.
pub(crate) trait Carried: operations::Operation + Into<Operation> {
    fn carried(operation: Operation) -> Option<Self>;
}

impl Carried for Fetch<AsBytes> {
    fn carried(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Fetch(fetch) => Some(*fetch),
            _ => None,
        }
    }
}

impl Carried for Change<Option<Vec<u8>>> {
    fn carried(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Change(change) => Some(*change),
            _ => None,
        }
    }
}

impl Carried for Everywhere {
    fn carried(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Everywhere(everywhere) => Some(*everywhere),
            _ => None,
        }
    }
}

/// What a fiber waited for.
pub(crate) enum Outcome {
    Operation(Operation),
    /// A batch has room for more commands.
    Room,
    /// A batch is over. These commands were not carried out.
    Left(Vec<Unsuccessful<Key>>),
}

/// Who waits for an operation of the machine.
pub(crate) enum Awaiting {
    Call(Arc<Call<Outcome>>),
    Batch(SharedBatch),
    /// A lease is given back.
    Nobody,
}

impl Waiter for Awaiting {
    fn is_gone(&self) -> bool {
        match self {
            Self::Call(call) => call.is_gone.get(),
            Self::Batch(_) | Self::Nobody => false,
        }
    }
}

impl Serves for Machine {
    type Outcome = Outcome;

    #[inline]
    fn hand_out(Finished { operation, waiter }: Self::Finished, mut finish: impl FnMut(Arc<Call<Outcome>>, Outcome)) {
        match waiter {
            Awaiting::Call(call) => finish(call, Outcome::Operation(operation)),
            Awaiting::Nobody => {}
            Awaiting::Batch(batch) => {
                let Operation::Quiet(run) = operation else { unreachable!("a batch consists of runs") };
                let (have_room, left) = batch.lock().unwrap_or_else(PoisonError::into_inner).over(*run);
                have_room.into_iter().for_each(|call| finish(call, Outcome::Room));
                if let Some((call, unsuccessful)) = left {
                    finish(call, Outcome::Left(unsuccessful));
                }
            }
        }
    }

    #[inline]
    fn of(driver: &Driver) -> Option<&Arc<Connections<Self>>> {
        match &driver.shares {
            Shares::Caches(connections) => Some(connections),
            Shares::Locks(_) => None,
        }
    }

    fn shared(connections: Arc<Connections<Self>>) -> Shares {
        Shares::Caches(connections)
    }

    fn give_back(&mut self, outcome: Outcome, now: Instant) -> bool {
        let Outcome::Operation(mut operation) = outcome else { return false };
        let is_won = operation.may_win() && operation.give_back() == Next::Again;
        if is_won {
            self.start(operation, Awaiting::Nobody, now);
        }
        is_won
    }

    /// A reply may still be awaited that no fiber wants.
    fn is_unused(&self) -> bool {
        true
    }
}

impl Drivers<Machine> {
    /// `connections`: to each server from each scheduler.
    pub(crate) fn of_caches(directory: Arc<Directory>, connections: usize) -> Self {
        Self::new(move || Shared::new(directory.clone(), connections))
    }

    /// Carries out an operation. The other fibers of the scheduler run meanwhile.
    pub(crate) fn operate(
        &self,
        ruby: &Ruby,
        scheduler: Scheduler,
        operation: impl Into<Operation>,
    ) -> Result<Operation, Error> {
        let driver = self.on(ruby, scheduler)?;
        let connections = Machine::of_its_client(&driver);
        let begin = |machine: &mut Machine, call, now| machine.start(operation.into(), Awaiting::Call(call), now);
        match connections.carry_out(driver.parking(ruby, scheduler), begin)? {
            Outcome::Operation(operation) => Ok(operation),
            _ => unreachable!("an operation ends as an operation"),
        }
    }
}
