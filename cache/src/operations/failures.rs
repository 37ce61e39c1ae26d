//! The failures of an operation on many keys or servers, one for each server.

use super::route::told;
use crate::fleet::Fleet;
use crate::operations::Policy;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Error, Sent};

/// The failures of one operation.
#[derive(Debug)]
pub struct Failures {
    name: &'static str,
    policy: Policy,
    /// Failures whose keys are asked for again.
    retried: Vec<Error>,
    of_servers: Vec<Error>,
    /// The first error that a server answered because it refused the command.
    refused: Option<Error>,
    sent: Sent,
}

impl Failures {
    /// `name`: the operation's name.
    pub(super) fn new(name: &'static str, policy: Policy) -> Self {
        Self { name, policy, retried: Vec::new(), of_servers: Vec::new(), refused: None, sent: Sent::No }
    }

    /// The error to raise, if any: a server's refusal, or else the first failure that the policy does not forgive.
    pub fn raised(&mut self) -> Option<Error> {
        let policy = self.policy;
        let refused = self.refused.take();
        refused.or_else(|| std::mem::take(&mut self.of_servers).into_iter().find(|error| !policy.forgives(error)))
    }

    /// The error to raise, if any.
    pub(super) fn first_raised(&self) -> Option<&Error> {
        self.refused.as_ref().or_else(|| self.of_servers.iter().find(|error| !self.policy.forgives(error)))
    }

    /// Raises this error, whatever it is.
    pub(super) fn end(&mut self, error: Option<Error>) {
        self.refused = error.or(self.refused.take());
    }

    /// Adds the failures of servers, as they were told to users.
    pub(super) fn add(&mut self, errors: Vec<Error>) {
        errors.into_iter().for_each(|error| add(&mut self.of_servers, error));
    }

    /// The failure of each failed server, for callers that accept partial results. These failures are then not raised.
    pub fn of_servers(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.of_servers)
    }

    pub(super) fn set_name(&mut self, name: &'static str) {
        self.name = name;
    }

    /// The operation's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    /// Notes a failure whose keys are asked for again.
    pub(super) fn retry(&mut self, error: Error) {
        self.sent = self.sent.max(error.sent);
        add(&mut self.retried, error);
    }

    /// Starts the retry of the noted failures. `down`: the errors of servers that no other server replaces.
    pub(super) fn begin_again(&mut self, fleet: &Fleet, down: Vec<Error>) {
        let retried = std::mem::take(&mut self.retried);
        if down.is_empty() {
            return retried.iter().for_each(|error| fleet.retrying(error, self.name));
        }
        if retried.is_empty() {
            down.iter().for_each(|error| fleet.unsubmitted(error, self.name));
        }
        retried.into_iter().chain(down).for_each(|error| self.note(error));
    }

    /// The error as it is told to the host.
    pub(super) fn told(&self, error: Error) -> Error {
        Error { command: self.name, ..told(error, self.name, self.sent) }
    }

    /// Notes a final failure.
    pub(super) fn note(&mut self, error: Error) {
        let error = self.told(error);
        match is_refusal(&error) {
            true => drop(self.refused.get_or_insert(error)),
            false => add(&mut self.of_servers, error),
        }
    }
}

/// Whether the server refused the command rather than failed.
fn is_refusal(error: &Error) -> bool {
    !ErrorKind::from(error.kind).is_outage()
}

/// Keeps the first failure of each server, with the most that any of its failures may have sent.
fn add(errors: &mut Vec<Error>, error: Error) {
    match errors.iter_mut().find(|known| known.server == error.server) {
        Some(known) => known.sent = known.sent.max(error.sent),
        None => errors.push(error),
    }
}
