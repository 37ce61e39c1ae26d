//! `pinyon.Client`: what Python sees of it. Each method is one line of the table; the work is done elsewhere.

use std::sync::atomic::Ordering;

use pinyon_cache::operations::{Beside, Request, ServerCommand, Win};
use pinyon_proto::{Direction, Mode};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PySet, PyTuple};

use super::batch::Batch;
use super::running::Call;
use super::{Client, Migrating, Returned};
use crate::arguments::{cas_token, delta, initial};
use crate::concurrency::Given;
use crate::driver::LoopDriver;
use crate::errors::{checked, unsupported};
use crate::tags::Tags;
use crate::ttl::{self, StoredTtl};

#[pymethods]
impl Client {
    /// `source`: a client to share everything with. `migrating`: what makes it the client of a new pool that serves an old
    /// one, too. `loops`: how coroutines share connections, see `Given`; None for threads. `settings`: those of the core; of
    /// a view, those of a view.
    #[new]
    #[pyo3(signature = (source = None, *, serializer = None, on_event = None, loops = None, migrating = None, **settings))]
    fn new(
        py: Python<'_>,
        source: Option<Bound<'_, Self>>,
        serializer: Option<Bound<'_, PyAny>>,
        on_event: Option<Py<PyAny>>,
        loops: Option<Given>,
        migrating: Option<Migrating<'_>>,
        settings: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        match (source, migrating) {
            (Some(new), Some(migrating)) => Self::migrating(&new, migrating),
            (Some(source), None) => Self::viewing(&source, settings.as_ref()),
            (None, _) => Self::of_settings(py, serializer, on_event, loops, settings.as_ref()),
        }
    }

