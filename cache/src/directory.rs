//! The client's current fleet: a fixed one, or the one that was discovered last.
//!
//! A [`Fleet`] does not change: discovery replaces it with another one. Both share the servers that stay, with their
//! health and connections. A server keeps its index from fleet to fleet. The index of a removed server is reused only
//! when nothing can refer to it any more, so every operation ends with the fleet it began with. A client with a fixed
//! list of servers pays one branch for all this.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::discovery::Discovery;
use crate::discovery::DiscoverySettings;
use crate::events::{Event, EventKind};
pub use crate::fleet::{Fleet, FleetOptions, Server};
use crate::near::Near;
use crate::operations::Policy;
use crate::tags::KnownTags;
use pinyon_net::address::ServerSpec;
use pinyon_net::error::{Error, Kind};
use pinyon_net::fork::PerProcess;

/// When to continue a look that cannot finish at once.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The shortest time between looks that follow a server marked down, as another server may have taken its place.
const SHAKEN: Duration = Duration::from_secs(2);

/// A client's servers, which may come and go.
pub struct Directory {
    /// The fixed fleet of a client whose servers are given; otherwise a fleet without servers.
    first: Arc<Fleet>,
    discovery: Option<(Arc<DiscoverySettings>, PerProcess<Looking>)>,
}

/// What a process knows. A forked child never waits for anything in it.
struct Looking {
    known: RwLock<Known>,
    discovery: Mutex<Discovery>,
}

#[derive(Clone)]
struct Known {
    fleet: Arc<Fleet>,
    /// Why the last look found nothing.
    failure: Option<Error>,
    /// When to begin or continue a look.
    next: Instant,
    looked: Option<Instant>,
    is_looking: bool,
}

/// What is known now.
pub(crate) struct Sight {
    pub fleet: Arc<Fleet>,
    /// Why there are no servers, or no newer ones.
    pub failure: Option<Error>,
    /// Whether a look is under way. Call again after [`LOOK_AGAIN`].
    pub is_looking: bool,
    /// Whether this call began the look.
    pub began: bool,
}

impl Directory {
    /// For a client whose servers are given.
    pub(crate) fn fixed(fleet: Fleet) -> Self {
        Self { first: Arc::new(fleet), discovery: None }
    }

    /// For a client that discovers its servers. The ring of `fleet` has none yet.
    pub(crate) fn discovering(fleet: Fleet, settings: DiscoverySettings) -> Self {
        let (first, settings) = (Arc::new(fleet), Arc::new(settings));
        let looking = PerProcess::new(Looking::new(Known::of(first.clone()), &settings));
        Self { first, discovery: Some((settings, looking)) }
    }

    /// The fleet, if it never changes.
    #[inline]
    pub(crate) fn as_fixed(&self) -> Option<&Arc<Fleet>> {
        match self.discovery {
            None => Some(&self.first),
            Some(_) => None,
        }
    }

    /// The client's hot keys, if it keeps them in memory.
    #[inline]
    pub fn near(&self) -> Option<&Arc<Near>> {
        self.first.near()
    }

    /// The client's hot keys, if a plain get with this policy may be answered from them, without an operation.
    #[inline]
    pub fn near_to(&self, policy: Policy) -> Option<&Near> {
        self.near().filter(|_| policy.near).map(|near| &**near)
    }

    /// The fleet found last, without a new look.
    pub fn known(&self) -> Arc<Fleet> {
        self.looking().map_or_else(|| self.first.clone(), |looking| looking.read().fleet.clone())
    }

    /// Begins or continues a look if one is due. Never waits.
    pub(crate) fn look(&self, now: Instant) -> Sight {
        let Some(looking) = self.looking() else {
            return Sight { fleet: self.first.clone(), failure: None, is_looking: false, began: false };
        };
        let began = looking.is_due(now) && looking.go_on(now);
        let Known { fleet, failure, is_looking, .. } = looking.read().clone();
        Sight { fleet, failure, is_looking, began }
    }

