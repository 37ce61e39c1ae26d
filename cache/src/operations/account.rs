//! The account of a quiet batch: the outcome of every command, for threads and for event loops.

use pinyon_proto::Status;

use pinyon_net::error::Error;

/// A command of a quiet batch that was not carried out.
#[derive(Debug)]
pub struct Unsuccessful<K> {
    /// Its number in the batch. Commands are numbered from 0, in the order of submission.
    pub number: usize,
    /// The key in the host's form.
    pub key: K,
    pub command: &'static str,
    pub why: Broken,
}

/// Why a command was not carried out.
#[derive(Debug)]
pub enum Broken {
    /// The server answered so.
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

/// The outcomes of a batch, or of one run of it. No policy forgives a failure here: the block that ends must report
/// them all.
pub(crate) struct Account<K> {
    next: usize,
    unsuccessful: Vec<Unsuccessful<K>>,
}

impl<K> Account<K> {
    /// `first`: the number of the first command.
    pub(crate) fn from(first: usize) -> Self {
        Self { next: first, unsuccessful: Vec::new() }
    }

    /// The number of the command that is submitted next.
    #[inline]
    pub(crate) fn next_number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Notes the outcome of a command: the server's status, or the error that prevented an answer.
    #[inline]
    pub(crate) fn note(&mut self, number: usize, command: &'static str, key: K, outcome: Result<Status, Error>) {
        let why = match outcome {
            Ok(Status::Done | Status::Hit) => return,
            Ok(status) => Broken::Refused(status),
            Err(error) => Broken::Failed(error),
        };
        self.unsuccessful.push(Unsuccessful { number, key, command, why });
    }

    /// Adds the failures of a run.
    pub(crate) fn add(&mut self, run: Vec<Unsuccessful<K>>) {
        self.unsuccessful.extend(run);
    }

    /// The commands that were not carried out, in the order they were submitted.
    pub(crate) fn take_unsuccessful(&mut self) -> Vec<Unsuccessful<K>> {
        self.unsuccessful.sort_by_key(|one| one.number);
        std::mem::take(&mut self.unsuccessful)
    }
}
