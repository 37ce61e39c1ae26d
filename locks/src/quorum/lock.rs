//! One lock on a quorum, and what each member has said about it.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::rules::{kept, Rule};
use crate::call::Names;
use crate::claim::{Claim, LAST_RANK};
use crate::client::{Member, Now};
use crate::machine::{Blocker, LockRequest, MachineFailure, Moment, Renewal};

/// The pause before a member that failed is asked again. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The step from one claim on a server to the next. Its client may use the number between them.
const ASKED: u8 = 2;

pub(super) struct Lock<W> {
    pub(super) names: Names,
    pub(super) owner: u64,
    pub(super) ttl: Duration,
    pub(super) wait: Option<Duration>,
    pub(super) renewal: Renewal,
    pub(super) remark: Option<Arc<str>>,
    pub(super) deadline: Moment,
    /// Whether it stands in the table.
    pub(super) lined_up: bool,
    /// Whether its owner holds other locks.
    nested: bool,
    pub(super) rank: Rank,
    /// How many times its owner has acquired it.
    pub(super) holds: u32,
    pub(super) stage: Stage<W>,
    /// One for each member.
    pub(super) seats: Vec<Seat>,
    /// The token that a majority is being told.
    pub(super) target: Option<u64>,
}

/// Where it stands in the order of all servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rank {
    pub(super) rank: u64,
    /// Whether it was given before any server's counter was known.
    pub(super) is_blind: bool,
}

pub(super) enum Stage<W> {
    /// Others of this process are ahead of it.
    Lined(W),
    /// The members are asked.
    Waiting(W),
    Held {
        token: u64,
        granted: Moment,
    },
    /// Lost; its holder has not released it yet.
    Lost,
}

/// What a member has said about a lock.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) vote: Vote,
    /// Why it failed last, until it is granted.
    pub(super) failure: Option<MachineFailure>,
    failures: u32,
    /// How often it was asked.
    asked: u8,
    /// Whether an attempt that comes before waits here for the vote, as far as was heard.
    pub(super) contested: bool,
}

pub(super) enum Vote {
    /// Not asked; with the time when to ask, if it is to be asked again.
    None {
        again_at: Option<Moment>,
    },
    /// Asked for the lock of this number.
    Asked(u64),
    Granted(Granted),
}

pub(super) struct Granted {
    pub(super) number: u64,
    pub(super) token: u64,
    /// A number that its server has stored and that later tokens there exceed: the token, or what it was raised to.
    pub(super) stored: u64,
    /// What it is being raised to.
    pub(super) raising: u64,
    /// From when on it counts. Unknown until the server has told when it was started.
    pub(super) votes_from: Option<Moment>,
    /// The highest counter when its server was connected. Unknown until the counters have been read.
    pub(super) floor: Option<u64>,
}

impl Default for Vote {
    fn default() -> Self {
        Self::None { again_at: None }
    }
}

impl<W> Lock<W> {
    pub(super) fn new(request: LockRequest, waiter: W, members: usize, deadline: Moment, nested: bool) -> Self {
        Self {
            remark: request.remark().cloned(),
            names: request.names,
            owner: request.owner,
            ttl: request.ttl,
            wait: request.wait,
            renewal: request.renewal,
            deadline,
            lined_up: !nested,
            holds: 1,
            stage: Stage::Lined(waiter),
            seats: std::iter::repeat_with(Seat::default).take(members).collect(),
            target: None,
            nested,
            rank: Rank::default(),
        }
    }

