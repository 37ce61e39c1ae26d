//! One request on one pool, whose reply a thread waits for.

use std::cell::Cell;

use pinyon_cache::dialect::Packing;
use pinyon_cache::operations::{Everywhere, Single};
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
    if verb.is_for_all() {
        return ask_servers(view, Everywhere::new(for_all(verb, asked)?), reply, host);
    }
    let mut scratch = Vec::new();
    // SAFETY: the caller says so.
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
    if let Err(Interrupted) = blocking::run(&view.shared.directory, host, &mut single) {
        return Ok(reply.finish(Status::Interrupted));
    }
    Ok(reply.fill::<Placing<&Packing>>(&view.shared.directory, single.policy(), verb, single.take_answer()))
}

#[cold]
fn ask_servers(view: &View, mut asking: Everywhere, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
    match blocking::run(&view.shared.directory, host, &mut asking) {
        Ok(()) => Ok(asked_servers([asking], reply)),
        Err(Interrupted) => Ok(reply.finish(Status::Interrupted)),
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
