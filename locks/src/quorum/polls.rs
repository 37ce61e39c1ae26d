//! Questions to all members, answered by a majority.

use std::cmp::Reverse;

use super::failing::{failed, Why};
use super::lock::majority;
use crate::call::{Attempt, Holder, Inspected, ScriptAnswer};
use crate::client::{Member, Outcome};
use crate::machine::{MachineFailure, Moment};

/// A question to all members, and their answers so far.
pub(super) struct Poll<W> {
    /// Nobody waits for counters.
    pub(super) waiter: Option<W>,
    pub(super) question: Question,
    pub(super) answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether a majority held a lock that was released or extended. `released`: the lock, and until when it lasts.
    Held {
        released: Option<(u64, Moment)>,
    },
    Ask,
    /// The counters of the servers, for the quorum itself.
    Counters,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// It does not have the lock.
    NotAsked,
    Pending,
    Held(bool),
    Answered(ScriptAnswer),
    Failed(MachineFailure),
}

impl<W> Poll<W> {
    pub(super) fn take(&mut self, member: usize, outcome: Outcome) {
        self.answers[member] = match outcome {
            Outcome::Released { held } | Outcome::Extended { held } => Answer::Held(held),
            Outcome::Answered(answer) => Answer::Answered(answer),
            Outcome::Failed(failure) => Answer::Failed(failure),
            Outcome::Granted { .. } | Outcome::Value(_) => return,
        };
    }

    /// The outcome, as soon as the answers still awaited cannot change it.
    pub(super) fn outcome<M: Member>(&self, members: &[M]) -> Option<Outcome> {
        match self.question {
            Question::Held { released: Some(_) } => self.verdict(members, |held| Outcome::Released { held }),
            Question::Held { released: None } => self.verdict(members, |held| Outcome::Extended { held }),
            Question::Ask => self.answer(members),
            Question::Counters => None,
        }
    }

    fn count(&self, is_so: impl Fn(&Answer) -> bool) -> usize {
        self.answers.iter().filter(|answer| is_so(answer)).count()
    }

    fn pending(&self) -> usize {
        self.count(|answer| matches!(answer, Answer::Pending))
    }

    fn verdict<M: Member>(&self, members: &[M], outcome: impl Fn(bool) -> Outcome) -> Option<Outcome> {
        let held = self.count(|answer| matches!(answer, Answer::Held(true)));
        let unknown = self.count(|answer| matches!(answer, Answer::Failed(_)));
        let verdict = verdict(held, unknown, self.pending(), majority(members.len()))?;
        Some(verdict.map_or_else(|Unknown| self.failed(members), outcome))
    }

    fn failed<M: Member>(&self, members: &[M]) -> Outcome {
        let failures = self.answers.iter().zip(members).filter_map(|(answer, member)| match answer {
            Answer::Failed(failure) => Some(Why::of(member.name(), failure)),
            _ => None,
        });
        Outcome::Failed(failed(members, failures.flatten(), "no majority of the servers has answered"))
    }

    fn answer<M: Member>(&self, members: &[M]) -> Option<Outcome> {
        let (majority, pending) = (majority(members.len()), self.pending());
        let answered = self.answers.iter().filter_map(|answer| match answer {
            Answer::Answered(answer) => Some(answer),
            _ => None,
        });
        let answered: Vec<&ScriptAnswer> = answered.collect();
        if answered.len() < majority {
            return (answered.len() + pending < majority).then(|| self.failed(members));
        }
        let released = answered.iter().filter_map(|answer| match answer {
            ScriptAnswer::ForceReleased { released } => Some(*released),
            _ => None,
        });
        if let Some(released) = released.max() {
            return Some(Outcome::Answered(ScriptAnswer::ForceReleased { released }));
        }
        let inspected: Vec<&[Inspected]> = answered
            .iter()
            .filter_map(|answer| match answer {
                ScriptAnswer::Inspected(names) => Some(&names[..]),
                _ => None,
            })
            .collect();
        let names = (0..inspected.first().map_or(0, |names| names.len())).map(|name| {
            let each: Vec<&Inspected> = inspected.iter().filter_map(|names| names.get(name)).collect();
            merged(&each, majority, pending)
        });
        let names: Option<Vec<Inspected>> = names.collect();
        Some(Outcome::Answered(ScriptAnswer::Inspected(names?)))
    }
}

/// Too few members have answered to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

/// Whether a majority held it, if the `pending` answers cannot change that. `unknown`: those that have failed.
pub(super) fn verdict(held: usize, unknown: usize, pending: usize, majority: usize) -> Option<Result<bool, Unknown>> {
    match held >= majority {
        true => Some(Ok(true)),
        false if held + unknown + pending < majority => Some(Ok(false)),
        false if held + pending < majority && held + unknown >= majority => Some(Err(Unknown)),
        false => None,
    }
}

/// What the members say about one name. It is held by the owner that a majority names; those whom fewer name still
/// wait. `None` while `pending` answers may decide.
pub(super) fn merged(each: &[&Inspected], majority: usize, pending: usize) -> Option<Inspected> {
    let holders: Vec<&Holder> = each.iter().filter_map(|said| said.holder.as_ref()).collect();
    let is_of = |one: &Attempt, other: &Attempt| (&one.client, one.owner) == (&other.client, other.owner);
    let votes = |of: &Holder| holders.iter().filter(|holder| is_of(&holder.attempt, &of.attempt)).count();
    let first = holders.iter().max_by_key(|holder| votes(holder));
    let most = first.map_or(0, |first| votes(first));
    if most < majority && most + pending >= majority {
        return None;
    }
    let holder = first.filter(|_| most >= majority).map(|first| first.attempt.clone());
    let is_holder = |attempt: &Attempt| holder.as_ref().is_some_and(|holder| is_of(holder, attempt));
    let of_holder = || each.iter().filter(|said| said.holder.as_ref().is_some_and(|holder| is_holder(&holder.attempt)));
    let mut waiting: Vec<Attempt> = Vec::new();
    let partly = holders.iter().map(|holder| &holder.attempt);
    for attempt in partly.chain(each.iter().flat_map(|said| &said.waiting)) {
        if !is_holder(attempt) && !waiting.iter().any(|known| is_of(known, attempt)) {
            waiting.push(attempt.clone());
        }
    }
    let mut left: Vec<_> = of_holder().filter_map(|said| said.pttl).collect();
    left.sort_unstable();
    // A majority has stored the holder's token with the lock. Others that granted it later may have stored higher ones.
    let tokens: Vec<u64> = of_holder().filter_map(|said| said.holder.as_ref()?.token).collect();
    let stored = |token: u64| tokens.iter().filter(|other| **other == token).count();
    let token = tokens.iter().copied().max_by_key(|token| (stored(*token), Reverse(*token)));
    if pending > 0 && token.is_some_and(|token| stored(token) < majority) {
        return None;
    }
    Some(Inspected {
        sharing: Vec::new(),
        permits: None,
        pttl: left.len().checked_sub(majority).map(|at| left[at]),
        age: of_holder().filter_map(|said| said.age).max(),
        holder: holder.clone().map(|attempt| Holder { attempt, token }),
        waiting,
        remarks: each.iter().flat_map(|said| said.remarks.clone()).collect(),
    })
}
