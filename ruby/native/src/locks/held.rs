//! A lock, from before it is acquired, and what its holder can do with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use magnus::value::ReprValue;
use magnus::{method, Error, Module, RArray, RModule, Ruby, Value};
use pinyon_locks::settings::lock_ttl;
use pinyon_locks::{LockOperation, LockRequest};

use super::answers::raised;
use super::client::{texts, waiting};
use super::drivers::{self, Drivers};
use crate::define_class;
use crate::errors::checked;
use crate::events::Listener;
use crate::fibers::{unusable, LockConnections};
use crate::ttl::seconds;

/// A lock that is to be acquired, or was. A lock that nothing refers to any more is not renewed.
#[magnus::wrap(class = "Pinyon::Native::Held", free_immediately)]
pub(crate) struct Held {
    number: Listener,
    held: InCore,
    /// What [`Held::acquire`] asks for, once.
    request: Mutex<Option<LockRequest>>,
    /// Only the holder of the VM lock changes it.
    is_acquired: AtomicBool,
}

type InCore = pinyon_locks::Held<Listener, Arc<LockConnections>, Arc<Drivers>>;

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<Held>(ruby, native, "Held")?;
    class.define_method("number", method!(Held::number, 0))?;
    class.define_method("token", method!(Held::token, 0))?;
    class.define_method("note", method!(Held::note, 0))?;
    class.define_method("remaining", method!(Held::remaining, 0))?;
    class.define_method("check", method!(Held::check, 0))?;
    class.define_method("lost_early", method!(Held::lost_early, 0))?;
    class.define_method("listen", method!(Held::listen, 0))?;
    class.define_method("certain?", method!(Held::is_certain, 0))?;
    class.define_method("given_back?", method!(Held::is_given_back, 0))?;
    class.define_method("acquire", method!(Held::acquire, 1))?;
    class.define_method("release", method!(Held::release, 0))?;
    class.define_method("hand_over", method!(Held::hand_over, 1))?;
    class.define_method("upgrade", method!(Held::upgrade, 2))?;
    class.define_method("downgrade", method!(Held::downgrade, 1))?;
    class.define_method("leave", method!(Held::leave, 0))?;
    class.define_method("leave_early", method!(Held::leave_early, 0))?;
    class.define_method("cancel", method!(Held::cancel, 0))?;
    class.define_method("stop_waiting", method!(Held::stop_waiting, 0))?;
    class.define_method("extend_to", method!(Held::extend_to, 1))?;
    class.define_method("park", method!(Held::park, 1))?;
    class.define_method("notify", method!(Held::notify, 1))
}

