//! Held locks that get other modes of their names: they write what they have read, or read what they have written.
//!
//! The machine believes in the weaker modes: in those to read from the moment when it asks, and in those to write from
//! the moment when the server has told so. In both, the lock's extensions and its release are right, whichever modes
//! the server knows.
//!
//! What a caller no longer waits for may still be on its way to the server, or may have happened there. So a change whose
//! caller has gone is not forgotten: the lock then asks for the modes that it has, until the server has confirmed them.
//! Only then is it asked for others.

use std::time::Duration;

use super::asking::{retry_pause, LONGEST_RETRY};
use super::entry::{Entry, Stage, LOOK_BEFORE};
use super::stages::Why;
use super::time::believed;
use super::{About, Awaited, Blocker, Call, Machine, MachineFailure, Moment, Outcome, ScriptAnswer};
use crate::call::{FirstHolder, Inspected, Names};
use crate::loss::Loss;
use crate::names::{Mode, Name};
use pinyon_net::error::{Error, Kind};

/// The modes that a held lock is to have.
pub(super) struct Change {
    names: Names,
    /// Whether some of them are to be written that are read.
    upgrades: bool,
    /// Whether the server may still carry out an earlier change, so that the present modes are asked for first.
    settles: bool,
    waiting: Option<Waiting>,
    asked: Option<Asked>,
    /// When to ask again.
    ask_at: Option<Moment>,
    /// The highest number that was seen when it was first asked for: the token of an upgrade is higher.
    above: Option<u64>,
    /// When the last question was sent that was answered with "queued", and its ttl: a push counts from then on.
    since: (Moment, Duration),
    refusals: u32,
}

/// The caller that waits for a change.
struct Waiting {
    wait: Duration,
    until: Moment,
    looked: bool,
    blocker: Option<Blocker>,
    /// Whether the server has answered that others read what is to be written.
    refused: bool,
}

/// A question under way.
struct Asked {
    call: u64,
    names: Names,
    seen: u64,
    ttl: Duration,
}

impl Change {
    /// One that nobody waits for: a lock that has these modes asks for them.
    fn settling(names: Names, now: Moment) -> Self {
        let since = (now, Duration::ZERO);
        Self {
            names,
            upgrades: false,
            settles: true,
            waiting: None,
            asked: None,
            ask_at: None,
            above: None,
            since,
            refusals: 0,
        }
    }

    /// When it needs attention.
    pub(super) fn due(&self, connected: bool) -> Option<Moment> {
        let waiting = self.waiting.as_ref();
        let look_at = waiting.filter(|_| connected && self.upgrades).and_then(Waiting::look_at);
        let ask_at = self.ask_at.filter(|_| connected);
        [waiting.map(|waiting| waiting.until), look_at, ask_at].into_iter().flatten().min()
    }

    pub(super) fn has_waiter(&self) -> bool {
        self.waiting.is_some()
    }

    fn wait(&self) -> Duration {
        self.waiting.as_ref().map_or(Duration::ZERO, |waiting| waiting.wait)
    }

    /// What the server is asked for now, of a lock that has these names.
    fn wanted<'n>(&'n self, names: &'n Names) -> &'n Names {
        if self.settles {
            names
        } else {
            &self.names
        }
    }
}

impl Waiting {
    /// When to ask who reads the names, shortly before the time is up.
    fn look_at(&self) -> Option<Moment> {
        let before = if self.wait > 2 * LOOK_BEFORE { LOOK_BEFORE } else { self.wait / 2 };
        (!self.looked && !self.wait.is_zero()).then(|| self.until.before(before))
    }
}

impl Entry {
    pub(super) fn change(&self) -> Option<&Change> {
        self.rare.as_ref()?.change.as_deref()
    }

    fn change_mut(&mut self) -> Option<&mut Change> {
        self.rare.as_mut()?.change.as_deref_mut()
    }

    pub(super) fn take_change(&mut self) -> Option<Box<Change>> {
        self.rare.as_mut()?.change.take()
    }
}