    /// The class of drivers of the event loops whose coroutines use this client. None if threads do.
    #[getter]
    fn _driver<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.loops.driver_class(py)
    }

    /// The makers that may go on behind their callers: a set of `pinyon._behind.Behind`, for the client and its views.
    #[getter]
    fn _behind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        self.behind(py).cloned()
    }

    /// Return the value of a key.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     default: what to return if there is no value.
    ///
    /// Returns:
    ///     The value, or `default`.
    ///
    /// Raises:
    ///     UndecodableValue: the value was stored by other means, or its class is gone, and the serializer cannot read
    ///         it. With `on_unreadable="miss"`, that is a miss.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(&self, key: &Bound<'py, PyAny>, default: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        match self.directory.near_to(self.policy) {
            Some(near) => self.get_near(near, key, default),
            None => self.get_from_server(key, default),
        }
    }

    /// Return the values of many keys.
    ///
    /// All servers are asked at the same time. If a server fails, its keys are asked of the next server (`failover`).
    ///
    /// Args:
    ///     keys: text or bytes.
    ///     failed: a dict, to accept partial results. It receives the error of each server that failed, under the
    ///         server's name, and that of each value that cannot be read, under its key. The call raises nothing for
    ///         them.
    ///
    /// Returns:
    ///     A dict of the values, without the keys that have none.
    ///
    /// Raises:
    ///     Error: a server failed, and neither `failed` nor `on_failure="miss"` allows that. The attribute `partial`
    ///         of the error has the values that did arrive.
    ///     UndecodableValue: a value cannot be read, and neither `failed` nor `on_unreadable="miss"` allows that. The
    ///         attribute `partial` has the others.
    #[pyo3(signature = (keys, *, failed = None))]
    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>, failed: Option<Bound<'py, PyAny>>) -> Returned<'py> {
        self.fetch_many(keys, failed, Request::Get(Beside::Nothing))
    }

    /// Return the values of many keys, each with its CAS token.
    ///
    /// Args:
    ///     keys: as for `get_many`.
    ///     failed: as for `get_many`.
    ///
    /// Returns:
    ///     A dict of pairs, the value and its CAS token, without the keys that have no value.
    #[pyo3(signature = (keys, *, failed = None))]
    fn gets_many<'py>(&self, keys: &Bound<'py, PyAny>, failed: Option<Bound<'py, PyAny>>) -> Returned<'py> {
        self.fetch_many(keys, failed, Request::Get(Beside::Cas))
    }

    /// Return the value of a key with its CAS token, for `cas`.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///
    /// Returns:
    ///     The value and its token, or None if there is no value.
    fn gets<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::Get(Beside::Cas))
    }

    /// Return the value of a key with the time until it expires.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///
    /// Returns:
    ///     The value and the seconds until it expires (None: it never expires), or None if there is no value.
    ///
    /// Raises:
    ///     Unsupported: the server is older than memcached 1.6.10.
    fn get_with_ttl<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::Get(Beside::Ttl))
    }

    /// Return the value of a key, and set its ttl (get and touch).
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.
    ///
    /// Returns:
    ///     The value, or None if there is none.
    fn gat<'py>(&self, key: &Bound<'py, PyAny>, #[pyo3(from_py_with = ttl::sent)] ttl: i32) -> Returned<'py> {
        self.ask(key, Request::GetAndTouch { ttl, cas: false })
    }

    /// Return the values of many keys, and set their ttl (get and touch).
    ///
    /// All servers are asked at the same time.
    ///
    /// Args:
    ///     keys: text or bytes.
    ///     ttl: as for `gat`, the same for all items.
    ///     failed: as for `get_many`.
    ///
    /// Returns:
    ///     A dict of the values, without the keys that have none.
    ///
    /// Raises:
    ///     Error: as for `get_many`.
    #[pyo3(signature = (keys, ttl, *, failed = None))]
    fn gat_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = ttl::sent)] ttl: i32,
        failed: Option<Bound<'py, PyAny>>,
    ) -> Returned<'py> {
        self.fetch_many(keys, failed, Request::GetAndTouch { ttl, cas: false })
    }

    /// Set the ttl of an item.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.
    ///
    /// Returns:
    ///     Whether there is such an item.
    fn touch<'py>(&self, key: &Bound<'py, PyAny>, #[pyo3(from_py_with = ttl::sent)] ttl: i32) -> Returned<'py> {
        self.ask(key, Request::Touch { ttl })
    }

    /// Set the ttl of many items.
    ///
    /// All servers are asked at the same time.
    ///
    /// Args:
    ///     keys: text or bytes.
    ///     ttl: as for `touch`, the same for all items.
    ///
    /// Returns:
    ///     A list of the keys that have an item.
    ///
    /// Raises:
    ///     Error: a server failed. The attribute `partial` of the error has the keys whose items did get the ttl.
    fn touch_many<'py>(&self, keys: &Bound<'py, PyAny>, #[pyo3(from_py_with = ttl::sent)] ttl: i32) -> Returned<'py> {
        self.change_many(keys, Request::Touch { ttl })
    }

    /// Store a value.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     value: any value that the serializer takes.
    ///     ttl: seconds (int or float, rounded up) or a timedelta until it expires; by default the client's
    ///         `default_ttl`. 0 never expires; a negative ttl expires immediately.
    ///     tags: names, such as `("user:7",)`. `invalidate_tags` has the value count as missing.
    ///
    /// Returns:
    ///     True. With `on_failure="miss"`, False if no server could store it.
    ///
    /// Raises:
    ///     UnsupportedType: the serializer does not take such a value.
    ///     ValueTooLarge: the value is larger than `max_value_size`, or than the server allows.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default, *, tags = None),
           text_signature = "($self, key, value, ttl=..., *, tags=None)")]
    fn set<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        self.begin_store(Mode::Set, key, value, ttl, None, tags)?.end()
    }

    /// Store a value unless the key has one.
    ///
    /// Args:
    ///     key: as for `set`.
    ///     value: as for `set`.
    ///     ttl: as for `set`.
    ///     tags: as for `set`.
    ///
    /// Returns:
    ///     Whether the value was stored.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default, *, tags = None),
           text_signature = "($self, key, value, ttl=..., *, tags=None)")]
    fn add<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        self.begin_store(Mode::Add, key, value, ttl, None, tags)?.end()
    }

    /// Store a value if the key has one already.
    ///
    /// Args:
    ///     key: as for `set`.
    ///     value: as for `set`.
    ///     ttl: as for `set`.
    ///     tags: as for `set`.
    ///
    /// Returns:
    ///     Whether the value was stored.
    #[pyo3(signature = (key, value, ttl = StoredTtl::Default, *, tags = None),
           text_signature = "($self, key, value, ttl=..., *, tags=None)")]
    fn replace<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        self.begin_store(Mode::Replace, key, value, ttl, None, tags)?.end()
    }

    /// Append to the stored value. Its ttl stays as it is.
    ///
    /// The stored value must be text or bytes too: the server joins the bytes and does not know what they mean. Any
    /// other value cannot be read afterwards.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     value: text or bytes, put after the stored text or bytes.
    ///
    /// Returns:
    ///     Whether there was a value.
    fn append<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.begin_store(Mode::Append, key, value, StoredTtl::None, None, None)?.end()
    }

    /// Prepend to the stored value, which must be text or bytes, as for `append`. Its ttl stays as it is.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     value: text or bytes, put before the stored text or bytes.
    ///
    /// Returns:
    ///     Whether there was a value.
    fn prepend<'py>(&self, key: &Bound<'py, PyAny>, value: &Bound<'_, PyAny>) -> Returned<'py> {
        self.begin_store(Mode::Prepend, key, value, StoredTtl::None, None, None)?.end()
    }

    /// Store a value if the item has not changed since `gets` returned its CAS token (compare and swap).
    ///
    /// Args:
    ///     key: as for `set`.
    ///     value: as for `set`.
    ///     cas: the token.
    ///     ttl: as for `set`.
    ///     tags: as for `set`.
    ///
    /// Returns:
    ///     True if the value was stored, False if the item has changed, None if there is no item.
    #[pyo3(signature = (key, value, cas, ttl = StoredTtl::Default, *, tags = None),
           text_signature = "($self, key, value, cas, ttl=..., *, tags=None)")]
    fn cas<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = cas_token)] cas: u64,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        self.begin_store(Mode::Set, key, value, ttl, Some(cas), tags)?.end()
    }

    /// Store many values.
    ///
    /// Args:
    ///     mapping: values by key.
    ///     ttl: as for `set`, the same for all values.
    ///     tags: as for `set`, the same for all values.
    ///
    /// Returns:
    ///     The keys that were not stored.
    #[pyo3(signature = (mapping, ttl = StoredTtl::Default, *, tags = None),
           text_signature = "($self, mapping, ttl=..., *, tags=None)")]
    fn set_many<'py>(
        &self,
        mapping: &Bound<'py, PyAny>,
        ttl: StoredTtl<'_, '_>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> Returned<'py> {
        self.store_many(mapping, ttl, tags)
    }

    /// Delete an item, or mark it stale.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     stale: seconds (int or float, rounded up) or a timedelta. The item is then marked stale instead, and
    ///         expires after this time. The next caller of `get_or_set` makes a new value; all others get the stale
    ///         one meanwhile.
    ///
    /// Returns:
    ///     Whether there was such an item.
    #[pyo3(signature = (key, *, stale = None))]
    fn delete<'py>(&self, key: &Bound<'py, PyAny>, stale: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let request = match stale {
            None => Request::Delete,
            Some(stale) => Request::MarkStale { ttl: Some(ttl::within(stale, "stale")?), cas: None },
        };
        self.ask(key, request)
    }

    /// Reads an item and asks for the right to make a new value. Returns a `Found`. The winner stores by `cas` with its
    /// token, or gives the lease back. `get_or_set` and `lease` use it.
    ///
    /// `lease`: seconds, at most 30 days, until another caller can win a missing key. `recache`: one caller wins an
    /// item that has fewer seconds left than this; 0 for never. `unreadable`: the token of a value that the caller cannot
    /// read, and that is marked stale first. `tags`: those of the value that is made.
    #[pyo3(signature = (key, lease, recache = None, unreadable = None, tags = None),
           text_signature = "($self, key, lease, recache=0, unreadable=None, tags=None)")]
    fn _ask_lease<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        lease: &Bound<'py, PyAny>,
        recache: Option<&Bound<'py, PyAny>>,
        unreadable: Option<u64>,
        tags: Option<&Bound<'py, Tags>>,
    ) -> Returned<'py> {
        let lease = ttl::within(lease, "lease")?;
        let recache = recache.map_or(Ok(0), |recache| ttl::up_to_30_days(recache, "recache"))?;
        let request = match unreadable {
            Some(cas) => Request::Renew { lease, recache, cas },
            None => Request::Lease { lease, recache },
        };
        let tags = tags.map(|tags| tags.get().0.clone());
        self.run(Call { key, request, value: None, default: None, tags })
    }

    /// For each value that this process requests or makes by `get_or_set`: the number of callers that wait for it.
    #[getter]
    fn _flights(&self) -> Vec<usize> {
        self.flights.followers()
    }

    /// Gives back a lease that was won with this token, so that the next caller wins it. `keep`: the item has a value,
    /// which stays and is marked stale.
    fn _give_back<'py>(&self, key: &Bound<'py, PyAny>, cas: u64, keep: bool) -> Returned<'py> {
        self.ask(key, Request::GiveBack(Win { cas, keep }))
    }

    /// Delete many items.
    ///
    /// Args:
    ///     keys: text or bytes.
    ///
    /// Returns:
    ///     How many items there were.
    fn delete_many<'py>(&self, keys: &Bound<'py, PyAny>) -> Returned<'py> {
        self.change_many(keys, Request::Delete)
    }

    /// Add to a stored integer.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     delta: from 0 to 2**64-1.
    ///     initial: the value to create if there is none. Without it, nothing is created.
    ///     ttl: of a value that is created, as for `set`.
    ///
    /// Returns:
    ///     The sum, modulo 2**64; `initial` if the value was created; or None if there is no value.
    ///
    /// Raises:
    ///     ServerError: the value is not an integer.
    #[pyo3(signature = (key, delta = 1, *, initial = None, ttl = StoredTtl::Default),
           text_signature = "($self, key, delta=1, *, initial=None, ttl=...)")]
    fn incr<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = delta)] delta: i128,
        #[pyo3(from_py_with = initial)] initial: Option<u64>,
        ttl: StoredTtl<'_, '_>,
    ) -> Returned<'py> {
        self.begin_calculation(Direction::Increment, key, delta, initial, ttl)?.end()
    }

    /// Subtract from a stored integer.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///     delta: from 0 to 2**64-1.
    ///     initial: the value to create if there is none. Without it, nothing is created.
    ///     ttl: of a value that is created, as for `set`.
    ///
    /// Returns:
    ///     The difference, at least 0; `initial` if the value was created; or None if there is no value.
    ///
    /// Raises:
    ///     ServerError: the value is not an integer.
    #[pyo3(signature = (key, delta = 1, *, initial = None, ttl = StoredTtl::Default),
           text_signature = "($self, key, delta=1, *, initial=None, ttl=...)")]
    fn decr<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = delta)] delta: i128,
        #[pyo3(from_py_with = initial)] initial: Option<u64>,
        ttl: StoredTtl<'_, '_>,
    ) -> Returned<'py> {
        self.begin_calculation(Direction::Decrement, key, delta, initial, ttl)?.end()
    }

    /// Return what the server knows of an item besides its value. This does not count as reading the item.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///
    /// Returns:
    ///     An `ItemMetadata`, or None if there is no such item.
    ///
    /// Raises:
    ///     Unsupported: the server is older than memcached 1.6.10.
    fn meta<'py>(&self, key: &Bound<'py, PyAny>) -> Returned<'py> {
        self.ask(key, Request::Metadata)
    }

    /// Return a batch of commands that are sent without waiting for each reply: `with client.quiet() as batch: …`.
    ///
    /// The end of the block waits until the outcome of every command is known. It raises `BatchError` if any of them
    /// failed.
    ///
    /// Returns:
    ///     A batch that can be opened once at a time.
    fn quiet(this: &Bound<'_, Self>) -> PyResult<Batch> {
        this.get().check_open(this.py())?;
        Ok(Batch::new(this.clone().unbind()))
    }

    /// Make all servers forget all items.
    ///
    /// Args:
    ///     delay: seconds from now, or a timedelta; rounded up to whole seconds.
    #[pyo3(signature = (delay = None), text_signature = "($self, delay=0)")]
    fn flush_all<'py>(&self, py: Python<'py>, delay: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let delay = delay.map_or(Ok(0), |delay| ttl::whole_seconds(delay, "delay"))?;
        self.ask_servers(py, checked(py, ServerCommand::flush_all(delay))?)
    }

    /// Forget all items of the client's namespace, and nothing else. Needs the settings `namespace` and `clearable`.
    ///
    /// The call replaces the generation that is part of every stored key. It deletes nothing, and costs one command for
    /// each server. This process sees the clear at once, others within their `generation_ttl`.
    ///
    /// Raises:
    ///     UsageError: the namespace is not clearable.
    ///     Error: a server could not be reached. The others are cleared, and this one is before this process sends it
    ///         anything else.
    fn clear_namespace<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.ask_servers(py, checked(py, ServerCommand::clear_namespace(&self.keys))?)
    }

    /// Have all values with one of these tags count as missing, wherever they are.
    ///
    /// The call gives each tag another generation. It costs one command for each tag. This process sees it at once,
    /// others within their `generation_ttl`. What is made meanwhile does not count either.
    ///
    /// Args:
    ///     tags: names, such as "user:7".
    ///
    /// Raises:
    ///     Error: the server of a tag could not be reached: its values may still be read. Call it again.
    #[pyo3(signature = (*tags))]
    fn invalidate_tags<'py>(&self, tags: &Bound<'py, PyTuple>) -> Returned<'py> {
        self.invalidate(tags.as_any())
    }

    /// Return the statistics of each server.
    ///
    /// Args:
    ///     kind: a group of memcached's statistics, such as "items", "slabs" or "settings"; by default the general
    ///         ones.
    ///
    /// Returns:
    ///     A dict by server of dicts by name.
    #[pyo3(signature = (kind = None))]
    fn stats<'py>(&self, py: Python<'py>, kind: Option<&Bound<'py, PyAny>>) -> Returned<'py> {
        let not_text = |kind: &Bound<'py, PyAny>| unsupported(kind, "kind must be str, such as \"items\"");
        let kind = kind.map(|kind| kind.extract::<String>().map_err(|_| not_text(kind))).transpose()?;
        self.ask_servers(py, checked(py, ServerCommand::stats(&kind.unwrap_or_default()))?)
    }

    /// Return the version of each server.
    ///
    /// Returns:
    ///     A dict by server.
    fn version<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.ask_servers(py, ServerCommand::Version)
    }

    /// Close the connections. Values that are still being made behind callers with old ones are not stored any
    /// more, and others may make them. A closed client refuses further use. Closing it again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end_behind(py)?;
        self.closed.store(true, Ordering::Relaxed);
        self.directory.close();
        for driver in self.loops.known().into_iter().flat_map(|loops| loops.take_drivers()) {
            driver.get().event_loop().shut(py)?;
        }
        Ok(())
    }

    /// Return the servers that hold a key: its own first, then those that replace it when it is down, in order.
    ///
    /// The ring decides this; the state of the servers does not matter. No server is asked.
    ///
    /// Args:
    ///     key: text (sent as UTF-8) or bytes.
    ///
    /// Returns:
    ///     The names of servers. The list is empty while no servers have been discovered yet.
    fn servers_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        self.check_open(key.py())?;
        let fleet = self.directory.known();
        self.with_key(key, |sent| Ok(fleet.names(fleet.candidates(sent.routed, self.policy.failover))))
    }

    /// Return one line about each server: its name, whether it is up, and its connections. No server is asked.
    fn describe(&self) -> Vec<String> {
        let shared = self.loops.known().is_some();
        self.directory.known().metrics().map(|server| server.line(shared)).collect()
    }

    /// Return what this client and its views have counted so far, by server. No server is asked.
    ///
    /// A forked process counts from zero.
    ///
    /// Returns:
    ///     A dict of `ServerMetrics` by the server's name.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.measured(py)
    }

    /// Return what became of the hot keys that this client and its views keep in memory. No server is asked.
    ///
    /// A forked process counts from zero.
    ///
    /// Returns:
    ///     The `NearMetrics`. Without the setting `near`, they are zero.
    fn near_metrics<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.measured_near(py)
    }

    /// The names of the servers that hold keys now, without those of the gutter.
    #[getter]
    fn servers(&self) -> Vec<String> {
        let fleet = self.directory.known();
        fleet.names(fleet.members().filter(|index| !fleet.is_gutter(*index)))
    }

    /// The prefix of every key, as bytes.
    #[getter]
    fn namespace(&self) -> &[u8] {
        self.keys.namespace()
    }

    /// Whether the client was closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
