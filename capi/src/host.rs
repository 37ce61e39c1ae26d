//! Waiting for a host in C. The host says whether to go on, and which functions to call around a wait.

use std::time::Duration;

use pinyon_net::host;
use pinyon_net::host::{LONGEST_SLEEP, UNDISTURBED};

use crate::errors::Error;
use crate::structs::{self, Place};

/// A host, or none.
#[derive(Clone, Copy, Debug)]
pub struct Host(Option<structs::Host>);

/// The host ended a wait.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl Host {
    /// # Safety
    /// The pointer is null, or to a host whose functions do as the header says.
    #[inline]
    pub unsafe fn new(host: *const structs::Host) -> Result<Self, Error> {
        match host.is_null() {
            true => Ok(Self(None)),
            // SAFETY: the caller's pointer is to a host, as large as its size says.
            false => unsafe { structs::given(host) }.map(|host| Self(Some(host))),
        }
    }

    /// The same host, which leaves values in replies.
    pub fn without_place(mut self) -> Self {
        if let Some(host) = &mut self.0 {
            host.place = None;
        }
        self
    }

    pub fn place(&self) -> Option<Place> {
        self.0.and_then(|host| host.place)
    }
}

impl host::Host for Host {
    type Interrupt = Interrupted;

    #[inline]
    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Interrupted> {
        let Some(host) = &self.0 else { return Ok(wait()) };
        // SAFETY: who made it promised functions that do as the header says, and so take this pointer.
        unsafe {
            host.before_wait.inspect(|before| before(host.host));
            let outcome = wait();
            host.after_wait.inspect(|after| after(host.host));
            Ok(outcome)
        }
    }

    fn asleep<T: Send>(
        &self,
        wait: impl FnOnce(Duration) -> T + Send,
        _wake: impl Fn() + Sync,
    ) -> Result<T, Interrupted> {
        let is_asked = self.0.is_some_and(|host| host.interrupted.is_some());
        host::Host::unlocked(self, || wait(if is_asked { LONGEST_SLEEP } else { UNDISTURBED }))
    }

    #[inline]
    fn interrupted(&self) -> Result<(), Interrupted> {
        let Some(structs::Host { interrupted: Some(interrupted), host, .. }) = self.0 else { return Ok(()) };
        // SAFETY: as for the functions around a wait.
        match unsafe { interrupted(host) } {
            0 => Ok(()),
            _ => Err(Interrupted),
        }
    }

    /// A source that leaves its questions may answer them when it is asked whether to go on.
    fn asked(&self) -> Result<(), Interrupted> {
        self.interrupted()
    }
}
