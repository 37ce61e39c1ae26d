//! `pinyon.Client`: what Python sees of it. Each method is one line of the table; the work is done elsewhere.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use pinyon_core::lease::Win;
use pinyon_core::operations::{Request, ServerCommand};
use pinyon_proto::{Direction, Mode};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::running::Call;
use super::{Client, Own, Returned};
use crate::arguments::{CasToken, Delta, Initial};
use crate::batch::Batch;
use crate::driver::LoopDriver;
use crate::errors::{checked, unsupported};
use crate::loops::Loops;
use crate::shared::Driver;
use crate::ttl::Ttl;

#[pymethods]
impl Client {
    /// `source`: a client to share everything with. `settings`: those of the core; of a view, those of a view.
    #[new]
    #[pyo3(signature = (source = None, *, serializer = None, on_event = None, loops = None, **settings))]
    fn new(
        py: Python<'_>,
        source: Option<Bound<'_, Self>>,
        serializer: Option<Bound<'_, PyAny>>,
        on_event: Option<Py<PyAny>>,
        loops: Option<(Py<PyAny>, Bound<'_, PyAny>)>,
        settings: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        match source {
            Some(source) => Self::viewing(&source, settings.as_ref()),
            None => Self::of_settings(py, Own { serializer, on_event, loops }, settings.as_ref()),
        }
    }

    /// From now on its methods return what a coroutine waits for, instead of waiting themselves.
    ///
    /// `current` returns the running event loop, `make` a driver for it; `connections`: to each server, per loop.
    pub(crate) fn share(&self, current: Py<PyAny>, make: Bound<'_, PyAny>, connections: usize) -> PyResult<()> {
        let (directory, watcher) = (self.directory.clone(), self.watcher.clone());
        let connect = move |host: &Bound<'_, PyAny>| Driver::new(host, directory.clone(), watcher.clone(), connections);
        let _ = self.loops.set(Arc::new(Loops::new(current, make, connect)?));
        Ok(())
    }

    /// The value stored under a key, or `default` when there is none.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(&self, key: &Bound<'py, PyAny>, default: Option<Bound<'py, PyAny>>) -> Returned<'py> {
        self.run(Call { key, request: Request::Get { cas: false }, value: None, default })
    }

    /// The values stored under several keys, as a dict without the keys that have none.
    ///
    /// All servers are asked at once. When one fails, its keys are asked of the next server of the ring where
    /// failover is on; otherwise, unless failures are misses, the error is raised, with what did arrive in its attribute `partial`. Where a dict
    /// `failed` is given, nothing is raised for a server that failed: its keys are left out, and the dict gets the
    /// error under the server's name.
    #[pyo3(signature = (keys, *, failed = None))]
    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>, failed: Option<Bound<'py, PyAny>>) -> Returned<'py> {
        self.fetch_many(keys, failed, false)
    }

    /// The values stored under several keys, each with its CAS token, as a dict without the keys that have none.
    ///
    /// Failures are those of `get_many`.
    #[pyo3(signature = (keys, *, failed = None))]
    fn gets_many<'py>(&self, keys: &Bound<'py, PyAny>, failed: Option<Bound<'py, PyAny>>) -> Returned<'py> {
        self.fetch_many(keys, failed, true)
    }

