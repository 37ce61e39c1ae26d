//! The network and the clocks beneath a client. Tests replace them.
//!
//! The fuzz target `locks` runs the whole client on a platform in memory, against a server that is honest, errs or
//! lies.

use std::os::fd::AsRawFd;
use std::time::Instant;

use crate::clock::boot_time;
use crate::machine::Moment;
use pinyon_net::network::{Network, System};

/// The source of a client's connections and time.
pub trait Platform: Network<Stream: AsRawFd> + Clone {
    /// The clock for the deadlines of connections and commands.
    fn now(&self) -> Instant;

    /// The clock for the validity of locks. It continues during suspend.
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
