//! Gets that memory answers, on a client with hot keys: nothing of an operation is made for them.

use std::time::Instant;

use crate::client::View;
use crate::errors::Error;
use crate::host::Host;
use crate::requests::{with, Verb};
use crate::status::Status;
use crate::structs::{Reply, Request};

/// Fills a reply with a value from memory. Returns false if a server must be asked: the reply is as it was then.
///
/// # Safety
/// The request's bytes stay as they are.
#[inline(never)]
pub unsafe fn in_memory(view: &View, asked: &Request, reply: &mut Reply, host: &Host) -> Result<bool, Error> {
    let more = (asked.with & (with::CAS | with::TTL | with::METADATA)) as usize | asked.tags.addr();
    if Verb::of(asked)? != Verb::Get || more != 0 {
        return Ok(false);
    }
    view.check_open()?;
    let Some(near) = view.shared.directory.near() else { return Ok(false) };
    // SAFETY: the caller keeps the request's bytes as they are.
    let given = unsafe { asked.key.slice() };
    let Some(held) = near.fresh(&view.keys, given, Instant::now()) else { return Ok(false) };
    if !asked.has(with::RAW) && view.shared.packing.dialect().is_compressed(held.client_flags) {
        return Ok(false);
    }
    near.used(&held);
    reply.empty(asked.context);
    reply.place(&held.bytes, held.client_flags, host.place());
    reply.finish(Status::Done);
    Ok(true)
}
