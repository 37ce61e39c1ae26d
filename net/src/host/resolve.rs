//! Resolves host names within a deadline, and responds to signals meanwhile.

use std::net::SocketAddr;
use std::time::Instant;

use super::Host;
use crate::doorbell::Wake;
use crate::resolver::Resolving;

/// Why a name was not resolved.
pub enum Unresolved<I> {
    Failed(String),
    Interrupted(I),
}

/// Resolves a host name by `deadline`.
pub fn resolve<H: Host>(
    host: &H,
    name: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, Unresolved<H::Interrupt>> {
    let failed = |error: std::io::Error| Unresolved::Failed(error.to_string());
    let resolving = Resolving::begin(name, port).map_err(failed)?;
    loop {
        match host.unlocked(|| resolving.wait(deadline)).map_err(Unresolved::Interrupted)? {
            Wake::Ready => {}
            Wake::Interrupted => host.interrupted().map_err(Unresolved::Interrupted)?,
            Wake::Deadline => return Err(Unresolved::Failed("the resolver did not answer in time".into())),
        }
        if let Some(resolved) = resolving.take() {
            return resolved.map_err(failed);
        }
    }
}
