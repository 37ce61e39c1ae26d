//! The commands of batches.

use pinyon_cache::operations::Unsuccessful;

use crate::errors::{Error, Failure};
use crate::requests::{with as flags, Verb};
use crate::structs::Request;

/// What its reply says of a command.
#[derive(Clone, Copy, Debug)]
pub struct Submitted {
    pub context: usize,
    pub verb: Verb,
}

/// A command that was not carried out.
pub type Failed = Unsuccessful<Submitted>;

/// The verb of a command, if a batch takes it.
pub fn verb_of(asked: &Request) -> Result<Verb, Error> {
    let verb = Verb::of(asked)?;
    if let Verb::Get | Verb::Gat | Verb::Lease | Verb::Metadata = verb {
        return Err(Failure::usage("a batch takes commands that change something: what it reads, nobody would see"));
    }
    if !asked.tags.is_null() {
        return Err(Failure::usage(
            "batches do not store values with tags: run each request (pinyon_run, pinyon_run_many)",
        ));
    }
    if asked.has(flags::INITIAL) {
        return Err(Failure::usage("in a batch, a missing counter cannot be made from an initial number: run it"));
    }
    Ok(verb)
}
