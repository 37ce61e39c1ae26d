//! A thread's requests about many keys on both pools: reads, stores and deletions go together, others one by one.

use std::sync::Arc;

use pinyon_cache::migration::{Plan, Side};

use super::course::{about, Course, End, Next, Stash};
use super::run::run;
use crate::client::{Client, Migrating, View};
use crate::errors::Error;
use crate::guard::with;
use crate::host::Host;
use crate::requests::{with as flags, Verb};
use crate::status::{marks, Status};
use crate::structs::{Reply, Request};
use crate::{many, single};

/// What goes together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read(Plan),
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
        // SAFETY: the caller says so.
        let is_whole = unsafe {
            match kind {
                Kind::Read(plan) => read(migrating, plan, some, their, host),
                Kind::Set => in_turn(migrating, [Side::New, Side::Old], some, their, host),
                Kind::Delete => in_turn(migrating, [Side::Old, Side::New], some, their, host),
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
        (Ok(Verb::Get), 0) => Kind::Read(Plan::GetMany),
        (Ok(Verb::Get), flags::CAS) => Kind::Read(Plan::GetsMany),
        (Ok(Verb::Set), with) if with & flags::CAS == 0 => Kind::Set,
        (Ok(Verb::Delete), 0) => Kind::Delete,
        _ => Kind::Other,
    }
}

/// Asks one pool. `None`: it was interrupted.
///
/// # Safety
/// As for [`run_many`].
unsafe fn ask(migrating: &Migrating, side: Side, requests: &[Request], host: &Host) -> Option<Vec<Stash>> {
    let requests: Vec<&Request> = requests.iter().collect();
    let mut replies: Vec<Stash> = requests.iter().map(|_| Stash::default()).collect();
    let mut places: Vec<&mut Reply> = replies.iter_mut().map(|stash| &mut stash.0).collect();
    // SAFETY: the caller says so.
    let outcome = unsafe {
        let run_many = |client: &Client| many::run_many(client, &requests, &mut places, &host.without_place());
        with(migrating.client(side), run_many)
    };
    let status = outcome.unwrap_or_else(|error| many::fail_each(&mut places, &error));
    (status != Status::Interrupted).then_some(replies)
}

/// Stores in the new pool, and deletes in the old one what was stored; or deletes in the old pool, then in the new one.
/// False: it was interrupted.
///
/// # Safety
/// As for [`run_many`].
unsafe fn in_turn(
    migrating: &Migrating,
    sides: [Side; 2],
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> bool {
    let given: Vec<Request> = requests.iter().map(|request| **request).collect();
    // SAFETY: the caller says so.
    let Some(first) = (unsafe { ask(migrating, sides[0], &given, host) }) else { return false };
    let mut left = Vec::new();
    for (index, stash) in first.into_iter().enumerate() {
        if stash.0.error.is_null() {
            left.push(index);
        }
        End::Reply(stash).fill(replies[index], None);
    }
    let delete = |index: &usize| Request { verb: Verb::Delete as u32, ..about(requests[*index]) };
    let deletions: Vec<Request> = left.iter().map(delete).collect();
    if deletions.is_empty() {
        return true;
    }
    // SAFETY: as above.
    let Some(second) = (unsafe { ask(migrating, sides[1], &deletions, host) }) else {
        for index in left {
            replies[index].finish(Status::Interrupted);
        }
        return false;
    };
    for (index, stash) in left.into_iter().zip(second) {
        let deletes = sides[1] == Side::New;
        if !stash.0.error.is_null() || deletes && stash.0.status == Status::Done as i32 {
            End::Reply(stash).fill(replies[index], None);
        }
    }
    true
}

/// Reads keys from both pools. False: it was interrupted.
///
/// # Safety
/// As for [`run_many`].
unsafe fn read(
    migrating: &Arc<Migrating>,
    plan: Plan,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> bool {
    let given = |index: usize| requests[index];
    let mut course = Course::of_many(migrating, plan, requests.len());
    let (mut found, mut scratch, inside) = (Vec::new(), Stash::default(), host.without_place());
    found.resize_with(requests.len(), || None);
    let mut next = course.begin(given);
    let end = loop {
        next = match next {
            Next::Read { pool, keys, .. } => {
                let asked: Vec<Request> = keys.iter().map(|key| *requests[*key]).collect();
                // SAFETY: the caller says so.
                let Some(read) = (unsafe { ask(migrating, pool, &asked, host) }) else { return false };
                let mut hits = Vec::new();
                for (key, mut stash) in keys.into_iter().zip(read) {
                    let (is_hit, failed) = (stash.0.status == Status::Done as i32, !stash.0.error.is_null());
                    // A key that the new pool cannot tell of fails, as it does alone: the old pool is not asked.
                    if is_hit || failed && pool == Side::New {
                        hits.push(key);
                    }
                    if is_hit && pool == Side::Old {
                        stash.0.marks |= marks::OF_OLD;
                    }
                    if is_hit || failed && found[key].is_none() {
                        found[key] = Some(stash);
                    }
                }
                course.found(hits, given)
            }
            Next::Ask(side, request) => {
                // SAFETY: the request's bytes are the caller's, or the course's.
                let asked = unsafe { single::run(migrating.client(side), &request, &mut scratch.0, &inside) };
                if asked.unwrap_or_else(|error| scratch.0.fail(error)) == Status::Interrupted {
                    return false;
                }
                course.replied(&mut scratch, given)
            }
            Next::Over(end) => break end,
        };
    };
    if let End::Status(Status::Interrupted) = end {
        return false;
    }
    for (key, error) in std::mem::take(&mut course.told) {
        let mut stash = Stash::default();
        stash.0.fail(error);
        found[key].get_or_insert(stash);
    }
    if let End::Failed(error) = end {
        let mut stash = Stash::default();
        stash.0.fail(error);
        found[course.key()] = Some(stash);
    }
    for (reply, stash) in replies.iter_mut().zip(found) {
        match stash {
            Some(stash) => End::Reply(stash).fill(reply, host.place()),
            None => reply.finish(Status::Miss),
        };
    }
    true
}
