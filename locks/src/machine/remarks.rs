//! What attempts say about their locks: written beside them, and asked of others.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Stage;
use super::{About, Awaited, Blocker, Call, Entry, Machine, Moment, Outcome, ScriptAnswer};
use crate::call::{Attempt, Holder, Inspected};
use crate::remark;
use pinyon_net::error::{Error, Kind};

/// Stands for an attempt that need not know whether its remark was written or erased.
const NOBODY: u64 = 0;

impl Machine {
    /// Writes an attempt's remark, so that it lasts as long as its lock does if that is granted at the end of its wait.
    pub(super) fn write_remark(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number).filter(|_| self.connected) else { return };
        let Some(rare) = entry.rare.as_mut().filter(|rare| rare.remark.is_some()) else { return };
        rare.is_remarked = true;
        let (remark, ttl) = (rare.remark.clone(), entry.ttl + self.options.waiter_ttl());
        let attempt = self.attempt(number);
        self.send(About::Remark(number), Call::Remark { attempt, remark, ttl }, now);
    }

    /// Erases an attempt's remark, with its lock. What stays locked for `rest` keeps it so long.
    pub(super) fn erase_remark(&mut self, number: u64, rest: Option<Duration>, now: Moment) {
        if !self.connected {
            return;
        }
        let attempt = self.attempt(number);
        let Some(remark) = self.entries.get_mut(&number).and_then(|entry| entry.take_remark()) else { return };
        if let Some(ttl) = rest {
            let kept = Call::Remark { attempt: attempt.kept(), remark: Some(remark), ttl };
            self.send(About::Remark(NOBODY), kept, now);
        }
        self.send_erasure(attempt, now);
    }

    /// Erases what was said by an attempt that is over, or has handed its lock over.
    pub(super) fn send_erasure(&mut self, attempt: Attempt, now: Moment) {
        if self.connected {
            self.send(About::Remark(NOBODY), Call::Remark { attempt, remark: None, ttl: Duration::ZERO }, now);
        }
    }

    /// Handles a refusal to write the remark of an attempt. Without it, the attempt would wait as somebody else than its
    /// caller says. A remark that cannot be written again ends before its lock, which is not affected.
    pub(super) fn remark_refused(&mut self, number: u64, error: Error, now: Moment) {
        let Some(entry) = self.entries.get(&number) else { return };
        let is_wanted = matches!(entry.stage, Stage::Asking(_) | Stage::Queued { .. } | Stage::Refused { .. });
        if is_wanted && error.kind != Kind::NotNow {
            self.tell_error(number, Awaited::Grant, error);
            self.cancel(number, now);
        }
    }

    /// Asks what a holder says about its lock, for the failure of an attempt that does not wait.
    pub(super) fn ask_blocker(&mut self, number: u64, blocker: Blocker, now: Moment) {
        let call = remarks_of(&blocker);
        if let Some(entry) = self.entries.get_mut(&number) {
            (entry.blocker, entry.refused) = (Some((blocker, now).into()), true);
        }
        self.send(About::Blocker(number), call, now);
    }

    /// Fails an attempt that does not wait, whatever is known about who holds its names.
    pub(super) fn blocked(&mut self, number: u64, answer: Result<ScriptAnswer, Error>, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !matches!(entry.stage, Stage::Asking(_)) {
            return;
        }
        if let (Some(blocker), Ok(ScriptAnswer::Inspected(inspected))) = (entry.blocker.as_deref_mut(), answer) {
            blocker.0.remark = remark_of(&inspected, &blocker.0);
        }
        let failure = self.out_of_time(number, now);
        self.fail(number, failure, now);
    }

    /// Hands out the state of names. If what is said there was asked for, and anybody is there, asks for that first.
    pub(super) fn inspected(&mut self, request: u64, call: Option<&Call>, inspected: Vec<Inspected>, now: Moment) {
        let is_half = matches!(call, Some(Call::Inspect { remarks: true, .. })) && remark::may_be_there(&inspected);
        if !is_half {
            let answer = ScriptAnswer::Inspected(inspected);
            return self.done(request, Awaited::Answer, Outcome::Answered(answer));
        }
        self.wake_by(now + self.options.patience);
        self.send(About::Awaited(request, Awaited::Answer), Call::Remarks { inspected }, now);
    }
}

impl Entry {
    /// Its remark, if the server may have it and is to forget it.
    fn take_remark(&mut self) -> Option<Arc<str>> {
        let rare = self.rare.as_mut()?;
        std::mem::take(&mut rare.is_remarked).then(|| rare.remark.clone()).flatten()
    }
}

/// The question for what a holder says.
pub(super) fn remarks_of(blocker: &Blocker) -> Call {
    let holder = Some(Holder { attempt: blocker.holder.clone(), token: None });
    Call::Remarks { inspected: vec![Inspected { holder, ..Inspected::default() }] }
}

/// What the holder says, by the answer.
pub(super) fn remark_of(inspected: &[Inspected], blocker: &Blocker) -> Option<Arc<str>> {
    inspected.iter().find_map(|one| one.remarks.get(&blocker.holder)).cloned()
}
