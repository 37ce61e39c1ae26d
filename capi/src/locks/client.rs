//! Clients of locks.

use std::ffi::{c_char, CStr, CString};
use std::sync::Arc;

use pinyon_locks::settings::{LockParts, LockSettings, UsualLock};
use pinyon_locks::{owners, ByTag, Limits, Notes, Setup, ThreadLocks};

use super::listener::Listener;
use crate::errors::{c_string, Error};
use crate::exported::exported;
use crate::guard::{free, Handle, Poison};
use crate::metrics;
use crate::options::Options;
use crate::structs::{Bytes, NamedText};

/// The threads' drivers of a server, or of one hash tag there. Each event loop has its own.
pub type Drivers = ThreadLocks<Listener>;

/// A client of locks.
#[derive(Clone)]
pub struct Locks(Arc<Shared>);

struct Shared {
    clients: ByTag<Drivers>,
    usual: UsualLock,
    notes: Arc<Notes<Listener>>,
    server: CString,
    poison: Poison,
}

impl Handle for Locks {
    const NAME: &'static str = "pinyon_locks";

    fn poison(&self) -> &Poison {
        &self.0.poison
    }
}

impl Locks {
    pub fn new(mut options: Options<'_>) -> Result<Self, Error> {
        let events = options.take_flag("events")?;
        let mut settings = LockSettings::default();
        options.fill(&mut settings)?;
        Ok(Self::of(settings.build()?, events))
    }

    /// `events`: whether the host takes all events.
    pub fn of(LockParts { setup, usual, names_have_tags }: LockParts, events: bool) -> Self {
        let notes = Arc::new(Notes::new(events));
        let server = c_string(&setup.server);
        let clients = ByTag::new(Drivers::new(setup, notes.clone()), names_have_tags);
        Self(Arc::new(Shared { clients, usual, notes, server, poison: Poison::default() }))
    }

    pub fn setup(&self) -> &Setup {
        self.0.clients.main().settings()
    }

    pub fn usual(&self) -> &UsualLock {
        &self.0.usual
    }

    /// The limits of pools of permits that were told.
    pub fn limits(&self) -> &Limits {
        self.0.clients.limits()
    }

    pub fn notes(&self) -> &Arc<Notes<Listener>> {
        &self.0.notes
    }

    pub fn server(&self) -> &CStr {
        &self.0.server
    }

    pub fn check_open(&self) -> Result<(), Error> {
        Ok(self.0.clients.main().check_open()?)
    }

    /// Whether names of locks carry hash tags of their own.
    pub fn has_tags(&self) -> bool {
        self.0.clients.names_have_tags()
    }

    /// The threads' drivers of a hash tag, or of names without one.
    pub fn of_tag(&self, tag: Option<&[u8]>) -> Result<Arc<Drivers>, Error> {
        self.check_open()?;
        let make = |main: &Drivers, tag: &[u8]| Drivers::new(main.settings().tagged(tag), self.notes().clone());
        self.0.clients.of(|| Ok(tag), make)
    }

    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The threads' drivers of all hash tags.
    pub fn clients(&self) -> &ByTag<Drivers> {
        &self.0.clients
    }

    pub fn close(&self) {
        self.0.clients.close().iter().for_each(|client| client.close());
        self.notes().close();
    }
}

exported! {
    fn pinyon_locks_new(options: *const NamedText, count: usize) -> Result<*mut Locks> {
        Locks::new(Options::new(options, count)?)
    }

    fn pinyon_locks_clone(locks: &Locks) -> *mut Locks { locks.clone() }

    fn pinyon_locks_close(locks: &Locks) { locks.close() }

    fn pinyon_locks_free(locks: *mut Locks) { free(locks) }

    fn pinyon_locks_server(locks: &Locks) -> *const c_char { locks.server().as_ptr() }

    fn pinyon_locks_metrics(locks: &Locks) -> *mut c_char {
        c_string(&metrics::locks_json(&locks.setup().options.observed.metrics()))
    }

    fn pinyon_locks_prefix(locks: &Locks) -> Bytes { Bytes::of(locks.setup().keys.prefix()) }

    fn pinyon_new_owner() -> u64 { owners::new_owner() }

    fn pinyon_this_thread() -> u64 { owners::this_thread() }
}