impl Held {
    pub(super) fn new(held: InCore, request: LockRequest) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let (number, request) = (NUMBERS.fetch_add(1, Ordering::Relaxed), Mutex::new(Some(request)));
        Self { number, held, request, is_acquired: AtomicBool::new(false) }
    }

    /// Acquires the names. Returns false if `waits` is false and they are taken.
    fn acquire(ruby: &Ruby, this: &Self, waits: bool) -> Result<bool, Error> {
        let Some(mut request) = this.request.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            unreachable!("a lock is acquired once")
        };
        if !waits {
            request.wait = None;
        }
        let acquired = this.run(ruby, this.held.acquire(request))?;
        this.is_acquired.store(!acquired.is_nil(), Ordering::Relaxed);
        Ok(!acquired.is_nil())
    }

    /// Identifies it to whoever takes the notes.
    fn number(&self) -> Listener {
        self.number
    }

    fn token(&self) -> u64 {
        self.held.grant().token()
    }

    fn note(&self) -> Option<String> {
        self.held.grant().note().map(str::to_owned)
    }

    /// The seconds for which it remains held without renewal; nil if it is not held.
    fn remaining(ruby: &Ruby, this: &Self) -> Result<Option<f64>, Error> {
        Ok(this.left(ruby)?.map(|remaining| remaining.as_secs_f64()))
    }

    /// Raises `LockLost` unless it is held still.
    fn check(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        match this.left(ruby)? {
            Some(_) => Ok(()),
            None => Err(raised(ruby, this.held.grant().not_held())),
        }
    }

    /// Raises the error at the end of a block in which the lock was lost.
    fn lost_early(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        Err(raised(ruby, this.held.grant().lost_early()))
    }

    /// Asks for a note when the lock is lost. Returns false if it is lost already.
    fn listen(&self) -> bool {
        self.held.grant().listen(self.number).is_ok()
    }

    /// Whether it has been held from its acquisition until now, or until its release.
    fn is_certain(&self) -> bool {
        self.held.grant().is_certain()
    }

    /// Whether its holder has released it, in time or not.
    fn is_given_back(&self) -> bool {
        self.held.is_given_back()
    }

    /// Returns whether it was held until then.
    fn release(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        this.run(ruby, this.held.release())
    }

    /// Hands it over to whoever adopts it within so many seconds; nil for its own ttl. Returns the ticket.
    fn hand_over(ruby: &Ruby, this: &Self, ttl: Option<Value>) -> Result<Value, Error> {
        let ttl = ttl.map(|ttl| checked(ruby, lock_ttl(seconds(ruby, ttl)?))).transpose()?;
        this.run(ruby, this.held.hand_over(ttl))
    }

    /// Writes what it has read: these names, or all. Waits for at most so many seconds; nil for as long as the lock waited.
    fn upgrade(ruby: &Ruby, this: &Self, names: RArray, timeout: Value) -> Result<Value, Error> {
        let wait = waiting(ruby, timeout)?;
        this.run(ruby, checked(ruby, this.held.upgrade(&texts(ruby, names)?, wait))?)
    }

    /// Reads what it has written: these names, or all.
    fn downgrade(ruby: &Ruby, this: &Self, names: RArray) -> Result<Value, Error> {
        this.run(ruby, checked(ruby, this.held.downgrade(&texts(ruby, names)?))?)
    }

    /// Ends the block that it was acquired for. Returns whether it was held until then; nil if there was nothing to
    /// release.
    fn leave(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        match this.gives_back() {
            true => this.run(ruby, this.held.release()),
            false => Ok(ruby.qnil().as_value()),
        }
    }

    /// Ends the block, although its names were to stay locked for longer.
    fn leave_early(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        match this.gives_back() {
            true => this.run(ruby, this.held.release_early()),
            false => Ok(ruby.qnil().as_value()),
        }
    }

    /// Releases it without waiting for the answer, because its caller does not have it.
    fn cancel(&self) {
        if self.gives_back() {
            // It fails in a forked child only, which does not hold the lock.
            let _ = self.held.cancel();
        }
    }

    /// Ends the wait of `acquire`, which returns false, also if it only begins. A lock that was acquired is held.
    fn stop_waiting(ruby: &Ruby, this: &Self) -> Result<(), Error> {
        this.held.stop_waiting().map_err(|error| unusable(ruby, &error))
    }

    /// Extends the lock to so many seconds from now. Returns whether it is still held.
    fn extend_to(ruby: &Ruby, this: &Self, ttl: Value) -> Result<Value, Error> {
        let ttl = checked(ruby, lock_ttl(seconds(ruby, ttl)?))?;
        this.run(ruby, this.held.extend(ttl))
    }

    /// Releases the names until it is notified, for at most `wait` seconds, then takes them again. Returns whether it
    /// was notified.
    fn park(ruby: &Ruby, this: &Self, wait: Value) -> Result<Value, Error> {
        this.run(ruby, this.held.park(waiting(ruby, wait)?))
    }

    /// Notifies `most` of the locks parked on the same names, or all if 0. Returns how many.
    fn notify(ruby: &Ruby, this: &Self, most: u32) -> Result<Value, Error> {
        this.run(ruby, this.held.notify(most))
    }

    fn run(&self, ruby: &Ruby, operation: LockOperation<Listener>) -> Result<Value, Error> {
        drivers::run(ruby, self.held.driver(), operation)
    }

    fn left(&self, ruby: &Ruby) -> Result<Option<Duration>, Error> {
        self.held.remaining().map_err(|error| unusable(ruby, &error))
    }

    /// Whether its holder has to release it. Then it counts as given back from now on.
    fn gives_back(&self) -> bool {
        let gives_back =
            self.is_acquired.load(Ordering::Relaxed) && !self.held.is_given_back() && self.held.give_back();
        gives_back && !self.held.grant().is_uncertain()
    }
}
