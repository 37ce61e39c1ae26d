//! What carries out operations: a station for the threads of each process, made at its first use, or what a host drives
//! its event loops with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::branches::ByTag;
use crate::client::Setup;
use crate::failure::LockFailure;
use crate::front::{LockOperation, LockOutcome};
use crate::notes::{Note, Notes};
use crate::observed::{LockEvent, LockMetrics};
use crate::station::Station;
use pinyon_net::error::{Error, Kind};
use pinyon_net::fork::PerProcess;
use pinyon_net::host::Host;

/// The drivers of a caller's locks. `D`: what drives its event loop.
pub enum Driver<L, D> {
    Threads(Arc<Station<L>>),
    Loop(D),
}

/// All drivers of the locks on one server, or of one hash tag there, for every process that has this object. Dropping it
/// closes the connections of threads. `D`: what a host has for its event loops.
pub struct Drivers<L: Send + 'static, D = ()> {
    settings: Setup,
    notes: Arc<Notes<L>>,
    stations: PerProcess<OnceLock<Arc<Station<L>>>>,
    loops: D,
    closed: AtomicBool,
}

/// The drivers of a host without event loops, or of one whose loops know nothing of its threads.
pub type ThreadLocks<L> = Drivers<L, ()>;

impl<L: Send + 'static> ThreadLocks<L> {
    /// `notes`: where it leaves news for the host.
    pub fn new(settings: Setup, notes: Arc<Notes<L>>) -> Self {
        Self::with_loops(settings, notes, ())
    }
}

impl<L: Send + 'static, D> Drivers<L, D> {
    /// `notes`: where the stations leave news for the host.
    pub fn with_loops(settings: Setup, notes: Arc<Notes<L>>, loops: D) -> Self {
        Self { settings, notes, stations: PerProcess::new(OnceLock::new()), loops, closed: AtomicBool::new(false) }
    }

    pub fn settings(&self) -> &Setup {
        &self.settings
    }

    pub fn loops(&self) -> &D {
        &self.loops
    }

    /// What its clients have counted in this process.
    pub fn metrics(&self) -> LockMetrics {
        self.settings.options.observed.metrics()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn check_open(&self) -> Result<(), LockFailure> {
        match self.is_closed() {
            true => Err(LockFailure::closed()),
            false => Ok(()),
        }
    }

    /// The caller's driver: that of its event loop, if `of_loop` finds one, or else the station. `raised`: a failure in
    /// the host's terms.
    pub fn of_caller<O, E>(
        &self,
        of_loop: impl FnOnce(&D) -> Result<Option<O>, E>,
        raised: impl Fn(LockFailure) -> E,
    ) -> Result<Driver<L, O>, E> {
        self.check_open().map_err(&raised)?;
        match of_loop(&self.loops)? {
            Some(driver) => Ok(Driver::Loop(driver)),
            None => self.station().map(Driver::Threads).map_err(raised),
        }
    }

    /// The station that this process's threads share. A forked child starts without its parent's locks and connection.
    pub fn station(&self) -> Result<Arc<Station<L>>, LockFailure> {
        self.check_open()?;
        let station = self.of_process();
        if let Some(station) = station.get() {
            return Ok(station.clone());
        }
        let made = Station::new(self.settings.clone(), self.notes.clone()).map_err(|error| {
            let message = format!("no pipe could be made for this process's threads: {error}");
            Error::new(Kind::Connect, &self.settings.server, message)
        })?;
        Ok(station.get_or_init(|| Arc::new(made)).clone())
    }

    /// A warning of the host about the locks of this client, for `on_event`.
    pub fn warning(&self, line: &str) -> Note<L> {
        let server = &self.settings.server;
        let event = LockEvent::warning(server, format!("{server}: {line}"));
        Note::Event { source: self.settings.options.observed.source(), event: event.into() }
    }

    /// Leaves such a warning where the stations leave news.
    pub fn warn(&self, line: &str) {
        self.notes.leave(self.warning(line));
    }

    /// Fails all waits of threads, gives them up on the servers, and closes the connections. Held locks are lost here; on
    /// the server they end with their ttl. The host closes its loops.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Some(station) = self.of_process().get() {
            station.close();
        }
    }

    fn of_process(&self) -> &OnceLock<Arc<Station<L>>> {
        self.stations.get(|parents| {
            if let Some(station) = parents.get() {
                station.abandon();
            }
            OnceLock::new()
        })
    }
}

impl<L: Send + 'static, D> ByTag<Drivers<L, D>> {
    /// Releases everything that the threads of this process hold, and waits for the answers, for at most `wait` or the
    /// time that a command may take. Returns how many locks were released. It connects to no server that is not in use.
    pub fn release_all<H: Host>(&self, host: &H, wait: Option<Duration>) -> Result<usize, H::Interrupt> {
        let until = wait.map(|wait| Instant::now() + wait);
        let mut all = 0;
        for client in self.all().into_iter().filter(|client| !client.is_closed()) {
            let Some(station) = client.of_process().get().cloned() else { continue };
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            if let LockOutcome::ReleasedAll { released } = station.run(host, LockOperation::ReleaseAll { wait })? {
                all += released;
            }
        }
        Ok(all)
    }
}

impl<L: Send + 'static, D> Drop for Drivers<L, D> {
    fn drop(&mut self) {
        self.close();
    }
}
