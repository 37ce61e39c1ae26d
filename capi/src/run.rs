//! Requests whose replies a thread waits for, on a client of one pool or of two.

use crate::client::{Client, View};
use crate::errors::Error;
use crate::exported::exported;
use crate::guard::with;
use crate::host::Host;
use crate::many::{each, fail_each, run_many, to_fill_each};
use crate::near::in_memory;
use crate::replies::replied;
use crate::status::Status;
use crate::structs::{self, borrowed, Reply, Request};
use crate::{migrating, single};

/// # Safety
/// The request's bytes stay as they are.
#[inline]
pub unsafe fn run(view: &View, asked: &Request, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
    let room = reply.begin(asked.context);
    view.check_open()?;
    // SAFETY: the caller keeps the request's bytes as they are.
    unsafe {
        match &view.migrating {
            None => single::run(room, view, asked, reply, host),
            Some(migrating) => migrating::given::run(migrating, asked, reply, host),
        }
    }
}

/// # Safety
/// The requests' bytes stay as they are.
pub unsafe fn carry_out_many(
    client: &Client,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> Result<Status, Error> {
    // SAFETY: the caller keeps the requests' bytes as they are.
    unsafe {
        match &client.migrating {
            None => run_many(client, requests, replies, host),
            Some(migrating) => migrating::many::run_many(client, migrating, requests, replies, host),
        }
    }
}

exported! {
    fn pinyon_run(
        client: *const Client, request: *const Request, reply: *mut Reply, host: *const structs::Host
    ) -> i32 {
        replied(reply, |reply| with(client, |client| {
            let (asked, host) = (borrowed(request)?, Host::new(host)?);
            match client.is_near && in_memory(client, asked, reply, &host)? {
                true => Ok(Status::Done),
                false => run(client, asked, reply, &host),
            }
        }))
    }

    fn pinyon_run_many(
        client: *const Client, requests: *const Request, replies: *mut Reply, count: usize, host: *const structs::Host
    ) -> i32 {
        if count == 0 {
            return Status::Done as i32;
        }
        let Ok(mut replies) = to_fill_each(replies, count) else { return Status::Failed as i32 };
        let requests = each(requests, count);
        let outcome = with(client, |client| {
            carry_out_many(client, &requests?, &mut replies, &Host::new(host)?)
        });
        outcome.unwrap_or_else(|error| fail_each(&mut replies, &error)) as i32
    }
}
