//! The way of macOS and the BSDs to watch many descriptors: a filter for each that is read, and another for each that is
//! written.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use super::Selector;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub use of_system::OfSystem;

/// What a filter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    Read(RawFd),
    Write(RawFd),
}

/// A change of the watched filters.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Adds a filter, or gives another number to one that is there.
    Add(Filter, usize),
    Delete(Filter),
}

/// The system's queue of events.
pub trait Queue: AsFd + Sized {
    fn new() -> io::Result<Self>;

    /// Carries out a change.
    ///
    /// # Errors
    /// There is no filter to delete.
    fn change(&self, change: Change) -> io::Result<()>;

    /// Waits until the condition of a filter is true, or `timeout`. Calls `ready` with the numbers of those.
    fn wait(&self, timeout: Duration, ready: impl FnMut(usize)) -> io::Result<()>;
}

/// A kernel queue.
pub struct Kqueue<Q>(Q);

impl<Q: Queue> Selector for Kqueue<Q> {
    fn new() -> io::Result<Self> {
        Ok(Self(Q::new()?))
    }

    fn watch_always(&self, number: usize, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.change(Change::Add(Filter::Read(fd.as_raw_fd()), number))
    }

    fn watch(&self, number: usize, fd: RawFd, before: Option<bool>, write: bool) -> io::Result<()> {
        self.0.change(Change::Add(Filter::Read(fd), number))?;
        match (before, write) {
            (_, true) => self.0.change(Change::Add(Filter::Write(fd), number)),
            (Some(true), false) => self.0.change(Change::Delete(Filter::Write(fd))),
            (_, false) => Ok(()),
        }
    }

    fn forget(&self, fd: RawFd, write: bool) {
        // The system has already forgotten a closed descriptor.
        let _ = self.0.change(Change::Delete(Filter::Read(fd)));
        if write {
            let _ = self.0.change(Change::Delete(Filter::Write(fd)));
        }
    }

    fn wait(&self, timeout: Duration, ready: impl FnMut(usize)) -> io::Result<()> {
        self.0.wait(timeout, ready)
    }
}

impl<Q: AsFd> AsFd for Kqueue<Q> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod of_system {
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::Duration;

    use rustix::event::kqueue::{kevent, kqueue, Event, EventFilter, EventFlags};

    use super::super::AT_ONCE;
    use super::{Change, Filter, Queue};
    use crate::fork;

    /// The kernel's own queue.
    pub struct OfSystem {
        queue: ManuallyDrop<OwnedFd>,
        generation: u64,
    }

    impl Queue for OfSystem {
        fn new() -> io::Result<Self> {
            let queue = kqueue()?;
            rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
            Ok(Self { queue: ManuallyDrop::new(queue), generation: fork::generation() })
        }

        fn change(&self, change: Change) -> io::Result<()> {
            let event = match change {
                Change::Add(filter, number) => Event::new(of(filter), EventFlags::ADD, number as *mut _),
                Change::Delete(filter) => Event::new(of(filter), EventFlags::DELETE, std::ptr::null_mut()),
            };
            self.exchange(&[event], &mut Vec::new(), Duration::ZERO)
        }

        fn wait(&self, timeout: Duration, mut ready: impl FnMut(usize)) -> io::Result<()> {
            let mut events = Vec::with_capacity(AT_ONCE);
            self.exchange(&[], &mut events, timeout)?;
            events.iter().for_each(|event: &Event| ready(event.udata() as usize));
            Ok(())
        }
    }

    impl OfSystem {
        #[allow(unsafe_code)]
        fn exchange(&self, changes: &[Event], events: &mut Vec<Event>, timeout: Duration) -> io::Result<()> {
            // SAFETY: the descriptors are open: a machine closes a watched descriptor only after it was forgotten, and
            // the queue drops closed ones.
            unsafe { kevent(&*self.queue, changes, rustix::buffer::spare_capacity(events), Some(timeout))? };
            Ok(())
        }
    }

    fn of(filter: Filter) -> EventFilter {
        match filter {
            Filter::Read(fd) => EventFilter::Read(fd),
            Filter::Write(fd) => EventFilter::Write(fd),
        }
    }

    impl AsFd for OfSystem {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.queue.as_fd()
        }
    }

    impl Drop for OfSystem {
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
