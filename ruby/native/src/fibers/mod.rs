//! Fibers with a scheduler: all fibers of a thread share one connection to each server.

mod batch;
mod call;
mod driver;
mod scheduler;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use magnus::rb_sys::AsRawValue;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    function, gc, kwargs, method, Class, DataTypeFunctions, Error, Module, Object, RModule, Ruby, TypedData, Value,
};
use pinyon_core::directory::Directory;
use pinyon_core::driven::Polled;
use pinyon_core::operations::{self, AnyOperation, AsBytes, BorrowedKey, Change, Everywhere, Fetch, OwnedKey, SentKey};
use pinyon_core::shared::Shared;
use pinyon_proto::Key as WireKey;

pub(crate) use batch::Batch;
pub(crate) use call::Flag;
use driver::{unusable, Connections, Place};
pub(crate) use scheduler::{current_fiber, Scheduler};

/// Every operation of fibers. It owns what it sends: the fiber that began it may be gone before it is over.
pub(crate) type Operation = AnyOperation<Key, Option<Vec<u8>>, AsBytes>;

type Machine = Shared<Operation, call::Awaiting>;

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

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("adapt", function!(scheduler::adapt, 0))?;
    native.define_class("Drivers", ruby.class_object())?.undef_default_alloc_func();
    let driver = native.define_class("Driver", ruby.class_object())?;
    driver.undef_default_alloc_func();
    driver.define_method("attend", method!(Driver::attend, -1))
}

/// The drivers of one scheduler: one for each client. It dies with the scheduler.
#[derive(TypedData, Default)]
#[magnus(class = "Pinyon::Native::Drivers", free_immediately, mark)]
pub(crate) struct Known(Mutex<Vec<Opaque<Obj<Driver>>>>);

impl DataTypeFunctions for Known {
    fn mark(&self, marker: &gc::Marker) {
        self.lock().iter().for_each(|driver| marker.mark(*driver));
    }
}

impl Known {
    fn find(&self, ruby: &Ruby, client: u64) -> Option<Obj<Driver>> {
        let drivers = self.lock();
        let mut drivers = drivers.iter().map(|driver| ruby.get_inner(*driver));
        drivers.find(|driver| driver.client == client && driver.connections.is_usable())
    }

    fn has(&self, ruby: &Ruby, driver: Obj<Driver>) -> bool {
        self.lock().iter().any(|known| ruby.get_inner(*known).as_raw() == driver.as_raw())
    }

    /// Adds a driver, and removes those that are over and for which no fiber waits.
    fn add(&self, ruby: &Ruby, driver: Obj<Driver>) {
        let mut drivers = self.lock();
        drivers.retain(|driver| {
            let connections = &ruby.get_inner(*driver).connections;
            connections.is_usable() || !connections.is_idle()
        });
        drivers.push(driver.into());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Opaque<Obj<Driver>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives one client's connections on one scheduler.
#[derive(TypedData)]
#[magnus(class = "Pinyon::Native::Driver", free_immediately, mark)]
pub(crate) struct Driver {
    client: u64,
    connections: Arc<Connections>,
    /// Ruby's view of the descriptor to wait for. It never closes it.
    io: Opaque<Value>,
}

impl DataTypeFunctions for Driver {
    fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.io);
        self.connections.mark(marker);
    }
}

impl Driver {
    /// Sees to what a batch has submitted. A fiber calls it that was started for it; some schedulers pass an argument to
    /// a fiber's block.
    fn attend(ruby: &Ruby, this: &Self, _: &[Value]) -> Result<(), Error> {
        match Scheduler::current(ruby)? {
            Some(scheduler) => this.connections.attend(this.place(ruby, scheduler)),
            None => Ok(()),
        }
    }

    fn place<'r>(&self, ruby: &'r Ruby, scheduler: Scheduler) -> Place<'r> {
        Place { ruby, scheduler, io: ruby.get_inner(self.io) }
    }
}

/// A client's drivers on all schedulers.
pub(crate) struct Drivers {
    /// The client's number.
    client: u64,
    directory: Arc<Directory>,
    /// Connections to each server from each scheduler.
    connections: usize,
    all: Mutex<Vec<Weak<Connections>>>,
}

impl Drivers {
    pub(crate) fn new(directory: Arc<Directory>, connections: usize) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Self { client, directory, connections, all: Mutex::default() }
    }

    /// Carries out an operation. The other fibers of the scheduler run meanwhile.
    pub(crate) fn carry_out(
        &self,
        ruby: &Ruby,
        scheduler: Scheduler,
        operation: impl Into<Operation>,
    ) -> Result<Operation, Error> {
        let driver = self.on(ruby, scheduler)?;
        driver.connections.carry_out(driver.place(ruby, scheduler), operation.into())
    }

    /// Closes all connections, in every thread.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|connections| connections.close());
    }

    /// This client's driver on a scheduler.
    pub(crate) fn on(&self, ruby: &Ruby, scheduler: Scheduler) -> Result<Obj<Driver>, Error> {
        let known = match scheduler.drivers(ruby)? {
            Some(known) => known,
            None => {
                let known = ruby.obj_wrap(Known::default());
                scheduler.keep_drivers(ruby, known)?;
                known
            }
        };
        if let Some(driver) = known.find(ruby, self.client) {
            return Ok(driver);
        }
        let driver = self.make(ruby)?;
        known.add(ruby, driver);
        Ok(driver)
    }

    #[cold]
    fn make(&self, ruby: &Ruby) -> Result<Obj<Driver>, Error> {
        let machine = Shared::new(self.directory.clone(), self.connections);
        let polled = Polled::new(machine).map_err(|error| unusable(ruby, &error))?;
        let descriptor = polled.as_fd().as_raw_fd();
        let io: Value = ruby.class_io().funcall("for_fd", (descriptor, kwargs!(ruby, "autoclose" => false)))?;
        let connections = Arc::new(Connections::new(polled, ruby.thread_current().as_raw() as usize));
        self.add(&connections);
        Ok(ruby.obj_wrap(Driver { client: self.client, connections, io: io.into() }))
    }

    /// Adds connections, and closes those of schedulers that this thread had before: it has one at a time.
    fn add(&self, connections: &Arc<Connections>) {
        let mut all = self.lock();
        all.retain(|known| match known.upgrade() {
            Some(known) if known.thread == connections.thread && known.is_idle() => {
                known.close();
                false
            }
            known => known.is_some(),
        });
        all.push(Arc::downgrade(connections));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Connections>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Drivers {
    /// The schedulers may outlive the client.
    fn drop(&mut self) {
        self.close();
    }
}
