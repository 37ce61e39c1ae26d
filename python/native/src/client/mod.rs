//! `pinyon.Client`: its parts and settings. Its methods are in `methods`.

pub(crate) mod batch;
mod many;
mod methods;
pub(crate) mod migrating;
mod running;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pinyon_cache::directory::Directory;
use pinyon_cache::lease::Flights;
use pinyon_cache::operations::Policy;
use pinyon_cache::settings::{CacheSettings, ViewSettings};
use pinyon_cache::ttl::DefaultTtl;
use pinyon_proto::KeyRules;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callers::Callers;
use crate::errors::{checked, exception, ErrorKind};
use crate::events::Watcher;
use crate::keys::Routing;
use crate::loops::Loops;
use crate::settings::changed;
use crate::shared::Driver;
use crate::values::Codec;
use migrating::{Both, Migrating};

/// A memcached client that blocks the calling thread while it waits, and that thread alone.
///
/// `pinyon.Client` documents its arguments; the methods document themselves.
#[pyclass(frozen, subclass, weakref, module = "pinyon._native")]
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) directory: Arc<Directory>,
    pub(crate) keys: KeyRules,
    pub(crate) routing: Routing,
    pub(crate) codec: Arc<Codec>,
    pub(crate) policy: Policy,
    pub(crate) default_ttl: DefaultTtl,
    pub(crate) watcher: Arc<Watcher>,
    /// To each server, per event loop.
    pub(crate) connections: usize,
    /// Set if the client's methods return what a coroutine awaits, instead of waiting themselves.
    pub(crate) loops: OnceLock<Arc<Loops<Driver>>>,
    pub(crate) flights: Arc<Flights<Callers>>,
    pub(crate) closed: Arc<AtomicBool>,
    /// If its methods serve an old and a new pool. All else here is the new one's.
    both: Option<Arc<Both>>,
}

/// The return value of a method: the answer, or what a coroutine must await.
pub(crate) type Returned<'py> = PyResult<Bound<'py, PyAny>>;

impl Client {
    /// A client that shares all but its policy with `client`.
    fn viewing(client: &Bound<'_, Self>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (py, client) = (client.py(), client.get());
        let view = changed(ViewSettings::default(), settings)?;
        let policy = checked(py, view.changed(client.policy))?;
        Ok(Self { policy, ..client.clone() })
    }

    /// One whose methods serve the old pool, too. `client` is that of the new pool.
    fn migrating(client: &Bound<'_, Self>, migrating: Migrating<'_>) -> PyResult<Self> {
        let both = Both::new(migrating, client.clone().unbind())?;
        Ok(Self { both: Some(both.into()), ..client.get().clone() })
    }

    fn of_settings(
        py: Python<'_>,
        serializer: Option<Bound<'_, PyAny>>,
        on_event: Option<Py<PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let settings = changed(CacheSettings::default(), settings)?;
        let parts = checked(py, py.detach(|| settings.build(on_event.is_some())))?;
        let serializer = serializer.unwrap_or_else(|| py.None().into_bound(py));
        Ok(Self {
            directory: Arc::new(parts.directory),
            keys: parts.keys,
            routing: if parts.quotes_bytes { Routing::Repr } else { Routing::Bytes },
            codec: Arc::new(Codec::new(&serializer, parts.packing)?),
            policy: parts.policy,
            default_ttl: parts.default_ttl,
            watcher: Arc::new(Watcher::new(on_event)),
            connections: parts.connections,
            loops: OnceLock::new(),
            flights: Arc::default(),
            closed: Arc::default(),
            both: None,
        })
    }

    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(exception(py, ErrorKind::Closed, "the client was closed; make another")),
        }
    }
}
