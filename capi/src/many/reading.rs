//! Many plain gets as one operation, which shares lines and keeps little for each key.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use pinyon_cache::dialect::{Packing, ValueError};
use pinyon_cache::operations::{self, Beside, Fetch, Fetched, FoundKey, Head, Keys, Policy, Unanswered, Values};
use pinyon_cache::spare::SpareVector;
use pinyon_cache::{blocking, Destination, Value};
use pinyon_net::invalid::InvalidArgument;

use crate::client::View;
use crate::errors::Error;
use crate::host::{Host, Interrupted};
use crate::placing::{Placed, Placing};
use crate::requests::{with as flags, Verb};
use crate::status::Status;
use crate::structs::{Place, Reply, Request};

/// What is known of each key, by its index.
pub trait Slots {
    /// Takes a value that was read for this key. A later one may replace it, and it counts only once it is said to be found.
    fn take(&self, index: usize, read: impl FnOnce(Placing<&Packing>) -> Result<Placed, ValueError>);
    /// Where a large value goes.
    fn placing(&self, index: usize) -> Placing<&Packing>;
    fn found(&self, index: usize, cas: Option<u64>);
    fn failed(&self, index: usize, error: &pinyon_net::Error);
}

thread_local! {
    static FOUND: SpareVector<FoundKey<()>> = const { SpareVector::new() };
}

/// Reads keys. `S` is told what came of each, but for those that are missing.
pub fn read<S: Slots>(
    view: &View,
    host: &Host,
    keys: Keys,
    cas: bool,
    policy: Policy,
    slots: &S,
) -> Result<(), Interrupted> {
    let each = operations::Request::Get(Beside::token(cas));
    let mut fetch = Fetch::new(keys, each, Reading(slots), policy).named("get").finding_into(SpareVector::take(&FOUND));
    blocking::run(&view.shared.directory, host, &mut fetch)?;
    let Fetched { found, unanswered, .. } = fetch.finish();
    tell(slots, policy, &found, unanswered);
    SpareVector::give(&FOUND, found);
    Ok(())
}

/// Says what was found, and what failed.
pub fn tell<V>(slots: &impl Slots, policy: Policy, found: &[FoundKey<V>], unanswered: Vec<Unanswered>) {
    for one in found {
        slots.found(one.index, one.cas);
    }
    for Unanswered { keys, error } in unanswered.into_iter().filter(|one| !policy.forgives(&one.error)) {
        keys.into_iter().for_each(|key| slots.failed(key as usize, &error));
    }
}

struct Reading<'s, S>(&'s S);

impl<S: Slots> Values for Reading<'_, S> {
    type Value = ();
    type Error = Infallible;

    #[inline]
    fn read_of(&self, index: usize, head: &Head, value: Value<'_>, server: &str) -> Result<(), Infallible> {
        self.0.take(index, |placing| placing.read(head, value, server));
        Ok(())
    }

    fn destination_of(&self, index: usize, head: &Head) -> Box<dyn Destination> {
        self.0.placing(index).destination(head)
    }

    fn read(&self, _head: &Head, _value: Value<'_>, _server: &str) -> Result<(), Infallible> {
        unreachable!("each key is read by its index")
    }
}

/// What the gets of one operation have in common.
const COMMON: u32 = flags::CAS | flags::NO_FAILOVER;
/// What such gets must not ask for.
const MORE: u32 = flags::TTL | flags::METADATA;

/// Carries out many requests, if all are plain gets.
///
/// # Safety
/// The requests' bytes stay as they are.
pub unsafe fn read_many(view: &View, requests: &[&Request], replies: &mut [&mut Reply], host: &Host) -> Option<Status> {
    let (first, others) = requests.split_first()?;
    let are_alike = |asked: &&Request| {
        let differs = asked.with & (COMMON | MORE) ^ first.with & COMMON;
        asked.verb == Verb::Get as u32 && differs as usize | asked.tags.addr() == 0
    };
    if others.is_empty() || !requests.iter().all(are_alike) {
        return None;
    }
    let mut keys = Keys::with_capacity(requests.len());
    for (asked, reply) in requests.iter().zip(replies.iter_mut()) {
        // SAFETY: the caller keeps the requests' bytes as they are.
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
    let slots =
        Replies { packing: &view.shared.packing, place: host.place(), requests, replies: RefCell::new(replies) };
    let outcome = read(view, host, keys, first.has(flags::CAS), first.policy(view), &slots);
    let mut status = Status::Done;
    for reply in slots.replies.into_inner() {
        match (reply.status, &outcome) {
            (_, Err(Interrupted)) => {
                reply.lose_value();
                status = reply.finish(Status::Interrupted);
            }
            (0, Ok(())) => {}
            (failed, Ok(())) if failed == Status::Failed as i32 => status = Status::Failed,
            (_, Ok(())) => reply.lose_value(),
        }
    }
    Some(status)
}

/// Replies, which are misses until something else is known.
struct Replies<'r, 'm> {
    packing: &'r Packing,
    place: Option<Place>,
    requests: &'r [&'r Request],
    replies: RefCell<&'r mut [&'m mut Reply]>,
}

impl<'r> Replies<'r, '_> {
    /// With the memory of the reply.
    #[inline]
    fn placing_in(&self, index: usize, reply: &mut Reply) -> Placing<&'r Packing> {
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

impl Slots for Replies<'_, '_> {
    #[inline]
    fn take(&self, index: usize, read: impl FnOnce(Placing<&Packing>) -> Result<Placed, ValueError>) {
        let reply = &mut *self.replies.borrow_mut()[index];
        if reply.status != Status::Miss as i32 {
            // An earlier try found a value that could not be read.
            reply.lose_value();
            reply.finish(Status::Miss);
        }
        match read(self.placing_in(index, reply)) {
            Ok(placed) => drop(reply.value(placed)),
            Err(error) => drop(reply.fail(InvalidArgument::from(error).into())),
        }
    }

    fn placing(&self, index: usize) -> Placing<&Packing> {
        self.placing_in(index, self.replies.borrow_mut()[index])
    }

    #[inline]
    fn found(&self, index: usize, cas: Option<u64>) {
        self.replies.borrow_mut()[index].has_value(cas);
    }

    fn failed(&self, index: usize, error: &pinyon_net::Error) {
        let reply = &mut *self.replies.borrow_mut()[index];
        reply.lose_value();
        reply.fail(Error::from(error));
    }
}
