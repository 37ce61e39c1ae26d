//! Waiting for another thread. A signal or a deadline ends the wait promptly.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The awaited event may have happened.
    Ready,
    /// A signal came, or may have come unnoticed. Let the host handle it, then wait again.
    Interrupted,
    /// The deadline has passed.
    Deadline,
}

/// The longest sleep. A signal just before a wait, or in another thread, does not end it, so the host looks this often.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Waits until one of the descriptors is ready; `poll(2)`, with the deadline rounded up.
pub fn wait_for(descriptors: &mut [PollFd<'_>], deadline: Instant) -> Wake {
    let all = deadline.saturating_duration_since(Instant::now());
    let left = all.min(LONGEST_SLEEP);
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match poll(descriptors, Some(&timeout)) {
        Ok(0) if left < all => Wake::Interrupted,
        Ok(0) => Wake::Deadline,
        Ok(_) => Wake::Ready,
        Err(Errno::INTR) => Wake::Interrupted,
        // A poll of open descriptors cannot fail otherwise. The next read or write reports a problem.
        Err(_) => Wake::Ready,
    }
}

/// One thread rings it, another waits for it.
#[derive(Debug)]
pub struct Doorbell {
    listen: OwnedFd,
    ring: OwnedFd,
    /// Where tests of interleavings wait instead.
    #[cfg(feature = "interleavings")]
    played: crate::sync::interleaved::Bell,
}

impl Doorbell {
    pub fn new() -> io::Result<Self> {
        let (listen, ring) = new_pipe()?;
        Ok(Self {
            listen,
            ring,
            #[cfg(feature = "interleavings")]
            played: Default::default(),
        })
    }

    pub fn ring(&self) {
        #[cfg(feature = "interleavings")]
        self.played.ring();
        // A full pipe means that it has been rung.
        let _ = rustix::io::write(&self.ring, &[1]);
    }

    /// Clears all rings so far.
    pub fn silence(&self) {
        #[cfg(feature = "interleavings")]
        self.played.silence();
        let mut rung = [0; 64];
        while matches!(rustix::io::read(&self.listen, &mut rung), Ok(64)) {}
    }

    pub fn wait(&self, deadline: Instant) -> Wake {
        #[cfg(feature = "interleavings")]
        self.played.wait();
        wait_for(&mut [PollFd::from_borrowed_fd(self.listen.as_fd(), PollFlags::IN)], deadline)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listen.as_fd()
    }
}

#[cfg(not(target_vendor = "apple"))]
fn new_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::{pipe_with, PipeFlags};

    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
}

#[cfg(target_vendor = "apple")]
fn new_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (listen, ring) = rustix::pipe::pipe()?;
    for end in [&listen, &ring] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok((listen, ring))
}
