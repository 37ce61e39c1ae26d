//! One attempt and its stage.

use std::sync::Arc;
use std::time::Duration;

use super::changes::Change;
use super::moment::Moment;
use super::{Blocker, LockRequest, Rare, Renewal};
use crate::call::{Attempt, Names};
use pinyon_net::error::Error;

/// How long before its time is up an attempt asks for the holder of its names; half of its time if that is less.
pub(super) const LOOK_BEFORE: Duration = Duration::from_millis(250);

pub(super) struct Entry {
    /// Its number on the server.
    pub(super) attempt: u64,
    pub(super) names: Names,
    pub(super) owner: u64,
    pub(super) ttl: Duration,
    /// The total time to wait. Zero or `None`: it takes its names at once or fails. `None` means that failing is
    /// expected.
    pub(super) wait: Option<Duration>,
    /// When the wait ends.
    pub(super) deadline: Moment,
    /// Whether it has asked for the holder of its names.
    pub(super) looked: bool,
    /// The holder in the answer, and when the answer came.
    pub(super) blocker: Option<Box<(Blocker, Moment)>>,
    /// Whether the server has answered that the names are taken.
    pub(super) refused: bool,
    /// What the server said last, if that was that it cannot answer now.
    pub(super) trouble: Option<Box<Trouble>>,
    /// Whether it was counted among those that had to wait.
    pub(super) counted: bool,
    pub(super) renewal: Renewal,
    /// What few want.
    pub(super) rare: Option<Box<RareEntry>>,
    /// Whether its owner holds other locks. Then it goes to the server ahead of the local lines.
    pub(super) nested: bool,
    /// Whether it stands in the table.
    pub(super) lined_up: bool,
    /// How many times its owner has acquired it.
    pub(super) holds: u32,
    /// The call that parked it, until this or a later call is answered. Earlier answers concern the lock that was given
    /// up.
    pub(super) parked_by: Option<u64>,
    /// Whether it takes its names again without a notification, and the server has not confirmed this.
    pub(super) unparking: bool,
    /// The highest number that was seen when this attempt was first sent, or parked. Its token is higher, whatever the
    /// order in which answers and pushes arrive.
    pub(super) above: Option<u64>,
    /// Whether a grant was given up because its token was not higher.
    pub(super) distrusted: bool,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    /// Others of this process are ahead of it.
    Lined,
    /// Asking the server; with the time when the question was sent, if it was.
    Asking(Option<Moment>),
    /// In the server's queue. `since`: when the question was sent that the server answered in this way; a grant is not
    /// older. `poll_at`: when to poll next, unless a poll is under way.
    Queued {
        since: Moment,
        poll_at: Option<Moment>,
    },
    /// The names are taken, and the server keeps no queue; or it cannot answer now.
    Refused {
        again_at: Moment,
    },
    Held(Held),
    /// Released its names, and waits for a notification until `until` at the latest.
    Parked {
        since: Moment,
        poll_at: Option<Moment>,
        until: Option<Moment>,
    },
    /// Released; the answer is pending. `again`: the release was sent before, on a connection that broke.
    Releasing {
        until: Moment,
        deadline: Moment,
        again: bool,
    },
    /// Cancelled; the server may not know yet. `until`: until when its lock may last, if it had one.
    Cancelling {
        forget_at: Moment,
        until: Option<Moment>,
    },
    /// Lost; its holder has not released it yet.
    Lost,
}

pub(super) struct Held {
    pub(super) token: u64,
    /// Until when it counts as held.
    pub(super) until: Moment,
    pub(super) granted: Moment,
    pub(super) renew_at: Option<Moment>,
    /// Whether an extension is under way.
    pub(super) extending: bool,
}

#[derive(Default)]
pub(super) struct RareEntry {
    pub(super) at_least: Duration,
    /// Until when its names stay locked, even if they are released earlier.
    pub(super) keep_until: Option<Moment>,
    /// The attempt whose lock it takes over, until it has it.
    pub(super) adopts: Option<Arc<Attempt>>,
    /// Whether its caller goes on without the lock once the server has been away for a while.
    pub(super) proceeds: bool,
    /// What its owner says about it.
    pub(super) remark: Option<Arc<str>>,
    /// Whether the server may have the remark.
    pub(super) is_remarked: bool,
    /// The names that it has read at some time, to read, if it has been upgraded since.
    pub(super) read: Option<Names>,
    /// The modes that it is to have, while it is held.
    pub(super) change: Option<Box<Change>>,
}

impl From<Rare> for RareEntry {
    fn from(Rare { at_least, adopts, proceeds, remark }: Rare) -> Self {
        Self { at_least, adopts, proceeds, remark, ..Self::default() }
    }
}

