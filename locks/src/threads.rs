//! The locks of a process's threads: each process has a client of its own, made at its first use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::client::Setup;
use crate::failure::LockFailure;
use crate::notes::Notes;
use crate::observed::LockMetrics;
pub use crate::station::Station;
use pinyon_net::error::{Error, Kind};
use pinyon_net::fork::PerProcess;

/// Locks on one server, for all threads of every process that has this object. Dropping it closes the connections.
pub struct ThreadLocks<L: Send + 'static> {
    settings: Setup,
    notes: Arc<Notes<L>>,
    stations: PerProcess<OnceLock<Arc<Station<L>>>>,
    closed: AtomicBool,
}

impl<L: Send + 'static> ThreadLocks<L> {
    /// `notes`: where it leaves news for the host.
    pub fn new(settings: Setup, notes: Arc<Notes<L>>) -> Self {
        Self { settings, notes, stations: PerProcess::new(OnceLock::new()), closed: AtomicBool::new(false) }
    }

    pub fn settings(&self) -> &Setup {
        &self.settings
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

    /// Fails all waits and closes the connections. Held locks are lost here; on the server they end with their ttl.
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

impl<L: Send + 'static> Drop for ThreadLocks<L> {
    fn drop(&mut self) {
        self.close();
    }
}
