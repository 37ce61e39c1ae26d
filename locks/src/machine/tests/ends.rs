//! What is true of locks that stay locked for a least time, and of those that are handed over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reconnecting::{calls, machine, only, NOW};
use crate::call::{Attempt, Call, Names, ScriptAnswer};
use crate::machine::{LockRequest, Machine, Rare, Renewal};
use crate::tests::model::Model;
use pinyon_net::error::{Error, Kind};

#[derive(Default)]
pub(super) struct Ends {
    /// Until when names stay locked, by the attempt that has them, on the clients' clock.
    least: BTreeMap<Attempt, Duration>,
    /// What was released before, and until when it stays locked, on the server's clock.
    kept: Vec<(Attempt, Names, Duration)>,
    /// When the locks that are being handed over were extended.
    extended: BTreeMap<Attempt, Duration>,
    pub(super) tickets: Vec<Handed>,
    pub(super) adopted: usize,
}

/// A lock that was handed over.
pub(super) struct Handed {
    pub(super) attempt: Attempt,
    pub(super) names: Names,
    pub(super) rest: Duration,
    /// Until when it may be adopted, unless it was.
    lives_until: Duration,
    adopted_by: Option<Attempt>,
}

impl Ends {
    /// An attempt was granted its names at this time or before.
    pub(super) fn granted(&mut self, attempt: &Attempt, has_least: bool, ttl: Duration, now: Duration) {
        if has_least && !self.tickets.iter().any(|ticket| ticket.adopted_by.as_ref() == Some(attempt)) {
            self.least.insert(attempt.clone(), now + ttl);
        }
    }

    /// It has its names no more, or parks them.
    pub(super) fn forget(&mut self, attempt: &Attempt) {
        self.least.remove(attempt);
    }

    /// Somebody has released one of its names by force, or of those that it has left.
    pub(super) fn taken_away(&mut self, attempt: &Attempt) {
        self.forget(attempt);
        self.kept.retain(|(kept, ..)| kept != attempt);
        self.tickets
            .iter_mut()
            .filter(|ticket| ticket.attempt == *attempt)
            .for_each(|ticket| ticket.lives_until = Duration::ZERO);
    }

    pub(super) fn extended(&mut self, attempt: &Attempt, now: Duration) {
        self.extended.insert(attempt.clone(), now);
    }

    pub(super) fn handed_over(&mut self, attempt: Attempt, names: Names, rest: Duration, ttl: Duration) {
        self.least.remove(&attempt);
        let lives_until = self.extended.remove(&attempt).unwrap_or_default() + ttl;
        self.tickets.push(Handed { attempt, names, rest, lives_until, adopted_by: None });
    }

    /// The server has answered a call.
    pub(super) fn called(&mut self, call: &Call, answer: &ScriptAnswer, now: Duration, clock: Duration) {
        match (call, answer) {
            (Call::Unlock { attempt, names, rest, .. }, ScriptAnswer::Released { released }) => {
                let (whole, rest) = (*released == names.len(), rest.unwrap_or_default());
                if let Some(until) = self.least.remove(attempt).filter(|_| whole) {
                    assert!(now + rest >= until, "{attempt} is free {:?} too early", until - now - rest);
                }
                if whole && !rest.is_zero() {
                    self.kept.push((attempt.kept(), names.clone(), clock + rest));
                }
            }
            (Call::Adopt { attempt, from, .. }, ScriptAnswer::Granted { .. }) => {
                let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.attempt == **from) else { return };
                let by = ticket.adopted_by.get_or_insert_with(|| attempt.clone());
                assert_eq!(by, attempt, "adopted twice");
                self.adopted += 1;
            }
            _ => {}
        }
    }

    /// Nobody has what stays locked, and what was handed over is never free before it is adopted.
    pub(super) fn check(&self, model: &Model, now: Duration, clock: Duration) {
        for (attempt, names, until) in self.kept.iter().filter(|(.., until)| *until > clock) {
            assert_eq!(model.holding(attempt), names.len(), "{attempt} stays locked until {until:?}");
        }
        for ticket in self.tickets.iter().filter(|ticket| ticket.adopted_by.is_none() && ticket.lives_until > now) {
            assert_eq!(model.holding(&ticket.attempt), ticket.names.len(), "{} waits for adoption", ticket.attempt);
        }
    }
}

const LEAST: Duration = Duration::from_secs(30);

/// A lock with a least time.
fn held(machine: &mut Machine) -> u64 {
    let names: Names = [b"a".as_slice().into()].into();
    let (ttl, wait) = (Duration::from_secs(10), Some(Duration::from_secs(60)));
    let (renewal, rare) = (Renewal::Always, Rare { at_least: LEAST, ..Rare::default() }.boxed());
    let request = LockRequest { names, owner: 1, ttl, wait, renewal, reentrant: false, rare };
    let number = machine.lock(request, NOW).unwrap();
    only(machine, ScriptAnswer::Granted { token: 5 });
    number
}

/// The rest in the only release, which is answered with this.
fn rest(machine: &mut Machine, answer: Result<ScriptAnswer, Error>) -> Option<Duration> {
    let [(id, Call::Unlock { rest, .. })] = calls(machine)[..] else { panic!("one release") };
    machine.answer(id, answer, NOW);
    rest
}

#[test]
fn a_release_that_is_repeated_keeps_what_is_left() {
    let released = || Ok(ScriptAnswer::Released { released: 1 });
    let mut machine = machine();
    let number = held(&mut machine);
    machine.release(number, NOW).unwrap();
    assert_eq!(rest(&mut machine, Err(Error::new(Kind::NotNow, &"".into(), "BUSY"))), Some(LEAST), "it is refused");
    let later = NOW + Duration::from_secs(1);
    machine.expire(later);
    assert_eq!(rest(&mut machine, released()), Some(LEAST - Duration::from_secs(1)), "and taken");
    machine.disconnected(&Error::unanswered(&"".into()), false, later);
    machine.connected(later);
    assert_eq!(
        rest(&mut machine, released()),
        Some(LEAST - Duration::from_secs(1)),
        "another server may have missed it"
    );
}

#[test]
fn a_job_that_has_failed_ends_early() {
    let mut machine = machine();
    let number = held(&mut machine);
    machine.end_early(number);
    machine.release(number, NOW).unwrap();
    assert_eq!(rest(&mut machine, Ok(ScriptAnswer::Released { released: 1 })), None);
}

#[test]
fn an_adoption_without_an_answer_is_repeated_under_its_identity() {
    let mut machine = machine();
    let from = Attempt { client: "other".into(), owner: 3, number: 4 };
    let names: Names = [b"a".as_slice().into()].into();
    let (ttl, wait) = (Duration::from_secs(10), Some(Duration::from_secs(60)));
    let request = LockRequest {
        names,
        owner: 1,
        ttl,
        wait,
        renewal: Renewal::Always,
        reentrant: false,
        rare: Rare { adopts: Some(from.into()), ..Rare::default() }.boxed(),
    };
    let number = machine.lock(request, NOW).unwrap();
    let asked = calls(&mut machine).pop().unwrap().1;
    machine.disconnected(&Error::unanswered(&"".into()), false, NOW);
    machine.connected(NOW);
    assert_eq!(only(&mut machine, ScriptAnswer::Granted { token: 7 }), asked);
    assert_eq!(machine.held(number, NOW).map(|(token, _)| token), Some(7));
}
