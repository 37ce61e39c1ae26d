//! What callers share who want the same value, and how those are woken who follow another.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pinyon_cache::lease::{LeaseTypes, Signal};
use pinyon_net::fork::PerProcess;

use crate::errors::Error;

/// A value as it is stored, but for its compression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub bytes: Vec<u8>,
    pub client_flags: u32,
}

/// Values are bytes, so what callers share needs no conversion.
#[derive(Debug)]
pub struct Types;

impl LeaseTypes for Types {
    type Value = Arc<Made>;
    type Shared = Arc<Made>;
    type Error = Error;
    type Signal = Wake;
}

/// Wakes a caller that follows another.
#[derive(Clone, Debug)]
pub enum Wake {
    Thread(Arc<(Mutex<bool>, Condvar)>),
    /// It finds its context among those to wake.
    Scope {
        woken: Woken,
        scope: u64,
        context: usize,
    },
}

impl Signal for Wake {
    fn wake(self) {
        match self {
            Wake::Thread(bell) => {
                *bell.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                bell.1.notify_all();
            }
            Wake::Scope { woken, scope, context } => woken.add(scope, context),
        }
    }
}

/// The callers to wake, by scope. Each is the context of one.
#[derive(Clone, Debug)]
pub struct Woken(Arc<PerProcess<Mutex<ByScope>>>);

type ByScope = HashMap<u64, VecDeque<usize>>;

impl Default for Woken {
    fn default() -> Self {
        Self(Arc::new(PerProcess::new(Mutex::default())))
    }
}

impl Woken {
    fn add(&self, scope: u64, context: usize) {
        self.lock().entry(scope).or_default().push_back(context);
    }

    pub fn next(&self, scope: u64) -> Option<usize> {
        let mut all = self.lock();
        let woken = all.get_mut(&scope)?;
        let next = woken.pop_front();
        if woken.is_empty() {
            all.remove(&scope);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, ByScope> {
        self.0.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}
