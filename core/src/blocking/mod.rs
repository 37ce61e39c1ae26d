//! Driving sessions by waiting: a thread takes sessions from the pools, submits, and waits by itself.
//!
//! With one exchange in flight a whole operation is two system calls: a send, and a receive that the socket's own
//! timeout bounds. The host's lock is given up while waiting and at no other time.

mod alone;
mod batch;
mod known;
mod open;
mod resolve;
mod run;
mod together;
mod wait;

use std::convert::Infallible;
use std::time::{Duration, Instant};

pub use batch::Batch;
pub use known::known;
pub(crate) use resolve::{resolve, Unresolved};
pub use run::run;

use crate::error::{Error, Sent};

/// What the blocking driver asks of the language it serves.
pub trait Host {
    /// What the language raises when a signal ends a wait.
    type Interrupt;

    /// Runs `wait` with the host's lock given up. An error says that it did not run, as the host was interrupted before.
    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Self::Interrupt>;

    /// Called after a wait, and before another one: a signal may have come, and an error ends the operation at once.
    fn interrupted(&self) -> Result<(), Self::Interrupt>;
}

/// A host without a lock to give up, and without signals to look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Infallible> {
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Why an operation did not come to its end.
#[derive(Debug)]
pub enum Failure<I> {
    Error(Error),
    Interrupted(I),
}

impl<I> Failure<I> {
    /// The same, of a command of which nothing was sent.
    pub fn before(self, command: &'static str) -> Self {
        match self {
            Failure::Error(error) => Failure::Error(error.of(command, Sent::No)),
            interrupted => interrupted,
        }
    }
}

impl<I> From<Error> for Failure<I> {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

/// When an operation must be over, and whether any of its time is used up yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) deadline: Instant,
    /// All of the client's timeout, while none of it is used up: then the socket's own timeout may bound the wait.
    unused: Option<Duration>,
}

impl Timer {
    /// An operation that begins `now` and may take `timeout`, as the client's operations do.
    #[inline]
    pub(crate) fn start(now: Instant, timeout: Duration) -> Self {
        Self { deadline: now + timeout, unused: Some(timeout) }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
