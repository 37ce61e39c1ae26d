//! What a client stands on: the network and the clocks, which tests replace.

use std::os::fd::AsRawFd;
use std::time::Instant;

use crate::locks::clock::boot_time;
use crate::locks::machine::Moment;
use crate::network::{Network, System};

/// Where a client's connections and its time come from.
pub trait Platform: Network<Stream: AsRawFd> + Clone {
    /// What the deadlines of connections and commands are reckoned by.
    fn now(&self) -> Instant;

    /// What the validity of locks is reckoned by: it goes on while the machine is suspended.
    fn boot_time(&self) -> Moment;
}

impl Platform for System {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn boot_time(&self) -> Moment {
        boot_time()
    }
}
