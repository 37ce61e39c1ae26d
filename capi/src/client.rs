//! Clients of caches, and views of them.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_cache::blocking;
use pinyon_cache::dialect::{Dialect, Packing, PlainSerializer};
use pinyon_cache::directory::Directory;
use pinyon_cache::events::Event;
use pinyon_cache::lease::Flights;
use pinyon_cache::migration::Side;
use pinyon_cache::operations::{KeyRules, Policy};
use pinyon_cache::settings::{CacheParts, CacheSettings, ViewSettings};
use pinyon_cache::ttl::DefaultTtl;
use pinyon_net::fork::PerProcess;
use pinyon_net::invalid::InvalidArgument;
use pinyon_proto::KeyRule;

use crate::answers::{Answers, Row};
use crate::errors::{c_string, Error, Failure};
use crate::guard::{free, made, with, Handle, Poison};
use crate::host::Host;
use crate::making::Types;
use crate::migrating::Migrating;
use crate::options::Options;
use crate::structs::{self, Bytes, NamedText};

/// A client, or a view of one with another policy or namespace.
#[derive(Clone)]
pub struct Client(Arc<View>);

pub struct View {
    pub shared: Arc<Shared>,
    pub policy: Policy,
    pub keys: KeyRules,
    /// If it stands for two pools. All else here is the new one's.
    pub migrating: Option<Arc<Migrating>>,
    poison: Poison,
}

/// What all views of a client share.
pub struct Shared {
    pub directory: Arc<Directory>,
    pub packing: Arc<Packing>,
    pub serializer: PlainSerializer,
    pub default_ttl: DefaultTtl,
    /// The connections of each event loop to each server.
    pub connections: usize,
    pub flights: Arc<Flights<Types>>,
    woken: Woken,
    /// Taken from the fleet, but not by the host. A forked child has its own, as another thread may have held the lock.
    events: PerProcess<Mutex<VecDeque<Event>>>,
    closed: AtomicBool,
}

impl std::ops::Deref for Client {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0
    }
}

impl Handle for Client {
    const NAME: &'static str = "pinyon_client";

    fn poison(&self) -> &Poison {
        &self.0.poison
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
    pub fn add(&self, scope: u64, context: usize) {
        self.lock().entry(scope).or_default().push_back(context);
    }

    fn next(&self, scope: u64) -> Option<usize> {
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

impl Client {
    fn new(mut options: Options<'_>) -> Result<Self, Error> {
        let events = options.take_flag("events")?;
        let serializer = serializer(options.take("serializer"))?;
        let mut settings = CacheSettings::default();
        options.fill(&mut settings)?;
        let CacheParts { directory, connections, keys, policy, default_ttl, packing, .. } = settings.build(events)?;
        if serializer != PlainSerializer::Portable && packing.dialect() != Dialect::Pinyon {
            return Err(InvalidArgument::from(packing.dialect().has_serializer(false)).into());
        }
        let shared = Shared {
            directory: directory.into(),
            packing: packing.into(),
            serializer,
            default_ttl,
            connections,
            flights: Arc::default(),
            woken: Woken::default(),
            events: PerProcess::new(Mutex::default()),
            closed: AtomicBool::new(false),
        };
        Ok(Self::of(shared.into(), policy, keys))
    }

    fn of(shared: Arc<Shared>, policy: Policy, keys: KeyRules) -> Self {
        Self(Arc::new(View { shared, policy, keys, migrating: None, poison: Poison::default() }))
    }

    /// One that uses two pools, of which this is the new one's.
    pub fn migrating(&self, migrating: Migrating) -> Self {
        let (policy, keys, poison) = (self.policy, self.keys.clone(), Poison::default());
        Self(Arc::new(View { shared: self.shared.clone(), policy, keys, migrating: Some(migrating.into()), poison }))
    }

    pub fn using(&self, mut options: Options<'_>) -> Result<Self, Error> {
        let rule: KeyRule = self.keys.rule();
        let keys = match options.take("namespace") {
            Some(namespace) => KeyRules::new(namespace, rule).map_err(InvalidArgument::from)?,
            None => self.keys.clone(),
        };
        let mut settings = ViewSettings::default();
        options.fill(&mut settings)?;
        Ok(Self::of(self.shared.clone(), settings.changed(self.policy)?, keys))
    }

    fn servers_of(&self, key: Option<&[u8]>, host: &Host) -> Result<Answers, Error> {
        self.check_open()?;
        let fleet = match blocking::known(&self.shared.directory, host) {
            Ok(fleet) => fleet,
            Err(blocking::Failure::Error(error)) => return Err((&error).into()),
            Err(blocking::Failure::Interrupted(_)) => return Err(Failure::usage("it was interrupted")),
        };
        let rows: Vec<Row> = match key {
            Some(key) => {
                let servers = fleet.candidates(&self.keys.routed(key), self.policy.failover);
                fleet.names(servers).iter().map(|name| Row::of_server(name)).collect()
            }
            None => fleet.metrics().map(|metrics| Row::of_server(&metrics.server)).collect(),
        };
        Ok(Answers::of(rows))
    }
}

impl View {
    #[inline]
    pub fn check_open(&self) -> Result<(), Error> {
        match self.shared.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Failure::closed()),
        }
    }
}

impl Shared {
    pub fn woken(&self) -> &Woken {
        &self.woken
    }

