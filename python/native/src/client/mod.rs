//! `pinyon.Client`: its parts and settings. Its methods are in `methods`.

pub(crate) mod batch;
pub(crate) mod many;
mod methods;
pub(crate) mod migrating;
mod near;
mod running;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinyon_cache::directory::Directory;
use pinyon_cache::lease::Flights;
use pinyon_cache::migration::{Counts, Progress};
use pinyon_cache::operations::Policy;
use pinyon_cache::settings::{CacheSettings, ViewSettings};
use pinyon_cache::ttl::DefaultTtl;
use pinyon_proto::KeyRules;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySet};

use crate::callers::Callers;
use crate::concurrency::{Concurrency, Given, SharedConnections};
use crate::errors::{checked, exception, ErrorKind};
use crate::events::Watcher;
use crate::keys::Routing;
use crate::settings::changed;
use crate::shared::Driver;
use crate::ttl;
use crate::values::Codec;

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
    /// If the client is for coroutines, its methods return what they await, instead of waiting themselves.
    pub(crate) loops: Arc<SharedConnections<Driver>>,
    pub(crate) flights: Arc<Flights<Callers>>,
    pub(crate) closed: Arc<AtomicBool>,
    /// The makers of `get_or_set` that may go on behind their callers.
    behind: Arc<PyOnceLock<Py<PySet>>>,
    /// If its methods serve an old and a new pool. All else here is the new one's.
    both: Option<Arc<Both>>,
}

/// The progress of a migrating client and its views.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct MigrationCounts(Arc<Counts>);

#[pymethods]
impl MigrationCounts {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// The fields of `pinyon.Progress`.
    fn progress(&self) -> [u64; 5] {
        let Progress { new, old, moved, refused, missing } = self.0.progress();
        [new, old, moved, refused, missing]
    }
}

/// The clients of both pools. They are asked for when they are used: what they are may be decided late.
struct Both {
    clients: [Py<Client>; 2],
    counts: Arc<Counts>,
    /// For items moved from servers that cannot report it.
    ttl: Option<i64>,
    /// Makes a coroutine of a `Migration`, if the methods are awaited.
    cross: Option<Py<PyAny>>,
}

/// What Python passes to make them: the old client, the counts, the ttl, and what makes a coroutine.
type Migrating<'py> = (Py<Client>, Bound<'py, MigrationCounts>, Option<Bound<'py, PyAny>>, Option<Py<PyAny>>);

impl Both {
    fn new((old, counts, ttl, cross): Migrating<'_>, new: Py<Client>) -> PyResult<Self> {
        let ttl = ttl.map(|ttl| ttl::seconds(&ttl)).transpose()?;
        Ok(Self { clients: [old, new], counts: counts.get().0.clone(), ttl, cross })
    }
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
        loops: Option<Given>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let settings = changed(CacheSettings::default(), settings)?;
        let parts = checked(py, py.detach(|| settings.build(on_event.is_some())))?;
        let serializer = serializer.unwrap_or_else(|| py.None().into_bound(py));
        let (directory, watcher) = (Arc::new(parts.directory), Arc::new(Watcher::new(on_event)));
        let (of_loops, watched, connections) = (directory.clone(), watcher.clone(), parts.connections);
        let connect = move |host: &Bound<'_, PyAny>| Driver::new(host, of_loops.clone(), watched.clone(), connections);
        Ok(Self {
            directory,
            keys: parts.keys,
            routing: if parts.quotes_bytes { Routing::Repr } else { Routing::Bytes },
            codec: Arc::new(Codec::new(&serializer, parts.packing)?),
            policy: parts.policy,
            default_ttl: parts.default_ttl,
            watcher,
            loops: SharedConnections::new(Concurrency::new(loops).into(), connect).into(),
            flights: Arc::default(),
            closed: Arc::default(),
            behind: PyOnceLock::new().into(),
            both: None,
        })
    }

    fn behind<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PySet>> {
        Ok(self.behind.get_or_try_init(py, || PySet::empty(py).map(Bound::unbind))?.bind(py))
    }

    /// Ends the makers whose callers are done.
    fn end_behind(&self, py: Python<'_>) -> PyResult<()> {
        let Some(behind) = self.behind.get(py) else { return Ok(()) };
        // It changes meanwhile. Without a global lock, other threads may change it even while it is read, but not copied.
        for maker in behind.bind(py).call_method0(intern!(py, "copy"))?.try_iter()? {
            maker?.call_method0("close")?;
        }
        Ok(())
    }

    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(exception(py, ErrorKind::Closed, "the client was closed; make another")),
        }
    }
}
