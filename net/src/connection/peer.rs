//! The other end of a connection, in memory. Tests decide what it takes and sends, and when it breaks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::address::Address;
use crate::network::{Network, Stream};

/// A server that accepts any number of connections, one after another.
#[derive(Clone, Default)]
pub struct Peer(Rc<RefCell<Script>>);

#[derive(Default)]
struct Script {
    /// The outcomes of the next connections. Later ones are established at once.
    openings: VecDeque<Opening>,
    /// Those to these addresses, instead.
    openings_at: Vec<(Address, Opening)>,
    opened: Vec<Address>,
    /// Bytes from the client that the test has not read yet.
    received: Vec<u8>,
    /// Bytes on their way to the client.
    replies: VecDeque<u8>,
    ending: Option<Ending>,
    faults: Faults,
    /// The number of calls so far, for [`Faults::hiccup`].
    sends: usize,
    receives: usize,
}

#[derive(Clone, Copy)]
pub enum Opening {
    /// Established at the first look.
    AtOnce,
    /// Established after so many looks.
    After(usize),
    /// Refused when opened.
    Unreachable,
    /// Refused at the first look.
    Refused,
}

/// What the client finds after the last reply.
#[derive(Clone, Copy, PartialEq)]
pub enum Ending {
    Closed,
    Reset,
}

/// The behavior of the connection.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// The most bytes that a call sends.
    pub send_width: Option<usize>,
    /// The most bytes that a call receives.
    pub receive_width: Option<usize>,
    /// How many bytes the peer takes before sending would block.
    pub room: Option<usize>,
    /// Every other call of each kind fails with this error.
    pub hiccup: Option<io::ErrorKind>,
    /// Every send fails with this error.
    pub send_error: Option<io::ErrorKind>,
}

impl Peer {
    pub fn expect_openings(&self, openings: impl IntoIterator<Item = Opening>) {
        self.0.borrow_mut().openings.extend(openings);
    }

    /// Connections to this address turn out like this from now on.
    pub fn open_at(&self, address: &Address, opening: Opening) {
        let mut script = self.0.borrow_mut();
        script.openings_at.retain(|(other, _)| other != address);
        script.openings_at.push((address.clone(), opening));
    }

    /// The addresses that were tried.
    pub fn opened(&self) -> Vec<Address> {
        self.0.borrow().opened.clone()
    }

    pub fn reply(&self, bytes: &[u8]) {
        self.0.borrow_mut().replies.extend(bytes);
    }

    pub fn end(&self, ending: Ending) {
        self.0.borrow_mut().ending = Some(ending);
    }

    pub fn behave(&self, faults: Faults) {
        self.0.borrow_mut().faults = faults;
    }

    /// Lets the peer take so many more bytes.
    pub fn make_room(&self, room: usize) {
        self.0.borrow_mut().faults.room = Some(room);
    }

    pub fn take_received(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().received)
    }

    /// The number of references to it. Each open stream has one.
    pub fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// Whether everything it sent has arrived.
    pub fn is_drained(&self) -> bool {
        self.left() == 0
    }

    /// How many of the bytes that it sent have not arrived.
    pub fn left(&self) -> usize {
        self.0.borrow().replies.len()
    }
}

impl Network for Peer {
    type Stream = Line;

    fn open(&self, address: &Address) -> io::Result<Line> {
        let mut script = self.0.borrow_mut();
        script.opened.push(address.clone());
        script.received.clear();
        script.replies.clear();
        script.ending = None;
        let at = script.openings_at.iter().find(|(at, _)| at == address).map(|(_, opening)| *opening);
        let looks = match at.or_else(|| script.openings.pop_front()).unwrap_or(Opening::AtOnce) {
            Opening::AtOnce => Some(0),
            Opening::After(looks) => Some(looks),
            Opening::Refused => None,
            Opening::Unreachable => return Err(io::ErrorKind::HostUnreachable.into()),
        };
        Ok(Line { peer: self.clone(), looks, fd: NEXT_FD.fetch_add(1, Ordering::Relaxed) })
    }
}

/// Event loops watch a connection; nothing else looks at its number.
static NEXT_FD: AtomicI32 = AtomicI32::new(7);

/// A connection to a [`Peer`].
pub struct Line {
    peer: Peer,
    fd: RawFd,
    /// How many looks it takes to connect; `None` for never.
    looks: Option<usize>,
}

impl AsRawFd for Line {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Stream for Line {
    fn connected(&mut self) -> io::Result<bool> {
        let looks = self.looks.ok_or(io::ErrorKind::ConnectionRefused)?;
        self.looks = Some(looks.saturating_sub(1));
        Ok(looks == 0)
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut script = self.peer.0.borrow_mut();
        script.sends += 1;
        script.hiccup(script.sends)?;
        if let Some(error) = script.faults.send_error {
            return Err(error.into());
        }
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(offered > 0, "nothing is sent for nothing");
        let width = script.faults.send_width.unwrap_or(usize::MAX);
        let taken = offered.min(width).min(script.faults.room.unwrap_or(usize::MAX));
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Some(room) = &mut script.faults.room {
            *room -= taken;
        }
        let mut left = taken;
        for piece in pieces {
            let part = piece.len().min(left);
            script.received.extend_from_slice(&piece[..part]);
            left -= part;
        }
        Ok(taken)
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut script = self.peer.0.borrow_mut();
        script.receives += 1;
        script.hiccup(script.receives)?;
        if script.replies.is_empty() {
            return match script.ending {
                None => Err(io::ErrorKind::WouldBlock.into()),
                Some(Ending::Closed) => Ok(0),
                Some(Ending::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            };
        }
        let mut left = script.faults.receive_width.unwrap_or(usize::MAX);
        let mut count = 0;
        for buffer in buffers {
            let piece = buffer.len().min(left).min(script.replies.len());
            buffer[..piece].copy_from_slice(&script.replies.make_contiguous()[..piece]);
            script.replies.drain(..piece);
            left -= piece;
            count += piece;
        }
        Ok(count)
    }
}

impl Script {
    fn hiccup(&self, calls: usize) -> io::Result<()> {
        match self.faults.hiccup {
            Some(error) if calls % 2 == 1 => Err(error.into()),
            _ => Ok(()),
        }
    }
}
