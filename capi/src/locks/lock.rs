//! A lock that was acquired.

use std::ffi::{c_char, c_void, CString};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pinyon_locks::{Loss, Station};

use super::client::{Keeping, Locks};
use super::listener::{Grant, Listener};
use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::guard::{free, with, Handle, Poison};
use crate::status::Status;

/// A lock that was acquired. It keeps its client alive, which renews it.
pub struct Lock {
    pub grant: Arc<Grant>,
    /// How long it tries to take its names again after it was parked.
    pub relock: Duration,
    locks: Locks,
    place: Place,
    poison: Poison,
}

/// Where a lock is kept.
pub enum Place {
    Threads { keeping: Arc<Keeping>, station: Arc<Station<Listener>> },
    Loop(Arc<dyn Machine>),
}

/// The machine of an event loop, as its locks know it. Any thread may use it.
pub trait Machine {
    fn remaining(&self, grant: &Arc<Grant>) -> Option<Duration>;
    fn forsake(&self, grant: &Arc<Grant>);
}

impl Handle for Lock {
    const NAME: &'static str = "pinyon_lock";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Lock {
    pub fn new(grant: Arc<Grant>, relock: Duration, locks: Locks, place: Place) -> Self {
        Self { grant, relock, locks, place, poison: Poison::default() }
    }

    /// Where it is kept, if it is this client's.
    pub fn place(&self, locks: &Locks) -> Result<&Place, Error> {
        match self.locks.is(locks) {
            true => Ok(&self.place),
            false => Err(Failure::usage("this lock was acquired by another client of locks")),
        }
    }

    fn remaining(&self) -> Option<Duration> {
        match &self.place {
            Place::Threads { station, .. } => station.remaining(&self.grant),
            // A thread that is gone in a forked child may have the machine.
            Place::Loop(_) if self.grant.is_inherited() => None,
            Place::Loop(machine) => machine.remaining(&self.grant),
        }
    }

    fn check(&self) -> Result<Status, Error> {
        match self.remaining() {
            Some(_) => Ok(Status::Done),
            None => Err(self.grant.not_held().into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.grant.forsake() {
            return;
        }
        match &self.place {
            Place::Threads { station, .. } => station.forsake(&self.grant),
            Place::Loop(machine) => machine.forsake(&self.grant),
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
    }
}

pub const LOSSES: [Loss; 5] = [Loss::Expired, Loss::Gone, Loss::Forced, Loss::Closed, Loss::Forked];

exported! {
    fn pinyon_lock_token(lock: &Lock) -> u64 { lock.grant.token() }

    fn pinyon_lock_remaining(lock: &Lock) -> f64 { lock.remaining().unwrap_or_default().as_secs_f64() }

    fn pinyon_lock_check(lock: &Lock) -> Result<i32> { lock.check() }

    fn pinyon_lock_lost_early(lock: *const Lock) -> *mut Error {
        let error = with(lock, |lock| Ok(lock.grant.lost_early().into()));
        error.unwrap_or_else(|error: Error| error).into_raw()
    }

    fn pinyon_lock_loss(lock: &Lock) -> u32 { number(lock.grant.loss()) }

    fn pinyon_loss_text(loss: u32) -> *const c_char {
        // Made once, so that they live as long as the library.
        static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
        let texts = TEXTS.get_or_init(|| LOSSES.iter().map(|loss| c_string(loss.as_str())).collect());
        let known = LOSSES.iter().position(|known| number(Some(*known)) == loss);
        known.map_or(c"".as_ptr(), |place| texts[place].as_ptr())
    }

    fn pinyon_lock_listen(lock: &Lock, context: *mut c_void) -> bool {
        lock.grant.listen(Listener::of(context)).is_ok()
    }

    fn pinyon_lock_free(lock: *mut Lock) { free(lock) }
}
