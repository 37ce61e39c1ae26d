//! Linux's way to watch many descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::Timespec;

use super::{Selector, AT_ONCE};

/// An epoll instance.
pub struct Epoll(OwnedFd);

impl Selector for Epoll {
    fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    fn watch_always(&self, number: usize, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(number as u64), EventFlags::IN)?)
    }

    fn watch(&self, number: usize, fd: RawFd, before: Option<bool>, write: bool) -> io::Result<()> {
        let (data, mut flags) = (EventData::new_u64(number as u64), EventFlags::IN);
        flags.set(EventFlags::OUT, write);
        match before {
            Some(_) => epoll::modify(&self.0, borrow(fd), data, flags)?,
            None => epoll::add(&self.0, borrow(fd), data, flags)?,
        }
        Ok(())
    }

    fn forget(&self, fd: RawFd, _: bool) {
        // The system has already forgotten a closed descriptor.
        let _ = epoll::delete(&self.0, borrow(fd));
    }

    fn wait(&self, timeout: Duration, mut ready: impl FnMut(usize)) -> io::Result<()> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut events = Vec::with_capacity(AT_ONCE);
        epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        events.iter().for_each(|event: &epoll::Event| ready(event.data.u64() as usize));
        Ok(())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[allow(unsafe_code)]
fn borrow<'f>(fd: RawFd) -> BorrowedFd<'f> {
    // SAFETY: the descriptor is only looked up, in one system call. It is open: a machine closes a watched descriptor
    // only after it was forgotten. A wrong one would be refused, or watched in vain.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
