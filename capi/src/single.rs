//! One request on one pool, whose reply a thread waits for.

use std::cell::Cell;

use pinyon_cache::dialect::Packing;
use pinyon_cache::operations::{Change, Everywhere, SentData, Single};
use pinyon_cache::{blocking, Data};

use crate::answers::Answers;
use crate::client::View;
use crate::errors::Error;
use crate::host::{Host, Interrupted};
use crate::placing::Placing;
use crate::requests::{for_all, with as flags, Keyed, Verb};
use crate::status::Status;
use crate::structs::{Reply, Request};

/// Fills a reply that is empty, but for this memory.
///
/// # Safety
/// The request's bytes stay as they are.
#[inline]
pub unsafe fn run(
    room: Vec<u8>,
    view: &View,
    asked: &Request,
    reply: &mut Reply,
    host: &Host,
) -> Result<Status, Error> {
    let verb = Verb::of(asked)?;
    if verb.has_no_key() {
        // SAFETY: the caller keeps the request's bytes as they are.
        return unsafe { run_without_key(view, verb, asked, reply, host) };
    }
    let mut scratch = Vec::new();
    // SAFETY: the caller keeps the request's bytes as they are.
    let (key, keyed) = unsafe { (asked.key(view, &mut scratch)?, Keyed::of(view, verb, asked)?) };
    let data = keyed.data.as_deref().map_or(Data::None, Data::Copied);
    let placing = Placing {
        packing: &*view.shared.packing,
        place: host.place(),
        context: asked.context,
        is_raw: asked.has(flags::RAW),
        room: Cell::new(room),
    };
    let mut single = Single::new(keyed.request, key, data, placing, asked.policy(view));
    // SAFETY: the caller keeps the request's tags alive.
    unsafe { asked.tag(view, verb, &mut single)? };
    if let Err(Interrupted) = blocking::run(&view.shared.directory, host, &mut single) {
        return Ok(reply.finish(Status::Interrupted));
    }
    Ok(reply.fill::<Placing<&Packing>>(&view.shared.directory, single.policy(), verb, single.take_answer()))
}

/// # Safety
/// As for [`run`].
#[cold]
unsafe fn run_without_key(
    view: &View,
    verb: Verb,
    asked: &Request,
    reply: &mut Reply,
    host: &Host,
) -> Result<Status, Error> {
    let directory = &view.shared.directory;
    if let Verb::InvalidateTags = verb {
        // SAFETY: the caller keeps the request's bytes as they are.
        let mut change: Change<Option<Vec<u8>>> = unsafe { asked.invalidation(view)? };
        return Ok(match blocking::run(directory, host, &mut change) {
            Ok(()) => invalidated(change, reply),
            Err(Interrupted) => reply.finish(Status::Interrupted),
        });
    }
    let mut asking = Everywhere::new(for_all(view, verb, asked)?);
    Ok(match blocking::run(directory, host, &mut asking) {
        Ok(()) => asked_servers([asking], reply),
        Err(Interrupted) => reply.finish(Status::Interrupted),
    })
}

/// Fills a reply with what came of invalidating tags.
pub fn invalidated<D: SentData>(change: Change<D>, reply: &mut Reply) -> Status {
    match change.finish().failures.raised() {
        Some(error) => reply.fail((&error).into()),
        None => reply.finish(Status::Done),
    }
}

/// Fills a reply with what every server answered, of each pool that was asked. One that failed has an error of its own, too.
pub fn asked_servers(asked: impl IntoIterator<Item = Everywhere>, reply: &mut Reply) -> Status {
    let (mut answers, mut first): (Option<Answers>, Option<Error>) = (None, None);
    for mut asking in asked {
        let command = asking.asked().clone();
        let failures = asking.of_servers();
        match asking.finish() {
            Ok(lines) => {
                let mut more = Answers::of_servers(&command, &lines, &failures);
                match &mut answers {
                    Some(answers) => answers.append(&mut more),
                    None => answers = Some(more),
                }
                first = first.or(failures.first().map(Error::from));
            }
            Err(error) => first = first.or(Some((&error).into())),
        }
    }
    answers.into_iter().for_each(|answers| reply.answer_all(answers));
    match first {
        Some(error) => reply.fail(error),
        None => reply.finish(Status::Done),
    }
}
