//! Fibers with a scheduler: all fibers of a thread share one connection to each server.

mod adapter;
mod batch;
mod caches;
mod call;
mod driver;
mod locks;
mod scheduler;
mod visitor;

use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use magnus::rb_sys::AsRawValue;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    function, gc, kwargs, method, DataTypeFunctions, Error, Module, Object, RFile, RModule, Ruby, TypedData, Value,
};
use pinyon_net::driven::{Driven, Polled};
use pinyon_net::fork;

pub(crate) use batch::Batch;
pub(crate) use caches::{Carried, Key, Machine as CacheMachine, Operation};
pub(crate) use call::{Call, Flag};
use driver::Parking;
pub(crate) use driver::{unusable, Connections};
pub(crate) use locks::{LockConnections, Machine as LockMachine};
pub(crate) use scheduler::{current_fiber, owner_of_this_fiber, Scheduler};

use crate::define_class;
use crate::known::{Frequent, KnownType};

/// A machine whose connections the fibers of a scheduler share.
pub(crate) trait Serves: Driven<Finished: Send> + Sized + Send + 'static {
    /// What a fiber waits for.
    type Outcome: Send;

    /// Passes an outcome to those who wait for it.
    fn hand_out(finished: Self::Finished, finish: impl FnMut(Arc<Call<Self::Outcome>>, Self::Outcome));

    /// The connections of a driver, if they are for this.
    fn of(driver: &Driver) -> Option<&Arc<Connections<Self>>>;

    /// The connections of a driver that its client has found.
    fn of_its_client(driver: &Driver) -> &Arc<Connections<Self>> {
        match Self::of(driver) {
            Some(connections) => connections,
            None => unreachable!("all drivers of a client are for the same"),
        }
    }

    fn shared(connections: Arc<Connections<Self>>) -> Shares;

    /// Begins to give back what was won for a fiber that is gone. Returns whether there is anything to send.
    fn give_back(&mut self, outcome: Self::Outcome, now: Instant) -> bool;

    /// Whether it may be closed when no fiber waits for it.
    fn is_unused(&self) -> bool;
}

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("adapt", function!(adapter::adapt, 1))?;
    native.define_singleton_method("generation", function!(fork::generation, 0))?;
    define_class::<Known>(ruby, native, "Drivers")?;
    let driver = define_class::<Driver>(ruby, native, "Driver")?;
    driver.define_method("attend", method!(Driver::attend, -1))
}

/// The drivers of one scheduler: one for each client. It dies with the scheduler.
#[derive(TypedData, Default)]
#[magnus(class = "Pinyon::Native::Drivers", free_immediately, mark)]
pub(crate) struct Known(Mutex<Vec<Opaque<Obj<Driver>>>>);

impl Frequent for Known {
    fn known_type() -> &'static KnownType {
        static KNOWN: KnownType = KnownType::new(ptr::null_mut());
        &KNOWN
    }
}

impl DataTypeFunctions for Known {
    fn mark(&self, marker: &gc::Marker) {
        self.lock().iter().for_each(|driver| marker.mark(*driver));
    }
}

impl Known {
    fn find(&self, ruby: &Ruby, client: u64) -> Option<Obj<Driver>> {
        self.any(ruby, |driver| driver.client == client && driver.shares.are_usable())
    }

    fn any(&self, ruby: &Ruby, is_wanted: impl Fn(&Driver) -> bool) -> Option<Obj<Driver>> {
        let drivers = self.lock();
        drivers.iter().map(|driver| ruby.get_inner(*driver)).find(|driver| is_wanted(driver))
    }

    fn has(&self, ruby: &Ruby, driver: Obj<Driver>) -> bool {
        self.lock().iter().any(|known| ruby.get_inner(*known).as_raw() == driver.as_raw())
    }

