//! Machines that an event loop drives: what any host does with one, whatever its connections are for.
//!
//! A machine never waits and never calls its host. After each call the host carries out the [`Action`]s and resumes
//! what has finished; how something begins is each machine's own. Two drivers do this for a host:
//!
//! - [`LoopMachine`] calls the host's event loop back, which watches many descriptors, ends turns and keeps time
//!   ([`LoopHost`]). [`Drivers`] says which driver belongs to which loop.
//!   Coroutines that wait by switching to others find their outcome in a [`Slot`].
//! - [`Polled`] never calls its host. It is for hosts that wait for one descriptor only, have no end of a turn, or do not
//!   resolve names: it watches by a [`Poller`] of its own, and what is over is asked for.

mod drivers;
mod event_loop;
mod polled;
mod poller;
mod slot;
#[cfg(test)]
mod tests;
mod turns;

pub use drivers::Drivers;
pub use event_loop::{InUse, LoopHost, LoopMachine};
pub use polled::Polled;
pub use poller::Poller;
pub use slot::Slot;
pub use turns::Answered;

pub use crate::doorbell::{Doorbell, Wake};
pub use crate::resolver::Resolving;

use std::os::fd::RawFd;
use std::time::Instant;

use crate::address::Address;

/// What the host is to do with its event loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve the name and call [`Driven::connect`].
    Resolve { lane: usize, name: String, port: u16 },
    /// Call [`Driven::ready`] when the descriptor is readable, or writable where that is asked for; in place of
    /// what was asked for before.
    Watch { lane: usize, fd: RawFd, write: bool },
    /// Stop watching the descriptor, then call [`Driven::forgotten`], which closes it.
    Forget { lane: usize, fd: RawFd },
    /// Call [`Driven::turn`] at the end of this turn.
    EndTurn,
}

impl Action {
    /// What the host is to do to watch a connection, where it watched it before by this or another descriptor: one that
    /// connects to the next address has a new one.
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

/// A machine of one event loop. Its connections are known by their lanes, numbered from 0.
pub trait Driven {
    /// Something that is over.
    type Finished;

    /// What the host is to do now; ask after every call.
    fn take_actions(&mut self) -> Vec<Action>;

    /// What is over; ask after every call but one that begins something, which may be amid the host's own work: what
    /// fails at once is left for the end of the turn.
    fn take_finished(&mut self) -> Vec<Self::Finished>;

    /// How many connections to a server are established.
    fn open_connections(&self, server: usize) -> usize;

    /// Sends what was submitted in this turn.
    fn turn(&mut self, now: Instant);

    /// Receives and sends on a connection that is ready for it.
    fn ready(&mut self, lane: usize, now: Instant);

    /// Goes on with the addresses of a name, or why there are none.
    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant);

    /// Does what is due: fails what has waited too long.
    fn expire(&mut self, now: Instant);

    /// When to call [`Self::expire`] next. It is never sooner than before unless there is an action to be carried out.
    fn deadline(&self) -> Option<Instant>;

    /// The host has stopped watching a descriptor that broke: it is closed, and another one opened if needed.
    fn forgotten(&mut self, lane: usize, now: Instant);

    /// The descriptors that the host watches.
    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_;

    /// Whether nothing is on its way that anybody waits for.
    fn is_idle(&self) -> bool;

    /// Closes all connections, of an event loop that is over: there is nobody left to resume.
    fn discard(&mut self);

    /// Fails everything and closes all connections.
    fn close(&mut self, now: Instant);
}

/// What a machine is told of a name that a resolver knows no address of.
fn some_addresses(resolved: Result<Vec<Address>, String>) -> Result<Vec<Address>, String> {
    match resolved {
        Ok(addresses) if addresses.is_empty() => Err("it has no address".into()),
        resolved => resolved,
    }
}
