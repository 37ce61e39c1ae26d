//! Runs an operation in a thread, by waiting.

use std::time::Instant;

use super::alone::{alone, give_back};
use super::known::known;
use super::together::together;
use super::{Failure, Timer};
use crate::directory::Directory;
use crate::fleet::Fleet;
use crate::operations::{Asks, Next, Operation};
use pinyon_net::error::Sent;
use pinyon_net::host::Host;

/// Runs an operation until it is over. Its type says how to take the outcome.
///
/// All its asks share the client's timeout. An interrupt from the host ends it at once and closes the connections in
/// use.
#[inline]
pub fn run<H: Host>(directory: &Directory, host: &H, operation: &mut impl Operation) -> Result<(), H::Interrupt> {
    match directory.as_fixed() {
        Some(fleet) => carry_out(fleet, host, operation),
        None => discover_first(directory, host, operation),
    }
}

#[cold]
fn discover_first<H: Host>(
    directory: &Directory,
    host: &H,
    operation: &mut impl Operation,
) -> Result<(), H::Interrupt> {
    match known(directory, host) {
        Ok(fleet) => go_on(&fleet, host, &mut Timer::start(Instant::now(), fleet.options().timeout), operation),
        Err(Failure::Interrupted(interrupt)) => {
            if operation.outlives_its_caller() && !operation.may_win() {
                let fleet = directory.known();
                if let Asks::One(ask) = operation.begin(&fleet, Instant::now()) {
                    give_back(&fleet, ask, operation);
                }
            }
            Err(interrupt)
        }
        Err(Failure::Error(error)) => {
            operation.fail(error.of(operation.name(), Sent::No));
            Ok(())
        }
    }
}

#[inline]
fn carry_out<H: Host>(fleet: &Fleet, host: &H, operation: &mut impl Operation) -> Result<(), H::Interrupt> {
    let now = Instant::now();
    let mut timer = Timer::start(now, fleet.options().timeout);
    let next = match operation.begin(fleet, now) {
        Asks::One(ask) => alone(fleet, host, ask, now, &mut timer, operation)?,
        Asks::Many(asks) => together(fleet, host, asks, &mut timer, operation)?,
        Asks::None => return Ok(()),
    };
    match next {
        Next::Nothing => Ok(()),
        Next::Again => go_on(fleet, host, &mut timer, operation),
    }
}

/// Begins the operation again until it has nothing left to ask.
#[cold]
fn go_on<H: Host>(
    fleet: &Fleet,
    host: &H,
    timer: &mut Timer,
    operation: &mut impl Operation,
) -> Result<(), H::Interrupt> {
    loop {
        let next = match operation.begin(fleet, Instant::now()) {
            Asks::One(ask) => together(fleet, host, vec![ask], timer, operation)?,
            Asks::Many(asks) => together(fleet, host, asks, timer, operation)?,
            Asks::None => return Ok(()),
        };
        if next == Next::Nothing {
            return Ok(());
        }
    }
}
