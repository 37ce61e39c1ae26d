//! What attempts say about their locks, and what is asked of others.

use std::sync::Arc;
use std::time::Duration;

use super::reconnecting::{calls, machine, only, waits, NOW, QUEUED};
use crate::call::{Attempt, Call, FirstHolder, Holder, Inspected, Names, Said, ScriptAnswer};
use crate::machine::{LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Rare, Renewal};
use pinyon_net::error::{Error, Kind};

const TTL: Duration = Duration::from_secs(10);

fn request(wait: Option<Duration>, rare: Rare) -> LockRequest {
    let names: Names = [b"a".as_slice().into()].into();
    LockRequest { names, owner: 1, ttl: TTL, wait, renewal: Renewal::Always, reentrant: false, rare: rare.boxed() }
}

fn invoice() -> Rare {
    Rare { remark: Some("invoice 17".into()), ..Rare::default() }
}

/// Begins an attempt that says something. Returns its number, and the calls for its remark and for its names.
fn noted(machine: &mut Machine, wait: Option<Duration>) -> (u64, [(u64, Call); 2]) {
    let number = machine.lock(request(wait, invoice()), NOW).unwrap();
    (number, calls(machine).try_into().expect("two calls"))
}

fn remark(attempt: Attempt, remark: Option<&str>, ttl: Duration) -> Call {
    Call::Remark { attempt, remark: remark.map(Arc::from), ttl }
}

fn held(machine: &mut Machine) -> u64 {
    let (number, [(said, _), (asked, _)]) = noted(machine, waits());
    machine.answer(said, Ok(ScriptAnswer::Remarked), NOW);
    machine.answer(asked, Ok(ScriptAnswer::Granted { token: 5 }), NOW);
    machine.next_event();
    number
}

fn in_seconds(seconds: u64) -> Moment {
    NOW + Duration::from_secs(seconds)
}

/// It lasts for the lock's ttl after the longest silence of a waiter.
const LASTS: Duration = Duration::from_secs(25);

#[test]
fn a_remark_is_written_before_the_question_and_with_each_sign_of_life() {
    let mut machine = machine();
    let (number, [(said, wrote), (asked, lock)]) = noted(&mut machine, waits());
    let attempt = machine.attempt(number);
    assert_eq!(wrote, remark(attempt.clone(), Some("invoice 17"), LASTS));
    assert!(matches!(lock, Call::Lock { .. }), "{lock:?}");
    machine.answer(said, Ok(ScriptAnswer::Remarked), NOW);
    machine.answer(asked, Ok(QUEUED), NOW);
    machine.expire(in_seconds(6));
    let [(_, again), (poll, Call::Poll { .. })] = &calls(&mut machine)[..] else { panic!("no poll") };
    assert_eq!(*again, wrote);
    machine.answer(*poll, Ok(ScriptAnswer::Granted { token: 5 }), in_seconds(6));
    machine.expire(in_seconds(14));
    let [(_, Call::Extend { .. }), (_, renewed)] = &calls(&mut machine)[..] else { panic!("no renewal") };
    assert_eq!(*renewed, wrote);
}

#[test]
fn a_remark_ends_with_its_lock() {
    let mut machine = machine();
    let number = held(&mut machine);
    let attempt = machine.attempt(number);
    machine.release(number, NOW).unwrap();
    let [(unlock, Call::Unlock { .. }), (_, erased)] = &calls(&mut machine)[..] else { panic!("not released") };
    assert_eq!(*erased, remark(attempt, None, Duration::ZERO));
    machine.answer(*unlock, Ok(ScriptAnswer::Released { released: 1 }), NOW);
    assert!(calls(&mut machine).is_empty(), "once");
}

#[test]
fn a_remark_is_erased_with_an_attempt_that_fails() {
    for answer in [ScriptAnswer::busy(None, None), ScriptAnswer::NotHeld] {
        let mut machine = machine();
        let (number, [_, (asked, _)]) = noted(&mut machine, None);
        let attempt = machine.attempt(number);
        machine.answer(asked, Ok(answer), NOW);
        assert_eq!(only(&mut machine, ScriptAnswer::Remarked), remark(attempt, None, Duration::ZERO));
    }
}

#[test]
fn names_that_stay_locked_keep_the_remark_for_so_long() {
    let mut machine = machine();
    let rare = Rare { at_least: Duration::from_secs(30), ..invoice() };
    let number = machine.lock(request(waits(), rare), NOW).unwrap();
    let attempt = machine.attempt(number);
    let asked = calls(&mut machine)[1].0;
    machine.answer(asked, Ok(ScriptAnswer::Granted { token: 5 }), NOW);
    machine.release(number, in_seconds(1)).unwrap();
    let said: Vec<Call> = calls(&mut machine).into_iter().skip(1).map(|(_, call)| call).collect();
    let rest = Duration::from_secs(29);
    assert_eq!(said, [remark(attempt.kept(), Some("invoice 17"), rest), remark(attempt, None, Duration::ZERO)]);
}

#[test]
fn whoever_adopts_a_lock_erases_what_was_said_before() {
    let mut machine = machine();
    let number = held(&mut machine);
    let from = machine.attempt(number);
    machine.hand_over(number, NOW).unwrap();
    assert!(calls(&mut machine).is_empty(), "the lock is still there, and so is its remark");
    let rare = Rare { adopts: Some(from.clone().into()), ..invoice() };
    machine.lock(request(waits(), rare), NOW).unwrap();
    let [_, (adopted, Call::Adopt { .. })] = calls(&mut machine)[..] else { panic!("not adopted") };
    machine.answer(adopted, Ok(ScriptAnswer::Granted { token: 6 }), NOW);
    assert_eq!(only(&mut machine, ScriptAnswer::Remarked), remark(from, None, Duration::ZERO));
}

