//! Discovering the servers, from an endpoint of a cluster or from a name with several addresses.
//!
//! A look consists of steps that never wait. Any caller of the client takes the next step when it is due. No thread is
//! kept for it, and once servers are known, no operation waits for it.
//!
//! A thread that begins a look drives it for a bounded time, because the next operation may be far off; an event loop
//! sets an alarm. An idle client asks no server. Only the system's resolver waits, on a short-lived thread, because it
//! has no deadline.

mod cluster_list;
mod endpoints;
mod host_names;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fleet::Access;
use endpoints::Asking;
use host_names::Naming;
use pinyon_net::address::ServerSpec;
use pinyon_net::error::Error;

/// The pause after a failed look. It doubles with each further failure, up to the interval.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);

/// The source of the server list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The given servers are configuration endpoints, as ElastiCache and Memorystore have them. Each is asked in turn
    /// by `config get cluster`.
    ClusterConfig,
    /// The given servers are names. Each of their addresses is a server.
    Names,
}

/// The settings of discovery.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    pub source: Source,
    /// The endpoints to ask, or the names to resolve.
    pub given: Vec<ServerSpec>,
    /// The time between looks.
    pub interval: Duration,
    /// The time that one look may take.
    pub timeout: Duration,
}

/// Looks for servers, again and again.
pub(crate) struct Discovery {
    settings: Arc<DiscoverySettings>,
    access: Access,
    look: Option<Look>,
    /// The number of looks that failed in a row.
    failures: u32,
    /// The endpoint that answered last.
    endpoint: usize,
    accepted: Accepted,
}

enum Look {
    Asking(Box<Asking>),
    Naming(Naming),
}

/// The accepted server list, by its number.
#[derive(Default)]
struct Accepted {
    version: Option<u64>,
    /// An older list that was received last. Nodes may lag behind, but a list received twice is accepted.
    doubted: Option<u64>,
}

impl Discovery {
    pub(crate) fn new(settings: Arc<DiscoverySettings>, access: Access) -> Self {
        Self { settings, access, look: None, failures: 0, endpoint: 0, accepted: Accepted::default() }
    }

    pub(crate) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// Continues a look, or begins one. Once the look is over, returns its result: the sorted servers, or none if the
    /// answer was out of date.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<Result<Option<Vec<ServerSpec>>, Error>> {
        if self.look.is_none() {
            self.look = Some(self.begin(now));
        }
        let outcome = match self.look.as_mut()? {
            Look::Asking(asking) => asking.advance(&self.settings, &self.access, now).map(|outcome| {
                let listing = outcome?;
                self.endpoint = asking.endpoint();
                Ok(self.accepted.takes(listing.version).then_some(listing.servers))
            }),
            Look::Naming(naming) => naming.advance(now).map(|outcome| outcome.map(Some)),
        }?;
        self.look = None;
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        Some(outcome)
    }

    fn begin(&self, now: Instant) -> Look {
        match self.settings.source {
            Source::ClusterConfig => Look::Asking(Box::new(Asking::new(self.endpoint, &self.settings, now))),
            Source::Names => Look::Naming(Naming::new(&self.settings, now)),
        }
    }

    /// When to look again, after a look that is over now. Each process looks up to an eighth of the interval earlier,
    /// so that the processes of a cluster do not all ask at once.
    pub(crate) fn rest(&self, now: Instant, process: u32) -> Instant {
        let whole = match self.failures {
            0 => self.settings.interval,
            failures => (FIRST_BACK_OFF * (1 << (failures - 1).min(16))).min(self.settings.interval),
        };
        now + whole * 7 / 8 + whole / 8 * (process.wrapping_mul(0x9e37_79b9) >> 22) / 1024
    }
}

impl Accepted {
    fn takes(&mut self, version: u64) -> bool {
        let older = self.version.is_some_and(|accepted| version < accepted);
        if older && self.doubted != Some(version) {
            self.doubted = Some(version);
            return false;
        }
        *self = Self { version: Some(version), doubted: None };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_list_counts_when_it_is_said_twice() {
        let mut accepted = Accepted::default();
        let said = [7, 7, 6, 8, 6, 5, 5, 9];
        let taken = said.map(|version| accepted.takes(version));
        assert_eq!(taken, [true, true, false, true, false, false, true, true]);
    }

    #[test]
    fn looks_that_fail_come_again_soon_and_then_less_and_less_often() {
        let interval = Duration::from_secs(60);
        let settings = DiscoverySettings { source: Source::Names, given: Vec::new(), interval, timeout: interval };
        let mut discovery = Discovery::new(Arc::new(settings), Access::default());
        let now = Instant::now();
        let mut rest = |failures, process| {
            discovery.failures = failures;
            discovery.rest(now, process) - now
        };
        let after = [interval, FIRST_BACK_OFF, 2 * FIRST_BACK_OFF].map(|whole| whole * 7 / 8);
        assert_eq!([rest(0, 0), rest(1, 0), rest(2, 0)], after);
        assert_eq!(rest(40, 0), interval * 7 / 8);
        assert!((0..5000).all(|process| (interval * 7 / 8..=interval).contains(&rest(0, process))));
    }
}
