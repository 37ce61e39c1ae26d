//! A client's locks: every attempt to take one, from the first question to the last answer.
//!
//! The machine does no I/O, starts no thread and reads no clock. Its host passes in the callers' requests, the server's
//! answers, and the time. The machine says what to ask the server ([`Machine::next_call`]), what happened
//! ([`Machine::next_event`]) and when to call it again ([`Machine::due`]).
//!
//! Its rules:
//! - An attempt has at most one question under way, always under the same identity: asked twice, it is granted once.
//! - A lock counts as held until its ttl has passed since the question that was answered, whatever the server says
//!   later. The clock counts suspend. A grant that is read too late is confirmed before it counts.
//! - An attempt that stops waiting leaves the server's queue. If the server still grants it, the grant is released.
//! - No token is accepted that is not higher than all that were seen before it was asked for.
//!
//! A release and the next attempt leave in one send. So a cycle is two commands, contended or not. A push may be read
//! late, so it counts as old as the last request that was answered "queued". Renewals are batched, at a third of the
//! ttl; if they fail, the clock keeps running.

mod answers;
mod asking;
mod changes;
mod closing;
mod connection;
mod ends;
mod entry;
mod events;
mod late;
mod moment;
mod releases;
mod remarks;
mod request;
mod stages;
mod table;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use events::{Awaited, Blocker, MachineEvent, MachineFailure, NotHeld, Outcome};
pub use moment::Moment;
pub use request::{LockOptions, LockRequest, Rare, Renewal};
pub use table::Fairness;
pub(crate) use table::Table;

use crate::call::{Attempt, Call, Names, ScriptAnswer};
use crate::claim::Claim;
use crate::holding::Holding;
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::sequence::Sequence;
use entry::{Entry, Stage};
use late::Looks;
use pinyon_net::error::{Error, Kind};
use releases::Releases;
use stages::{Name, Why};

pub struct Machine {
    options: LockOptions,
    client: Arc<str>,
    next_number: u64,
    entries: BTreeMap<u64, Box<Entry>>,
    /// Locks whose number differs from their attempt on the server, by attempt.
    renumbered: BTreeMap<u64, u64>,
    table: Table,
    holding: Holding,
    connected: bool,
    /// Whether the counter was checked on this connection.
    opened: bool,
    /// The highest token or counter that any server has told.
    highest: u64,
    /// When the server last answered.
    heard: Option<Moment>,
    /// Why the last connection failed, or what the server last said that it cannot do now; none once it has answered
    /// again.
    trouble: Option<Error>,
    /// Whether the server is known not to answer: waiting for it now is of no use.
    away: bool,
    looks: Looks,
    releases: Releases,
    /// Whether the server refused the last renewal.
    renewals_refused: bool,
    next_call: u64,
    flight: Sequence<InFlight>,
    calls: VecDeque<(u64, Call)>,
    events: VecDeque<MachineEvent>,
    due: Option<Moment>,
    jitter: Jitter,
}

/// A call without an answer so far.
struct InFlight {
    about: About,
    sent: Moment,
    /// The call, if it belongs to no attempt from which it can be made again.
    call: Option<Box<Call>>,
}

enum About {
    Open,
    Lock(u64),
    Poll(u64),
    Unlock(u64),
    /// A release that belongs to no attempt any more: of lost names, since the server may still have some of them, and
    /// of names whose release it refused.
    Tidy,
    /// Locks that are extended because it is time, and not because their holders asked for it.
    Renewal(Vec<u64>),
    Park(u64),
    Unpark(u64),
    /// The modes of a held lock.
    Change(u64),
    /// What a caller waits for: the answer to a question, or the extension of a lock.
    Awaited(u64, Awaited),
    /// The question for the holder of these names.
    Look(Names),
    /// What that holder says.
    LookCloser(Names),
    /// What the holder of this attempt's names says.
    Blocker(u64),
    /// What this attempt says.
    Remark(u64),
}

impl Machine {
    /// `client` identifies this client to servers; it is unique among all processes of all times.
    pub fn new(client: Arc<str>, options: LockOptions) -> Self {
        Self {
            jitter: Jitter::of(&client),
            table: Table::new(options.fairness),
            options,
            client,
            next_number: 1,
            entries: BTreeMap::new(),
            renumbered: BTreeMap::new(),
            holding: Holding::default(),
            connected: false,
            opened: false,
            highest: 0,
            heard: None,
            trouble: None,
            away: false,
            looks: Looks::default(),
            releases: Releases::default(),
            renewals_refused: false,
            next_call: 0,
            flight: Sequence::default(),
            calls: VecDeque::new(),
            events: VecDeque::new(),
            due: None,
        }
    }

