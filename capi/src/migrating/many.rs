//! A thread's requests about many keys on both pools: reads, stores and deletions go together, others one by one.

use std::sync::Arc;

use pinyon_cache::migration::{Crossing, Failing, Side, Wanted};
use pinyon_cache::operations::{self, AnyOperation, Beside, Fetched, FoundKey, Unanswered, Unreadable};
use pinyon_net::invalid::InvalidArgument;

use super::given::{both_keys, carry_out, hand_over, run, Given};
use crate::client::{Migrating, View};
use crate::errors::Error;
use crate::host::Host;
use crate::many;
use crate::requests::{with as flags, Verb};
use crate::status::Status;
use crate::structs::{empty, Reply, Request};

/// What goes together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read { cas: bool },
    Set,
    Delete,
    Other,
}

/// # Safety
/// The requests' bytes stay as they are.
pub unsafe fn run_many(
    view: &View,
    migrating: &Arc<Migrating>,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> Result<Status, Error> {
    for (request, reply) in requests.iter().zip(replies.iter_mut()) {
        let room = reply.begin(request.context);
        reply.keep(room);
        reply.finish(Status::Interrupted);
    }
    view.check_open()?;
    let mut from = 0;
    while from < requests.len() {
        let kind = kind_of(requests[from]);
        let together = requests[from..].iter().take_while(|request| kind != Kind::Other && kind_of(request) == kind);
        let to = from + together.count().max(1);
        let (some, their) = (&requests[from..to], &mut replies[from..to]);
        // SAFETY: the caller keeps the requests' bytes as they are.
        let is_whole = unsafe {
            match kind {
                Kind::Read { cas } => read(migrating, cas, some, their, host),
                Kind::Set => in_turn(migrating, [Side::New, Side::Old], some, their, host)?,
                Kind::Delete => in_turn(migrating, [Side::Old, Side::New], some, their, host)?,
                Kind::Other => {
                    let outcome = run(migrating, some[0], their[0], host);
                    outcome.unwrap_or_else(|error| their[0].fail(error)) != Status::Interrupted
                }
            }
        };
        if !is_whole {
            return Ok(Status::Interrupted);
        }
        from = to;
    }
    let failed = replies.iter().any(|reply| reply.status == Status::Failed as i32);
    Ok(if failed { Status::Failed } else { Status::Done })
}

fn kind_of(request: &Request) -> Kind {
    match (Verb::of(request), request.with & !flags::NO_FAILOVER) {
        (Ok(Verb::Get), _) if !request.tags.is_null() => Kind::Other, // which refuses it
        (Ok(Verb::Get), 0) => Kind::Read { cas: false },
        (Ok(Verb::Get), flags::CAS) => Kind::Read { cas: true },
        (Ok(Verb::Set), with) if with & flags::CAS == 0 => Kind::Set,
        (Ok(Verb::Delete), 0) => Kind::Delete,
        _ => Kind::Other,
    }
}

/// Stores in the new pool, and deletes in the old one what was stored; or deletes in the old pool, then in the new one.
/// False: it was interrupted.
///
/// # Safety
/// As for [`run_many`].
unsafe fn in_turn(
    migrating: &Migrating,
    [first, second]: [Side; 2],
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> Result<bool, Error> {
    let is_interrupted = |outcome| outcome == Status::Interrupted;
    // SAFETY: the caller keeps the requests' bytes as they are.
    if is_interrupted(unsafe { many::run_many(migrating.client(first), requests, replies, host)? }) {
        return Ok(false);
    }
    let left: Vec<usize> = (0..replies.len()).filter(|index| replies[*index].error.is_null()).collect();
    let delete = |index: &usize| {
        let Request { with, key, route, context, .. } = *requests[*index];
        Request { verb: Verb::Delete as u32, with: with & flags::NO_FAILOVER, key, route, context, ..empty() }
    };
    let deletions: Vec<Request> = left.iter().map(delete).collect();
    let (asked, mut deleted): (Vec<_>, Vec<Reply>) =
        deletions.iter().map(|request| (request, empty::<Reply>())).unzip();
    let mut answers: Vec<&mut Reply> = deleted.iter_mut().collect();
    // SAFETY: the deletions' keys are those of the caller's requests, which stay as they are.
    let outcome = unsafe { many::run_many(migrating.client(second), &asked, &mut answers, host) };
    let is_over = !is_interrupted(outcome?);
    for (index, mut answer) in left.into_iter().zip(deleted) {
        let reply = &mut *replies[index];
        let is_deleted = second == Side::New && answer.status == Status::Done as i32;
        if !answer.error.is_null() || is_deleted || !is_over {
            (reply.status, reply.error) = (answer.status, std::mem::replace(&mut answer.error, std::ptr::null_mut()));
        }
        answer.clear();
    }
    Ok(is_over)
}

/// Reads keys from both pools. False: it was interrupted.
///
/// # Safety
/// As for [`run_many`].
unsafe fn read(
    migrating: &Arc<Migrating>,
    cas: bool,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> bool {
    let (mut keys, mut places) = (Vec::new(), Vec::new());
    for (place, (asked, reply)) in requests.iter().zip(replies.iter_mut()).enumerate() {
        // SAFETY: the caller keeps the requests' bytes as they are.
        match unsafe { both_keys(migrating, asked) } {
            Ok(both) => {
                keys.push(both);
                places.push(place);
            }
            Err(error) => {
                reply.fail(error);
            }
        }
    }
    let each = operations::Request::Get(Beside::token(cas));
    let (count, wanted) = (keys.len(), Wanted::GetMany { each, failing: Failing::OfKeys });
    let given = Given::of_keys(migrating, keys, requests[0]);
    let mut crossing = Crossing::new(given, wanted, count, migrating.counts.clone(), migrating.ttl);
    if !carry_out(migrating, host, &mut crossing) {
        return false;
    }
    for place in &places {
        replies[*place].finish(Status::Miss);
    }
    for (side, operation) in crossing.finish().1 {
        let AnyOperation::Fetch(fetch) = operation else { unreachable!("it reads many keys") };
        let policy = fetch.policy();
        let Fetched { found, unreadable, unanswered, .. } = fetch.finish();
        for FoundKey { index, value, cas } in found {
            let reply = &mut *replies[places[index]];
            drop(reply.take_memory()); // the value has its own
            reply.value(value);
            reply.has_value(cas);
            hand_over(reply, side, host.place());
        }
        match unreadable {
            Some(Unreadable { error, .. }) if policy.unreadable_is_miss => {
                migrating.client(side).shared.directory.unreadable("", "get", &error.message);
            }
            Some(Unreadable { index, error }) => {
                replies[places[index]].fail(InvalidArgument::from(error).into());
            }
            None => {}
        }
        for Unanswered { keys, error } in unanswered {
            for key in keys {
                replies[places[key as usize]].fail((&error).into());
            }
        }
    }
    true
}
