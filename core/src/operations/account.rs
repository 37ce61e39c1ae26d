//! The account of a quiet batch: what each command came to, in threads and in event loops.

use pinyon_proto::Status;

use crate::error::Error;

/// A command of a quiet batch that was not carried out.
#[derive(Debug)]
pub struct Unsuccessful<K> {
    /// Commands are numbered as they were submitted, from 0.
    pub number: usize,
    /// Its key, as the host keeps it.
    pub key: K,
    pub command: &'static str,
    pub why: Broken,
}

/// Why a command of a quiet batch was not carried out.
#[derive(Debug)]
pub enum Broken {
    /// The server said so.
    Refused(Status),
    Failed(Error),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Refused(Status::NotStored) => f.write_str("not stored"),
            Broken::Refused(Status::NotFound | Status::Miss) => f.write_str("not found"),
            Broken::Refused(Status::Exists) => f.write_str("changed meanwhile"),
            Broken::Refused(_) => f.write_str("refused"),
            Broken::Failed(error) => error.fmt(f),
        }
    }
}

/// The commands of a batch, or of a run of one. No policy forgives a failure here: whoever leaves the block wants to know.
pub(crate) struct Account<K> {
    next: usize,
    unsuccessful: Vec<Unsuccessful<K>>,
}

impl<K> Account<K> {
    /// `first`: the number of its first command.
    pub(crate) fn from(first: usize) -> Self {
        Self { next: first, unsuccessful: Vec::new() }
    }

    /// The number of a command that is submitted now.
    #[inline]
    pub(crate) fn next_number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// The outcome of a command is known: what the server said, or why it said nothing.
    #[inline]
    pub(crate) fn note(&mut self, number: usize, command: &'static str, key: K, outcome: Result<Status, Error>) {
        let why = match outcome {
            Ok(Status::Done | Status::Hit) => return,
            Ok(status) => Broken::Refused(status),
            Err(error) => Broken::Failed(error),
        };
        self.unsuccessful.push(Unsuccessful { number, key, command, why });
    }

    /// Takes over what came of a run.
    pub(crate) fn add(&mut self, run: Vec<Unsuccessful<K>>) {
        self.unsuccessful.extend(run);
    }

    /// The commands that were not carried out, in the order they were submitted.
    pub(crate) fn take_unsuccessful(&mut self) -> Vec<Unsuccessful<K>> {
        self.unsuccessful.sort_by_key(|one| one.number);
        std::mem::take(&mut self.unsuccessful)
    }
}
