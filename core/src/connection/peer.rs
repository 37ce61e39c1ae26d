//! The other end of a connection, in memory. Tests say what it takes, sends and breaks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::rc::Rc;

use crate::address::Address;
use crate::network::{Network, Stream};

/// One server, to which any number of connections can be opened, one after the other.
#[derive(Clone, Default)]
pub struct Peer(Rc<RefCell<Script>>);

#[derive(Default)]
struct Script {
    /// What becomes of the next connections; all that follow are made at once.
    openings: VecDeque<Opening>,
    opened: Vec<Address>,
    /// What the client has sent and the test has not yet looked at.
    received: Vec<u8>,
    /// What is on its way to the client.
    replies: VecDeque<u8>,
    ending: Option<Ending>,
    faults: Faults,
    /// Calls of the stream so far, for [`Faults::hiccup`].
    sends: usize,
    receives: usize,
}

#[derive(Clone, Copy)]
pub enum Opening {
    /// The connection is made at the first look.
    AtOnce,
    /// The connection is not made before so many looks.
    After(usize),
    /// Refused when it is opened.
    Unreachable,
    /// Refused at the first look.
    Refused,
}

/// What the client meets behind the last reply.
#[derive(Clone, Copy, PartialEq)]
pub enum Ending {
    Closed,
    Reset,
}

/// How the connection behaves.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// How many bytes a call sends at most.
    pub send_width: Option<usize>,
    /// How many bytes a call receives at most.
    pub receive_width: Option<usize>,
    /// How many bytes are taken in all before sending would have to wait.
    pub room: Option<usize>,
    /// Every other call of each kind fails so.
    pub hiccup: Option<io::ErrorKind>,
    /// Sending fails so.
    pub send_error: Option<io::ErrorKind>,
}

impl Peer {
    pub fn expect_openings(&self, openings: impl IntoIterator<Item = Opening>) {
        self.0.borrow_mut().openings.extend(openings);
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

    /// How many more bytes the peer takes.
    pub fn make_room(&self, room: usize) {
        self.0.borrow_mut().faults.room = Some(room);
    }

    pub fn take_received(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().received)
    }

    /// How many hold on to it: a stream that is open does.
    pub fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// Whether everything it has sent has arrived.
    pub fn is_drained(&self) -> bool {
        self.0.borrow().replies.is_empty()
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
        let looks = match script.openings.pop_front().unwrap_or(Opening::AtOnce) {
            Opening::AtOnce => Some(0),
            Opening::After(looks) => Some(looks),
            Opening::Refused => None,
            Opening::Unreachable => return Err(io::ErrorKind::HostUnreachable.into()),
        };
        Ok(Line { peer: self.clone(), looks })
    }
}

/// A connection to a [`Peer`].
pub struct Line {
    peer: Peer,
    /// How many looks it takes until it is made; `None` when it never is.
    looks: Option<usize>,
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