    /// The next event that nobody has taken.
    pub fn next_event(&self) -> Option<Event> {
        let events = self.events.get(|_| Mutex::default());
        let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.is_empty() && self.directory.has_events() {
            events.extend(self.directory.take_events());
        }
        events.pop_front()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.directory.close();
    }
}

impl View {
    /// The pools that it uses, the old one first.
    fn pools(&self) -> impl Iterator<Item = &Shared> {
        let old = self.migrating.as_ref().map(|migrating| &*migrating.client(Side::Old).shared);
        old.into_iter().chain([&*self.shared])
    }

    pub fn next_event(&self) -> Option<Event> {
        self.pools().find_map(Shared::next_event)
    }
}

fn serializer(name: Option<&[u8]>) -> Result<PlainSerializer, Error> {
    let Some(name) = name else { return Ok(PlainSerializer::Portable) };
    let known = std::str::from_utf8(name).ok().and_then(PlainSerializer::named);
    known.ok_or_else(|| Failure::usage("serializer must be \"portable\" or \"json\""))
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_new(
    options: *const NamedText,
    count: usize,
    error: *mut *mut Error,
) -> *mut Client {
    // SAFETY: the header says so.
    unsafe { made(crate::guard::alone(|| Client::new(Options::new(options, count)?)), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_clone(client: *const Client) -> *mut Client {
    // SAFETY: the header says so.
    unsafe { made(with(client, |client| Ok(client.clone())), std::ptr::null_mut()) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_passes_over(client: *const Client, reason: Bytes) -> bool {
    let passes_over = |client: &Client| {
        let passes_over = client.policy.unreadable_is_miss;
        // SAFETY: the header says so.
        let reason = unsafe { reason.slice() };
        if passes_over && !reason.is_empty() {
            client.shared.directory.unreadable("", "get", &String::from_utf8_lossy(reason));
        }
        Ok(passes_over)
    };
    // SAFETY: the header says so.
    unsafe { with(client, passes_over) }.unwrap_or(false)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_using(
    client: *const Client,
    options: *const NamedText,
    count: usize,
    error: *mut *mut Error,
) -> *mut Client {
    // SAFETY: the header says so.
    unsafe {
        let using = |client: &Client| match &client.migrating {
            None => client.using(Options::new(options, count)?),
            Some(both) => {
                let both = both.using(|| Options::new(options, count))?;
                Ok(both.client(Side::New).clone().migrating(both))
            }
        };
        made(with(client, using), error)
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_close(client: *const Client) {
    // SAFETY: the header says so.
    let _ = unsafe {
        with(client, |client| {
            client.pools().for_each(Shared::close);
            Ok(())
        })
    };
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_free(client: *mut Client) {
    // SAFETY: the header says so.
    unsafe { free(client) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_servers_of(
    client: *const Client,
    key: Bytes,
    host: *const structs::Host,
    error: *mut *mut Error,
) -> *mut Answers {
    // SAFETY: the header says so.
    unsafe {
        let key = key.is_given().then(|| key.slice());
        made(with(client, |client| client.servers_of(key, &Host::new(host)?)), error)
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_namespace(client: *const Client) -> Bytes {
    // SAFETY: the header says so.
    unsafe { with(client, |client| Ok(Bytes::of(client.keys.namespace()))) }.unwrap_or(Bytes::NONE)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_metrics(client: *const Client) -> *mut c_char {
    let metrics = |client: &Client| Ok(crate::metrics::json(client.pools().map(|pool| &*pool.directory)));
    // SAFETY: the header says so.
    match unsafe { with(client, metrics) } {
        Ok(text) => c_string(&text).into_raw(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the header says that it came from here, and is not used afterwards.
        drop(unsafe { std::ffi::CString::from_raw(text) });
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_next_woken(client: *const Client, scope: u64, context: *mut *mut c_void) -> bool {
    // SAFETY: the header says so.
    let woken = unsafe { with(client, |client| Ok(client.shared.woken.next(scope))) };
    let Ok(Some(woken)) = woken else { return false };
    if !context.is_null() {
        // SAFETY: the header says that it can be written to.
        unsafe { context.write(woken as *mut c_void) };
    }
    true
}
