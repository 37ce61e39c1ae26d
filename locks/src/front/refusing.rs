//! Operations that end without asking a server: on a closed client, for a lock that is not held, and what a lock or its
//! servers cannot do.

use super::{Front, LockOperation, LockOutcome};
use crate::call::Mode;
use crate::client::Platform;
use crate::failure::LockFailure;
use crate::machine::MachineFailure;
use crate::shareable;
use pinyon_net::error::{Error, Kind};

impl<W, L, P: Platform> Front<W, L, P> {
    /// The outcome, if no server need be asked. A caller that released a lock no longer holds it, even if other callers
    /// of the same owner do.
    pub(super) fn outcome_at_once(&self, operation: &LockOperation<L>) -> Option<LockOutcome> {
        if let LockOperation::Execute { command } = operation {
            if let Err(refused) = shareable::check(command, &self.settings().server) {
                return Some(LockOutcome::failed(refused.into()));
            }
        }
        if matches!(operation, LockOperation::Acquire { grant, .. } if grant.is_unwanted()) {
            return Some(LockOutcome::Busy);
        }
        if let Some(grant) = operation.held() {
            if grant.is_inherited() || !grant.is_held() && grant.loss().is_none() {
                return operation.outcome_if_not_held();
            }
        }
        if let LockOperation::HandOver { grant, .. } = operation {
            if self.registry.has_several(grant.number()) {
                return Some(LockOutcome::failed(LockFailure::acquired_again(grant.names())));
            }
        }
        let failure = match self.votes {
            _ if self.closed => return Some(self.outcome_if_closed(operation)),
            Some(_) => LockFailure::from(self.needs_one_server(operation)?),
            None => LockFailure::from(self.needs_names_alone(operation)?),
        };
        self.counts.failed(failure.kind);
        Some(LockOutcome::failed(failure))
    }

    /// The outcome on a closed client: nothing is held any more.
    fn outcome_if_closed(&self, operation: &LockOperation<L>) -> LockOutcome {
        let server = &self.settings().server;
        let failure = match operation {
            LockOperation::Release { .. } => return LockOutcome::Released { held: false },
            LockOperation::ReleaseAll { .. } => return LockOutcome::ReleasedAll { released: 0 },
            LockOperation::Extend { .. } => return LockOutcome::Extended { held: false },
            LockOperation::HandOver { grant, .. }
            | LockOperation::Change { grant, .. }
            | LockOperation::Park { grant, .. }
            | LockOperation::Notify { grant, .. } => {
                LockFailure::of(MachineFailure::NotHeld, Some(grant.names()), server)
            }
            _ => return self.closed_outcome(),
        };
        self.counts.failed(failure.kind);
        LockOutcome::failed(failure)
    }

    /// Why a lock that shares some of its names cannot do it.
    fn needs_names_alone(&self, operation: &LockOperation<L>) -> Option<Error> {
        let (what, grant) = match operation {
            LockOperation::Change { grant, mode: Mode::Read, .. } if self.members[0].has_least(grant.number()) => {
                let message = "a lock with at_least cannot be downgraded: only names to write stay locked";
                return Some(Error::new(Kind::Unsupported, &self.settings().server, message));
            }
            LockOperation::Park { grant, .. } | LockOperation::Notify { grant, .. } => ("a condition is", grant),
            LockOperation::HandOver { grant, .. } => ("handing over is", grant),
            _ => return None,
        };
        let message = "not possible with names to read or with permits: use a lock that writes its names";
        let error = || Error::new(Kind::Unsupported, &self.settings().server, format!("{what} {message}"));
        let names = self.members[0].names(grant.number());
        names.as_ref().unwrap_or(grant.names()).are_shared().then(error)
    }

    pub(super) fn closed_outcome(&self) -> LockOutcome {
        let failure = LockFailure::from(Error::new(Kind::Closed, &self.settings().server, "the client was closed"));
        self.counts.failed(failure.kind);
        LockOutcome::failed(failure)
    }

    /// Why several servers cannot do it.
    fn needs_one_server(&self, operation: &LockOperation<L>) -> Option<Error> {
        let what = match operation {
            LockOperation::Acquire { request, .. } if request.names.are_shared() => {
                "locks with names to read or with permits are"
            }
            LockOperation::Park { .. } | LockOperation::Notify { .. } => "conditions are",
            LockOperation::Change { .. } => "upgrading or downgrading a lock is",
            LockOperation::Rate { .. } => "rates are",
            LockOperation::Execute { .. } => "execute is",
            LockOperation::Acquire { request, .. } if request.adopts().is_some() => "adopting a lock is",
            LockOperation::Acquire { request, .. } if !request.at_least().is_zero() => "at_least is",
            LockOperation::HandOver { .. } => "handing a lock over is",
            _ => return None,
        };
        let message = format!("{what} not possible with a quorum of servers: use locks on one of them");
        Some(Error::new(Kind::Unsupported, &self.settings().server, message))
    }
}
