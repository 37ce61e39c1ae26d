//! What is asked of a machine, and by which options.

use std::sync::Arc;
use std::time::Duration;

use super::table::Fairness;
#[cfg(doc)]
use super::MachineFailure;
use crate::call::{Attempt, Names};
use crate::observed::Observed;

/// The options of a client.
#[derive(Clone, Debug)]
pub struct LockOptions {
    pub fairness: Fairness,
    /// How often a waiter tells the server that it is alive, if it sends nothing else.
    pub heartbeat: Duration,
    /// How long an answer may take.
    pub patience: Duration,
    /// What is counted for metrics.
    pub observed: Arc<Observed>,
    /// What the program calls this client.
    pub label: Option<Arc<str>>,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            fairness: Fairness::Fifo,
            heartbeat: Duration::from_secs(5),
            patience: Duration::from_secs(2),
            observed: Arc::default(),
            label: None,
        }
    }
}

impl LockOptions {
    /// How long a server keeps a waiter from which it hears nothing.
    pub fn waiter_ttl(&self) -> Duration {
        self.heartbeat * 3
    }
}

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    pub names: Names,
    pub owner: u64,
    /// How long the lock lasts without renewal.
    pub ttl: Duration,
    /// How long to wait for it. Zero or `None` takes it at once or fails, with [`MachineFailure::Timeout`] for zero and
    /// [`MachineFailure::Busy`] for `None`. A server that does not answer is [`MachineFailure::Server`] either way.
    pub wait: Option<Duration>,
    pub renewal: Renewal,
    /// Whether an owner may acquire again what it holds.
    pub reentrant: bool,
    /// What few locks want.
    pub rare: Option<Box<Rare>>,
}

/// What few locks want: apart, so that the others need not carry it.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// How long the names stay locked from the grant on, even if the holder releases them earlier.
    pub at_least: Duration,
    /// The attempt whose lock is taken over, if it was handed over. Then the names are its names.
    pub adopts: Option<Arc<Attempt>>,
    /// Whether its caller goes on without the lock while the servers are away.
    pub proceeds: bool,
    /// What its holder says about it.
    pub remark: Option<Arc<str>>,
}

impl Rare {
    /// None if it wants none of these.
    pub fn boxed(self) -> Option<Box<Self>> {
        let Self { at_least, adopts, proceeds, remark } = &self;
        let is_any = !at_least.is_zero() || adopts.is_some() || *proceeds || remark.is_some();
        is_any.then(|| self.into())
    }
}

impl LockRequest {
    pub fn at_least(&self) -> Duration {
        self.rare.as_ref().map_or(Duration::ZERO, |rare| rare.at_least)
    }

    pub fn proceeds(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.proceeds)
    }

    pub fn remark(&self) -> Option<&Arc<str>> {
        self.rare.as_ref()?.remark.as_ref()
    }

    pub fn adopts(&self) -> Option<&Arc<Attempt>> {
        self.rare.as_ref()?.adopts.as_ref()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// The lock ends after its ttl.
    Never,
    #[default]
    Always,
    /// The lock is renewed until it has been held for so long.
    For(Duration),
}
