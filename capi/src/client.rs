//! Clients of caches, views of them, and clients that stand for two pools.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pinyon_cache::blocking;
use pinyon_cache::dialect::{Dialect, Packing, PlainSerializer};
use pinyon_cache::directory::Directory;
use pinyon_cache::events::Event;
use pinyon_cache::lease::Flights;
use pinyon_cache::migration::{Counts, Side};
use pinyon_cache::near::Figures;
use pinyon_cache::operations::{KeyRules, Policy};
use pinyon_cache::settings::{CacheParts, CacheSettings, ViewSettings};
use pinyon_cache::ttl::DefaultTtl;
use pinyon_net::fork::PerProcess;
use pinyon_net::invalid::InvalidArgument;
use pinyon_proto::KeyRule;

use crate::answers::{Answers, Row};
use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::flights::{Types, Woken};
use crate::guard::{free, Handle, Poison};
use crate::host::Host;
use crate::metrics;
use crate::options::Options;
use crate::structs::{self, to_fill, Bytes, Convert, Migration, NamedText, NearFigures, FOREVER};

/// A client, or a view of one with another policy or namespace.
#[derive(Clone)]
pub struct Client(Arc<View>);

pub struct View {
    pub shared: Arc<Shared>,
    pub policy: Policy,
    pub keys: KeyRules,
    /// Whether memory may answer its plain gets.
    pub is_near: bool,
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
        let is_near = shared.directory.near_to(policy).is_some();
        Self(Arc::new(View { shared, policy, keys, is_near, migrating: None, poison: Poison::default() }))
    }

    /// One that uses two pools, of which this is the new one's.
    pub fn migrating(&self, migrating: Migrating) -> Self {
        let (shared, policy, keys, poison) = (self.shared.clone(), self.policy, self.keys.clone(), Poison::default());
        let (is_near, migrating) = (false, Some(migrating.into()));
        Self(Arc::new(View { shared, policy, keys, is_near, migrating, poison }))
    }

    pub fn using(&self, mut options: Options<'_>) -> Result<Self, Error> {
        let rule: KeyRule = self.keys.rule();
        let keys = match options.take("namespace") {
            Some(namespace) if namespace == self.keys.namespace() => self.keys.clone(),
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

    /// Why this client does not do what only clients of one pool do.
    pub fn check_not_migrating(&self) -> Result<(), Error> {
        match self.migrating {
            None => Ok(()),
            Some(_) => Err(Failure::usage(
                "a migrating client has no batches: what a command does depends on the result of the one before it",
            )),
        }
    }

    /// Whether it stores values as Pinyon does.
    pub fn is_pinyon(&self) -> bool {
        self.shared.packing.dialect() == Dialect::Pinyon
    }

    /// The pools that it uses, the old one first.
    fn pools(&self) -> impl Iterator<Item = &Shared> {
        let old = self.migrating.as_ref().map(|migrating| &*migrating.client(Side::Old).shared);
        old.into_iter().chain([&*self.shared])
    }

    pub fn next_event(&self) -> Option<Event> {
        self.pools().find_map(Shared::next_event)
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

/// What a view of a migrating client has beside its own settings, which are those for the new pool.
pub struct Migrating {
    old: Client,
    new: Client,
    pub counts: Arc<Counts>,
    /// Of moved items, if the old servers cannot tell theirs.
    pub ttl: Option<i64>,
    pub convert: Option<Convert>,
    pub context: *mut c_void,
}

// SAFETY: the context is only handed to the host's function, which any thread may call.
unsafe impl Send for Migrating {}
// SAFETY: the context never changes, and the header says that threads may call the function at the same time.
unsafe impl Sync for Migrating {}

impl Migrating {
    pub fn new(old: &Client, new: &Client, asked: &Migration) -> Result<Self, Error> {
        if old.migrating.is_some() || new.migrating.is_some() {
            return Err(Failure::usage("a client that migrates already cannot be the old or the new one of another"));
        }
        let ttl = match asked.ttl {
            0 => None,
            FOREVER => Some(0),
            seconds => Some(seconds.max(1)),
        };
        let (old, new) = (old.clone(), new.clone());
        let migrating = Self { old, new, counts: Arc::default(), ttl, convert: asked.convert, context: asked.context };
        migrating.check_apart()?;
        Ok(migrating)
    }

    /// The same with views of both clients.
    pub fn using<'o>(&self, mut options: impl FnMut() -> Result<Options<'o>, Error>) -> Result<Self, Error> {
        let (old, new) = (self.old.using(options()?)?, self.new.using(options()?)?);
        let migrating = Self { old, new, counts: self.counts.clone(), ..*self };
        migrating.check_apart()?;
        Ok(migrating)
    }

    /// Each would delete the other's keys, if they had the same.
    fn check_apart(&self) -> Result<(), Error> {
        if self.old.keys.namespace() != self.new.keys.namespace() {
            return Ok(());
        }
        if Arc::ptr_eq(&self.old.shared, &self.new.shared) {
            return Err(Failure::usage("the old client and the new one are the same"));
        }
        let servers = |client: &Client| -> Vec<String> {
            client.shared.directory.known().metrics().map(|metrics| metrics.server.to_string()).collect()
        };
        let old = servers(&self.old);
        let mut both: Vec<String> = servers(&self.new).into_iter().filter(|server| old.contains(server)).collect();
        both.sort();
        match both.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "both clients use {} with the same namespace, and would delete each other's keys: give the new client a \
                 namespace",
                both.join(", ")
            ))),
        }
    }

    pub fn client(&self, side: Side) -> &Client {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// Whether both use the connections of the same clients.
    pub fn shares_with(&self, other: &Self) -> bool {
        let same = |side| Arc::ptr_eq(&self.client(side).shared, &other.client(side).shared);
        same(Side::Old) && same(Side::New)
    }
}

