//! Locks that a majority of independent servers holds.
//!
//! Each server has its own client ([`Member`]), which asks, waits, renews and releases as if it were alone. The quorum only counts:
//! no I/O, no clock. Its rules:
//! - A lock is asked of all members at once. It is held while a majority of them grant it.
//! - Its token is at least that of each grant that counts, and each of these servers has stored a number that is not
//!   lower. Another majority shares a server with this one, so every later token is higher.
//! - A server that was started a short time ago may have forgotten locks that are held. It has no vote until they would
//!   have ended: [`Standing`](super::client::Standing).
//!
//! How split votes are decided. All attempts stand in one order, which every server knows from their numbers
//! ([`Claim`](super::claim::Claim)): by rank, which is one more than the highest token that their client has seen, and
//! then by client. So who has just had the lock comes after all who waited meanwhile. Each server grants in this order,
//! and tells its holder when an attempt that comes before is the first to wait. A holder with a majority need not care.
//! Any other gives that server's vote back at once, and asks for it again.
//!
//! So a vote moves only to attempts that come before, until someone has a majority. Let every message arrive within a
//! round. Then the first attempt in the order has asked everywhere after one round; holders that are no majority have
//! heard of it after two, their votes are back on the servers after three, and it has heard of its grants after four. If
//! their tokens differ, a majority has stored the highest after five, and has said so after six. However many contend,
//! somebody has the lock within six rounds, as long as a majority of the servers answers. Only an attempt that comes
//! before all others begins this anew. A client that contends has no such attempt: it has seen the others' tokens. A
//! message that is lost with its connection is made up for when the holder is connected again, or the waiter polls.
//!
//! Plain locks wait in order for all of their names. Nested ones overtake, as they must wait for nothing but holders;
//! between those that want several names, a timeout may decide.
//!
//! Before a lock counts as held, the members whose own number is lower than its token are raised to the token. The
//! counters then stay in step, so acquiring and releasing without contention is two commands on each server.

mod asking;
mod counting;
mod failing;
mod floors;
mod lock;
mod member;
mod polls;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Attempt, Call, Names};
use crate::client::{Member, Now, Outcome, Report, Setup};
use crate::holding::Holding;
use crate::loss::Loss;
use crate::machine::{Blocker, Fairness, LockRequest, MachineFailure, Moment, Table};
use asking::vacate;
use floors::About;
use lock::{majority, Lock, Stage, Vote};
pub use member::{Ballot, Waiter};
use pinyon_net::error::{Error, Kind};
use polls::{Answer, Poll, Question};

/// The members, and their votes so far.
pub struct Quorum<'q, W, M> {
    pub members: &'q mut [M],
    pub votes: &'q mut Votes<W>,
}

/// The votes of all members on all locks.
pub struct Votes<W> {
    settings: Setup,
    /// The longest ttl that any client gives a lock. Zero: no server has forgotten any.
    longest_ttl: Duration,
    client: Arc<str>,
    next_number: u64,
    locks: BTreeMap<u64, Lock<W>>,
    polls: BTreeMap<u64, Poll<W>>,
    /// When the locks end whose release goes on, though its caller has been told that it failed.
    unreleased: BTreeMap<u64, Moment>,
    table: Table,
    holding: Holding,
    reports: VecDeque<Report<Waiter<W>>>,
    due: Option<Moment>,
    /// The highest token or counter that any server has told.
    highest: u64,
    /// The last rank that was given, and how many were given behind all others.
    last_rank: u64,
    last_ranks: u64,
    /// What is known about the server of each member.
    about: Vec<About>,
    /// When to read the counters again.
    read_at: Option<Moment>,
    /// Two members that are the same server.
    twins: Option<(usize, usize)>,
}

/// Whether a member's server has told what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Never,
    Now,
    /// Not since then.
    Gone(Moment),
}

impl<W> Votes<W> {
    /// `client`: the name by which all members know this client.
    pub fn new(members: usize, settings: Setup, longest_ttl: Duration, client: Arc<str>) -> Self {
        Self {
            about: vec![About { known: Known::Never, since: 0, floor: None }; members],
            read_at: None,
            settings,
            longest_ttl,
            client,
            next_number: 1,
            locks: BTreeMap::new(),
            polls: BTreeMap::new(),
            unreleased: BTreeMap::new(),
            table: Table::new(Fairness::Throughput),
            holding: Holding::default(),
            reports: VecDeque::new(),
            due: None,
            highest: 0,
            last_rank: 0,
            last_ranks: 0,
            twins: None,
        }
    }

