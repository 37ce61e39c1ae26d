//! A thread's request on both pools: it waits for one reply after the other.

use std::sync::Arc;

use super::course::{Course, End, Next, Stash};
use crate::client::Migrating;
use crate::errors::Error;
use crate::host::Host;
use crate::requests::Verb;
use crate::single;
use crate::status::Status;
use crate::structs::{Reply, Request};

/// # Safety
/// The request's bytes stay as they are.
pub unsafe fn run(
    migrating: &Arc<Migrating>,
    asked: &Request,
    reply: &mut Reply,
    host: &Host,
) -> Result<Status, Error> {
    let mut course = Course::new(migrating, Verb::of(asked)?, asked);
    let given = |_| asked;
    let (mut scratch, inside) = (Stash::default(), host.without_place());
    let mut next = course.begin(given);
    loop {
        match next {
            Next::Ask(side, request) => {
                // SAFETY: the request's bytes are the caller's, or the course's.
                let asked = unsafe { single::run(migrating.client(side), &request, &mut scratch.0, &inside) };
                let status = asked.unwrap_or_else(|error| scratch.0.fail(error));
                if status == Status::Interrupted {
                    return Ok(reply.finish(status));
                }
            }
            Next::Over(end) => return Ok(end.fill(reply, host.place())),
            Next::Read { .. } => return Ok(End::Values.fill(reply, None)),
        }
        next = course.replied(&mut scratch, given);
    }
}