#[test]
fn a_remark_that_may_not_be_written_fails_its_attempt() {
    let refused = |kind| Error::new(kind, &"".into(), "no SET");
    let mut machine = machine();
    let (_, [(said, _), _]) = noted(&mut machine, waits());
    machine.answer(said, Err(refused(Kind::NotNow)), NOW);
    assert!(machine.next_event().is_none(), "it is written again with the next sign of life");
    let mut machine = super::reconnecting::machine();
    let (number, [(said, _), _]) = noted(&mut machine, waits());
    machine.answer(said, Err(refused(Kind::Server)), NOW);
    let Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(error)), .. }) = machine.next_event()
    else {
        panic!("not failed")
    };
    assert_eq!(error.message, "no SET");
    let given_up = |call: &Call| matches!(call, Call::Unlock { attempt, .. } if attempt.number == number);
    assert!(calls(&mut machine).iter().any(|(_, call)| given_up(call)), "the server may have granted it");
}

#[test]
fn a_held_lock_stays_held_if_its_remark_cannot_be_written_again() {
    let mut machine = machine();
    let number = held(&mut machine);
    machine.expire(in_seconds(4));
    let renewal = calls(&mut machine);
    machine.answer(renewal[1].0, Err(Error::new(Kind::Server, &"".into(), "OOM")), in_seconds(4));
    assert!(machine.held(number, in_seconds(4)).is_some() && machine.next_event().is_none());
}

fn other() -> Attempt {
    Attempt { client: "other".into(), owner: 1, number: 7 }
}

fn said_by(holder: Attempt) -> ScriptAnswer {
    let remarks = [(holder.clone(), "nightly".into())].into();
    let holder = Some(Holder { attempt: holder, token: Some(5) });
    ScriptAnswer::Inspected(vec![Inspected { holder, remarks, ..Inspected::default() }])
}

fn blamed(machine: &mut Machine) -> Option<Arc<str>> {
    match machine.next_event() {
        Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Timeout { blocker, .. }), .. }) => {
            blocker.expect("it is known").remark
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_is_refused_at_once_asks_why() {
    let mut machine = machine();
    machine.lock(request(Some(Duration::ZERO), Rare::default()), NOW).unwrap();
    let holder = Some(Holder { attempt: other(), token: Some(5) });
    only(&mut machine, ScriptAnswer::busy(None, holder));
    assert!(machine.next_event().is_none());
    let asked = only(&mut machine, said_by(other()));
    assert!(matches!(asked, Call::Remarks { .. }), "{asked:?}");
    assert_eq!(blamed(&mut machine).as_deref(), Some("nightly"));
}

#[test]
fn who_is_refused_at_once_and_was_told_why_asks_nothing() {
    for (said, why) in [(Said::Remark("nightly".into()), Some("nightly")), (Said::Nothing, None)] {
        let mut machine = machine();
        machine.lock(request(Some(Duration::ZERO), Rare::default()), NOW).unwrap();
        let holder = Holder { attempt: other(), token: Some(5) };
        let first = Some(FirstHolder { holder, age: None, said }.into());
        only(&mut machine, ScriptAnswer::Busy { pttl: None, first });
        assert!(calls(&mut machine).is_empty());
        assert_eq!(blamed(&mut machine).as_deref(), why);
    }
}

#[test]
fn a_connection_that_breaks_meanwhile_changes_nothing_of_the_refusal() {
    let mut machine = machine();
    machine.lock(request(Some(Duration::ZERO), Rare::default()), NOW).unwrap();
    let holder = Some(Holder { attempt: other(), token: Some(5) });
    only(&mut machine, ScriptAnswer::busy(None, holder));
    machine.disconnected(&Error::unanswered(&"".into()), false, NOW);
    assert_eq!(blamed(&mut machine), None);
}

#[test]
fn who_waits_learns_shortly_before_its_end_what_the_holder_says() {
    let mut machine = machine();
    machine.lock(request(Some(Duration::from_secs(1)), Rare::default()), NOW).unwrap();
    only(&mut machine, QUEUED);
    machine.expire(NOW + Duration::from_millis(750));
    let ScriptAnswer::Inspected(without) = said_by(other()) else { unreachable!() };
    let without = without.into_iter().map(|name| Inspected { remarks: Default::default(), ..name }).collect();
    only(&mut machine, ScriptAnswer::Inspected(without));
    only(&mut machine, said_by(other()));
    machine.expire(in_seconds(1));
    assert_eq!(blamed(&mut machine).as_deref(), Some("nightly"));
}

#[test]
fn a_question_for_everything_is_two_calls_unless_nobody_is_there() {
    for (remarks, is_locked, more) in [(true, true, true), (false, true, false), (true, false, false)] {
        let mut machine = machine();
        machine.question(Call::Inspect { names: [b"a".as_slice().into()].into(), remarks }, NOW);
        let holder = is_locked.then(|| Holder { attempt: other(), token: Some(5) });
        only(&mut machine, ScriptAnswer::Inspected(vec![Inspected { holder, ..Inspected::default() }]));
        assert_eq!(machine.next_event().is_none(), more, "{remarks} {is_locked}");
        if more {
            only(&mut machine, said_by(other()));
        }
    }
}
