//! Driving sessions by waiting: a thread takes sessions from the pools, submits commands, and waits by itself.
//!
//! With one exchange in flight, an operation is two system calls: a send and a receive. The socket's own timeout
//! (`SO_RCVTIMEO`) bounds the receive, to a tenth of a second at most, because a signal may arrive just before it.
//! This is right only while the whole timeout lies ahead. Every further wait uses `poll(2)` with the time left until
//! the deadline, so a server that drips bytes cannot outlive the deadline.
//!
//! The host's lock is released only while the thread waits. A host may refuse a wait before it begins.

mod alone;
mod batch;
mod both;
mod known;
mod late;
mod open;
mod run;
mod together;
mod wait;

use std::time::{Duration, Instant};

pub use batch::Batch;
pub use both::run_on_both;
pub use known::known;
pub use late::give_back_late;
pub use run::run;

use crate::session::Session;
use pinyon_net::error::{Error, Sent};

/// Why an operation ended early.
#[derive(Debug)]
pub enum Failure<I> {
    Error(Error),
    Interrupted(I),
}

impl<I> Failure<I> {
    /// The same failure, with the name of a command of which nothing was sent.
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

/// The deadline of an operation, and whether any of its time has been used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) deadline: Instant,
    /// The client's whole timeout, as long as none of it is used. Then the socket's own timeout can bound the wait.
    unused: Option<Duration>,
}

/// Whether a server sends replies while an operation waits for its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listening {
    /// The bytes heard by the first look, which comes when the operation has waited for a part of its time.
    before: Option<u64>,
    /// Whether a part of its own reply arrived.
    own: bool,
}

impl Listening {
    /// Takes note that the operation still waits.
    #[cold]
    pub(crate) fn still_waits(&mut self, session: &Session) {
        self.before.get_or_insert_with(|| session.heard());
    }

    /// Takes note of a reply of its own, if it is one.
    #[inline]
    pub(crate) fn heard_own(&mut self, is_reply: bool) {
        self.own |= is_reply;
    }

    /// Takes note of what has arrived of its own reply so far.
    #[cold]
    pub(crate) fn heard_part(&mut self, session: &Session) {
        self.own |= session.is_in_reply();
    }

    /// Whether the server sent something, to this operation or to others, while it waited.
    #[cold]
    pub(crate) fn heard(&self, now: u64) -> bool {
        self.own || self.before.is_some_and(|before| before != now)
    }
}

impl Timer {
    /// Starts the timer of an operation that begins `now` and may take `timeout`.
    #[inline]
    pub(crate) fn start(now: Instant, timeout: Duration) -> Self {
        Self { deadline: now + timeout, unused: Some(timeout) }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
