//! The platform for the fuzzed client: connections in memory, and clocks that are set.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use pinyon_locks::client;
use pinyon_locks::machine::Moment;
use pinyon_net::network::{Network, Stream};
use pinyon_net::Address;

/// The outcome of opening a connection.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Opening {
    AtOnce,
    /// Connected at the second look.
    Later,
    Never,
    Refused,
    Unreachable,
}

#[derive(Clone)]
pub struct Platform(Rc<State>);

struct State {
    started: Instant,
    elapsed: Cell<Duration>,
    suspended: Cell<Duration>,
    opening: Cell<Opening>,
    opened: RefCell<Vec<Pipe>>,
    last_fd: Cell<RawFd>,
}

/// One connection, seen from both ends.
#[derive(Clone)]
pub struct Pipe {
    pub fd: RawFd,
    bytes: Rc<RefCell<Bytes>>,
}

struct Bytes {
    sent: Vec<u8>,
    arriving: VecDeque<u8>,
    /// How many bytes are taken before sending would block.
    room: usize,
    /// The most bytes that a call receives.
    width: usize,
    /// What follows the arrived bytes.
    end: Option<End>,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum End {
    Closed,
    Reset,
}

/// The client's end.
pub struct Line {
    pipe: Pipe,
    opening: Opening,
}

impl Default for Platform {
    fn default() -> Self {
        Self(Rc::new(State {
            started: Instant::now(),
            elapsed: Cell::default(),
            suspended: Cell::default(),
            opening: Cell::new(Opening::AtOnce),
            opened: RefCell::default(),
            last_fd: Cell::new(2),
        }))
    }
}

impl Platform {
    pub fn pass(&self, time: Duration) {
        self.0.elapsed.set(self.0.elapsed.get() + time);
    }

    /// The time since the beginning, without suspends.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed.get()
    }

    /// Suspends the machine: only one of the clocks continues.
    pub fn suspend(&self, time: Duration) {
        self.0.suspended.set(self.0.suspended.get() + time);
    }

    pub fn expect(&self, opening: Opening) {
        self.0.opening.set(opening);
    }

    /// The connections opened since the last call.
    pub fn take_opened(&self) -> Vec<Pipe> {
        self.0.opened.take()
    }
}

impl client::Platform for Platform {
    fn now(&self) -> Instant {
        self.0.started + self.0.elapsed.get()
    }

    fn boot_time(&self) -> Moment {
        Moment(Duration::from_secs(1000) + self.0.elapsed.get() + self.0.suspended.get())
    }
}

impl Network for Platform {
    type Stream = Line;

    fn open(&self, _: &Address) -> io::Result<Line> {
        let opening = self.0.opening.get();
        if opening == Opening::Unreachable {
            return Err(ErrorKind::HostUnreachable.into());
        }
        self.0.last_fd.set(self.0.last_fd.get() + 1);
        let bytes =
            Bytes { sent: Vec::new(), arriving: VecDeque::new(), room: usize::MAX, width: usize::MAX, end: None };
        let pipe = Pipe { fd: self.0.last_fd.get(), bytes: Rc::new(RefCell::new(bytes)) };
        self.0.opened.borrow_mut().push(pipe.clone());
        Ok(Line { pipe, opening })
    }
}

impl Pipe {
    /// Whether the client's end is open.
    pub fn is_open(&self) -> bool {
        Rc::strong_count(&self.bytes) > 1
    }

    pub fn take_sent(&self) -> Vec<u8> {
        let mut bytes = self.bytes.borrow_mut();
        let sent = std::mem::take(&mut bytes.sent);
        bytes.room = bytes.room.saturating_add(sent.len());
        sent
    }

    pub fn arrive(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().arriving.extend(bytes);
    }

    /// The number of arrived bytes that were not received yet.
    pub fn left(&self) -> usize {
        self.bytes.borrow().arriving.len()
    }

    pub fn end(&self, end: End) {
        self.bytes.borrow_mut().end = Some(end);
    }

    pub fn narrow(&self, width: usize, room: usize) {
        let mut bytes = self.bytes.borrow_mut();
        (bytes.width, bytes.room) = (width, room);
    }
}

impl AsRawFd for Line {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.fd
    }
}

impl Stream for Line {
    fn connected(&mut self) -> io::Result<bool> {
        match self.opening {
            Opening::AtOnce => Ok(true),
            Opening::Later => {
                self.opening = Opening::AtOnce;
                Ok(false)
            }
            Opening::Never => Ok(false),
            Opening::Refused | Opening::Unreachable => Err(ErrorKind::ConnectionRefused.into()),
        }
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut bytes = self.pipe.bytes.borrow_mut();
        if bytes.end == Some(End::Reset) {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let mut taken = 0;
        for piece in pieces {
            let part = piece.len().min(bytes.room - taken);
            bytes.sent.extend_from_slice(&piece[..part]);
            taken += part;
        }
        bytes.room -= taken;
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut bytes = self.pipe.bytes.borrow_mut();
        if bytes.arriving.is_empty() {
            return match bytes.end {
                None => Err(ErrorKind::WouldBlock.into()),
                Some(End::Closed) => Ok(0),
                Some(End::Reset) => Err(ErrorKind::ConnectionReset.into()),
            };
        }
        let mut left = bytes.width;
        let mut count = 0;
        for buffer in buffers {
            let piece = buffer.len().min(left).min(bytes.arriving.len());
            buffer[..piece].copy_from_slice(&bytes.arriving.make_contiguous()[..piece]);
            bytes.arriving.drain(..piece);
            left -= piece;
            count += piece;
        }
        Ok(count)
    }
}