    /// The next call to send. Take calls after every other call, and answer each by [`Self::answer`].
    pub fn next_call(&mut self) -> Option<(u64, Call)> {
        self.calls.pop_front()
    }

    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The next event. Take events after every call.
    pub fn next_event(&mut self) -> Option<MachineEvent> {
        self.events.pop_front()
    }

    /// When to call [`Self::expire`]. Earlier or later is harmless.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    pub fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// Whether nothing needs a connection.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.flight.is_empty() && self.releases.are_taken()
    }

    /// Takes a lock: [`Outcome::Granted`] or [`Outcome::Failed`] follows. Returns the number that identifies
    /// the lock in all later calls and events.
    pub fn lock(&mut self, request: LockRequest, now: Moment) -> Result<u64, MachineFailure> {
        let nested = self.holding.has(request.owner);
        self.begin(request, nested, None, now)
    }

    /// Takes a lock as [`Self::lock`] does, with this place in the order of a quorum's servers.
    pub fn claim(&mut self, request: LockRequest, claim: Claim, now: Moment) -> Result<u64, MachineFailure> {
        self.begin(request, claim.nested, Some(claim.number()), now)
    }

    /// `attempt`: its number on the server, if that is not the one it has here.
    fn begin(
        &mut self,
        request: LockRequest,
        nested: bool,
        attempt: Option<u64>,
        now: Moment,
    ) -> Result<u64, MachineFailure> {
        if request.adopts().is_none() {
            if let Some(number) = self.held_again(&request, now)? {
                return Ok(number);
            }
        }
        let bypasses = nested || request.adopts().is_some();
        if !bypasses && !self.table.is_free(&request.names) {
            match request.wait {
                None => return Err(MachineFailure::Busy),
                Some(Duration::ZERO) => {
                    let blocker = self.holder_here(&request.names, now);
                    return Err(MachineFailure::timeout(Duration::ZERO, blocker));
                }
                Some(_) => {}
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let impatient = now + self.options.patience;
        if let Some(attempt) = attempt {
            self.renumbered.insert(attempt, number);
        }
        let attempt = attempt.unwrap_or(number);
        let begun = || Box::new(Entry::new(attempt, request, nested, impatient, now));
        let entry = self.entries.entry(number).or_insert_with(begun);
        let due = entry.look_at().unwrap_or(entry.deadline);
        let leads = bypasses || self.table.enter(number, &entry.names);
        self.wake_by(due);
        match leads {
            true => self.ask(number, Why::Leads, now),
            false => self.count_queued(number),
        }
        Ok(number)
    }

    /// Releases a lock: [`Outcome::Released`] or [`Outcome::Failed`] follows, unless its owner has
    /// acquired it more than once. A lost lock is forgotten.
    pub fn release(&mut self, number: u64, now: Moment) -> Result<(), NotHeld> {
        let patience = self.options.patience;
        let entry = self.entries.get_mut(&number).ok_or(NotHeld)?;
        match &mut entry.stage {
            Stage::Held(_) if entry.holds > 1 => {
                entry.holds -= 1;
                self.events.push_back(MachineEvent::released(number, true));
            }
            Stage::Held(held) if self.away => {
                let until = held.until;
                self.begin_cancelling(number, Why::Release, Some(until), now);
                self.tell_unreleased(number);
                self.hand_on(number, now);
            }
            Stage::Held(held) => {
                let (until, deadline) = (held.until, now + patience);
                entry.stage.turn(Why::Release, Stage::Releasing { until, deadline, again: false });
                self.wake_by(deadline);
                self.send_unlock(number, false, now);
                self.hand_on(number, now);
            }
            Stage::Lost => {
                entry.holds -= 1;
                let is_over = entry.holds == 0;
                self.events.push_back(MachineEvent::released(number, false));
                if is_over {
                    self.remove(number, Why::Release, now);
                }
            }
            // Its owner waits for it to return, with one acquisition less.
            Stage::Parked { .. } | Stage::Queued { .. } if entry.holds > 1 => {
                entry.holds -= 1;
                self.events.push_back(MachineEvent::released(number, false));
            }
            _ => return Err(NotHeld),
        }
        Ok(())
    }

    /// Stops waiting, or releases the lock without waiting for the answer. No event follows.
    pub fn cancel(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get(&number) else { return };
        match entry.stage {
            Stage::Lost => drop(self.remove(number, Why::GiveUp, now)),
            _ if entry.is_unknown() => drop(self.remove(number, Why::GiveUp, now)),
            Stage::Releasing { until, .. } => self.begin_cancelling(number, Why::GiveUp, Some(until), now),
            Stage::Cancelling { until, .. } => self.begin_cancelling(number, Why::GiveUp, until, now),
            Stage::Held(_) if entry.holds > 1 => {
                self.entries.entry(number).and_modify(|entry| entry.holds -= 1);
            }
            Stage::Held(ref held) => {
                let until = held.until;
                self.give_up(number, Some(until), now);
            }
            _ => self.give_up(number, None, now),
        }
    }

    /// Releases the names of an attempt that nobody waits for any more.
    fn give_up(&mut self, number: u64, until: Option<Moment>, now: Moment) {
        self.begin_cancelling(number, Why::GiveUp, until, now);
        self.send_unlock(number, false, now);
        self.hand_on(number, now);
    }

    /// Releases a lock without waiting for the answer, however many times its owner has acquired it. No event follows.
    pub fn give_back(&mut self, number: u64, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.holds = 1;
            self.cancel(number, now);
        }
    }

    /// Gives up a lock that no caller can release any more: it is not renewed.
    pub fn forsake(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        match &mut entry.stage {
            Stage::Held(held) => {
                held.renew_at = None;
                (entry.renewal, entry.holds) = (Renewal::Never, 0);
            }
            Stage::Lost => drop(self.entries.remove(&number)),
            _ => {}
        }
    }

    /// Drops one of several acquisitions of a lock: its owner can no longer release it, but the others can.
    pub fn drop_hold(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.holds > 1) {
            entry.holds -= 1;
        }
    }

    /// Extends a held lock to `ttl` from now, as soon as there is a connection: [`Outcome::Extended`] follows.
    pub fn extend(&mut self, number: u64, ttl: Duration, now: Moment) -> Result<(), NotHeld> {
        let entry = self.entries.get_mut(&number).ok_or(NotHeld)?;
        let Stage::Held(held) = &mut entry.stage else { return Err(NotHeld) };
        if held.until <= now {
            return Err(NotHeld);
        }
        entry.ttl = ttl;
        self.wake_by(now + self.options.patience);
        self.send_extension(number, now);
        Ok(())
    }

    /// Raises the counter of a held lock's server to `floor`, and extends the lock: [`Outcome::Extended`] follows.
    pub fn raise(&mut self, number: u64, floor: u64, now: Moment) -> Result<(), NotHeld> {
        self.held(number, now).ok_or(NotHeld)?;
        if self.connected {
            self.send_raise(number, floor, now);
        } else {
            let error = Error::new(Kind::Closed, &"".into(), "there is no connection to the server now");
            self.tell_error(number, Awaited::Extension, error);
        }
        Ok(())
    }

    /// Sets how a lock is renewed from now on, as if it had just been granted.
    pub fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.renewal = renewal;
        let Stage::Held(held) = &mut entry.stage else { return };
        held.granted = now;
        held.renew_at = match renewal {
            Renewal::Never => None,
            Renewal::Always => held.renew_at,
            Renewal::For(longest) => held.renew_at.filter(|at| *at < now + longest),
        };
    }

    /// Releases the names entirely, and waits for a notification, for at most `wait`. Then takes them again with the
    /// same number of acquisitions, within `relock`: [`Outcome::Granted`] or [`Outcome::Failed`] follows.
    pub fn park(&mut self, number: u64, wait: Option<Duration>, relock: Duration, now: Moment) -> Result<(), NotHeld> {
        let entry = self.entries.get_mut(&number).ok_or(NotHeld)?;
        if !matches!(&entry.stage, Stage::Held(held) if held.until > now) {
            return Err(NotHeld);
        }
        let until = wait.map(|wait| now + wait);
        (entry.wait, entry.unparking) = (Some(relock), false);
        if let Some(rare) = &mut entry.rare {
            rare.keep_until = None;
        }
        if self.connected {
            entry.above = Some(self.highest);
        }
        entry.stage.turn(Why::Park, Stage::Parked { since: now, poll_at: None, until });
        let (names, ttl) = (entry.names.clone(), entry.ttl);
        let attempt = self.attempt(number);
        if self.connected {
            let call = self.send(About::Park(number), Call::Park { attempt, names, ttl }, now);
            self.entries.entry(number).and_modify(|entry| entry.parked_by = Some(call));
        }
        self.hand_on(number, now);
        if let Some(until) = until {
            self.wake_by(until);
        }
        Ok(())
    }

    /// Asks the server something that concerns no attempt of this client: [`Outcome::Answered`] follows.
    pub fn question(&mut self, call: Call, now: Moment) -> u64 {
        let request = self.next_number;
        self.next_number += 1;
        self.wake_by(now + self.options.patience);
        self.send(About::Awaited(request, Awaited::Answer), call, now);
        request
    }

    /// The token of a held lock, and how long it still counts as held.
    pub fn held(&self, number: u64, now: Moment) -> Option<(u64, Duration)> {
        match &self.entries.get(&number)?.stage {
            Stage::Held(held) if held.until > now => Some((held.token, held.until - now)),
            _ => None,
        }
    }

    /// The call that extends these locks by their ttls, for another connection. It does not concern their validity here.
    pub fn extending(&self, numbers: impl Iterator<Item = u64>) -> Call {
        let held = |number| match self.entries.get(&number) {
            Some(entry) => (self.attempt(number), entry.names.clone(), entry.ttl),
            None => (self.attempt(number), Names::from([]), Duration::ZERO),
        };
        Call::Extend { held: numbers.map(held).collect() }
    }

    /// When the time to wait for a lock ends.
    pub fn wait_ends(&self, number: u64) -> Option<Moment> {
        self.entries.get(&number).map(|entry| entry.deadline)
    }

    /// The names of a held lock.
    pub fn names(&self, number: u64) -> Option<Names> {
        let entry = self.entries.get(&number)?;
        matches!(entry.stage, Stage::Held(_)).then(|| entry.names.clone())
    }

    /// The attempt with this number, as servers know it.
    pub fn attempt(&self, number: u64) -> Attempt {
        let (owner, number) = self.entries.get(&number).map_or((0, number), |entry| (entry.owner, entry.attempt));
        Attempt { client: self.client.clone(), owner, number }
    }

    /// The number of an attempt, if it is this client's.
    fn number_of(&self, attempt: &Attempt) -> Option<u64> {
        let is_it = |number: &u64| self.entries.get(number).is_some_and(|entry| entry.attempt == attempt.number);
        let of = [Some(attempt.number), self.renumbered.get(&attempt.number).copied()];
        of.into_iter().flatten().find(is_it).filter(|_| attempt.client == self.client)
    }

    /// The answer to an owner that already holds one of the names: its lock, if that covers all of them and is
    /// reentrant.
    fn held_again(&mut self, request: &LockRequest, now: Moment) -> Result<Option<u64>, MachineFailure> {
        let shares = |number: &u64| {
            let entry = &self.entries[number];
            request.names.iter().any(|name| entry.names.contains(name))
        };
        let Some(number) = self.holding.of(request.owner).find(shares) else { return Ok(None) };
        let entry = self.entries.get_mut(&number).expect("what is held is known");
        let Stage::Held(held) = &entry.stage else { return Ok(None) };
        if held.until <= now {
            self.lose(number, Loss::Expired, now);
            return Ok(None);
        }
        if !request.reentrant || !request.names.are_covered_by(&entry.names) {
            return Err(match request.wait {
                Some(_) => MachineFailure::AlreadyHeld,
                None => MachineFailure::Busy,
            });
        }
        entry.holds += 1;
        let outcome = Outcome::Granted { number, token: held.token, notified: false, again: true };
        entry.keep_for(request.at_least(), now);
        self.done(number, Awaited::Grant, outcome);
        Ok(Some(number))
    }

    /// Hands over an attempt's names: the next attempts of this process go to the server.
    fn hand_on(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        self.holding.remove(entry.owner, number);
        if entry.change().is_some() {
            self.end_change(number);
        }
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !std::mem::replace(&mut entry.lined_up, false) {
            return;
        }
        let names = entry.names.clone();
        for next in self.table.leave(number, &names) {
            self.ask(next, Why::Leads, now);
        }
    }

    fn remove(&mut self, number: u64, why: Why, now: Moment) -> Option<Box<Entry>> {
        self.hand_on(number, now);
        let entry = self.entries.remove(&number)?;
        if entry.is_remarked() {
            self.send_erasure(Attempt { client: self.client.clone(), owner: entry.owner, number: entry.attempt }, now);
        }
        entry.stage.ends(why, Name::Gone);
        self.renumbered.remove(&entry.attempt);
        Some(entry)
    }

    fn fail(&mut self, number: u64, failure: MachineFailure, now: Moment) {
        self.tell_failed(number, Awaited::Grant, failure);
        self.remove(number, Why::Fail, now);
    }

    /// Begins the time that a parked lock has for taking its names again. One that takes them already has begun.
    fn begin_relock(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !matches!(entry.stage, Stage::Parked { .. }) {
            return;
        }
        entry.deadline = now + entry.wait.unwrap_or_default();
        entry.looked = false;
        let due = entry.look_at().unwrap_or(entry.deadline);
        self.wake_by(due);
    }

    /// Counts an attempt that has to wait, once.
    fn count_queued(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !std::mem::replace(&mut entry.counted, true) {
            self.options.observed.counts().queued.add(1);
        }
    }

    /// Schedules a wake-up for this attempt.
    fn wake_for(&mut self, number: u64) {
        let due = self.entries.get(&number).and_then(|entry| entry.due(self.connected));
        if let Some(due) = due {
            self.wake_by(due);
        }
    }

    fn wake_by(&mut self, moment: Moment) {
        self.due = Some(self.due.map_or(moment, |due| due.min(moment)));
    }

    /// A varying delay of a few milliseconds, so that waiters for the same name do not all return at once.
    fn stagger(&mut self) -> Duration {
        Duration::from_micros(1000 + self.jitter.below(20_000))
    }
}
