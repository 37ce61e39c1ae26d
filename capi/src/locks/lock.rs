//! A lock that was acquired.

use std::convert::Infallible;
use std::ffi::{c_char, c_void, CString};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pinyon_locks::{LoopDriver, Loss};

use super::client::{Drivers, Locks};
use super::listener::Listener;
use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::guard::{free, with, Handle, Poison};
use crate::status::Status;
use crate::structs::Bytes;

/// A lock that was acquired.
pub struct Lock {
    pub held: Held,
    locks: Locks,
    poison: Poison,
}

/// It keeps the drivers of threads alive, if one of them is its own.
pub type Held = pinyon_locks::Held<Listener, Arc<Machine>, Option<Arc<Drivers>>>;

/// A caller's driver.
pub type Driver = pinyon_locks::Driver<Listener, Arc<Machine>>;

/// The machine of an event loop, as its locks know it. Any thread may use it.
pub type Machine = dyn LoopDriver<Listener, Error = Infallible>;

impl Handle for Lock {
    const NAME: &'static str = "pinyon_lock";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Lock {
    pub fn new(held: Held, locks: Locks) -> Self {
        Self { held, locks, poison: Poison::default() }
    }

    /// The lock, if it is this client's.
    pub fn held(&self, locks: &Locks) -> Result<&Held, Error> {
        match self.locks.is(locks) {
            true => Ok(&self.held),
            false => Err(Failure::usage("this lock was acquired by another client of locks")),
        }
    }

    fn remaining(&self) -> Option<Duration> {
        let Ok(remaining) = self.held.remaining();
        remaining
    }

    fn check(&self) -> Result<Status, Error> {
        match self.remaining() {
            Some(_) => Ok(Status::Done),
            None => Err(self.held.grant().not_held().into()),
        }
    }
}

/// The number of a loss in the header.
pub fn number(loss: Option<Loss>) -> u32 {
    match loss {
        None => 0,
        Some(Loss::Expired) => 1,
        Some(Loss::Gone) => 2,
        Some(Loss::Forced) => 3,
        Some(Loss::Closed) => 4,
        Some(Loss::Forked) => 5,
        Some(Loss::Released) => 6,
        Some(Loss::HandedOver) => 7,
    }
}

pub const LOSSES: [Loss; 7] = Loss::ALL;

exported! {
    fn pinyon_lock_token(lock: &Lock) -> u64 { lock.held.grant().token() }

    fn pinyon_lock_note(lock: &Lock) -> Bytes { Bytes::of(lock.held.grant().note().unwrap_or_default().as_bytes()) }

    fn pinyon_lock_remaining(lock: &Lock) -> f64 { lock.remaining().unwrap_or_default().as_secs_f64() }

    fn pinyon_lock_check(lock: &Lock) -> Result<i32> { lock.check() }

    fn pinyon_lock_is_certain(lock: &Lock) -> bool { lock.held.grant().is_certain() }

    fn pinyon_lock_lost_early(lock: *const Lock) -> *mut Error {
        let error = with(lock, |lock| match lock.held.grant().is_uncertain() {
            true => Ok(ptr::null_mut()),
            false => Ok(Error::from(lock.held.grant().lost_early()).into_raw()),
        });
        error.unwrap_or_else(Error::into_raw)
    }

    fn pinyon_lock_loss(lock: &Lock) -> u32 { number(lock.held.grant().loss()) }

    fn pinyon_loss_text(loss: u32) -> *const c_char {
        // Made once, so that they live as long as the library.
        static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
        let texts = TEXTS.get_or_init(|| LOSSES.iter().map(|loss| c_string(loss.as_str())).collect());
        let known = LOSSES.iter().position(|known| number(Some(*known)) == loss);
        known.map_or(c"".as_ptr(), |place| texts[place].as_ptr())
    }

    fn pinyon_lock_listen(lock: &Lock, context: *mut c_void) -> bool {
        lock.held.grant().listen(Listener::of(context)).is_ok()
    }

    fn pinyon_lock_free(lock: *mut Lock) { free(lock) }
}