    /// The value stored under a key with its CAS token, or None.
    fn gets<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::Get { cas: true })
    }

    /// The value stored under a key with the seconds until it expires, None for never; or None.
    fn get_with_ttl<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::GetWithTtl)
    }

    /// The value stored under a key, or None; the item's ttl is set on the way.
    fn gat<'py>(&self, key: &Bound<'py, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.ask(key, Request::GetAndTouch { ttl: ttl.0, cas: false })
    }

    /// Sets an item's ttl. Returns whether there is such an item.
    fn touch<'py>(&self, key: &Bound<'py, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.ask(key, Request::Touch { ttl: ttl.0 })
    }

    /// Stores a value.
    ///
    /// `ttl`: seconds (int or float, rounded up) or a timedelta until it expires; 0 for no end, negative for at once.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn set<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.store(Mode::Set, key, value, ttl, None)
    }

    /// Stores a value unless the key has one. Returns whether it was stored.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn add<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.store(Mode::Add, key, value, ttl, None)
    }

    /// Stores a value if the key has one already. Returns whether it was stored.
    #[pyo3(signature = (key, value, ttl = Ttl::NONE), text_signature = "($self, key, value, ttl=0)")]
    fn replace<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.store(Mode::Replace, key, value, ttl, None)
    }

    /// Appends text or bytes to the stored value. Returns whether there was one.
    ///
    /// The stored value must be text or bytes as well: the server joins the bytes and does not know what they mean. Any
    /// other value cannot be read afterwards.
    fn append<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.store(Mode::Append, key, value, Ttl::NONE, None)
    }

    /// Prepends text or bytes to the stored value, as `append` appends them. Returns whether there was one.
    fn prepend<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.store(Mode::Prepend, key, value, Ttl::NONE, None)
    }

    /// Stores a value if the item is still the one that `gets` returned this CAS token with.
    ///
    /// Returns True when it was stored, False when the item has changed, None when it is gone.
    #[pyo3(signature = (key, value, cas, ttl = Ttl::NONE), text_signature = "($self, key, value, cas, ttl=0)")]
    fn cas<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>, cas: CasToken, ttl: Ttl) -> Returned<'py> {
        self.store(Mode::Set, key, value, ttl, Some(cas.0))
    }

    /// Stores many values. Returns the keys that were not stored.
    #[pyo3(signature = (mapping, ttl = Ttl::NONE), text_signature = "($self, mapping, ttl=0)")]
    fn set_many<'py>(&self, mapping: &Bound<'py, PyAny>, ttl: Ttl) -> Returned<'py> {
        self.store_many(mapping, ttl)
    }

    /// Deletes an item. Returns whether there was one.
    ///
    /// `stale`: seconds (int or float, rounded up) or a timedelta. Then the item is not deleted but marked stale, and ends
    /// after so long: who asks for it by `get_or_set` next makes another, while all others get what there is.
    #[pyo3(signature = (key, *, stale = None))]
    fn delete<'py>(&self, key: &Bound<'py, PyAny>, stale: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let request = match stale {
            None => Request::Delete,
            Some(stale) => Request::MarkStale { ttl: Ttl::within(stale, "stale")? },
        };
        self.ask(key, request)
    }

    /// Reads an item, and asks for the right to make it anew. Returns a `Found`; a winner stores by `cas` with its token, or
    /// gives it back. `get_or_set` and `lease` are made of it.
    ///
    /// `lease`: seconds, of at most 30 days, until another caller can win a key that had no item; `recache`: that right is
    /// handed out, once, of an item that has fewer seconds left than this; 0 for never.
    #[pyo3(signature = (key, lease, recache = None), text_signature = "($self, key, lease, recache=0)")]
    fn ask_lease<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        lease: &Bound<'py, PyAny>,
        recache: Option<&Bound<'py, PyAny>>,
    ) -> Returned<'py> {
        let lease = Ttl::within(lease, "lease")?;
        let recache = recache.map_or(Ok(0), |recache| Ttl::up_to_30_days(recache, "recache"))?;
        self.ask(key, Request::Lease { lease, recache })
    }

    /// Of each value that this process asks for or makes by `get_or_set`: how many callers follow the one that does.
    #[getter]
    fn flights(&self) -> Vec<usize> {
        self.flights.followers()
    }

    /// Gives a lease back that was won with this token, so that the next caller wins it. `keep`: the item has a value, which
    /// stays, marked stale.
    fn give_back<'py>(&self, key: &Bound<'py, PyAny>, cas: u64, keep: bool) -> Returned<'py> {
        self.ask(key, Request::GiveBack(Win { cas, keep }))
    }

    /// Deletes many items. Returns how many there were.
    fn delete_many<'py>(&self, keys: &Bound<'py, PyAny>) -> Returned<'py> {
        self.delete_items(keys)
    }

    /// Adds `delta` to a stored integer and returns the sum, wrapped at 2**64.
    ///
    /// A missing item is created with `initial`, where that is given, and `ttl`; otherwise None is returned.
    #[pyo3(signature = (key, delta = Delta(1), *, initial = None, ttl = Ttl::NONE),
           text_signature = "($self, key, delta=1, *, initial=None, ttl=0)")]
    fn incr<'py>(&self, key: &Bound<'py, PyAny>, delta: Delta, initial: Option<Initial>, ttl: Ttl) -> Returned<'py> {
        self.count(Direction::Increment, key, delta, initial, ttl)
    }

    /// Subtracts `delta` from a stored integer and returns the difference, at least 0.
    ///
    /// A missing item is created with `initial`, where that is given, and `ttl`; otherwise None is returned.
    #[pyo3(signature = (key, delta = Delta(1), *, initial = None, ttl = Ttl::NONE),
           text_signature = "($self, key, delta=1, *, initial=None, ttl=0)")]
    fn decr<'py>(&self, key: &Bound<'py, PyAny>, delta: Delta, initial: Option<Initial>, ttl: Ttl) -> Returned<'py> {
        self.count(Direction::Decrement, key, delta, initial, ttl)
    }

    /// What the server knows of an item, as an `ItemMetadata`, or None. The item is not touched by it.
    fn meta<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::Metadata)
    }

    /// A batch of commands whose replies are not awaited one by one: `with client.quiet() as batch: …`.
    ///
    /// At the end of the block the outcome of every command is awaited; `BatchError` lists those that failed.
    fn quiet(this: &Bound<'_, Self>) -> PyResult<Batch> {
        this.get().check_open(this.py())?;
        Ok(Batch::new(this.clone().unbind()))
    }

    /// Makes all servers forget all items, now or after `delay` seconds.
    #[pyo3(signature = (delay = None), text_signature = "($self, delay=0)")]
    fn flush_all<'py>(&self, py: Python<'py>, delay: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let delay = delay.map_or(Ok(0), |delay| Ttl::whole_seconds(delay, "delay"))?;
        self.ask_servers(py, checked(py, ServerCommand::flush_all(delay))?)
    }

    /// The statistics of each server, as a dict of dicts by server and name.
    ///
    /// `kind`: memcached's own sub-statistics, such as "items", "slabs" or "settings".
    #[pyo3(signature = (kind = None))]
    fn stats<'py>(&self, py: Python<'py>, kind: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let not_text = |kind: &Bound<'py, PyAny>| unsupported(kind, "kind must be text, such as \"items\"");
        let kind = kind.map(|kind| kind.extract::<String>().map_err(|_| not_text(kind))).transpose()?;
        self.ask_servers(py, checked(py, ServerCommand::stats(&kind.unwrap_or_default()))?)
    }

    /// The version of each server, as a dict by server.
    fn version<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.ask_servers(py, ServerCommand::Version)
    }

    /// Closes the connections. A closed client refuses further use; closing it again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        self.directory.close();
        for driver in self.loops.get().into_iter().flat_map(|loops| loops.take_drivers()) {
            driver.get().event_loop().shut(py)?;
        }
        Ok(())
    }

    /// The servers that would hold a key as those before them fail, its own first: as the ring has it, whatever their
    /// state is now. A list of their names; empty until servers that are found out are known.
    fn servers_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        self.check_open(key.py())?;
        let fleet = self.directory.known();
        self.with_key(key, |sent| Ok(fleet.names(fleet.candidates(sent.routed, self.policy.failover))))
    }

    /// One line about each server: its name, whether it is up, and its connections.
    fn describe(&self) -> Vec<String> {
        let shared = self.loops.get().is_some();
        self.directory.known().metrics().map(|server| server.line(shared)).collect()
    }

    /// Return what this client and its views have counted so far, in this process, by server.
    ///
    /// It asks no server: that is ``stats``. A process that was forked counts from zero.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.measured(py)
    }

    /// The names of the servers that hold keys now, without those of the gutter.
    #[getter]
    fn servers(&self) -> Vec<String> {
        let fleet = self.directory.known();
        fleet.names(fleet.members().filter(|index| !fleet.is_gutter(*index)))
    }

    /// What is put before every key.
    #[getter]
    fn namespace(&self) -> &[u8] {
        self.keys.namespace()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
