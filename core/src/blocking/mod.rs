//! Driving sessions by waiting: a thread takes sessions from the pools, submits, and waits by itself.
//!
//! With one exchange in flight a whole operation is two system calls: a send, and a receive that the socket's own
//! timeout bounds. The host's lock is given up while waiting and at no other time.

mod batch;
mod execute;
mod known;
mod open;
mod resolve;
mod scatter;
mod wait;

use std::time::{Duration, Instant};

use pinyon_proto::Head;

pub use batch::{Batch, Outcomes};
pub use execute::execute;
pub use known::known;
pub(crate) use resolve::{resolve, Unresolved};
pub use scatter::{scatter, Work};

use crate::error::{Error, Sent};
use crate::session::{Destination, Reply};

/// What the blocking driver asks of the language it serves.
pub trait Host {
    /// What the language raises when a signal ends a wait.
    type Interrupt;

    /// Runs `wait` with the host's lock given up. An error says that the host did not begin it, and ends the operation
    /// at once.
    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Self::Interrupt>;

    /// Called after a wait, and before another one: a signal may have come, and an error ends the operation at once.
    fn interrupted(&self) -> Result<(), Self::Interrupt>;
}

/// Takes the replies of one command.
pub trait Receive {
    fn reply(&mut self, reply: Reply<'_>);

    /// Where a large value is to be received; as long as the head says.
    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }
}

impl<F: FnMut(Reply<'_>)> Receive for F {
    fn reply(&mut self, reply: Reply<'_>) {
        self(reply);
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
pub struct Timer {
    pub deadline: Instant,
    /// All of the client's timeout, while none of it is used up: then the socket's own timeout may bound the wait.
    unused: Option<Duration>,
}

impl Timer {
    /// An operation that begins `now` and may take `timeout`, as the client's operations do.
    pub fn start(now: Instant, timeout: Duration) -> Self {
        Self { deadline: now + timeout, unused: Some(timeout) }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
