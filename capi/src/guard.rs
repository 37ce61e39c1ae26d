//! Guards each call from C: a panic ends the call and poisons the handle.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::errors::{Error, Failure};
use crate::structs::missing;

/// Whether a panic has ended a call with this handle, or a callback runs that must not use it.
#[derive(Debug, Default)]
pub struct Poison(AtomicU8);

const POISONED: u8 = 1;
const IN_CALLBACK: u8 = 2;

impl Poison {
    #[inline]
    fn check(&self) -> Result<(), Error> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            state => Err(refused(state)),
        }
    }

    fn set(&self) {
        self.0.store(POISONED, Ordering::Relaxed);
    }

    /// Refuses all calls with the handle meanwhile.
    pub fn while_refused<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.store(IN_CALLBACK, Ordering::Relaxed);
        let done = work();
        self.0.store(0, Ordering::Relaxed);
        done
    }
}

#[cold]
fn refused(state: u8) -> Error {
    match state {
        IN_CALLBACK => Failure::usage("a function that converts values must not use the event loop that calls it"),
        _ => Failure::internal(),
    }
}

/// Something that a caller has a pointer to.
pub trait Handle {
    const NAME: &'static str;

    fn poison(&self) -> &Poison;
}

/// Calls a function with a handle.
///
/// # Safety
/// The pointer is null, or a handle that lives and that nobody changes meanwhile.
#[inline]
pub unsafe fn with<H: Handle, T>(handle: *const H, call: impl FnOnce(&H) -> Result<T, Error>) -> Result<T, Error> {
    // SAFETY: the caller's handle is null, or lives and changes no more than its methods allow.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return Err(missing(H::NAME)) };
    contained(handle.poison(), || call(handle))
}

/// Calls a function with a handle that one thread at a time uses.
///
/// # Safety
/// The pointer is null, or a handle that lives and that nobody else uses meanwhile.
pub unsafe fn with_mut<H: Handle, T>(
    handle: *mut H,
    call: impl FnOnce(&mut H) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller's handle is null, or lives, and no other thread uses it during the call.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return Err(missing(H::NAME)) };
    handle.poison().check()?;
    match catch_unwind(AssertUnwindSafe(|| call(handle))) {
        Ok(outcome) => outcome,
        Err(_) => {
            handle.poison().set();
            Err(Failure::internal())
        }
    }
}

#[inline]
fn contained<T>(poison: &Poison, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    poison.check()?;
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome,
        Err(_) => {
            poison.set();
            Err(Failure::internal())
        }
    }
}

/// The same without a handle.
pub fn alone<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    contained(&Poison::default(), call)
}

/// Frees a handle.
///
/// # Safety
/// The pointer is null, or came from `Box::into_raw` and is not used afterwards.
pub unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's handle came from `Box::into_raw`, and is not used afterwards.
        let handle = unsafe { Box::from_raw(handle) };
        // There is nobody to tell about a panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Kind;

    #[derive(Default)]
    struct Thing(Poison);

    impl Handle for Thing {
        const NAME: &'static str = "pinyon_thing";

        fn poison(&self) -> &Poison {
            &self.0
        }
    }

    fn call(thing: *const Thing, panics: bool) -> Result<u32, Error> {
        let work = |_: &Thing| if panics { panic!("a fault, on purpose") } else { Ok(7) };
        // SAFETY: it is null or lives.
        unsafe { with(thing, work) }
    }

    #[test]
    fn a_panic_ends_the_call_and_poisons_the_handle_and_no_other() {
        let (thing, other) = (Thing::default(), Thing::default());
        assert!(matches!(call(&thing, false), Ok(7)));
        for panics in [true, false] {
            let error = call(&thing, panics).unwrap_err();
            assert_eq!(error.kind, Kind::Internal);
        }
        assert!(matches!(call(&other, false), Ok(7)));
        let mut mutable = thing;
        // SAFETY: it lives.
        let again = unsafe { with_mut(&mut mutable, |_| Ok(7)) };
        assert_eq!(again.unwrap_err().kind, Kind::Internal);
        assert!(call(std::ptr::null(), false).unwrap_err().message.to_string_lossy().contains("pinyon_thing"));
    }
}
