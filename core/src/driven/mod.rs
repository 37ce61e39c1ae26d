//! Machines for event loops, whatever their connections are for, and the drivers that run them.
//!
//! A machine never waits and never calls its host. After each call, the driver carries out the [`Action`]s and resumes
//! the waiters of what has finished. Each machine has its own way to begin something. There are three drivers:
//!
//! - [`LoopMachine`] calls the host's event loop, which watches many descriptors, ends turns and keeps time
//!   ([`LoopHost`]). [`Drivers`] finds the driver of a loop. Coroutines that switch to others while they wait find
//!   their outcome in a [`Slot`].
//! - [`Stepwise`] calls no one. Its host watches many descriptors, ends turns and keeps time, too, but asks for each
//!   [`Order`]. Names are resolved inside.
//! - [`Polled`] never calls its host. It is for hosts that can wait for one descriptor only, have no end of a turn, or
//!   cannot resolve names. It watches its connections by a [`Poller`], and its host asks for outcomes. A
//!   [`Keeper`] does what is due when the host does not.

mod alarm;
mod drivers;
mod event_loop;
mod keeper;
mod polled;
mod poller;
mod slot;
mod stepwise;
#[cfg(test)]
mod tests;
mod turns;

pub use alarm::HostAlarm;
pub use drivers::Drivers;
pub use event_loop::{InUse, LoopHost, LoopMachine};
pub use keeper::Keeper;
pub use polled::Polled;
pub use poller::Poller;
pub use slot::Slot;
pub use stepwise::{Order, Stepwise};
pub use turns::Answered;

pub use crate::doorbell::{Doorbell, Wake};
pub use crate::resolver::Resolving;

use std::os::fd::RawFd;
use std::time::Instant;

use crate::address::Address;
use crate::credentials::Question;

/// An order to the host's event loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve the name and call [`Driven::connect`].
    Resolve { lane: usize, name: String, port: u16 },
    /// Call [`Driven::ready`] when the descriptor is readable, and also when it is writable if `write`. This replaces
    /// the previous request for the descriptor.
    Watch { lane: usize, fd: RawFd, write: bool },
    /// Stop watching the descriptor, then call [`Driven::forgotten`], which closes it.
    Forget { lane: usize, fd: RawFd },
    /// Have the question for credentials answered, then call [`Driven::expire`].
    Ask(Question),
    /// Call [`Driven::turn`] at the end of this turn.
    EndTurn,
}

impl Action {
    /// The orders that watch a connection's current descriptor. A connection that moves to its next address has a new
    /// descriptor.
    pub(crate) fn watch_instead(
        lane: usize,
        before: Option<(RawFd, bool)>,
        (fd, write): (RawFd, bool),
    ) -> impl Iterator<Item = Self> {
        let other = before.filter(|(other, _)| *other != fd);
        let forget = other.map(|(fd, _)| Self::Forget { lane, fd });
        forget.into_iter().chain([Self::Watch { lane, fd, write }])
    }
}

/// A machine for one event loop. It numbers its connections from 0, as lanes.
pub trait Driven {
    /// An outcome to hand out.
    type Finished;

    /// The pending orders to the host. Take them after every call.
    fn take_actions(&mut self) -> Vec<Action>;

    /// The outcomes to hand out. Take them after every call, except a call that begins something: that call may come
    /// from the middle of the host's own work, so its failures wait for the end of the turn.
    fn take_finished(&mut self) -> Vec<Self::Finished>;

    /// How many connections to a server are established.
    fn open_connections(&self, server: usize) -> usize;

    /// Sends what was submitted in this turn.
    fn turn(&mut self, now: Instant);

    /// Receives and sends on a connection that is ready for it.
    fn ready(&mut self, lane: usize, now: Instant);

    /// Continues with the addresses of a name, or with the reason why there are none.
    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant);

    /// Does what is due: fails exchanges whose time is up.
    fn expire(&mut self, now: Instant);

    /// When to call [`Self::expire`] next. It becomes earlier only together with a pending action.
    fn deadline(&self) -> Option<Instant>;

    /// Call it when the host no longer watches a broken descriptor. The machine closes it, and reconnects if needed.
    fn forgotten(&mut self, lane: usize, now: Instant);

    /// The descriptors that the host watches, by lane.
    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_;

    /// Whether no caller waits for anything under way.
    fn is_idle(&self) -> bool;

    /// Closes all connections of an event loop that has ended. No waiter is resumed. Returns the unfinished operations,
    /// as far as the machine still has them.
    fn discard(&mut self) -> Vec<Self::Finished>;

    /// Fails everything and closes all connections.
    fn close(&mut self, now: Instant);
}

/// Turns an empty list of addresses into an error.
fn some_addresses(resolved: Result<Vec<Address>, String>) -> Result<Vec<Address>, String> {
    match resolved {
        Ok(addresses) if addresses.is_empty() => Err("it has no address".into()),
        resolved => resolved,
    }
}
