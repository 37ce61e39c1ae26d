//! What is found out about a server that was connected: whether it may vote, and below which number no token may be.
//!
//! It may have been restarted with an older counter, or with none, behind a clock that is slow. So the counters of all
//! connected members are read once it is there. Whatever token was given before is not higher than the highest of them,
//! unless all servers that have stored it are gone or have lost it.

use std::time::Duration;

use super::polls::Question;
use super::{Known, Quorum, Waiter};
use crate::call::{Call, ScriptAnswer};
use crate::client::{Member, Now};
use crate::machine::{MachineFailure, Moment};
use crate::quorum::lock::Stage;
use crate::quorum::polls::Answer;

/// The pause before counters are read again that too few members told.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What is known about a member's server.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) known: Known,
    /// The number of the quorum when it was connected. Polls were asked later if their number is not lower.
    pub(super) since: u64,
    pub(super) floor: Option<u64>,
}

impl<W, M: Member<Waiter = Waiter<W>>> Quorum<'_, W, M> {
    /// Notes which members have told what they are. Returns whether anything has changed.
    pub(super) fn notice_standing(&mut self, now: Now) -> bool {
        let mut changed = false;
        for at in 0..self.members.len() {
            let before = self.votes.about[at].known;
            let known = match (self.members[at].standing(), before) {
                (Some(_), _) => Known::Now,
                (None, Known::Now) => Known::Gone(now.moment),
                (None, before) => before,
            };
            if known == before {
                continue;
            }
            if known == Known::Now {
                self.begin_anew(at);
            }
            self.votes.about[at] = About { known, since: self.votes.next_number, floor: None };
            changed |= known == Known::Now;
            if let Some(out_at) = self.out_at(known) {
                self.wake_by(out_at);
            }
        }
        if changed {
            self.votes.twins = twins(self.members);
            let waiting = self.votes.locks.iter().filter(|(_, lock)| matches!(lock.stage, Stage::Waiting(_)));
            let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
            waiting.into_iter().for_each(|number| self.await_votes(number));
            self.read_counters(now);
            self.inform_seats(now);
        }
        changed
    }

    /// Asks the connected members for their counters.
    fn read_counters(&mut self, now: Now) {
        let known: Vec<Known> = self.votes.about.iter().map(|about| about.known).collect();
        self.poll(Question::Counters, None, |index, member, ballot| {
            (known[index] == Known::Now).then(|| member.ask(Call::Open { seen: 0 }, ballot, now))
        });
        self.votes.read_at = None;
    }

    /// Takes the counters, once all have answered that are still there.
    pub(super) fn take_counters(&mut self, number: u64, now: Now) {
        let Some(poll) = self.votes.polls.get(&number) else { return };
        if poll.answers.iter().any(|answer| matches!(answer, Answer::Pending)) {
            return;
        }
        let counters = poll.answers.iter().filter_map(|answer| match answer {
            Answer::Answered(ScriptAnswer::Opened { counter }) => Some(*counter),
            _ => None,
        });
        let counters: Vec<u64> = counters.collect();
        self.votes.polls.remove(&number);
        self.see(counters.iter().copied().max());
        match counters.iter().max().filter(|_| counters.len() >= self.majority()) {
            Some(highest) => {
                let asked = |about: &&mut About| about.known == Known::Now && about.since <= number;
                for about in self.votes.about.iter_mut().filter(asked) {
                    about.floor = about.floor.or(Some(*highest));
                }
                self.rank_blind(now);
                self.inform_seats(now);
            }
            None if self.lacks_floors() => {
                let at = now.moment + AGAIN_AFTER;
                self.votes.read_at = Some(at);
                self.wake_by(at);
            }
            None => {}
        }
    }

    fn lacks_floors(&self) -> bool {
        self.votes.about.iter().any(|about| about.known == Known::Now && about.floor.is_none())
    }

    /// Reads the counters again, if that is due.
    pub(super) fn read_again(&mut self, now: Now) {
        if self.votes.read_at.is_some_and(|at| at <= now.moment) {
            self.read_counters(now);
        }
    }

    /// Forgets what a member was told on its last connection and has not confirmed. What it has told meanwhile was not
    /// heard.
    fn begin_anew(&mut self, member: usize) {
        for lock in self.votes.locks.values_mut() {
            let seat = &mut lock.seats[member];
            if let Some(granted) = seat.granted_mut() {
                granted.raising = granted.stored;
                seat.contested = matches!(self.votes.about[member].known, Known::Gone(_));
            }
        }
    }

    /// Lets the grants of members know what was found out.
    fn inform_seats(&mut self, now: Now) {
        for lock in self.votes.locks.values_mut() {
            for (at, seat) in lock.seats.iter_mut().enumerate() {
                let Some(granted) = seat.granted_mut() else { continue };
                let votes_from = || self.members[at].standing().map(|standing| standing.votes_from);
                granted.votes_from = granted.votes_from.or_else(votes_from);
                granted.floor = granted.floor.or(self.votes.about[at].floor);
            }
        }
        let numbers: Vec<u64> = self.votes.locks.keys().copied().collect();
        for number in numbers {
            match (self.same_server_twice(), self.votes.locks.get(&number).map(|lock| &lock.stage)) {
                (Some(error), Some(Stage::Waiting(_))) => self.fail(number, MachineFailure::from(error), now),
                _ => self.settle_anew(number, now),
            }
        }
    }

    /// When a member that is gone is not reckoned with any more.
    pub(super) fn out_at(&self, known: Known) -> Option<Moment> {
        match known {
            Known::Gone(since) => Some(since + self.votes.settings.options.patience),
            Known::Never | Known::Now => None,
        }
    }

    /// Whether a member has been gone for so long that its answer is not awaited.
    pub(super) fn is_out(&self, member: usize, now: Now) -> bool {
        self.out_at(self.votes.about[member].known).is_some_and(|at| at <= now.moment)
    }
}

/// Two members that are the same process.
fn twins<M: Member>(members: &[M]) -> Option<(usize, usize)> {
    let runs: Vec<Option<&str>> = members.iter().map(|member| member.standing().map(|of| &*of.run)).collect();
    let other = |at: usize| runs[..at].iter().position(|run| run.is_some() && *run == runs[at]);
    (0..runs.len()).find_map(|at| Some((other(at)?, at)))
}
