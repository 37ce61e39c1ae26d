//! One attempt, and how it stands.

use std::time::Duration;

use super::late::look_at;
use super::time::Moment;
use super::{Blocker, LockRequest, Renewal};
use crate::locks::call::Names;

pub(super) struct Entry {
    /// The number that the server knows it by.
    pub(super) attempt: u64,
    pub(super) names: Names,
    pub(super) owner: u64,
    pub(super) ttl: Duration,
    /// How long to wait in all. One that takes what is free or goes waits for no time, or `None` where it expects to go.
    pub(super) wait: Option<Duration>,
    pub(super) since: Moment,
    /// When waiting is over.
    pub(super) deadline: Moment,
    /// When to look who is in the way, should it wait for so long; none once that has been done.
    pub(super) look_at: Option<Moment>,
    /// The holder that the look found, and when.
    pub(super) blocker: Option<(Blocker, Moment)>,
    /// The server has answered that the names are not free.
    pub(super) refused: bool,
    pub(super) renewal: Renewal,
    /// Its owner holds other locks: it goes to the server whoever waits here.
    pub(super) nested: bool,
    /// It stands in the table.
    pub(super) lined_up: bool,
    /// How often its owner has taken it.
    pub(super) holds: u32,
    /// The call that parked it, until that or a later one is answered: what was said before is about the lock that was
    /// given up.
    pub(super) parked_by: Option<u64>,
    /// It wants its names back without having been notified, and the server has not confirmed that it knows.
    pub(super) unparking: bool,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    /// Others of this process come first.
    Lined,
    /// The server is asked; when, if it has been sent.
    Asking(Option<Moment>),
    /// In the server's queue. `since`: when the question was sent that it answered so; what is granted was not
    /// granted before. `poll_at`: when to say that it is alive, unless that is under way.
    Queued {
        since: Moment,
        poll_at: Option<Moment>,
    },
    /// Not free, and the server keeps no queue.
    Refused {
        again_at: Moment,
    },
    Held(Held),
    /// Gave its names back and waits to be notified, for long enough at the latest.
    Parked {
        since: Moment,
        poll_at: Option<Moment>,
        until: Option<Moment>,
    },
    /// Given back; the answer is awaited. `again`: it was asked before, on a connection that broke.
    Releasing {
        until: Moment,
        deadline: Moment,
        again: bool,
    },
    /// Nobody wants it any more, and the server may not know yet.
    Cancelling {
        forget_at: Moment,
    },
    /// Its holder has not given it back yet.
    Lost,
}

pub(super) struct Held {
    pub(super) token: u64,
    /// Until when it is believed in.
    pub(super) until: Moment,
    pub(super) granted: Moment,
    pub(super) renew_at: Option<Moment>,
    /// An extension is under way.
    pub(super) extending: bool,
}

impl Entry {
    pub(super) fn new(attempt: u64, request: LockRequest, nested: bool, impatient: Moment, now: Moment) -> Self {
        Self {
            attempt,
            names: request.names,
            owner: request.owner,
            ttl: request.ttl,
            wait: request.wait,
            since: now,
            look_at: look_at(request.wait, now),
            blocker: None,
            refused: false,
            deadline: request.wait.filter(|wait| !wait.is_zero()).map_or(impatient, |wait| now + wait),
            renewal: request.renewal,
            nested,
            lined_up: !nested,
            holds: 1,
            parked_by: None,
            unparking: false,
            stage: Stage::Lined,
        }
    }

    /// Whether it waits where its names are not free.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some_and(|wait| !wait.is_zero())
    }

    /// When there is something to do about it. What is to be renewed waits for a connection.
    pub(super) fn due(&self, connected: bool) -> Option<Moment> {
        let earlier = |other: Option<Moment>| {
            let look_at = self.look_at.filter(|_| connected);
            [other, look_at].into_iter().flatten().fold(self.deadline, Moment::min)
        };
        match &self.stage {
            Stage::Lined => Some(earlier(None)),
            Stage::Asking(_) => Some(self.deadline),
            Stage::Queued { poll_at, .. } => Some(earlier(*poll_at)),
            Stage::Refused { again_at } => Some(earlier(Some(*again_at))),
            Stage::Held(held) => {
                let renew_at = held.renew_at.filter(|_| connected && !held.extending);
                Some(renew_at.map_or(held.until, |renew_at| renew_at.min(held.until)))
            }
            Stage::Parked { poll_at, until, .. } => [*poll_at, *until].into_iter().flatten().min(),
            Stage::Releasing { deadline, .. } => Some(*deadline),
            Stage::Cancelling { forget_at } => Some(*forget_at),
            Stage::Lost => None,
        }
    }
}
