//! Many plain gets, as one operation that shares lines and keeps nothing for each request.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use pinyon_core::blocking;
use pinyon_core::dialect::Packing;
use pinyon_core::invalid::InvalidArgument;
use pinyon_core::operations::{Fetch, Fetched, Head, Keys, Unanswered, Values};
use pinyon_core::{Destination, Value};

use crate::client::View;
use crate::host::{Host, Interrupted};
use crate::placing::Placing;
use crate::replies::Status;
use crate::requests::{with as flags, Verb};
use crate::structs::{Place, Reply, Request};

/// What the gets of one operation have in common.
const COMMON: u32 = flags::CAS | flags::NO_FAILOVER;
/// What such gets must not ask for.
const MORE: u32 = flags::TTL | flags::METADATA;

/// Reads many keys, if all requests are plain gets.
///
/// # Safety
/// The requests' bytes stay as they are.
pub unsafe fn read_many(view: &View, requests: &[&Request], replies: &mut [&mut Reply], host: &Host) -> Option<Status> {
    let (first, others) = requests.split_first()?;
    let are_alike =
        |asked: &&Request| asked.verb == Verb::Get as u32 && asked.with & (COMMON | MORE) == first.with & COMMON;
    if others.is_empty() || !requests.iter().all(are_alike) {
        return None;
    }
    let mut keys = Keys::with_capacity(requests.len());
    for (asked, reply) in requests.iter().zip(replies.iter_mut()) {
        // SAFETY: the caller says so.
        unsafe {
            match asked.route.is_given() {
                false => keys.push(&view.keys, asked.key.slice()),
                true => keys.push_asked_about(&view.keys, asked.key.slice(), asked.route.slice()),
            }
            .ok()?;
        }
        reply.empty(asked.context);
        reply.finish(Status::Miss);
    }
    let values =
        Reading { packing: &view.shared.packing, place: host.place(), requests, replies: RefCell::new(replies) };
    let policy = first.policy(view);
    let mut fetch = Fetch::new(keys, first.has(flags::CAS), &values, policy).named("get");
    let outcome = blocking::run(&view.shared.directory, host, &mut fetch);
    let Fetched { found, unanswered, .. } = fetch.finish();
    let replies = values.replies.into_inner();
    if let Err(Interrupted) = outcome {
        for reply in replies {
            reply.lose_value();
            reply.finish(Status::Interrupted);
        }
        return Some(Status::Interrupted);
    }
    for one in found {
        replies[one.index].has_value(one.cas);
    }
    for Unanswered { keys, error } in unanswered.into_iter().filter(|one| !policy.forgives(&one.error)) {
        for key in keys {
            replies[key as usize].lose_value();
            replies[key as usize].fail((&error).into());
        }
    }
    let mut status = Status::Done;
    for reply in replies {
        match reply.status {
            0 => {}
            failed if failed == Status::Failed as i32 => status = Status::Failed,
            _ => reply.lose_value(),
        }
    }
    Some(status)
}

/// Puts each value where its request wants it, and fills the reply.
struct Reading<'r, 'm> {
    packing: &'r Packing,
    place: Option<Place>,
    requests: &'r [&'r Request],
    replies: RefCell<&'r mut [&'m mut Reply]>,
}

impl<'r> Reading<'r, '_> {
    /// With the memory of the reply.
    #[inline]
    fn placing(&self, index: usize, reply: &mut Reply) -> Placing<&'r Packing> {
        let asked = &self.requests[index];
        Placing {
            packing: self.packing,
            place: self.place,
            context: asked.context,
            is_raw: asked.has(flags::RAW),
            room: Cell::new(reply.take_memory()),
        }
    }
}

impl Values for &Reading<'_, '_> {
    type Value = ();
    type Error = Infallible;

    #[inline]
    fn read_of(&self, index: usize, head: &Head, value: Value<'_>, server: &str) -> Result<(), Infallible> {
        let reply = &mut *self.replies.borrow_mut()[index];
        if reply.status != Status::Miss as i32 {
            // An earlier try found a value that could not be read.
            reply.lose_value();
            reply.finish(Status::Miss);
        }
        let placing = self.placing(index, reply);
        match placing.read(head, value, server) {
            Ok(placed) => drop(reply.value(placed)),
            Err(error) => drop(reply.fail(InvalidArgument::from(error).into())),
        }
        reply.keep(placing.room.take());
        Ok(())
    }

    fn destination_of(&self, index: usize, head: &Head) -> Box<dyn Destination> {
        let reply = &mut *self.replies.borrow_mut()[index];
        self.placing(index, reply).destination(head)
    }

    fn read(&self, _head: &Head, _value: Value<'_>, _server: &str) -> Result<(), Infallible> {
        unreachable!("each key is read by its index")
    }
}
