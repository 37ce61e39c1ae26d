//! Asking the members for a lock, and giving it back.

use std::time::Duration;

use super::lock::{Lock, Stage, Vote};
use super::rules::{kept, Rule};
use super::{Ballot, Member, Now, Question, Quorum};
use crate::locks::client::{Outcome, Report, Wish};
use crate::locks::machine::{LockRequest, MachineFailure};

/// How long a member is asked for a lock that a majority holds already. Then it is asked again.
const ASKED_FOR: Duration = Duration::from_secs(3600);

/// The shortest and, before any was measured, the longest round trip that is reckoned with.
const SHORTEST: Duration = Duration::from_millis(1);
const UNMEASURED: Duration = Duration::from_millis(50);

impl<W, M: Member> Quorum<W, M> {
    /// Begins an attempt.
    pub(super) fn enter(&mut self, request: LockRequest, waiter: W, now: Now) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let nested = self.holding.has(request.owner);
        let wait = request.wait.filter(|wait| !wait.is_zero());
        let deadline = now.moment + wait.unwrap_or(self.options.patience);
        let lock = Lock::new(request, waiter, self.members.len(), deadline, nested);
        let leads = nested || self.table.enter(number, &lock.names);
        self.locks.insert(number, lock);
        self.wake_by(deadline);
        if leads {
            self.start(number, now);
        }
        number
    }

    /// Asks all members.
    fn start(&mut self, number: u64, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        let Lock { stage, .. } = lock;
        *stage = match std::mem::replace(stage, Stage::Lost) {
            Stage::Lined(waiter) => Stage::Waiting(waiter),
            other => other,
        };
        for member in 0..self.members.len() {
            self.ask(number, member, now);
        }
    }

    /// Asks one member.
    pub(super) fn ask(&mut self, number: u64, member: usize, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
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
        };
        let ballot = Ballot::Grant { lock: number, since: now.moment };
        // Before the answer, which may come at once if it is a failure.
        let asked = self.members[member].begin(Wish::Lock(request), ballot, now);
        lock.seats[member].vote = asked.map_or(Vote::None { again_at: None }, Vote::Asked);
    }

    /// Releases a held lock on all members. Answers the waiter when a majority has answered.
    pub(super) fn release_all(&mut self, number: u64, waiter: W, now: Now) {
        self.agree(number, now);
        let Some(lock) = self.locks.get(&number) else { return };
        let seats: Vec<Option<u64>> = lock.seats.iter().map(|seat| Some(seat.granted()?.number)).collect();
        for (member, seat) in self.members.iter_mut().zip(&lock.seats) {
            if let Vote::Asked(number) = seat.vote {
                if kept(Rule::ReleaseAll) {
                    member.cancel(number, now);
                }
            }
        }
        self.poll(Question::Release, waiter, now, |member| seats[member].map(|number| Wish::Release { number }));
        self.hand_on(number, now);
        self.locks.remove(&number);
    }

    /// Raises the counters that lag behind the highest one, so that the next tokens are the same everywhere.
    fn agree(&mut self, number: u64, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        let Some(floor) = lock.granted().map(|(_, granted)| granted.raising).max() else { return };
        raise(&mut self.members, lock, number, floor, now);
    }

    /// Gives up a lock on all members, granted or not, without waiting for answers.
    pub(super) fn drop_lock(&mut self, number: u64, now: Now) {
        self.vacate(number, now);
        self.hand_on(number, now);
        self.locks.remove(&number);
    }

    /// Gives up all votes.
    pub(super) fn vacate(&mut self, number: u64, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        for (member, seat) in self.members.iter_mut().zip(&mut lock.seats) {
            if let Some(number) = seat.number() {
                member.cancel(number, now);
            }
            seat.vote = Vote::default();
        }
    }

    /// Lets the next attempts of this process go to the servers.
    pub(super) fn hand_on(&mut self, number: u64, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        self.holding.remove(lock.owner, number);
        if !std::mem::replace(&mut lock.lined_up, false) {
            return;
        }
        let names = lock.names.clone();
        for next in self.table.leave(number, &names) {
            self.start(next, now);
        }
    }

    /// Ends an attempt that has failed.
    pub(super) fn fail(&mut self, number: u64, failure: MachineFailure, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        if let Stage::Lined(waiter) | Stage::Waiting(waiter) = std::mem::replace(&mut lock.stage, Stage::Lost) {
            self.reports.push_back(Report::Done { waiter, outcome: Outcome::Failed(failure) });
        }
        self.drop_lock(number, now);
    }

    /// Gives back votes that are no majority, and queues up again: whoever waits there has them now.
    pub(super) fn give_back(&mut self, number: u64, now: Now) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        (lock.split_at, lock.target) = (None, None);
        lock.splits += 1;
        let granted: Vec<(usize, u64)> = lock.granted().map(|(member, granted)| (member, granted.number)).collect();
        for (member, sub) in granted {
            self.members[member].cancel(sub, now);
            self.ask(number, member, now);
        }
    }

    /// How long votes that are no majority are kept: some round trips, the longer the more of them there are and the
    /// more often they were given back in vain.
    pub(super) fn patience_with_split(&mut self, votes: usize, splits: u32) -> Duration {
        let trip = self.round_trip.unwrap_or(UNMEASURED).max(SHORTEST);
        let trips = 1.0 + self.jitter.below(1024) as f64 / 512.0;
        let doubled = 2u32.saturating_pow(splits.min(16)).saturating_mul(votes as u32);
        trip.mul_f64(trips).saturating_mul(doubled).min(self.options.heartbeat)
    }

    /// Takes the time of a question that the server answered at once.
    pub(super) fn took(&mut self, time: Duration) {
        let before = self.round_trip.unwrap_or(time);
        self.round_trip = Some((before * 7 + time) / 8);
    }
}

/// Raises the counters that are lower than `floor` where the lock is granted.
pub(super) fn raise<W, M: Member>(members: &mut [M], lock: &mut Lock<W>, number: u64, floor: u64, now: Now) {
    for (member, seat) in members.iter_mut().zip(&mut lock.seats) {
        let Some(granted) = seat.granted_mut().filter(|granted| granted.raising < floor) else { continue };
        granted.raising = floor;
        member.begin(Wish::Raise { number: granted.number, floor }, Ballot::Raise { lock: number, floor }, now);
    }
}