fn serializer(name: Option<&[u8]>) -> Result<PlainSerializer, Error> {
    let Some(name) = name else { return Ok(PlainSerializer::Portable) };
    let known = std::str::from_utf8(name).ok().and_then(PlainSerializer::named);
    known.ok_or_else(|| Failure::usage("serializer must be \"portable\" or \"json\""))
}

exported! {
    fn pinyon_client_new(options: *const NamedText, count: usize) -> Result<*mut Client> {
        Client::new(Options::new(options, count)?)
    }

    fn pinyon_client_clone(client: &Client) -> *mut Client { client.clone() }

    fn pinyon_passes_over(client: &Client, reason: Bytes) -> bool {
        let (passes_over, reason) = (client.policy.unreadable_is_miss, reason.slice());
        if passes_over && !reason.is_empty() {
            client.shared.directory.unreadable("", "get", &String::from_utf8_lossy(reason));
        }
        passes_over
    }

    fn pinyon_client_using(client: &Client, options: *const NamedText, count: usize) -> Result<*mut Client> {
        match &client.migrating {
            None => client.using(Options::new(options, count)?),
            Some(both) => {
                let both = both.using(|| Options::new(options, count))?;
                Ok(both.client(Side::New).clone().migrating(both))
            }
        }
    }

    fn pinyon_client_close(client: &Client) { client.pools().for_each(Shared::close) }

    fn pinyon_client_free(client: *mut Client) { free(client) }

    fn pinyon_servers_of(client: &Client, key: Bytes, host: *const structs::Host) -> Result<*mut Answers> {
        client.servers_of(key.given(), &Host::new(host)?)
    }

    fn pinyon_namespace(client: &Client) -> Bytes { Bytes::of(client.keys.namespace()) }

    fn pinyon_metrics(client: &Client) -> *mut c_char {
        c_string(&metrics::json(client.pools().map(|pool| &*pool.directory)))
    }

    fn pinyon_near_metrics(client: &Client, figures: *mut NearFigures) -> bool {
        let figures = to_fill(figures)?;
        let near = client.shared.directory.near();
        let Figures { hits, revalidations, fills, evictions, bytes } = near.map_or_else(Figures::default, |near| near.figures());
        *figures = NearFigures { size: figures.size, hits, fills, revalidations, evictions, bytes };
        near.is_some()
    }

    fn pinyon_text_free(text: *mut c_char) {
        if !text.is_null() {
            drop(CString::from_raw(text));
        }
    }

    fn pinyon_next_woken(client: &Client, scope: u64, context: *mut *mut c_void) -> bool {
        let woken = client.shared.woken.next(scope);
        if let (Some(woken), false) = (woken, context.is_null()) {
            context.write(woken as *mut c_void);
        }
        woken.is_some()
    }
}
