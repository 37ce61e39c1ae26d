//! The platform for the fuzzed client: connections in memory, and clocks that are set.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use pinyon_locks::client;
use pinyon_locks::machine::Moment;
use pinyon_net::connection::peer::{self, Ending, Faults, Line, Peer};
use pinyon_net::network::Network;
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

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum End {
    Closed,
    Reset,
}

#[derive(Clone)]
pub struct Platform(Rc<State>);

struct State {
    started: Instant,
    elapsed: Cell<Duration>,
    suspended: Cell<Duration>,
    opening: Cell<Opening>,
    opened: RefCell<Vec<Pipe>>,
}

/// The server's end of one connection.
pub struct Pipe {
    peer: Peer,
    faults: Cell<Faults>,
}

impl Default for Platform {
    fn default() -> Self {
        Self(Rc::new(State {
            started: Instant::now(),
            elapsed: Cell::default(),
            suspended: Cell::default(),
            opening: Cell::new(Opening::AtOnce),
            opened: RefCell::default(),
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

    fn open(&self, address: &Address) -> io::Result<Line> {
        let peer = Peer::default();
        peer.expect_openings([match self.0.opening.get() {
            Opening::AtOnce => peer::Opening::AtOnce,
            Opening::Later => peer::Opening::After(1),
            Opening::Never => peer::Opening::After(usize::MAX),
            Opening::Refused => peer::Opening::Refused,
            Opening::Unreachable => peer::Opening::Unreachable,
        }]);
        let line = peer.open(address)?;
        self.0.opened.borrow_mut().push(Pipe { peer, faults: Cell::default() });
        Ok(line)
    }
}

impl Pipe {
    /// Whether the client's end is open.
    pub fn is_open(&self) -> bool {
        self.peer.holders() > 1
    }

    /// Takes what was sent, which makes room for as much.
    pub fn take_sent(&self) -> Vec<u8> {
        self.peer.behave(self.faults.get());
        self.peer.take_received()
    }

    pub fn arrive(&self, bytes: &[u8]) {
        self.peer.reply(bytes);
    }

    /// Whether all that arrived was received.
    pub fn is_drained(&self) -> bool {
        self.peer.is_drained()
    }

    pub fn end(&self, end: End) {
        match end {
            End::Closed => self.peer.end(Ending::Closed),
            End::Reset => {
                self.peer.end(Ending::Reset);
                self.behave(Faults { send_error: Some(io::ErrorKind::ConnectionReset), ..self.faults.get() });
            }
        }
    }

    /// From now on a call receives at most `width` bytes, and at most `room` are taken before sending would block.
    pub fn narrow(&self, width: usize, room: usize) {
        self.behave(Faults { receive_width: Some(width), room: Some(room), ..self.faults.get() });
    }

    fn behave(&self, faults: Faults) {
        self.faults.set(faults);
        self.peer.behave(faults);
    }
}