    pub fn settings(&self) -> &Setup {
        &self.settings
    }

    /// Drops one of several acquisitions of a lock.
    pub fn drop_hold(&mut self, number: u64) {
        if let Some(lock) = self.locks.get_mut(&number).filter(|lock| lock.holds > 1) {
            lock.holds -= 1;
        }
    }

    /// Drops all but one acquisition of a lock.
    pub fn drop_other_holds(&mut self, number: u64) {
        self.locks.entry(number).and_modify(|lock| lock.holds = 1);
    }

    /// How long a majority of the members still holds a lock.
    pub fn held<M: Member>(&self, members: &[M], number: u64, now: Now) -> Option<Duration> {
        self.locks.get(&number)?.remaining(members, now)
    }

    /// For how long a lock lasts at most whose release has failed.
    pub fn lasts(&self, number: u64, now: Now) -> Option<Duration> {
        self.unreleased.get(&number).map(|until| *until - now.moment)
    }

    pub fn next_report(&mut self) -> Option<Report<Waiter<W>>> {
        self.reports.pop_front()
    }

    /// When to call [`Quorum::expire`]. Earlier or later is harmless.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Whether nothing is held or wanted.
    pub fn is_idle(&self) -> bool {
        self.locks.is_empty() && self.polls.values().all(|poll| poll.waiter.is_none())
    }

    fn allows(&self, ttl: Duration, why: &str) -> Result<(), Error> {
        if ttl <= self.longest_ttl || self.longest_ttl.is_zero() {
            return Ok(());
        }
        let (ttl, longest) = (ttl.as_secs_f64(), self.longest_ttl.as_secs_f64());
        let message = format!("the ttl of {ttl} s is longer than longest_ttl, {longest} s{why}");
        Err(Error::new(Kind::Usage, &"".into(), message))
    }

    fn tell(&mut self, waiter: W, mut outcome: Outcome) {
        if let Outcome::Failed(MachineFailure::Server(error)) = &mut outcome {
            if error.server.is_empty() {
                error.server = self.settings.server.clone();
            }
        }
        self.reports.push_back(Report::Done { waiter: Waiter::Caller(waiter), outcome });
    }
}

