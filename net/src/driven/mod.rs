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

mod actions;
mod alarm;
mod drivers;
mod event_loop;
mod keeper;
mod lent;
mod polled;
mod poller;
mod slot;
mod stepwise;
#[cfg(test)]
mod tests;
mod turns;

pub use actions::{Action, Actions};
pub use alarm::HostAlarm;
pub use drivers::Drivers;
pub use event_loop::{LoopHost, LoopMachine};
pub use keeper::Keeper;
pub use lent::{InUse, Lent};
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

/// A machine for one event loop. It numbers its connections from 0, as lanes.
pub trait Driven {
    /// An outcome to hand out.
    type Finished;

    /// The pending orders to the host, if there are any. Take them after every call.
    fn take_actions(&mut self) -> Option<Actions>;

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