    /// Whether it waits if its names are taken.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some_and(|wait| !wait.is_zero())
    }

    /// What it claims of a member that is asked now.
    pub(super) fn claim(&mut self, member: usize) -> Claim {
        let seat = &mut self.seats[member];
        (seat.asked, seat.contested) = (seat.asked.wrapping_add(ASKED), false);
        let is_turned = !kept(Rule::OneOrder) && member % 2 == 1;
        let rank = if is_turned { LAST_RANK - self.rank.rank } else { self.rank.rank };
        Claim { nested: self.nested, rank, asked: seat.asked }
    }

    /// The failure of an attempt whose names are taken.
    pub(super) fn taken(&self, blocker: Option<Blocker>) -> MachineFailure {
        match self.wait {
            None => MachineFailure::Busy,
            Some(waited) => MachineFailure::timeout(waited, blocker),
        }
    }

    /// The holder of its names, if a majority of the members names the same. A smaller number just votes for it.
    pub(super) fn blocker(&self, majority: usize) -> Option<Blocker> {
        let named = self.seats.iter().filter_map(|seat| match &seat.failure {
            Some(MachineFailure::Timeout { blocker, .. }) => blocker.as_deref(),
            _ => None,
        });
        let named: Vec<&Blocker> = named.collect();
        let is_same = |one: &Blocker, other: &Blocker| {
            (&one.holder.client, one.holder.owner) == (&other.holder.client, other.holder.owner)
        };
        let of = |one: &&Blocker| named.iter().filter(|other| is_same(one, other)).count() >= majority;
        let holder = *named.iter().find(|one| of(one))?;
        let mut ages: Vec<Duration> =
            named.iter().filter(|other| is_same(holder, other)).filter_map(|other| other.held_for).collect();
        ages.sort_unstable_by_key(|age| Reverse(*age));
        let remark = named.iter().filter(|other| is_same(holder, other)).find_map(|other| other.remark.clone());
        Some(Blocker { holder: holder.holder.clone(), held_for: ages.get(majority - 1).copied(), remark })
    }

    pub(super) fn granted(&self) -> impl Iterator<Item = (usize, &Granted)> {
        self.seats.iter().enumerate().filter_map(|(member, seat)| Some((member, seat.granted()?)))
    }

    /// The granted votes that count now.
    pub(super) fn voters<'l, M: Member>(
        &'l self,
        members: &'l [M],
        now: Now,
    ) -> impl Iterator<Item = (usize, &'l Granted)> + 'l {
        self.granted().filter(move |(member, granted)| {
            let is_valid = members[*member].held(granted.number, now).is_some() || !kept(Rule::ValidVotes);
            granted.may_vote(now.moment) && is_valid
        })
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self.stage {
            Stage::Held { token, .. } => Some(token),
            _ => None,
        }
    }

    /// For how long a majority holds it with its token.
    pub(super) fn remaining<M: Member>(&self, members: &[M], now: Now) -> Option<Duration> {
        let token = self.token()?;
        let counts =
            |granted: &Granted| granted.may_vote(now.moment) && (granted.stored >= token || !kept(Rule::StoredToken));
        let voters = self.granted().filter(|(_, granted)| counts(granted));
        let mut remaining: Vec<Duration> =
            voters.filter_map(|(member, granted)| members[member].held(granted.number, now)).collect();
        remaining.sort_unstable();
        let valid = if kept(Rule::ValidMajority) { majority(members.len()) } else { 1 };
        remaining.len().checked_sub(valid).map(|at| remaining[at])
    }

    /// How a vote that is granted now is to be renewed. While the lock is waited for, all votes are kept.
    pub(super) fn renewal_now(&self, now: Moment) -> Renewal {
        match (&self.stage, self.renewal) {
            (Stage::Held { granted, .. }, Renewal::For(longest)) => {
                Renewal::For(longest.saturating_sub(now - *granted))
            }
            (Stage::Held { .. }, renewal) => renewal,
            _ => Renewal::Always,
        }
    }

    /// Whether a vote that was lost is asked for again.
    pub(super) fn is_kept(&self, now: Moment) -> bool {
        match self.renewal_now(now) {
            Renewal::Never => false,
            Renewal::Always => true,
            Renewal::For(left) => !left.is_zero(),
        }
    }

    /// When it needs attention.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        let again_at = self.seats.iter().filter_map(|seat| match seat.vote {
            Vote::None { again_at } => again_at,
            _ => None,
        });
        match self.stage {
            Stage::Lined(_) => Some(self.deadline),
            Stage::Waiting(_) => {
                let votes_from = self.granted().filter_map(|(_, granted)| granted.votes_from).filter(|at| *at > now);
                again_at.chain(votes_from).chain([self.deadline]).min()
            }
            Stage::Held { .. } => again_at.min(),
            Stage::Lost => None,
        }
    }
}

impl Seat {
    pub(super) fn granted(&self) -> Option<&Granted> {
        match &self.vote {
            Vote::Granted(granted) => Some(granted),
            _ => None,
        }
    }

    pub(super) fn granted_mut(&mut self) -> Option<&mut Granted> {
        match &mut self.vote {
            Vote::Granted(granted) => Some(granted),
            _ => None,
        }
    }

    /// The number of its lock, if it was asked for or granted.
    pub(super) fn number(&self) -> Option<u64> {
        match &self.vote {
            Vote::None { .. } => None,
            Vote::Asked(number) => Some(*number),
            Vote::Granted(granted) => Some(granted.number),
        }
    }

    pub(super) fn grant(&mut self, number: u64, token: u64, votes_from: Option<Moment>, floor: Option<u64>) {
        (self.failure, self.failures) = (None, 0);
        self.vote = Vote::Granted(Granted { number, token, stored: token, raising: token, votes_from, floor });
    }

    /// Notes a failure. `most`: the longest pause before it is asked again; `None` if it is not asked again.
    pub(super) fn fail(&mut self, failure: Option<MachineFailure>, most: Option<Duration>, now: Moment) {
        let pause = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(16));
        self.failures += 1;
        self.failure = failure;
        self.vote = Vote::None { again_at: most.map(|most| now + pause.min(most)) };
    }
}

impl Granted {
    /// Whether its server has been up longer than any lock lives, so it cannot have lost one in a restart.
    pub(super) fn is_of_age(&self, now: Moment) -> bool {
        self.votes_from.is_some_and(|from| from <= now) || !kept(Rule::YoungHaveNoVote)
    }

    fn may_vote(&self, now: Moment) -> bool {
        self.is_of_age(now) && (self.floor.is_some() || !kept(Rule::Floor))
    }

    /// The lowest token that the lock can have if this vote counts.
    pub(super) fn least(&self) -> u64 {
        let floor = self.floor.filter(|_| kept(Rule::Floor));
        floor.map_or(self.token, |floor| self.token.max(floor + 1))
    }
}

pub(super) fn majority(members: usize) -> usize {
    members / 2 + usize::from(kept(Rule::Majority))
}
