//! What is asked of the only server, or of several, whose answers a quorum counts.

use std::time::{Duration, Instant};

use super::{Front, Pending};
use crate::call::{Attempt, Call, Names};
use crate::client::{Client, Member, Now, Platform, Report};
use crate::failure::Unreleased;
use crate::machine::LockRequest;
use crate::quorum::{Quorum, Waiter};

/// A server that is asked for a front.
pub(super) type Asked<W, L, P> = Client<Waiter<Pending<W, L>>, P>;

pub(super) type OfFront<'q, W, L, P> = Quorum<'q, Pending<W, L>, Asked<W, L, P>>;

impl<W, L, P: Platform> Front<W, L, P> {
    /// Takes a lock. Returns the number of the attempt, if one was begun.
    #[inline]
    pub(super) fn lock(&mut self, request: LockRequest, waiter: Pending<W, L>, now: Now) -> Option<u64> {
        let Some(mut quorum) = self.quorum() else {
            return self.members[0].lock(request, None, Waiter::Caller(waiter), now);
        };
        let number = quorum.lock(request, waiter, now);
        self.end_turn();
        number
    }

    #[inline]
    pub(super) fn release(&mut self, number: u64, waiter: Pending<W, L>, now: Now) {
        match self.quorum() {
            None => return self.members[0].release(number, Waiter::Caller(waiter), now),
            Some(mut quorum) => quorum.release(number, waiter, now),
        }
        self.end_turn();
    }

    /// Releases a lock, however many times its owner has acquired it. The caller waits for at most `wait`.
    pub(super) fn release_wholly(&mut self, number: u64, wait: Duration, waiter: Pending<W, L>, now: Now) {
        match self.quorum() {
            None => return self.members[0].release_wholly(number, wait, Waiter::Caller(waiter), now),
            Some(mut quorum) => {
                quorum.votes.drop_other_holds(number);
                quorum.release(number, waiter, now);
            }
        }
        self.end_turn();
    }

    /// Lets a lock end with its release, although it was to last longer. Only a server that is alone has such locks.
    pub(super) fn end_early(&mut self, number: u64) {
        self.members[0].end_early(number);
    }

    /// The ttl of a lock on the only server.
    pub(super) fn ttl(&self, number: u64) -> Duration {
        self.members[0].ttl(number)
    }

    /// Forgets a lock of the only server that is handed over.
    pub(super) fn forget_handed_over(&mut self, number: u64) -> Option<(Attempt, Names, Duration)> {
        let now = self.members[0].at(self.now);
        self.members[0].hand_over(number, now)
    }

    /// Lets a lock of the only server keep the modes that it has.
    pub(super) fn stop_changing(&mut self, number: u64, now: Instant) {
        let now = self.members[0].at(now);
        self.members[0].stop_changing(number, now);
    }

    pub(super) fn extend(&mut self, number: u64, ttl: Duration, waiter: Pending<W, L>, now: Now) {
        match self.quorum() {
            None => return self.members[0].extend(number, ttl, Waiter::Caller(waiter), now),
            Some(mut quorum) => quorum.extend(number, ttl, waiter, now),
        }
        self.end_turn();
    }

    /// Asks something that concerns no lock of this client.
    pub(super) fn ask(&mut self, call: Call, waiter: Pending<W, L>, now: Now) {
        match self.quorum() {
            None => return self.members[0].ask(call, Waiter::Caller(waiter), now),
            Some(mut quorum) => quorum.ask_all(&call, waiter, now),
        }
        self.end_turn();
    }

    /// Gives up a lock, granted or not. Does not wait for the answer.
    pub(super) fn give_back(&mut self, number: u64, now: Instant) {
        let now = self.members[0].at(now);
        match self.quorum() {
            None => return self.members[0].cancel(number, now),
            Some(mut quorum) => quorum.cancel(number, now),
        }
        self.end_turn();
    }

    /// Ends the wait of whoever waits for a lock that is not granted.
    pub(super) fn end_wait(&mut self, number: u64, now: Instant) {
        let now = self.members[0].at(now);
        match self.quorum() {
            None => return self.members[0].stop_waiting(number, now),
            Some(mut quorum) => quorum.stop_waiting(number, now),
        }
        self.end_turn();
    }

    /// Forsakes one of several acquisitions of a lock: its owner can no longer release it, but the others can. If it is
    /// the only one, the lock ends with its ttl.
    pub(super) fn forsake_hold(&mut self, number: u64) {
        let (is_shared, now) = (self.registry.has_any(number), self.members[0].now());
        match (self.quorum(), is_shared) {
            (None, true) => self.members[0].drop_hold(number),
            (None, false) => self.members[0].forsake(number),
            (Some(quorum), true) => quorum.votes.drop_hold(number),
            (Some(mut quorum), false) => quorum.forsake(number, now),
        }
    }

    /// How long a lock still counts as held.
    #[inline]
    pub(super) fn held(&self, number: u64) -> Option<Duration> {
        let now = self.members[0].at(self.now);
        match &self.votes {
            None => self.members[0].held(number, now),
            Some(votes) => votes.held(&self.members, number, now),
        }
    }

    /// What becomes of a lock whose release failed.
    pub(super) fn unreleased(&self, number: u64) -> Unreleased {
        match &self.votes {
            _ if self.closed => Unreleased::Over,
            None => Unreleased::GoesOn(self.members[0].lasts(number)),
            Some(votes) => Unreleased::GoesOn(votes.lasts(number, self.members[0].now())),
        }
    }

    #[inline]
    pub(super) fn next_report(&mut self) -> Option<Report<Waiter<Pending<W, L>>>> {
        match &mut self.votes {
            None => self.members[0].next_report(),
            Some(votes) => votes.next_report(),
        }
    }

    /// What counts the votes of several members.
    #[inline]
    pub(super) fn quorum(&mut self) -> Option<OfFront<'_, W, L, P>> {
        let votes = self.votes.as_deref_mut()?;
        Some(Quorum { members: &mut self.members, votes })
    }

    /// Has the host end the turn, which hands out what has finished.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        self.members[0].end_turn();
    }
}
