//! Every selector does the same for a poller: epoll, and what is built for kqueue on a queue that is made of epoll here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{epoll, poll, PollFd, PollFlags, Timespec};

use super::kqueue::{Change, Filter, Kqueue, Queue};
use super::{OfSystem, Poller, Selector};
use crate::doorbell::Wake;

/// A queue as kqueue's, of epoll: a filter is a copy of its descriptor, so that a descriptor can have two.
struct OfEpoll {
    epoll: OwnedFd,
    filters: RefCell<HashMap<Filter, OwnedFd>>,
}

#[allow(unsafe_code)]
fn copy(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the tests keep the descriptors open; the borrow ends with this call.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

impl Queue for OfEpoll {
    fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, filters: RefCell::default() })
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut filters = self.filters.borrow_mut();
        match change {
            Change::Add(filter, number) => {
                let (fd, flags) = match filter {
                    Filter::Read(fd) => (fd, epoll::EventFlags::IN),
                    Filter::Write(fd) => (fd, epoll::EventFlags::OUT),
                };
                let data = epoll::EventData::new_u64(number as u64);
                if let Some(present) = filters.get(&filter) {
                    return Ok(epoll::modify(&self.epoll, present, data, flags)?);
                }
                let copied = copy(fd)?;
                epoll::add(&self.epoll, &copied, data, flags)?;
                filters.insert(filter, copied);
            }
            Change::Delete(filter) => {
                let removed = filters.remove(&filter).ok_or(io::ErrorKind::NotFound)?;
                epoll::delete(&self.epoll, &removed)?;
            }
        }
        Ok(())
    }

    fn wait(&self, timeout: Duration, mut ready: impl FnMut(usize)) -> io::Result<()> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut events = Vec::with_capacity(8);
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        events.iter().for_each(|event: &epoll::Event| ready(event.data.u64() as usize));
        Ok(())
    }
}

impl AsFd for OfEpoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn is_readable(fd: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)) == Ok(1)
}

/// What is ready now, once each.
fn ready<S: Selector>(poller: &Poller<S>) -> Vec<usize> {
    let mut lanes = Vec::new();
    poller.look(&mut lanes).unwrap();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

fn reading_and_writing<S: Selector>() {
    let (mut here, mut there) = pair();
    let mut poller = Poller::<S>::new().unwrap();
    poller.watch(3, here.as_raw_fd(), false).unwrap();
    assert_eq!((ready(&poller), is_readable(&poller)), (vec![], false));
    assert_eq!(poller.only(), Some(3));

    poller.watch(3, here.as_raw_fd(), true).unwrap();
    assert_eq!((ready(&poller), is_readable(&poller)), (vec![3], true));
    assert_eq!(poller.only(), None);

    // What is no longer to be written is reported for reading alone.
    poller.watch(3, here.as_raw_fd(), false).unwrap();
    assert_eq!((ready(&poller), is_readable(&poller)), (vec![], false));

    there.write_all(b"here").unwrap();
    assert_eq!((ready(&poller), is_readable(&poller)), (vec![3], true));
    // It stays ready until all is read.
    here.read_exact(&mut [0; 3]).unwrap();
    assert_eq!(ready(&poller), [3]);
    here.read_exact(&mut [0; 1]).unwrap();
    assert!(ready(&poller).is_empty());
    drop(there);
    assert_eq!(ready(&poller), [3]);
}

fn forgetting<S: Selector>() {
    let ((first, mut to_first), (second, mut to_second)) = (pair(), pair());
    let mut poller = Poller::<S>::new().unwrap();
    poller.watch(0, first.as_raw_fd(), true).unwrap();
    poller.watch(1, second.as_raw_fd(), true).unwrap();
    assert_eq!(ready(&poller), [0, 1]);
    poller.forget(0, first.as_raw_fd());
    to_first.write_all(b"?").unwrap();
    assert_eq!(ready(&poller), [1]);

    // Another descriptor takes the lane of one that was not forgotten.
    poller.watch(1, first.as_raw_fd(), false).unwrap();
    to_second.write_all(b"?").unwrap();
    assert_eq!(ready(&poller), [1]);
    (&first).read_exact(&mut [0]).unwrap();
    assert!(ready(&poller).is_empty());

    // A descriptor that moves to another lane is reported there.
    poller.forget(1, first.as_raw_fd());
    poller.watch(7, first.as_raw_fd(), true).unwrap();
    assert_eq!(ready(&poller), [7]);

    // To forget what is not watched, or is closed, is no error.
    poller.forget(1, second.as_raw_fd());
    poller.forget(7, first.as_raw_fd());
    poller.forget(7, first.as_raw_fd());
    assert!(ready(&poller).is_empty());
}

fn waiting<S: Selector>() {
    let (here, mut there) = pair();
    let mut poller = Poller::<S>::new().unwrap();
    let mut lanes = Vec::new();
    assert_eq!(poller.wait(Instant::now(), &mut lanes).unwrap(), Wake::Deadline);
    let later = Instant::now() + Duration::from_secs(60);
    assert_eq!(poller.wait(later, &mut lanes).unwrap(), Wake::Interrupted);

    poller.bell().ring();
    // A look leaves the bell as it is, for the thread that waits for it.
    assert_eq!((ready(&poller), is_readable(&poller)), (vec![], true));
    assert_eq!(poller.wait(later, &mut lanes).unwrap(), Wake::Ready);
    assert!(!is_readable(&poller));

    let bell = poller.bell().clone();
    let ringing = std::thread::spawn(move || bell.ring());
    while poller.wait(later, &mut lanes).unwrap() == Wake::Interrupted {}
    ringing.join().unwrap();
    assert!(lanes.is_empty());

    poller.watch(0, here.as_raw_fd(), false).unwrap();
    there.write_all(b"?").unwrap();
    assert_eq!((poller.wait(later, &mut lanes).unwrap(), lanes), (Wake::Ready, vec![0]));
}

fn in_a_forked_child<S: Selector + Send + 'static>() {
    let (here, mut there) = pair();
    let mut poller = Poller::<S>::new().unwrap();
    poller.watch(0, here.as_raw_fd(), false).unwrap();
    there.write_all(b"?").unwrap();
    let parents = poller;
    let in_child = std::thread::spawn(move || {
        crate::fork::pretended::fork();
        let mut poller = parents;
        poller.forget(0, here.as_raw_fd());
        assert!(ready(&poller).is_empty());
        (poller, here)
    });
    let (poller, _here) = in_child.join().unwrap();
    // The watch list, which both share, is as it was.
    assert_eq!(ready(&poller), [0]);
}

macro_rules! each_selector {
    ($($test:ident)*) => {
        mod system {
            $(#[test] fn $test() { super::$test::<super::OfSystem>(); })*
        }
        mod kqueue_of_epoll {
            $(#[test] fn $test() { super::$test::<super::Kqueue<super::OfEpoll>>(); })*
        }
    };
}

each_selector! { reading_and_writing forgetting waiting in_a_forked_child }
