//! Watches many descriptors through one: epoll on Linux, kqueue on macOS and the BSDs, with a bell among them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use selector::Selector;

use crate::doorbell::{Doorbell, Wake, LONGEST_SLEEP};
use crate::fork;

/// The bell's number among the watched descriptors.
const BELL: usize = usize::MAX;

/// The most descriptors that one look reports. The next look reports the rest.
const AT_ONCE: usize = 64;

/// Watches descriptors. Its own descriptor ([`AsFd`]) is readable while any of them is ready or the bell was rung.
///
/// It belongs to the process that made it. A forked child shares the system's watch list with its parent, so a poller
/// changes nothing there. Dropping it closes its own descriptors.
pub struct Poller {
    selector: Selector,
    bell: Arc<Doorbell>,
    /// By lane: the descriptor, and whether it is watched for writing.
    watched: Vec<Option<(RawFd, bool)>>,
    generation: u64,
}

impl Poller {
    /// # Errors
    /// The process has too many open descriptors.
    pub fn new() -> io::Result<Self> {
        let (selector, bell) = (Selector::new()?, Arc::new(Doorbell::new()?));
        selector.watch_bell(bell.as_fd())?;
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

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod selector {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
    use std::time::Duration;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::Timespec;

    use super::{AT_ONCE, BELL};

    pub(super) struct Selector(OwnedFd);

    impl Selector {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
        }

        pub(super) fn watch_bell(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
            Ok(epoll::add(&self.0, bell, EventData::new_u64(BELL as u64), EventFlags::IN)?)
        }

        pub(super) fn watch(&self, number: usize, fd: RawFd, before: Option<bool>, write: bool) -> io::Result<()> {
            let (data, mut flags) = (EventData::new_u64(number as u64), EventFlags::IN);
            flags.set(EventFlags::OUT, write);
            match before {
                Some(_) => epoll::modify(&self.0, borrow(fd), data, flags)?,
                None => epoll::add(&self.0, borrow(fd), data, flags)?,
            }
            Ok(())
        }

        pub(super) fn forget(&self, fd: RawFd, _: bool) {
            // The system has already forgotten a closed descriptor.
            let _ = epoll::delete(&self.0, borrow(fd));
        }

        /// Calls `ready` with the number of each ready descriptor.
        pub(super) fn wait(&self, timeout: Duration, mut ready: impl FnMut(usize)) -> io::Result<()> {
            let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
            let mut events = Vec::with_capacity(AT_ONCE);
            epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
            events.iter().for_each(|event: &epoll::Event| ready(event.data.u64() as usize));
            Ok(())
        }
    }

    impl AsFd for Selector {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    #[allow(unsafe_code)]
    fn borrow<'f>(fd: RawFd) -> BorrowedFd<'f> {
        // SAFETY: the descriptor is only looked up, in one system call. It is open: a machine closes a watched
        // descriptor only after it was forgotten. A wrong one would be refused, or watched in vain.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod selector {
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
    use std::time::Duration;

    use rustix::event::kqueue::{kevent, kqueue, Event, EventFilter, EventFlags};

    use super::{AT_ONCE, BELL};
    use crate::fork;

    pub(super) struct Selector {
        queue: ManuallyDrop<OwnedFd>,
        generation: u64,
    }

    impl Selector {
        pub(super) fn new() -> io::Result<Self> {
            let queue = kqueue()?;
            rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
            Ok(Self { queue: ManuallyDrop::new(queue), generation: fork::generation() })
        }

        pub(super) fn watch_bell(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
            self.change(&[event(EventFilter::Read(bell.as_raw_fd()), EventFlags::ADD, BELL)])
        }

        pub(super) fn watch(&self, number: usize, fd: RawFd, before: Option<bool>, write: bool) -> io::Result<()> {
            self.change(&[event(EventFilter::Read(fd), EventFlags::ADD, number)])?;
            match (before, write) {
                (_, true) => self.change(&[event(EventFilter::Write(fd), EventFlags::ADD, number)]),
                (Some(true), false) => self.change(&[event(EventFilter::Write(fd), EventFlags::DELETE, number)]),
                (_, false) => Ok(()),
            }
        }

        pub(super) fn forget(&self, fd: RawFd, write: bool) {
            // The system has already forgotten a closed descriptor.
            let _ = self.change(&[event(EventFilter::Read(fd), EventFlags::DELETE, 0)]);
            if write {
                let _ = self.change(&[event(EventFilter::Write(fd), EventFlags::DELETE, 0)]);
            }
        }

        /// Calls `ready` with the number of each ready descriptor; twice if it is both readable and writable.
        pub(super) fn wait(&self, timeout: Duration, mut ready: impl FnMut(usize)) -> io::Result<()> {
            let mut events = Vec::with_capacity(AT_ONCE);
            self.exchange(&[], &mut events, timeout)?;
            events.iter().for_each(|event: &Event| ready(event.udata() as usize));
            Ok(())
        }

        fn change(&self, changes: &[Event]) -> io::Result<()> {
            self.exchange(changes, &mut Vec::new(), Duration::ZERO)
        }

        #[allow(unsafe_code)]
        fn exchange(&self, changes: &[Event], events: &mut Vec<Event>, timeout: Duration) -> io::Result<()> {
            // SAFETY: the descriptors are open: a machine closes a watched descriptor only after it was forgotten, and
            // the queue drops closed ones.
            unsafe { kevent(&*self.queue, changes, rustix::buffer::spare_capacity(events), Some(timeout))? };
            Ok(())
        }
    }

    fn event(filter: EventFilter, flags: EventFlags, number: usize) -> Event {
        Event::new(filter, flags, number as *mut _)
    }

    impl AsFd for Selector {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.queue.as_fd()
        }
    }

    impl Drop for Selector {
        #[allow(unsafe_code)]
        fn drop(&mut self) {
            // A forked child does not inherit the queue, and the number may denote another file there.
            if self.generation == fork::generation() {
                // SAFETY: it is not used afterwards.
                unsafe { ManuallyDrop::drop(&mut self.queue) }
            }
        }
    }
}
