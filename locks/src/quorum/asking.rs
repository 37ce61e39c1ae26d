//! Asking the members for a lock, and giving it back.

use std::time::Duration;

use super::lock::{Lock, Rank, Seat, Stage, Vote};
use super::rules::{kept, Rule};
use super::{Ballot, Question, Quorum, Waiter};
use crate::claim::LAST_RANK;
use crate::client::{Member, Now, Outcome};
use crate::machine::{LockRequest, MachineFailure, Moment, Rare};

/// How long a member is asked for a lock that a majority holds already. Then it is asked again.
const ASKED_FOR: Duration = Duration::from_secs(3600);

/// The shortest time for which a member is asked to let an attempt wait.
const SHORTEST: Duration = Duration::from_millis(1);

/// The time for an attempt to be granted its lock after servers that were just started vote.
const VOTED_WITHIN: Duration = Duration::from_secs(2);

impl<W, M: Member<Waiter = Waiter<W>>> Quorum<'_, W, M> {
    /// Begins an attempt.
    pub(super) fn enter(&mut self, request: LockRequest, waiter: W, now: Now) -> u64 {
        let number = self.votes.next_number;
        self.votes.next_number += 1;
        let nested = self.votes.holding.has(request.owner);
        let wait = request.wait.filter(|wait| !wait.is_zero());
        let deadline = now.moment + wait.unwrap_or(self.votes.settings.options.patience);
        let lock = Lock::new(request, waiter, self.members.len(), deadline, nested);
        let leads = nested || self.votes.table.enter(number, &lock.names);
        self.votes.locks.insert(number, lock);
        self.wake_by(deadline);
        if leads {
            self.start(number, now);
        }
        number
    }

    /// Asks all members.
    fn start(&mut self, number: u64, now: Now) {
        let Some(waits) = self.votes.locks.get(&number).map(Lock::waits) else { return };
        let rank = self.next_rank(waits);
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        lock.rank = rank;
        let Lock { stage, .. } = lock;
        *stage = match std::mem::replace(stage, Stage::Lost) {
            Stage::Lined(waiter) => Stage::Waiting(waiter),
            other => other,
        };
        self.await_votes(number);
        for member in 0..self.members.len() {
            self.ask(number, member, now);
        }
    }

    /// Lets an attempt that may wait for `longest_ttl` wait for the votes of servers that were just started, though they
    /// come at the end of its time or, as servers tell their age in whole seconds, a little later.
    pub(super) fn await_votes(&mut self, number: u64) {
        let mut votes_from: Vec<Moment> =
            self.members.iter().filter_map(|member| Some(member.standing()?.votes_from)).collect();
        votes_from.sort_unstable();
        let (longest, majority) = (self.votes.longest_ttl, self.majority());
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let may_wait = lock.wait.is_some_and(|wait| !wait.is_zero() && wait >= longest);
        let Some(votes_from) = votes_from.get(majority - 1).filter(|_| may_wait) else { return };
        // Before its own time is nearly up, its own time is enough.
        if lock.deadline < *votes_from + VOTED_WITHIN {
            lock.deadline = lock.deadline.max((*votes_from + VOTED_WITHIN).min(lock.deadline + 2 * VOTED_WITHIN));
        }
    }

    /// Asks one member.
    pub(super) fn ask(&mut self, number: u64, member: usize, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let wait = match lock.stage {
            Stage::Held { .. } => Some(ASKED_FOR),
            _ if lock.waits() => Some((lock.deadline - now.moment).max(SHORTEST)),
            _ => lock.wait,
        };
        let request = LockRequest {
            names: lock.names.clone(),
            owner: lock.owner,
            ttl: lock.ttl,
            wait,
            renewal: lock.renewal_now(now.moment),
            reentrant: false,
            rare: Rare { remark: lock.remark.clone(), ..Rare::default() }.boxed(),
        };
        let (ballot, claim) = (Waiter::Quorum(Ballot::Grant { lock: number }), lock.claim(member));
        // Before the answer, which may come at once if it is a failure.
        let asked = self.members[member].lock(request, Some(claim), ballot, now);
        lock.seats[member].vote = asked.map_or(Vote::None { again_at: None }, Vote::Asked);
    }

    /// Releases a held lock on all members. Answers the waiter when a majority has answered.
    pub(super) fn release_all(&mut self, number: u64, waiter: W, now: Now) {
        self.agree(number, now);
        let Some(lock) = self.votes.locks.get(&number) else { return };
        let seats: Vec<Option<u64>> = lock.seats.iter().map(|seat| Some(seat.granted()?.number)).collect();
        for (member, seat) in self.members.iter_mut().zip(&lock.seats) {
            if let Vote::Asked(number) = seat.vote {
                if kept(Rule::ReleaseAll) {
                    member.cancel(number, now);
                }
            }
        }
        let held = lock.granted().filter_map(|(member, vote)| self.members[member].held(vote.number, now));
        let until = now.moment + held.max().unwrap_or_default();
        let question = Question::Held { released: Some((number, until)) };
        let poll = self.poll(question, Some(waiter), |index, member, ballot| {
            seats[index].map(|number| member.release(number, ballot, now))
        });
        self.answer_poll(poll, now);
        self.hand_on(number, now);
        self.votes.locks.remove(&number);
    }

    /// Raises the counters that lag behind the highest one, so that the next tokens are the same everywhere.
    fn agree(&mut self, number: u64, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let Some(floor) = lock.granted().map(|(_, granted)| granted.raising).max() else { return };
        raise(self.members, lock, number, floor, now);
    }

    /// Gives up a lock on all members, granted or not, without waiting for answers.
    pub(super) fn drop_lock(&mut self, number: u64, now: Now) {
        self.vacate(number, now);
        self.hand_on(number, now);
        self.votes.locks.remove(&number);
    }

    /// Gives up all votes.
    pub(super) fn vacate(&mut self, number: u64, now: Now) {
        if let Some(lock) = self.votes.locks.get_mut(&number) {
            vacate(self.members, &mut lock.seats, now);
        }
    }

    /// Lets the next attempts of this process go to the servers.
    pub(super) fn hand_on(&mut self, number: u64, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        self.votes.holding.remove(lock.owner, number);
        if !std::mem::replace(&mut lock.lined_up, false) {
            return;
        }
        let names = lock.names.clone();
        for next in self.votes.table.leave(number, &names) {
            self.start(next, now);
        }
    }

    /// Ends an attempt that has failed.
    pub(super) fn fail(&mut self, number: u64, failure: MachineFailure, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        if let Stage::Lined(waiter) | Stage::Waiting(waiter) = std::mem::replace(&mut lock.stage, Stage::Lost) {
            self.votes.tell(waiter, Outcome::Failed(failure));
        }
        self.drop_lock(number, now);
    }

    /// Gives one vote back, which another attempt comes before, and asks for it again if the lock is waited for.
    pub(super) fn give_way(&mut self, number: u64, member: usize, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let Some(granted) = lock.seats[member].granted() else { return };
        self.members[member].cancel(granted.number, now);
        lock.target = None;
        if lock.waits() {
            return self.ask(number, member, now);
        }
        let taken = lock.taken(None);
        lock.seats[member].fail(Some(taken), None, now.moment);
    }

    /// The rank of an attempt that begins now. One that does not wait comes last: it may have a vote and wait for a server
    /// that is away, and cannot be first anywhere else.
    fn next_rank(&mut self, waits: bool) -> Rank {
        if self.votes.highest == 0 || !waits {
            self.votes.last_ranks += 1;
            return Rank { rank: LAST_RANK.saturating_sub(self.votes.last_ranks), is_blind: waits };
        }
        self.votes.last_rank = self.votes.last_rank.max(self.votes.highest) + 1;
        Rank { rank: self.votes.last_rank, is_blind: false }
    }

    /// Gives ranks to attempts that began before any counter was known, unless a majority has granted them.
    pub(super) fn rank_blind(&mut self, now: Now) {
        let numbers: Vec<u64> =
            self.votes.locks.iter().filter(|(_, lock)| lock.rank.is_blind).map(|(number, _)| *number).collect();
        for number in numbers {
            let (rank, majority) = (self.next_rank(true), self.majority());
            let Some(lock) = self.votes.locks.get_mut(&number) else { continue };
            lock.rank = rank;
            if !matches!(lock.stage, Stage::Waiting(_)) || lock.granted().count() >= majority {
                continue;
            }
            for member in 0..self.members.len() {
                let Some(Vote::Asked(sub)) = self.votes.locks.get(&number).map(|lock| &lock.seats[member].vote) else {
                    continue;
                };
                self.members[member].cancel(*sub, now);
                self.ask(number, member, now);
            }
        }
    }

    /// Takes a token or counter that a server told.
    pub(super) fn see(&mut self, told: Option<u64>) {
        self.votes.highest = self.votes.highest.max(told.unwrap_or(0));
    }
}

/// Raises the counters that are lower than `floor` where the lock is granted.
pub(super) fn raise<W, M: Member<Waiter = Waiter<W>>>(
    members: &mut [M],
    lock: &mut Lock<W>,
    number: u64,
    floor: u64,
    now: Now,
) {
    for (member, seat) in members.iter_mut().zip(&mut lock.seats) {
        let Some(granted) = seat.granted_mut().filter(|granted| granted.raising < floor) else { continue };
        granted.raising = floor;
        member.raise(granted.number, floor, Waiter::Quorum(Ballot::Raise { lock: number, floor }), now);
    }
}

/// Gives up the votes of all members.
pub(super) fn vacate<M: Member>(members: &mut [M], seats: &mut [Seat], now: Now) {
    for (member, seat) in members.iter_mut().zip(seats) {
        if let Some(number) = seat.number() {
            member.cancel(number, now);
        }
        seat.vote = Vote::default();
    }
}