    /// Adds a driver, and removes those that are over and for which no fiber waits.
    fn add(&self, ruby: &Ruby, driver: Obj<Driver>) {
        let mut drivers = self.lock();
        drivers.retain(|driver| {
            let shares = &ruby.get_inner(*driver).shares;
            shares.are_usable() || !shares.are_idle()
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
    shares: Shares,
    /// Ruby's view of the descriptor to wait for. It never closes it.
    io: Opaque<Value>,
    /// What lets fibers go on, if it is not the scheduler.
    ready: Option<Opaque<Value>>,
}

/// The connections of a driver, by what they are for.
pub(crate) enum Shares {
    Caches(Arc<Connections<caches::Machine>>),
    Locks(Arc<Connections<LockMachine>>),
}

impl DataTypeFunctions for Driver {
    fn mark(&self, marker: &gc::Marker) {
        marker.mark(self.io);
        if let Some(ready) = self.ready {
            marker.mark(ready);
        }
        match &self.shares {
            Shares::Caches(connections) => connections.mark(marker),
            Shares::Locks(connections) => connections.mark(marker),
        }
    }
}

impl Driver {
    /// Sees to what a batch has submitted. A fiber calls it that was started for it; some schedulers pass an argument to
    /// a fiber's block.
    fn attend(ruby: &Ruby, this: &Self, _: &[Value]) -> Result<(), Error> {
        match (Scheduler::current(ruby)?, &this.shares) {
            (Some(scheduler), Shares::Caches(connections)) => connections.attend(this.parking(ruby, scheduler)),
            _ => Ok(()),
        }
    }

    fn parking<'r>(&self, ruby: &'r Ruby, scheduler: Scheduler) -> Parking<'r> {
        let ready = self.ready.map(|ready| ruby.get_inner(ready));
        Parking { ruby, scheduler, io: ruby.get_inner(self.io), ready }
    }
}

impl Shares {
    fn are_usable(&self) -> bool {
        match self {
            Self::Caches(connections) => connections.is_usable(),
            Self::Locks(connections) => connections.is_usable(),
        }
    }

    fn are_idle(&self) -> bool {
        match self {
            Self::Caches(connections) => connections.is_idle(),
            Self::Locks(connections) => connections.is_idle(),
        }
    }
}

/// A client's drivers on all schedulers.
pub(crate) struct Drivers<M: Serves> {
    /// The client's number.
    client: u64,
    machine: Box<dyn Fn() -> M + Send + Sync>,
    all: Mutex<Vec<Weak<Connections<M>>>>,
}

impl<M: Serves> Drivers<M> {
    /// `machine`: makes one for a scheduler.
    pub(crate) fn new(machine: impl Fn() -> M + Send + Sync + 'static) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Self { client, machine: Box::new(machine), all: Mutex::default() }
    }

    /// Closes all connections, in every thread.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|connections| connections.close());
    }

    /// This client's driver on a scheduler.
    pub(crate) fn on(&self, ruby: &Ruby, scheduler: Scheduler) -> Result<Obj<Driver>, Error> {
        if let Some(driver) = scheduler.drivers(ruby)?.and_then(|known| known.find(ruby, self.client)) {
            return Ok(driver);
        }
        let driver = self.make(ruby, scheduler)?;
        match scheduler.drivers(ruby)? {
            Some(known) => known.add(ruby, driver),
            None => {
                let known = Known::default();
                known.add(ruby, driver);
                scheduler.keep_drivers(ruby, ruby.obj_wrap(known))?;
            }
        }
        Ok(driver)
    }

    #[cold]
    fn make(&self, ruby: &Ruby, scheduler: Scheduler) -> Result<Obj<Driver>, Error> {
        let polled = Polled::new((self.machine)()).map_err(|error| unusable(ruby, &error))?;
        let io = view(ruby, &polled)?;
        let ready = scheduler.ready(ruby)?.map(Opaque::from);
        let connections = Arc::new(Connections::new(polled, ruby.thread_current().as_raw() as usize));
        self.add(&connections);
        let driver = Driver { client: self.client, shares: M::shared(connections), io: io.as_value().into(), ready };
        let driver = ruby.obj_wrap(driver);
        // It keeps the descriptor open, for those who watch it longer than a wait.
        io.ivar_set("@pinyon_keeper", driver)?;
        Ok(driver)
    }

    /// Adds connections, and closes those of schedulers that this thread had before: it has one at a time.
    fn add(&self, connections: &Arc<Connections<M>>) {
        let mut all = self.lock();
        all.retain(|known| match known.upgrade() {
            Some(known) if known.thread == connections.thread && known.is_unused() => {
                known.close();
                false
            }
            known => known.is_some(),
        });
        all.push(Arc::downgrade(connections));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Connections<M>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Serves> Drop for Drivers<M> {
    /// The schedulers may outlive the client.
    fn drop(&mut self) {
        self.close();
    }
}

/// Ruby's view of a descriptor.
fn view(ruby: &Ruby, descriptor: &impl AsFd) -> Result<RFile, Error> {
    ruby.class_io().funcall("for_fd", (descriptor.as_fd().as_raw_fd(), kwargs!(ruby, "autoclose" => false)))
}
