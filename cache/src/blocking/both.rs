//! Runs a request on both pools of a migration in a thread, by waiting.

use super::run;
use crate::directory::Directory;
use crate::migration::{Crossing, Next, Pools, Side};
use pinyon_net::host::Host;

/// Runs a request on both pools until it is over. Returns false if converting a value was interrupted.
pub fn run_on_both<P: Pools, H: Host>(
    old: &Directory,
    new: &Directory,
    host: &H,
    crossing: &mut Crossing<P>,
) -> Result<bool, H::Interrupt> {
    let mut next = crossing.begin();
    loop {
        next = match next {
            Next::Run(side, mut operation) => {
                run(if side == Side::Old { old } else { new }, host, &mut operation)?;
                crossing.ran(operation)
            }
            Next::Over => return Ok(true),
            Next::Interrupted => return Ok(false),
        };
    }
}