impl Machine {
    /// Gives a held lock this mode of the names that it has in the other one: of those that are given, or of all.
    /// [`Outcome::Granted`] or [`Outcome::Failed`] follows. `wait`: how long it waits for others that read what it is to
    /// write. A lock whose change has failed keeps the modes that it had.
    pub fn change(
        &mut self,
        number: u64,
        given: &[Name],
        mode: Mode,
        wait: Duration,
        now: Moment,
    ) -> Result<(), MachineFailure> {
        let (token, _) = self.held(number, now).ok_or(MachineFailure::NotHeld)?;
        let patience = self.options.patience;
        let entry = self.entries.get_mut(&number).expect("it is held");
        if entry.change().is_some_and(Change::has_waiter) {
            return Err(MachineFailure::Changing);
        }
        let names = entry.names.turned(given, mode).map_err(|name| MachineFailure::NotInMode { name, mode })?;
        if names == entry.names {
            self.done(number, Awaited::Grant, Outcome::Granted { number, token, notified: false, again: true });
            return Ok(());
        }
        let until = now + if wait.is_zero() { patience } else { wait };
        let waiting = Waiting { wait, until, looked: false, blocker: None, refused: false };
        let before = entry.take_change();
        let change = Change {
            upgrades: mode == Mode::Write,
            settles: before.is_some(),
            waiting: Some(waiting),
            asked: before.and_then(|before| before.asked),
            ..Change::settling(names.clone(), now)
        };
        entry.rare.get_or_insert_default().change = Some(change.into());
        let next = if mode == Mode::Write { Vec::new() } else { self.set_names(number, names) };
        self.send_change(number, now);
        next.into_iter().for_each(|next| self.ask(next, Why::Leads, now));
        self.wake_for(number);
        Ok(())
    }

    /// Lets a lock keep the modes that it has, because the caller of its change has gone. No event follows.
    pub fn stop_changing(&mut self, number: u64, now: Moment) {
        if let Some(change) = self.change_of(number) {
            change.waiting = None;
            self.settle_change(number, now);
        }
    }

    fn change_of(&mut self, number: u64) -> Option<&mut Change> {
        self.entries.get_mut(&number)?.change_mut()
    }

    /// Asks the server, unless a question is under way.
    pub(super) fn send_change(&mut self, number: u64, now: Moment) {
        let (connected, seen, attempt) = (self.connected, self.highest, self.attempt(number));
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let (held, ttl) = (entry.names.clone(), entry.ttl);
        let Some(change) = entry.change_mut() else { return };
        change.ask_at = None;
        if !connected || change.asked.is_some() {
            return;
        }
        if !change.settles && change.above.is_none() {
            (change.above, change.since) = (Some(seen), (now, ttl));
        }
        let names = change.wanted(&held).clone();
        let wait = !change.settles && change.upgrades && !change.wait().is_zero();
        let call = Call::Change { attempt, names: names.clone(), ttl, wait, seen };
        let call = self.send(About::Change(number), call, now);
        if let Some(change) = self.change_of(number) {
            change.asked = Some(Asked { call, names, seen, ttl });
        }
    }

    /// No answer comes on this connection.
    pub(super) fn change_unanswered(&mut self, number: u64) {
        if let Some(change) = self.change_of(number) {
            change.asked = None;
        }
    }