/// Each operation ends with an outcome, like those of a single server.
impl<W, M: Member<Waiter = Waiter<W>>> Quorum<'_, W, M> {
    /// Cancels an attempt whose caller no longer waits, or releases its lock without waiting for the answer.
    pub fn cancel(&mut self, number: u64, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number) else { return };
        match lock.stage {
            Stage::Held { .. } if lock.holds > 1 => lock.holds -= 1,
            _ => self.drop_lock(number, now),
        }
        self.collect(now);
    }

    /// Closes the quorum: nothing is awaited any more. What is waited for is given up on all members. Held locks are not
    /// released.
    pub fn close(&mut self, error: &Error, now: Now) {
        let failed = || Outcome::Failed(MachineFailure::from(error.clone()));
        let locks = std::mem::take(&mut self.votes.locks);
        for mut lock in locks.into_values() {
            if let Stage::Lined(waiter) | Stage::Waiting(waiter) = lock.stage {
                self.votes.tell(waiter, failed());
                vacate(self.members, &mut lock.seats, now);
            }
        }
        for waiter in std::mem::take(&mut self.votes.polls).into_values().filter_map(|poll| poll.waiter) {
            self.votes.tell(waiter, failed());
        }
        self.votes.holding.clear();
        self.votes.unreleased.clear();
    }

    /// Gives up a lock that is waited for: whoever waits gets [`MachineFailure::Busy`].
    pub fn stop_waiting(&mut self, number: u64, now: Now) {
        let is_awaited = |lock: &Lock<W>| matches!(lock.stage, Stage::Lined(_) | Stage::Waiting(_));
        let Some(lock) = self.votes.locks.get_mut(&number).filter(|lock| is_awaited(lock)) else { return };
        if let Stage::Lined(waiter) | Stage::Waiting(waiter) = std::mem::replace(&mut lock.stage, Stage::Lost) {
            self.votes.tell(waiter, Outcome::Failed(MachineFailure::Busy));
        }
        self.drop_lock(number, now);
        self.collect(now);
    }

    /// Forsakes a lock that no caller can release any more: it ends with its ttl.
    pub fn forsake(&mut self, number: u64, now: Now) {
        let Some(lock) = self.votes.locks.get_mut(&number).filter(|lock| matches!(lock.stage, Stage::Held { .. }))
        else {
            return;
        };
        for (member, seat) in self.members.iter_mut().zip(&mut lock.seats) {
            match seat.vote {
                Vote::Granted(ref granted) => member.forsake(granted.number),
                Vote::Asked(number) => member.cancel(number, now),
                Vote::None { .. } => {}
            }
        }
        self.hand_on(number, now);
        self.votes.locks.remove(&number);
        self.collect(now);
    }

    /// Does what is due. The members have done so before.
    pub fn expire(&mut self, now: Now) {
        self.collect(now);
        if self.votes.due.is_none_or(|due| due > now.moment) {
            return;
        }
        self.read_again(now);
        let numbers: Vec<u64> = self.votes.locks.keys().copied().collect();
        for number in numbers {
            self.expire_one(number, now);
        }
        self.collect(now);
        let gone = self.votes.about.iter().filter_map(|about| self.out_at(about.known)).filter(|at| *at > now.moment);
        let locks = self.votes.locks.values().filter_map(|lock| lock.due(now.moment));
        self.votes.due = locks.chain(gone).chain(self.votes.read_at).min();
    }

    pub fn lock(&mut self, request: LockRequest, waiter: W, now: Now) -> Option<u64> {
        let number = match self.admitted(&request, now) {
            Ok(None) => self.enter(request, waiter, now),
            Ok(Some((number, token))) => {
                self.votes.tell(waiter, Outcome::Granted { number, token, notified: false, again: true });
                number
            }
            Err(failure) => {
                self.votes.tell(waiter, Outcome::Failed(failure));
                return None;
            }
        };
        self.collect(now);
        Some(number)
    }

    /// Whether a request may begin; or the lock that its owner holds already, with its token.
    fn admitted(&mut self, request: &LockRequest, now: Now) -> Result<Option<(u64, u64)>, MachineFailure> {
        if let Some(again) = self.held_again(request, now)? {
            return Ok(Some(again));
        }
        let why =
            ": a server that forgot its locks would vote too early; set longest_ttl, in all clients, to the longest \
                   ttl of any lock";
        self.votes.allows(request.ttl, why).map_err(MachineFailure::from)?;
        if let Some(error) = self.same_server_twice() {
            return Err(MachineFailure::from(error));
        }
        if self.votes.holding.has(request.owner) || self.votes.table.is_free(&request.names) {
            return Ok(None);
        }
        match request.wait {
            None => Err(MachineFailure::Busy),
            Some(Duration::ZERO) => {
                let blocker = self.holder_here(&request.names, now);
                Err(MachineFailure::timeout(Duration::ZERO, blocker))
            }
            Some(_) => Ok(None),
        }
    }

    /// The lock of an owner that already holds one of the names, if that covers all of them and is reentrant.
    fn held_again(&mut self, request: &LockRequest, now: Now) -> Result<Option<(u64, u64)>, MachineFailure> {
        let shares = |number: &u64| self.votes.locks[number].names.iter().any(|name| request.names.contains(name));
        let Some(number) = self.votes.holding.of(request.owner).find(shares) else { return Ok(None) };
        let token = self.votes.locks[&number].token().filter(|_| self.held(number, now).is_some());
        let Some(token) = token else {
            self.lose(number, Loss::Expired, now);
            return Ok(None);
        };
        let lock = self.votes.locks.get_mut(&number).expect("what is held is known");
        if !request.reentrant || !request.names.iter().all(|name| lock.names.contains(name)) {
            return Err(match request.wait {
                Some(_) => MachineFailure::AlreadyHeld,
                None => MachineFailure::Busy,
            });
        }
        lock.holds += 1;
        Ok(Some((number, token)))
    }

    pub fn release(&mut self, number: u64, waiter: W, now: Now) {
        let stage = self.votes.locks.get_mut(&number).map(|lock| (matches!(lock.stage, Stage::Held { .. }), lock));
        let held = match stage {
            Some((held, lock)) if lock.holds > 1 && (held || matches!(lock.stage, Stage::Lost)) => {
                lock.holds -= 1;
                held
            }
            Some((true, _)) => {
                self.release_all(number, waiter, now);
                return self.collect(now);
            }
            Some((false, lock)) if matches!(lock.stage, Stage::Lost) => {
                self.votes.locks.remove(&number);
                false
            }
            _ => false,
        };
        self.votes.tell(waiter, Outcome::Released { held });
        self.collect(now);
    }

    pub fn extend(&mut self, number: u64, ttl: Duration, waiter: W, now: Now) {
        if self.held(number, now).is_none() {
            self.votes.tell(waiter, Outcome::Extended { held: false });
            return self.collect(now);
        }
        if let Err(error) = self.votes.allows(ttl, "") {
            self.votes.tell(waiter, Outcome::Failed(MachineFailure::from(error)));
            return self.collect(now);
        }
        let lock = self.votes.locks.get_mut(&number).expect("it is held");
        lock.ttl = ttl;
        let seats: Vec<Option<u64>> = lock.seats.iter().map(|seat| Some(seat.granted()?.number)).collect();
        let poll = self.poll(Question::Held { released: None }, Some(waiter), |index, member, ballot| {
            seats[index].map(|number| member.extend(number, ttl, ballot, now))
        });
        self.answer_poll(poll, now);
        self.collect(now);
    }

    /// Asks all members something that concerns no lock of this client.
    pub fn ask_all(&mut self, call: &Call, waiter: W, now: Now) {
        let ask = |_, member: &mut M, ballot| {
            member.ask(call.clone(), ballot, now);
            Some(())
        };
        let poll = self.poll(Question::Ask, Some(waiter), ask);
        self.answer_poll(poll, now);
        self.collect(now);
    }

    /// Asks members a question. `ask` returns `None` for one that it does not ask.
    fn poll(
        &mut self,
        question: Question,
        waiter: Option<W>,
        mut ask: impl FnMut(usize, &mut M, Waiter<W>) -> Option<()>,
    ) -> u64 {
        let poll = self.votes.next_number;
        self.votes.next_number += 1;
        let mut answers = Vec::with_capacity(self.members.len());
        for (index, member) in self.members.iter_mut().enumerate() {
            let asked = ask(index, member, Waiter::Quorum(Ballot::Answer { poll }));
            answers.push(asked.map_or(Answer::NotAsked, |()| Answer::Pending));
        }
        self.votes.polls.insert(poll, Poll { waiter, question, answers });
        poll
    }

    /// Reports the outcome of a poll, if it is decided.
    fn answer_poll(&mut self, number: u64, now: Now) {
        let Some(poll) = self.votes.polls.get(&number) else { return };
        if poll.question == Question::Counters {
            return self.take_counters(number, now);
        }
        let Some(outcome) = poll.outcome(self.members) else { return };
        if let (Question::Held { released: Some((lock, until)) }, Outcome::Failed(_)) = (poll.question, &outcome) {
            self.votes.unreleased.retain(|_, until| *until > now.moment);
            self.votes.unreleased.insert(lock, until);
        }
        if let Some(waiter) = self.votes.polls.remove(&number).and_then(|poll| poll.waiter) {
            self.votes.tell(waiter, outcome);
        }
    }

    /// The lock of this process that holds one of the names.
    fn holder_here(&self, names: &Names, now: Now) -> Option<Blocker> {
        let (number, lock) = self.votes.locks.iter().find(|(number, lock)| {
            lock.names.iter().any(|name| names.contains(name)) && self.held(**number, now).is_some()
        })?;
        let Stage::Held { granted, .. } = lock.stage else { return None };
        let holder = Attempt { client: self.votes.client.clone(), owner: lock.owner, number: *number };
        Some(Blocker { holder, held_for: Some(now.moment - granted), remark: lock.remark.clone() })
    }

    fn same_server_twice(&self) -> Option<Error> {
        let (one, other) = self.votes.twins?;
        let (one, other) = (self.members[one].name(), self.members[other].name());
        let message = format!("{one} and {other} are the same server: a quorum needs independent servers");
        Some(Error::new(Kind::Usage, &"".into(), message))
    }

    fn held(&self, number: u64, now: Now) -> Option<Duration> {
        self.votes.held(self.members, number, now)
    }

    fn majority(&self) -> usize {
        majority(self.members.len())
    }

    fn wake_by(&mut self, moment: Moment) {
        self.votes.due = Some(self.votes.due.map_or(moment, |due| due.min(moment)));
    }
}
