//! Waiting in a thread: what it needs from the host's language, and the resolving of names meanwhile.

mod resolve;

use std::convert::Infallible;
use std::time::Duration;

pub use resolve::{resolve, Unresolved};

pub use crate::doorbell::LONGEST_SLEEP;

/// How long a thread sleeps whom no signal concerns. Whatever it waits for wakes it.
pub const UNDISTURBED: Duration = Duration::from_secs(600);

/// What the blocking driver needs from the host's language.
pub trait Host {
    /// The error that the language raises when a signal ends a wait.
    type Interrupt;

    /// Runs `wait` with the host's lock released. An error means that a signal came first and `wait` did not run.
    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Self::Interrupt>;

    /// Like [`Self::unlocked`], for a wait that may take long. It is told how long it may sleep before the host must look
    /// for signals; a host that calls `wake` when there is one need not look. `wake` may be called from any thread.
    fn asleep<T: Send>(
        &self,
        wait: impl FnOnce(Duration) -> T + Send,
        _wake: impl Fn() + Sync,
    ) -> Result<T, Self::Interrupt> {
        self.unlocked(|| wait(LONGEST_SLEEP))
    }

    /// Called between waits. A signal may have arrived: handle it, and return an error to end the operation at once.
    fn interrupted(&self) -> Result<(), Self::Interrupt>;

    /// Called before a wait for credentials, while nothing is locked. A host whose function only this thread may call
    /// calls it here, for all questions that wait.
    fn asked(&self) -> Result<(), Self::Interrupt> {
        Ok(())
    }
}

/// A host without a lock to release and without signals to handle.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Infallible> {
        Ok(wait())
    }

    fn asleep<T: Send>(
        &self,
        wait: impl FnOnce(Duration) -> T + Send,
        _wake: impl Fn() + Sync,
    ) -> Result<T, Infallible> {
        Ok(wait(UNDISTURBED))
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}
