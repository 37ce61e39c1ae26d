//! Releases that the server has answered. It may take the answer back: by dying before a replica or its disk has them.

use std::collections::VecDeque;

use super::entry::Entry;
use super::{About, Call, Machine, Moment};
use crate::locks::call::{Attempt, Names};

/// How many are repeated on the next connection: more than are on their way to a replica at a time.
const REPEATED: usize = 32;

/// The last of them.
#[derive(Default)]
pub(super) struct Releases(VecDeque<Release>);

struct Release {
    owner: u64,
    attempt: u64,
    names: Names,
    /// When no server has the lock any more, whether or not it knows of the release.
    over: Moment,
}

impl Releases {
    pub(super) fn note(&mut self, entry: Entry, now: Moment) {
        if self.0.len() == REPEATED {
            self.0.pop_front();
        }
        let Entry { owner, attempt, names, ttl, .. } = entry;
        self.0.push_back(Release { owner, attempt, names, over: now + ttl });
    }
}

impl Machine {
    /// Repeats the last releases. Otherwise a server that has lost them would keep these locks until their ttls have
    /// passed.
    pub(super) fn release_again(&mut self, now: Moment) {
        let due = |release: &&Release| release.over > now;
        let of = |release: &Release| {
            let attempt = Attempt { client: self.client.clone(), owner: release.owner, number: release.attempt };
            Call::Unlock { attempt, names: release.names.clone(), tombstone: false }
        };
        let calls: Vec<Call> = self.releases.0.iter().filter(due).map(of).collect();
        for call in calls {
            self.send(About::Tidy, call, now);
        }
    }
}