    /// Takes the answer to a question. One that asked for something else only shows how long the lock lasts.
    pub(super) fn changed(
        &mut self,
        number: u64,
        call: u64,
        answer: Result<ScriptAnswer, Error>,
        sent: Moment,
        now: Moment,
    ) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let names = entry.names.clone();
        let Some(change) = entry.change_mut() else { return };
        let Some(asked) = change.asked.take_if(|asked| asked.call == call) else { return };
        let is_wanted = asked.names == *change.wanted(&names);
        change.settles |= !is_wanted;
        let answer = match answer {
            Ok(ScriptAnswer::NotHeld) => return self.lose(number, Loss::Gone, now),
            Ok(answer) => answer,
            Err(error) => return self.change_refused(number, error, now),
        };
        change.refusals = 0;
        let lasts = matches!(answer, ScriptAnswer::Granted { .. } | ScriptAnswer::Queued { .. });
        if let (true, Stage::Held(held)) = (lasts, &mut entry.stage) {
            held.until = held.until.max(sent + believed(asked.ttl));
        }
        if self.held(number, now).is_none() {
            return self.lose(number, Loss::Expired, now);
        }
        if let ScriptAnswer::Granted { token } = answer {
            self.see(token);
        }
        match answer {
            _ if !is_wanted => self.send_change(number, now),
            ScriptAnswer::Granted { token } => self.has_modes(number, token, &asked, sent, now),
            ScriptAnswer::Queued { pttl } => self.waits_for_readers(number, pttl, &asked, sent, now),
            ScriptAnswer::Busy { pttl, first } => self.reads_on(number, pttl, first, now),
            ScriptAnswer::Deadlock { cycle } => {
                self.fail_change(number, MachineFailure::Deadlock { cycle });
                self.forget_change(number);
            }
            other => {
                let message = format!("the server's answer makes no sense here: {other:?}");
                self.fail_change(number, senseless(message));
                self.settle_change(number, now);
            }
        }
    }

    /// Takes the answer that the lock has the modes that were asked for. If its token is higher than those seen, it
    /// writes more than that.
    fn has_modes(&mut self, number: u64, token: u64, asked: &Asked, sent: Moment, now: Moment) {
        let is_stronger = token > asked.seen && self.highest > asked.seen;
        let Some(change) = self.change_of(number) else { return };
        if change.upgrades && !change.settles {
            if change.above.is_some_and(|above| token > above) {
                return self.upgraded(number, token, (sent, asked.ttl), now);
            }
            let message = format!("the token {token} is not higher than those before it");
            self.fail_change(number, senseless(message));
            return self.settle_change(number, now);
        }
        change.settles &= is_stronger;
        if is_stronger || change.upgrades {
            return self.send_change(number, now);
        }
        let is_awaited = change.has_waiter();
        self.forget_change(number);
        if let (true, Some((token, _))) = (is_awaited, self.held(number, now)) {
            self.done(number, Awaited::Grant, Outcome::Granted { number, token, notified: false, again: true });
        }
    }

    fn waits_for_readers(&mut self, number: u64, pttl: Option<Duration>, asked: &Asked, sent: Moment, now: Moment) {
        // The server forgets a waiter after the ttl of its lock.
        let soon = asked.ttl / 3;
        let at = self.poll_after(Some(pttl.map_or(soon, |pttl| pttl.min(soon))), now);
        let Some(change) = self.change_of(number) else { return };
        (change.ask_at, change.since) = (Some(at), (sent, asked.ttl));
        if let Some(waiting) = &mut change.waiting {
            waiting.refused = true;
        }
    }

    /// Others read, and the server keeps no waiter.
    fn reads_on(&mut self, number: u64, pttl: Option<Duration>, first: Option<Box<FirstHolder>>, now: Moment) {
        let at = self.poll_after(pttl, now);
        let Some(change) = self.change_of(number) else { return };
        let Some(waiting) = &mut change.waiting else { return self.forget_change(number) };
        (waiting.refused, waiting.blocker) = (true, first.map(|first| Blocker::of(*first)));
        let waits = !waiting.wait.is_zero();
        change.ask_at = Some(at);
        if !waits {
            let failure = self.change_out_of_time(number);
            self.fail_change(number, failure);
            self.forget_change(number);
        }
    }

    fn change_refused(&mut self, number: u64, error: Error, now: Moment) {
        let heartbeat = self.options.heartbeat;
        let Some(change) = self.change_of(number) else { return };
        change.refusals += 1;
        let (passes, refusals) = (error.kind == Kind::NotNow, change.refusals);
        if !passes {
            self.fail_change(number, MachineFailure::from(error));
            self.settle_change(number, now);
        }
        let longest = if passes { LONGEST_RETRY } else { heartbeat };
        let at = now + retry_pause(refusals, longest);
        if let Some(change) = self.change_of(number).filter(|change| change.asked.is_none()) {
            change.ask_at = Some(at);
            self.wake_by(at);
        }
    }

    /// Notes that the lock writes what it has read, since then or later.
    fn upgraded(&mut self, number: u64, token: u64, (since, ttl): (Moment, Duration), now: Moment) {
        let patience = self.options.patience;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let (read, Some(change)) = (entry.to_release(), entry.take_change()) else { return };
        entry.rare.get_or_insert_default().read = Some(read);
        // Until then, replicas may confirm it.
        entry.deadline = now + patience;
        let next = self.set_names(number, change.names);
        if let Some(Stage::Held(held)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) {
            held.token = token;
            held.until = held.until.max(since + believed(ttl));
        }
        self.see(token);
        if self.held(number, now).is_none() {
            self.tell_failed(number, Awaited::Grant, MachineFailure::NotHeld);
            return self.lose(number, Loss::Expired, now);
        }
        self.done(number, Awaited::Grant, Outcome::Granted { number, token, notified: false, again: false });
        next.into_iter().for_each(|next| self.ask(next, Why::Leads, now));
    }

    /// Takes a push that a lock has been granted what it holds already: the names that it waits to write, or has waited
    /// for.
    pub(super) fn pushed_upgrade(&mut self, number: u64, token: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Stage::Held(held) = &entry.stage else { return };
        let is_new = token > held.token;
        match entry.change() {
            Some(Change { upgrades: true, settles: false, above: Some(above), since, .. }) if token > *above => {
                let since = *since;
                self.upgraded(number, token, since, now);
            }
            Some(_) => {}
            None if is_new && entry.names.are_shared() => {
                let change = Change::settling(entry.names.clone(), now);
                entry.rare.get_or_insert_default().change = Some(change.into());
                self.see(token);
                self.send_change(number, now);
            }
            None => {}
        }
    }

    /// Something has changed for those who wait for these names.
    pub(super) fn ask_change_again(&mut self, number: u64, now: Moment) {
        if self.change_of(number).is_some_and(|change| change.ask_at.is_some()) {
            self.send_change(number, now);
        }
    }

    /// Does what is due for a lock that is held.
    pub(super) fn expire_change(&mut self, number: u64, now: Moment) {
        let Some(change) = self.change_of(number) else { return };
        let ask_at = change.ask_at;
        if let Some(waiting) = &mut change.waiting {
            if waiting.until <= now {
                let failure = self.change_out_of_time(number);
                self.fail_change(number, failure);
                return self.settle_change(number, now);
            }
            if waiting.look_at().is_some_and(|at| at <= now) {
                waiting.looked = true;
                self.look_at_readers(number, now);
            }
        }
        if ask_at.is_some_and(|at| at <= now) {
            self.send_change(number, now);
        }
    }

    fn look_at_readers(&mut self, number: u64, now: Moment) {
        let Some(change) = self.change_of(number) else { return };
        if change.upgrades {
            let names = change.names.clone();
            self.look_for(names, now);
        }
    }

    /// Takes the answer to the question who reads a lock's names.
    pub(super) fn looked_for_change(&mut self, number: u64, inspected: &[Inspected]) {
        let me = self.attempt(number);
        let others = inspected.iter().flat_map(|name| &name.sharing).find(|other| **other != me);
        let blocker = others.map(|other| Blocker { holder: other.clone(), held_for: None, remark: None });
        if let Some(waiting) = self.change_of(number).and_then(|change| change.waiting.as_mut()) {
            waiting.blocker = blocker.or(waiting.blocker.take());
        }
    }

    /// Whether a lock waits to have just these names in these modes.
    pub(super) fn waits_to_write(&self, number: u64, names: &Names) -> bool {
        self.entries[&number].change().is_some_and(|change| change.upgrades && change.names == *names)
    }

    fn change_out_of_time(&mut self, number: u64) -> MachineFailure {
        let trouble = self.trouble.clone().unwrap_or_else(|| self.unanswered());
        match self.change_of(number).and_then(|change| change.waiting.as_mut()) {
            Some(waiting) if waiting.refused => MachineFailure::timeout(waiting.wait, waiting.blocker.take()),
            _ => MachineFailure::from(trouble),
        }
    }

    /// Tells the caller of a change that it has failed.
    fn fail_change(&mut self, number: u64, failure: MachineFailure) {
        if self.change_of(number).is_some_and(|change| change.waiting.take().is_some()) {
            self.tell_failed(number, Awaited::Grant, failure);
        }
    }

    fn forget_change(&mut self, number: u64) {
        self.entries.entry(number).and_modify(|entry| drop(entry.take_change()));
    }

    /// Asks for the modes that the lock has, if the server may give it others.
    fn settle_change(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let names = entry.names.clone();
        let Some(change) = entry.change_mut() else { return };
        if change.above.is_none() && !change.settles {
            return self.forget_change(number);
        }
        let asked = change.asked.take();
        *change = Change { asked, refusals: change.refusals, ..Change::settling(names, now) };
        self.send_change(number, now);
    }

    /// Ends the change of a lock that is not held any more.
    #[cold]
    pub(super) fn end_change(&mut self, number: u64) {
        self.fail_change(number, MachineFailure::NotHeld);
        self.forget_change(number);
    }

    /// Notes other modes. Returns the attempts that may go to the server now.
    fn set_names(&mut self, number: u64, names: Names) -> Vec<u64> {
        let Some(entry) = self.entries.get_mut(&number) else { return Vec::new() };
        let before = std::mem::replace(&mut entry.names, names.clone());
        match entry.lined_up {
            true => self.table.change(number, &before, &names),
            false => Vec::new(),
        }
    }
}

fn senseless(message: String) -> MachineFailure {
    MachineFailure::from(Error::new(Kind::Protocol, &"".into(), message))
}
