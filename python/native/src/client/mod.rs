//! `pinyon.Client`: its methods are in `methods`.

mod construction;
mod many;
mod methods;
mod running;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pinyon_core::directory::Directory;
use pinyon_core::lease::Flights;
use pinyon_core::settings::Policy;
use pinyon_proto::KeyRules;
use pyo3::prelude::*;

use crate::errors::{exception, ErrorKind};
use crate::events::Watcher;
use crate::keys::Routing;
use crate::leases::Callers;
use crate::loops::Loops;
use crate::shared::Driver;
use crate::values::Codec;

/// A memcached client that blocks the calling thread while it waits, and that thread alone.
///
/// `pinyon.Client` documents its arguments; the methods document themselves.
#[pyclass(frozen, subclass, weakref, module = "pinyon._native")]
pub(crate) struct Client {
    pub(crate) directory: Arc<Directory>,
    pub(crate) keys: KeyRules,
    pub(crate) routing: Routing,
    pub(crate) codec: Arc<Codec>,
    pub(crate) policy: Policy,
    pub(crate) watcher: Arc<Watcher>,
    /// Where the client's methods return what a coroutine waits for, instead of waiting themselves.
    pub(crate) loops: OnceLock<Arc<Loops<Driver>>>,
    pub(crate) flights: Arc<Flights<Callers>>,
    pub(crate) closed: Arc<AtomicBool>,
}

impl Client {
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(exception(py, ErrorKind::Closed, "the client was closed; make another")),
        }
    }

    /// The same client with another policy.
    pub(crate) fn view(&self, policy: Policy) -> Self {
        Self {
            directory: self.directory.clone(),
            keys: self.keys.clone(),
            routing: self.routing,
            codec: self.codec.clone(),
            policy,
            watcher: self.watcher.clone(),
            loops: self.loops.clone(),
            flights: self.flights.clone(),
            closed: self.closed.clone(),
        }
    }
}