/// A refusal that passes.
pub(super) struct Trouble {
    pub(super) error: Error,
    /// How many were before it, in a row.
    pub(super) refusals: u32,
}

impl Entry {
    pub(super) fn new(attempt: u64, request: LockRequest, nested: bool, impatient: Moment, now: Moment) -> Self {
        let lined_up = !nested && request.adopts().is_none();
        Self {
            attempt,
            names: request.names,
            owner: request.owner,
            ttl: request.ttl,
            wait: request.wait,
            looked: false,
            blocker: None,
            refused: false,
            trouble: None,
            counted: false,
            deadline: request.wait.filter(|wait| !wait.is_zero()).map_or(impatient, |wait| now + wait),
            renewal: request.renewal,
            nested,
            lined_up,
            rare: request.rare.map(|rare| RareEntry::from(*rare).into()),
            holds: 1,
            parked_by: None,
            unparking: false,
            above: None,
            distrusted: false,
            stage: Stage::Lined,
        }
    }

    pub(super) fn remark(&self) -> Option<&Arc<str>> {
        self.rare.as_ref()?.remark.as_ref()
    }

    /// Whether the server may have its remark.
    pub(super) fn is_remarked(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_remarked)
    }

    pub(super) fn keep_until(&self) -> Option<Moment> {
        self.rare.as_ref()?.keep_until
    }

    /// Its names in the modes in which they are released. A call that is still on its way may take them in an earlier
    /// mode, and the release of what is read frees what is written as well.
    pub(super) fn to_release(&self) -> Names {
        let read = self.rare.as_ref().and_then(|rare| rare.read.as_ref());
        read.map_or_else(|| self.names.clone(), |read| self.names.read_as_in(read))
    }

    /// Notes that the names stay locked for so long from now on, or longer.
    pub(super) fn keep_for(&mut self, at_least: Duration, now: Moment) {
        if !at_least.is_zero() {
            let rare = self.rare.get_or_insert_default();
            rare.keep_until = rare.keep_until.max(Some(now + at_least));
        }
    }

    /// Whether its caller waits for the lock, and goes on without it while the server is away.
    pub(super) fn may_proceed(&self) -> bool {
        let waits =
            matches!(self.stage, Stage::Lined | Stage::Asking(_) | Stage::Queued { .. } | Stage::Refused { .. });
        waits && self.rare.as_ref().is_some_and(|rare| rare.proceeds)
    }

    /// Whether it waits if its names are taken.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some_and(|wait| !wait.is_zero())
    }

    /// Whether no server knows of the attempt, so that nothing is left of it when it ends.
    pub(super) fn is_unknown(&self) -> bool {
        match self.stage {
            Stage::Lined | Stage::Asking(None) => true,
            Stage::Refused { .. } => self.trouble.is_none() || !self.refused && !self.unparking,
            _ => false,
        }
    }

    /// For how long its names stay locked once they are released.
    pub(super) fn rest(&self, now: Moment) -> Option<Duration> {
        rest_until(self.keep_until(), now)
    }

    /// When to ask for the holder of its names, unless that was done.
    pub(super) fn look_at(&self) -> Option<Moment> {
        let wait = self.wait.filter(|wait| !wait.is_zero() && !self.looked)?;
        Some(self.deadline.before(if wait > 2 * LOOK_BEFORE { LOOK_BEFORE } else { wait / 2 }))
    }

    /// When it needs attention. A renewal waits for a connection.
    pub(super) fn due(&self, connected: bool) -> Option<Moment> {
        let earlier = |other: Option<Moment>| {
            let look_at = self.look_at().filter(|_| connected);
            [other, look_at].into_iter().flatten().fold(self.deadline, Moment::min)
        };
        match &self.stage {
            Stage::Lined => Some(earlier(None)),
            Stage::Asking(_) => Some(self.deadline),
            Stage::Queued { poll_at, .. } => Some(earlier(*poll_at)),
            Stage::Refused { again_at } => Some(earlier(Some(*again_at))),
            Stage::Held(held) => {
                let renew_at = held.renew_at.filter(|_| connected && !held.extending);
                let change = self.change().and_then(|change| change.due(connected));
                [renew_at, change].into_iter().flatten().chain([held.until]).min()
            }
            Stage::Parked { poll_at, until, .. } => [*poll_at, *until].into_iter().flatten().min(),
            Stage::Releasing { deadline, .. } => Some(*deadline),
            Stage::Cancelling { forget_at, .. } => Some(*forget_at),
            Stage::Lost => None,
        }
    }
}

/// What is left until then.
pub(super) fn rest_until(keep_until: Option<Moment>, now: Moment) -> Option<Duration> {
    keep_until.map(|until| until - now).filter(|rest| !rest.is_zero())
}
