//! What the members say, and what follows for a lock.

use std::time::Duration;

use super::asking::raise;
use super::failing::{failed, Why};
use super::lock::{Granted, Lock, Seat, Stage, Vote};
use super::rules::{kept, Rule};
use super::{Ballot, Known, Quorum, Waiter};
use crate::client::{Member, Now, Outcome, Report};
use crate::loss::Loss;
use crate::machine::{MachineFailure, Renewal};

/// The longest pause before a member that failed is asked again for a lock that is waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether a member that has failed may have the lock later.
fn may_pass(failure: &MachineFailure) -> bool {
    matches!(failure, MachineFailure::Server(error) if error.may_pass_here())
}

impl<W, M: Member<Waiter = Waiter<W>>> Quorum<'_, W, M> {
    /// Takes what the members report. Call it after every call to a member.
    pub fn collect(&mut self, now: Now) {
        loop {
            let mut any = self.notice_standing(now);
            for member in 0..self.members.len() {
                while let Some(report) = self.members[member].next_report() {
                    any = true;
                    self.told(member, report, now);
                }
                while let Some(sub) = self.members[member].next_contested() {
                    any = true;
                    self.contested(member, sub, now);
                }
            }
            if !any {
                break;
            }
        }
    }

    fn told(&mut self, member: usize, report: Report<Waiter<W>>, now: Now) {
        match report {
            Report::Done { waiter: Waiter::Caller(_), .. } => {}
            Report::Warning(text) => self.votes.reports.push_back(Report::Warning(text)),
            Report::Event(event) => self.votes.reports.push_back(Report::Event(event)),
            Report::Lost { number, loss } => {
                let of = |lock: &Lock<W>| lock.seats[member].granted().is_some_and(|vote| vote.number == number);
                let Some(lock) = self.votes.locks.iter().find(|(_, lock)| of(lock)).map(|(lock, _)| *lock) else {
                    return;
                };
                self.vote_lost(lock, member, loss, now);
            }
            Report::Done { waiter: Waiter::Quorum(Ballot::Grant { lock }), outcome } => match outcome {
                Outcome::Granted { number, token, .. } => self.granted(lock, member, number, token, now),
                Outcome::Failed(failure) => self.vote_failed(lock, member, failure, now),
                _ => {}
            },
            Report::Done { waiter: Waiter::Quorum(Ballot::Raise { lock, floor }), outcome } => {
                self.raised(lock, member, floor, outcome, now);
            }
            Report::Done { waiter: Waiter::Quorum(Ballot::Answer { poll }), outcome } => {
                if let Some(of) = self.votes.polls.get_mut(&poll) {
                    of.take(member, outcome);
                    self.answer_poll(poll, now);
                }
            }
        }
    }

    fn granted(&mut self, number: u64, member: usize, sub: u64, token: u64, now: Now) {
        self.see(Some(token));
        let votes_from = self.members[member].standing().map(|standing| standing.votes_from);
        let floor = self.votes.about[member].floor;
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        if !matches!(lock.seats[member].vote, Vote::Asked(asked) if asked == sub) {
            return;
        }
        lock.seats[member].grant(sub, token, votes_from, floor);
        if let Stage::Held { token, .. } = lock.stage {
            let renewal = lock.renewal_now(now.moment);
            self.members[member].set_renewal(sub, renewal, now);
            raise(self.members, lock, number, token, now);
        }
        self.settle(number, now);
    }

    fn vote_failed(&mut self, number: u64, member: usize, failure: MachineFailure, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        if matches!(lock.seats[member].vote, Vote::Granted(_)) {
            return;
        }
        if matches!(failure, MachineFailure::Timeout { .. }) && lock.waits() && now.moment < lock.deadline {
            // Its time was prolonged since it asked.
            return self.ask(number, member, now);
        }
        let retries = match lock.stage {
            Stage::Held { .. } => lock.is_kept(now.moment),
            _ => lock.waits() && may_pass(&failure),
        };
        let most = if lock.waits() {
            self.votes.settings.options.heartbeat.min(LONGEST_PAUSE)
        } else {
            self.votes.settings.options.heartbeat
        };
        lock.seats[member].fail(Some(failure), retries.then_some(most), now.moment);
        self.settle(number, now);
    }

    fn raised(&mut self, number: u64, member: usize, floor: u64, outcome: Outcome, now: Now) {
        let heartbeat = self.votes.settings.options.heartbeat;
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let Some(granted) = lock.seats[member].granted_mut() else { return };
        match outcome {
            Outcome::Extended { held: true } => granted.stored = granted.stored.max(floor),
            Outcome::Failed(failure) if self.votes.about[member].known == Known::Now => {
                self.members[member].cancel(granted.number, now);
                lock.seats[member].fail(Some(failure), Some(heartbeat), now.moment);
            }
            // Without a connection, it is raised again on the next one. If it is not held, it will be reported lost.
            _ => return,
        }
        self.settle(number, now);
    }

    fn vote_lost(&mut self, number: u64, member: usize, loss: Loss, now: Now) {
        let heartbeat = self.votes.settings.options.heartbeat;
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        let Some(sub) = lock.seats[member].number() else { return };
        // The member forgets it.
        self.members[member].cancel(sub, now);
        lock.seats[member].fail(None, Some(heartbeat), now.moment);
        let wanted = match lock.stage {
            Stage::Held { .. } => {
                lock.remaining(self.members, now).is_some() && lock.is_kept(now.moment) && kept(Rule::AskAgain)
            }
            _ => lock.waits(),
        };
        if !wanted {
            lock.seats[member].vote = Vote::None { again_at: None };
        }
        self.settle_after(number, loss, now);
    }

    /// Decides it again, and tells the members their token that have not confirmed it.
    pub(super) fn settle_anew(&mut self, number: u64, now: Now) {
        if let Some(lock) = self.votes.locks.get_mut(&number) {
            if let Stage::Held { token, .. } = lock.stage {
                raise(self.members, lock, number, token, now);
            }
        }
        self.settle(number, now);
    }

    /// Decides what the votes mean for a lock.
    pub(super) fn settle(&mut self, number: u64, now: Now) {
        self.settle_after(number, Loss::Expired, now);
    }

    fn settle_after(&mut self, number: u64, loss: Loss, now: Now) {
        let Some(lock) = self.votes.locks.get(&number) else { return };
        match lock.stage {
            Stage::Waiting(_) => self.count(number, now),
            Stage::Held { .. } if lock.remaining(self.members, now).is_none() => self.lose(number, loss, now),
            Stage::Held { .. } | Stage::Lined(_) | Stage::Lost => {}
        }
        if let Some(due) = self.votes.locks.get(&number).and_then(|lock| lock.due(now.moment)) {
            self.wake_by(due);
        }
    }

    /// Counts the votes of an attempt.
    fn count(&mut self, number: u64, now: Now) {
        let majority = self.majority();
        let lock = self.votes.locks.get_mut(&number).expect("it was there");
        let mut tokens: Vec<u64> = lock.voters(self.members, now).map(|(_, granted)| granted.least()).collect();
        if tokens.len() >= majority {
            tokens.sort_unstable();
            let agreed = lock.target.filter(|target| tokens[majority - 1] <= *target);
            let token = agreed.unwrap_or(tokens[majority - 1]);
            let stored =
                |granted: &Granted| granted.least() <= token && (granted.stored >= token || !kept(Rule::StoredToken));
            if lock.voters(self.members, now).filter(|(_, granted)| stored(granted)).count() >= majority {
                return self.hold(number, token, now);
            }
            lock.target = Some(token);
            return raise(self.members, lock, number, token, now);
        }
        if let Some(failure) = self.failure(number, now) {
            return self.fail(number, failure, now);
        }
        let lock = &self.votes.locks[&number];
        if lock.granted().count() >= majority || !kept(Rule::GiveWay) {
            return;
        }
        let contested: Vec<usize> =
            lock.granted().map(|(member, _)| member).filter(|member| lock.seats[*member].contested).collect();
        for member in contested {
            self.give_way(number, member, now);
        }
    }

    /// Notes that an attempt which comes before waits for a vote.
    fn contested(&mut self, member: usize, sub: u64, now: Now) {
        let is_it = |(_, lock): &(&u64, &mut Lock<W>)| lock.seats[member].number() == Some(sub);
        let Some((number, lock)) = self.votes.locks.iter_mut().find(is_it) else { return };
        let number = *number;
        lock.seats[member].contested = true;
        self.settle(number, now);
    }

    /// A majority has granted it, and has stored its token.
    fn hold(&mut self, number: u64, token: u64, now: Now) {
        let lock = self.votes.locks.get_mut(&number).expect("it was there");
        let Stage::Waiting(waiter) = std::mem::replace(&mut lock.stage, Stage::Held { token, granted: now.moment })
        else {
            return;
        };
        if lock.renewal != Renewal::Always {
            for (member, seat) in self.members.iter_mut().zip(&lock.seats) {
                seat.number().into_iter().for_each(|sub| member.set_renewal(sub, lock.renewal, now));
            }
        }
        raise(self.members, lock, number, token, now);
        self.votes.holding.add(lock.owner, number);
        let outcome = Outcome::Granted { number, token, notified: false, again: false };
        self.votes.tell(waiter, outcome);
    }

    /// Marks a lock lost, and gives up what is left of it.
    pub(super) fn lose(&mut self, number: u64, loss: Loss, now: Now) {
        self.vacate(number, now);
        self.hand_on(number, now);
        if let Some(lock) = self.votes.locks.get_mut(&number) {
            lock.stage = Stage::Lost;
            self.votes.reports.push_back(Report::Lost { number, loss });
        }
    }

    /// Why a majority can no longer be had, if that is so.
    fn failure(&self, number: u64, now: Now) -> Option<MachineFailure> {
        let lock = &self.votes.locks[&number];
        let out = lock.seats.iter().enumerate().filter(|(at, seat)| match &seat.vote {
            Vote::Granted(granted) => !lock.waits() && !granted.is_of_age(now.moment),
            Vote::Asked(_) if lock.waits() => false,
            Vote::Asked(_) => {
                self.is_out(*at, now) || seat.failure.is_some() && self.votes.about[*at].known != Known::Now
            }
            Vote::None { again_at } => again_at.is_none() && seat.failure.is_some(),
        });
        (out.count() > self.members.len() - self.majority()).then(|| self.why(lock, now))
    }

    /// Why an attempt does not have its lock.
    fn why(&self, lock: &Lock<W>, now: Now) -> MachineFailure {
        let failures = || lock.seats.iter().filter_map(|seat| seat.failure.as_ref());
        let fatal = |failure: &&MachineFailure| {
            matches!(failure, MachineFailure::Deadlock { .. } | MachineFailure::AlreadyHeld)
        };
        if let Some(failure) = failures().find(fatal) {
            return failure.clone();
        }
        let said = |(at, seat): (usize, &Seat)| {
            let name = self.members[at].name();
            match (&seat.failure, &seat.vote) {
                (Some(failure), _) => Why::of(name, failure),
                (None, Vote::Granted(granted)) if !granted.is_of_age(now.moment) => {
                    Some(Why::young(name, granted.votes_from.map(|from| from - now.moment)))
                }
                (None, Vote::Asked(_)) => match self.members[at].trouble() {
                    Some(error) => Why::of(name, &MachineFailure::from(error.clone())),
                    None => self.is_out(at, now).then(|| Why::gone(name)),
                },
                _ => None,
            }
        };
        let why: Vec<Why> = lock.seats.iter().enumerate().filter_map(said).collect();
        match why.len() > self.members.len() - self.majority() {
            true => failed(self.members, why.into_iter(), "no majority of the servers can hold the lock"),
            false => lock.taken(lock.blocker(self.majority())),
        }
    }

    /// Does what is due for one lock.
    pub(super) fn expire_one(&mut self, number: u64, now: Now) {
        self.settle(number, now);
        let Some(lock) = self.votes.locks.get(&number) else { return };
        let is_late = lock.deadline <= now.moment;
        match lock.stage {
            Stage::Lined(_) if is_late => {
                let blocker = self.holder_here(&lock.names, now);
                let failure = MachineFailure::timeout(lock.wait.unwrap_or_default(), blocker);
                return self.fail(number, failure, now);
            }
            Stage::Waiting(_) if is_late => {
                let failure = self.why(lock, now);
                return self.fail(number, failure, now);
            }
            Stage::Waiting(_) | Stage::Held { .. } => {}
            Stage::Lined(_) | Stage::Lost => return,
        }
        for member in 0..self.members.len() {
            let seat = self.votes.locks.get(&number).map(|lock| &lock.seats[member].vote);
            if matches!(seat, Some(Vote::None { again_at: Some(at) }) if *at <= now.moment) {
                self.ask(number, member, now);
            }
        }
    }
}
