//! Quiet batches of fibers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{gc, Error, Ruby};
use pinyon_cache::operations::{Request, Unsuccessful};
use pinyon_cache::shared;

use super::caches::{Awaiting, Key, Machine, Outcome};
use super::{Call, Driver, Scheduler, Serves};
use crate::errors::{exception, from_core, ErrorKind};

/// The core's part of a batch. A run that is under way refers to it.
pub(crate) type SharedBatch = Arc<Mutex<shared::Batch<Key, Arc<Call<Outcome>>>>>;

/// A batch of the fibers of one scheduler.
pub(crate) struct Batch {
    driver: Opaque<Obj<Driver>>,
    shared: SharedBatch,
}

impl Batch {
    pub(crate) fn new(driver: Obj<Driver>, failover: bool) -> Self {
        Self { driver: driver.into(), shared: Arc::new(shared::Batch::new(failover).into()) }
    }

    pub(crate) fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.driver);
    }

    /// Submits a command. With two full runs under way, it waits.
    pub(crate) fn submit(
        &self,
        ruby: &Ruby,
        scheduler: Scheduler,
        key: Key,
        request: Request,
        data: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let driver = ruby.get_inner(self.driver);
        let parking = driver.parking(ruby, scheduler);
        let submit = |machine: &mut Machine, now| {
            let awaiting = || Awaiting::Batch(self.shared.clone());
            machine.submit_quietly(&mut self.lock(), (key, request, data), awaiting, now)
        };
        let wait = |call: &Arc<Call<Outcome>>| {
            let mut batch = self.lock();
            let is_full = batch.is_full();
            if is_full {
                batch.wait_for_room(call.clone());
            }
            is_full
        };
        let connections = Machine::of_its_client(&driver);
        let (submitted, _) = connections.begin(parking, submit, wait)?;
        submitted.map_err(|error| from_core(ruby, &error))?;
        match connections.lacks_sender(parking)? {
            true => connections.start_sender(parking, driver.as_value()),
            false => Ok(()),
        }
    }

    /// Waits for the outcome of every command. Returns those that were not carried out.
    pub(crate) fn finish(&self, ruby: &Ruby, scheduler: Scheduler) -> Result<Vec<Unsuccessful<Key>>, Error> {
        let driver = ruby.get_inner(self.driver);
        let mut known = None;
        let leave = |call: &Arc<Call<Outcome>>| {
            known = self.lock().leave(call.clone());
            known.is_none()
        };
        let (_, outcome) = Machine::of_its_client(&driver).begin(driver.parking(ruby, scheduler), |_, _| (), leave)?;
        Ok(match outcome {
            Some(Outcome::Left(unsuccessful)) => unsuccessful,
            _ => known.unwrap_or_default(),
        })
    }

    /// The scheduler of the calling fiber, which must be the batch's.
    pub(crate) fn scheduler(&self, ruby: &Ruby) -> Result<Scheduler, Error> {
        let scheduler = Scheduler::current(ruby)?;
        let known = scheduler.map(|scheduler| scheduler.drivers(ruby)).transpose()?.flatten();
        match (scheduler, known) {
            (Some(scheduler), Some(known)) if known.has(ruby, ruby.get_inner(self.driver)) => Ok(scheduler),
            _ => {
                let elsewhere = "the batch belongs to the fibers of another scheduler; open one where it is used";
                Err(exception(ruby, ErrorKind::UsageError, elsewhere))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, shared::Batch<Key, Arc<Call<Outcome>>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