    /// The error if no servers became known in time.
    pub(crate) fn no_servers(&self) -> Error {
        let given = self.discovery.iter().flat_map(|(settings, _)| &settings.given);
        Error::no_servers(&given.map(ServerSpec::name).collect::<Vec<_>>().join(",").into())
    }

    /// The options that all its fleets share.
    pub fn options(&self) -> &FleetOptions {
        self.first.options()
    }

    /// What this client knows of tags, if its values can have some.
    pub fn tags(&self) -> Option<&Arc<KnownTags>> {
        self.first.tags()
    }

    /// Whether [`Self::take_events`] has something to tell.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.first.has_events()
    }

    /// The events of the servers of all its fleets since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.first.take_events()
    }

    /// Takes note of a stored value that the host cannot read, and that counts as missing. Each reason is an event once.
    /// `command`: the protocol's name of the command that asked for it.
    #[cold]
    pub fn unreadable(&self, server: &str, command: &'static str, reason: &str) {
        self.first.unreadable(server, command, reason);
    }

    /// Takes note that a value could not be made, and that its old value stays in use: an event, and a count of the server
    /// that has the key. `routed_key`: what chooses the server. `reason`: what the maker's error says, in a line.
    #[cold]
    pub fn kept_stale(&self, routed_key: &[u8], failover: bool, reason: &str) {
        self.known().kept_stale(routed_key, failover, reason);
    }

    /// Closes idle connections now, and the others when they are returned.
    pub fn close(&self) {
        self.known().close();
    }

    fn looking(&self) -> Option<&Looking> {
        let (settings, looking) = self.discovery.as_ref()?;
        Some(looking.get(|parents| {
            let known = parents.known.try_read().map_or_else(|_| Known::of(self.first.clone()), |known| known.clone());
            Looking::new(Known { is_looking: false, ..known }, settings)
        }))
    }
}

impl Known {
    /// For a fleet that was not discovered.
    fn of(fleet: Arc<Fleet>) -> Self {
        Self { fleet, failure: None, next: Instant::now(), looked: None, is_looking: false }
    }
}

impl Looking {
    fn new(known: Known, settings: &Arc<DiscoverySettings>) -> Self {
        let discovery = Discovery::new(settings.clone(), known.fleet.access().clone());
        Self { known: RwLock::new(known), discovery: Mutex::new(discovery) }
    }

    fn is_due(&self, now: Instant) -> bool {
        let known = self.read();
        let rested = known.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= SHAKEN);
        now >= known.next || (rested && known.fleet.was_shaken())
    }

    /// Continues a look. Returns whether this call began it.
    fn go_on(&self, now: Instant) -> bool {
        let Ok(mut discovery) = self.discovery.try_lock() else { return false };
        let begins = !discovery.is_looking();
        let outcome = discovery.advance(now).map(|found| found.and_then(|found| self.successor(found, now)));
        let mut known = self.write();
        known.is_looking = outcome.is_none();
        let Some(outcome) = outcome else {
            known.next = now + LOOK_AGAIN;
            return begins;
        };
        known.looked = Some(now);
        known.next = discovery.rest(now, std::process::id());
        known.failure = outcome.as_ref().err().cloned();
        match outcome {
            Err(error) => known.fleet.note(EventKind::Discovery, &error.server, "", Some(&error), None),
            Ok(None) => {}
            Ok(Some(fleet)) => {
                fleet.note(EventKind::Servers, &fleet.ring_names().into(), "", None, None);
                known.fleet = fleet;
            }
        }
        begins
    }

    /// The fleet with the discovered servers, if they differ from the current ones.
    fn successor(&self, found: Option<Vec<ServerSpec>>, now: Instant) -> Result<Option<Arc<Fleet>>, Error> {
        let fleet = self.read().fleet.clone();
        let Some(servers) = found.filter(|servers| !fleet.ring_specs().eq(servers)) else { return Ok(None) };
        let successor = fleet.with_servers(servers, now);
        successor
            .map(|fleet| Some(Arc::new(fleet)))
            .map_err(|error| Error::new(Kind::Usage, &"".into(), error.to_string()))
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
