//! Holders that go on without their lock while the servers are away, for work that may run twice (`on_failure`). An event
//! tells of each.

use super::{About, Front, LockOutcome};
use crate::client::Platform;
use crate::failure::described;
use crate::grant::Grant;
use crate::loss::Loss;
use crate::observed::LockEvent;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::Error;

impl<L> About<L> {
    /// Whether its caller goes on although it has failed.
    pub(super) fn proceeds(&self, error: &Error) -> bool {
        let grant = match self {
            Self::Acquire(grant, _) | Self::Release(grant) => grant,
            _ => return false,
        };
        grant.proceeds() && ErrorKind::from(error.kind).is_outage()
    }
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// What a caller is told that goes on although the servers are away.
    #[cold]
    pub(super) fn proceed(&mut self, about: &About<L>, error: Error) -> LockOutcome {
        let (grant, outcome) = match about {
            About::Acquire(grant, _) => (grant, LockOutcome::Held { notified: false }),
            // It was held until now. The release goes on in the background.
            About::Release(grant) => (grant, LockOutcome::Released { held: true }),
            _ => return LockOutcome::failed(error.into()),
        };
        grant.proceed();
        self.tell_proceeding(grant, &error.to_string(), Some(error));
        outcome
    }

    /// A lock is lost that a holder may have gone on without.
    pub(super) fn proceed_after(&mut self, number: u64, loss: Loss) {
        let grant = self.registry.proceeding(number).filter(|_| loss.is_by_servers()).cloned();
        if let Some(grant) = grant {
            self.tell_proceeding(&grant, loss.as_str(), None);
        }
    }

    fn tell_proceeding(&mut self, grant: &Grant<L>, why: &str, error: Option<Error>) {
        self.counts.proceeded.add(1);
        let event = LockEvent::proceeded(&self.settings().server, &described(grant.names()), why, error);
        let note = self.event(event.into());
        self.finished.push_back(note);
    }
}
