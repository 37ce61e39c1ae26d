//! The fleet to work with: known already, or discovered now.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Failure;
use crate::directory::{Directory, Sight, LOOK_AGAIN};
use crate::fleet::Fleet;
use pinyon_net::host::Host;

/// The client's servers as known now. It waits only while no server is known. The thread that finds a look due drives
/// it, for at most a tenth of the client's timeout; later threads continue it.
#[inline]
pub fn known<H: Host>(directory: &Directory, host: &H) -> Result<Arc<Fleet>, Failure<H::Interrupt>> {
    match directory.as_fixed() {
        Some(fleet) => Ok(fleet.clone()),
        None => discover(directory, host),
    }
}

fn discover<H: Host>(directory: &Directory, host: &H) -> Result<Arc<Fleet>, Failure<H::Interrupt>> {
    let begun = Instant::now();
    let mut sight = directory.look(begun);
    let began = sight.began;
    while sight.is_looking && (began || !sight.fleet.is_known()) {
        let left = (begun + patience(&sight)).saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        host.unlocked(|| std::thread::sleep(left.min(LOOK_AGAIN / 2))).map_err(Failure::Interrupted)?;
        host.interrupted().map_err(Failure::Interrupted)?;
        sight = directory.look(Instant::now());
    }
    if sight.fleet.is_known() {
        return Ok(sight.fleet);
    }
    Err(sight.failure.unwrap_or_else(|| directory.no_servers()).into())
}

fn patience(sight: &Sight) -> Duration {
    let timeout = sight.fleet.options().timeout;
    if sight.fleet.is_known() {
        timeout / 10
    } else {
        timeout
    }
}
