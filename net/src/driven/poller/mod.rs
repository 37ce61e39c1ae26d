//! Watches many descriptors through one: epoll on Linux, kqueue on macOS and the BSDs, with a bell among them.
//!
//! What a poller asks of the system is a [`Selector`]. The one of kqueue has a queue below it, so that its decisions are
//! tested on Linux, too, on a queue that the tests make of epoll.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
mod kqueue;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::doorbell::{Doorbell, Wake, LONGEST_SLEEP};
use crate::fork;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use epoll::Epoll as OfSystem;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub type OfSystem = kqueue::Kqueue<kqueue::OfSystem>;

/// The bell's number among the watched descriptors.
const BELL: usize = usize::MAX;

/// The most descriptors that one look reports. The next look reports the rest.
const AT_ONCE: usize = 64;

/// What the system has to watch many descriptors through one. Each has a number, and is watched for reading at least.
pub trait Selector: AsFd + Sized {
    fn new() -> io::Result<Self>;

    /// Watches a descriptor for reading; it must stay open as long as this.
    fn watch_always(&self, number: usize, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Watches a descriptor, also for writing if `write`. `before` is what `write` was, if it is watched already.
    fn watch(&self, number: usize, fd: RawFd, before: Option<bool>, write: bool) -> io::Result<()>;

    /// Stops watching a descriptor, which may be closed by now. `write` is what was said last.
    fn forget(&self, fd: RawFd, write: bool);

    /// Waits until a descriptor is ready, or `timeout`. Calls `ready` with the number of each ready one, maybe twice.
    fn wait(&self, timeout: Duration, ready: impl FnMut(usize)) -> io::Result<()>;
}

/// Watches descriptors. Its own descriptor ([`AsFd`]) is readable while any of them is ready or the bell was rung.
///
/// It belongs to the process that made it. A forked child shares the system's watch list with its parent, so a poller
/// changes nothing there. Dropping it closes its own descriptors.
pub struct Poller<S = OfSystem> {
    selector: S,
    bell: Arc<Doorbell>,
    /// By lane: the descriptor, and whether it is watched for writing.
    watched: Vec<Option<(RawFd, bool)>>,
    generation: u64,
}

impl<S: Selector> Poller<S> {
    /// # Errors
    /// The process has too many open descriptors.
    pub fn new() -> io::Result<Self> {
        let (selector, bell) = (S::new()?, Arc::new(Doorbell::new()?));
        selector.watch_always(BELL, bell.as_fd())?;
        Ok(Self { selector, bell, watched: Vec::new(), generation: fork::generation() })
    }

    /// The bell that ends a wait. Any thread may ring it.
    pub fn bell(&self) -> &Arc<Doorbell> {
        &self.bell
    }

    pub fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Watches a descriptor, in place of the lane's previous one. It must stay open until it is forgotten.
    ///
    /// # Errors The user watches too many descriptors, or the system has no memory.
    pub fn watch(&mut self, lane: usize, fd: RawFd, write: bool) -> io::Result<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        if self.watched.len() <= lane {
            self.watched.resize(lane + 1, None);
        }
        let before = match self.watched[lane] {
            Some((other, _)) if other != fd => {
                self.forget(lane, other);
                None
            }
            same => same.map(|(_, write)| write),
        };
        self.selector.watch(lane, fd, before, write)?;
        self.watched[lane] = Some((fd, write));
        Ok(())
    }

    /// Stops watching the descriptor of a lane.
    pub fn forget(&mut self, lane: usize, fd: RawFd) {
        if !self.is_of_this_process() {
            return;
        }
        let Some(watched) = self.watched.get_mut(lane) else { return };
        if let Some((_, write)) = watched.take_if(|(watched, _)| *watched == fd) {
            self.selector.forget(fd, write);
        }
    }

    /// The lane whose descriptor is the only one, if it is watched for reading alone.
    pub(super) fn only(&self) -> Option<usize> {
        let mut all =
            self.watched.iter().enumerate().filter_map(|(lane, watched)| watched.map(|(_, write)| (lane, write)));
        match (all.next(), all.next()) {
            (Some((lane, false)), None) => Some(lane),
            _ => None,
        }
    }

    /// Waits until a descriptor is ready, the bell is rung, or `until`. Adds the ready lanes to `ready`, and silences
    /// the bell.
    ///
    /// Like every wait of the core, it lasts at most a tenth of a second, so that the host can handle signals.
    ///
    /// # Errors None in a correct program.
    pub fn wait(&self, until: Instant, ready: &mut Vec<usize>) -> io::Result<Wake> {
        if !self.is_of_this_process() {
            return Ok(Wake::Ready);
        }
        let all = until.saturating_duration_since(Instant::now());
        let left = all.min(LONGEST_SLEEP);
        let before = ready.len();
        let waited = self.wait_for(left, ready);
        if matches!(waited, Ok(true)) {
            self.bell.silence();
        }
        match waited {
            Ok(is_rung) if is_rung || ready.len() > before => Ok(Wake::Ready),
            Ok(_) if left < all => Ok(Wake::Interrupted),
            Ok(_) => Ok(Wake::Deadline),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Wake::Interrupted),
            Err(error) => Err(error),
        }
    }

    /// Adds the ready lanes to `ready`, without waiting. The bell stays rung, for the thread that waits for it.
    pub(super) fn look(&self, ready: &mut Vec<usize>) -> io::Result<()> {
        match self.is_of_this_process() {
            true => self.wait_for(Duration::ZERO, ready).map(drop),
            false => Ok(()),
        }
    }

    /// Returns whether the bell was rung.
    fn wait_for(&self, time: Duration, ready: &mut Vec<usize>) -> io::Result<bool> {
        let mut is_rung = false;
        self.selector.wait(time, |number| match number {
            BELL => is_rung = true,
            lane => ready.push(lane),
        })?;
        Ok(is_rung)
    }
}

impl<S: AsFd> AsFd for Poller<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.selector.as_fd()
    }
}
