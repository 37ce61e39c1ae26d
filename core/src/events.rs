//! What happened to the servers, for whoever watches: noted where it happens, and told by the host once it holds no
//! lock and nothing waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::fork::PerProcess;

/// Beyond this many that nobody has asked for, further ones are dropped.
const MOST: usize = 4096;

#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The server's name.
    pub server: Arc<str>,
    /// The protocol's name of the command; empty where the event is about none.
    pub command: &'static str,
    /// What failed.
    pub error: Option<Error>,
    /// How long the server was down, or the command took.
    pub duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The server was marked down.
    Down,
    /// It was probed and is in use again.
    Up,
    /// A command is tried again, having failed on this server.
    Retry,
    /// A command took long.
    Slow,
    /// The servers are others than before; the event's `server` names them all.
    Servers,
    /// Nobody said which servers there are; those known last stay in use.
    Discovery,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Down => "down",
            EventKind::Up => "up",
            EventKind::Retry => "retry",
            EventKind::Slow => "slow",
            EventKind::Servers => "servers",
            EventKind::Discovery => "discovery",
        }
    }
}

/// Events that have not been told yet. A forked child has its own.
#[derive(Debug)]
pub(crate) struct Events {
    noted: PerProcess<Mutex<Vec<Event>>>,
    /// Whether there are any. It is looked at after every operation.
    any: AtomicBool,
}

impl Default for Events {
    fn default() -> Self {
        Self { noted: PerProcess::new(Mutex::default()), any: AtomicBool::default() }
    }
}

impl Events {
    pub(crate) fn note(&self, event: Event) {
        let mut events = self.lock();
        if events.len() < MOST {
            events.push(event);
        }
        self.any.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        let mut events = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *events)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.noted.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}
