//! Runs an operation by waiting.

use std::sync::Arc;
use std::time::Instant;

use super::alone::alone;
use super::known::known;
use super::together::together;
use super::{Failure, Host, Timer};
use crate::directory::Directory;
use crate::error::Sent;
use crate::fleet::Fleet;
use crate::operations::{Asks, Next, Operation};

/// Runs an operation to its end. Its type says how to take the outcome then.
///
/// All that it asks has the client's whole timeout. An interrupt of the host's ends it at once, and the connections in
/// use are closed.
#[inline]
pub fn run<H: Host>(directory: &Directory, host: &H, operation: &mut impl Operation) -> Result<(), H::Interrupt> {
    match known(directory, host) {
        Ok(fleet) => carry_out(&fleet, host, operation),
        Err(Failure::Interrupted(interrupt)) => Err(interrupt),
        Err(Failure::Error(error)) => {
            operation.fail(error.of(operation.name(), Sent::No));
            Ok(())
        }
    }
}

fn carry_out<H: Host>(fleet: &Arc<Fleet>, host: &H, operation: &mut impl Operation) -> Result<(), H::Interrupt> {
    let mut now = Instant::now();
    let mut timer = Timer::start(now, fleet.options().timeout);
    loop {
        let next = match operation.begin(fleet, now) {
            Asks::None => return Ok(()),
            Asks::One(ask) => alone(fleet, host, ask, now, &mut timer, operation)?,
            Asks::Many(asks) => together(fleet, host, asks, &mut timer, operation)?,
        };
        match next {
            Next::Nothing => return Ok(()),
            Next::Again => now = Instant::now(),
        }
    }
}
