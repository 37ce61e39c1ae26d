//! What was asked of a server that is gone, and what is asked of the next one.

use std::time::Duration;

use crate::call::{Attempt, Call, Names, ScriptAnswer};
use crate::machine::{
    Awaited, LockOptions, LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Renewal,
};
use pinyon_net::error::Error;

pub(super) const NOW: Moment = Moment(Duration::from_secs(1));

pub(super) fn machine() -> Machine {
    let mut machine = Machine::new("0123.ab.0".into(), LockOptions::default());
    machine.connected(NOW);
    machine
}

pub(super) fn lock(machine: &mut Machine, owner: u64, wait: Option<Duration>) -> u64 {
    let names: Names = [b"a".as_slice().into()].into();
    let ttl = Duration::from_secs(10);
    machine
        .lock(LockRequest { names, owner, ttl, wait, renewal: Renewal::Always, reentrant: false, rare: None }, NOW)
        .unwrap()
}

pub(super) fn waits() -> Option<Duration> {
    Some(Duration::from_secs(60))
}

/// The calls since the last time, without the check of the counter.
pub(super) fn calls(machine: &mut Machine) -> Vec<(u64, Call)> {
    std::iter::from_fn(|| machine.next_call()).filter(|(_, call)| !matches!(call, Call::Open { .. })).collect()
}

/// The only call, which is answered.
pub(super) fn only(machine: &mut Machine, answer: ScriptAnswer) -> Call {
    let [(id, call)] = &calls(machine)[..] else { panic!("one call") };
    machine.answer(*id, Ok(answer), NOW);
    call.clone()
}

fn asks_for(call: &Call) -> &Attempt {
    match call {
        Call::Lock { attempt, .. } | Call::Poll { attempt, .. } | Call::Unlock { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    }
}

fn go_on(machine: &mut Machine, moved: bool) {
    machine.disconnected(&Error::unanswered(&"".into()), moved, NOW);
    machine.connected(NOW);
}

pub(super) const QUEUED: ScriptAnswer = ScriptAnswer::Queued { pttl: None };

#[test]
fn a_waiter_asks_for_its_place_under_its_identity_and_for_a_new_one_if_it_is_unknown() {
    let mut machine = machine();
    lock(&mut machine, 1, waits());
    let asked = only(&mut machine, QUEUED);
    go_on(&mut machine, false);
    let again = only(&mut machine, ScriptAnswer::Unknown);
    assert!(matches!(again, Call::Poll { .. }), "{again:?}");
    assert_eq!(asks_for(&again), asks_for(&asked));
    let anew = only(&mut machine, QUEUED);
    assert!(matches!(anew, Call::Lock { .. }), "{anew:?}");
    assert_eq!(asks_for(&anew), asks_for(&asked));
}

#[test]
fn a_request_without_an_answer_is_repeated_under_its_identity() {
    for (wait, moved) in [(waits(), false), (waits(), true), (None, true), (Some(Duration::ZERO), true)] {
        let mut machine = machine();
        lock(&mut machine, 1, wait);
        let [(_, asked)] = &calls(&mut machine)[..] else { panic!("one call") };
        go_on(&mut machine, moved);
        let again = only(&mut machine, ScriptAnswer::Granted { token: 7 });
        assert_eq!(again, *asked);
        let event = machine.next_event();
        assert!(
            matches!(event, Some(MachineEvent::Done { outcome: Outcome::Granted { token: 7, .. }, .. })),
            "{event:?}"
        );
    }
}

#[test]
fn a_request_that_does_not_wait_fails_with_its_connection() {
    for wait in [None, Some(Duration::ZERO)] {
        let mut machine = machine();
        lock(&mut machine, 1, wait);
        calls(&mut machine);
        go_on(&mut machine, false);
        let event = machine.next_event();
        assert!(
            matches!(event, Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(_)), .. })),
            "{event:?}"
        );
        assert!(matches!(only(&mut machine, ScriptAnswer::Released { released: 0 }), Call::Unlock { .. }));
    }
}

#[test]
fn a_held_lock_stays_held_until_the_next_server_says_that_it_has_not_got_it() {
    for has_it in [true, false] {
        let mut machine = machine();
        let number = lock(&mut machine, 1, waits());
        only(&mut machine, ScriptAnswer::Granted { token: 7 });
        machine.next_event();
        go_on(&mut machine, false);
        assert!(machine.held(number, NOW).is_some() && machine.next_event().is_none());
        let renewal = only(&mut machine, ScriptAnswer::Extended([has_it].into()));
        assert!(matches!(renewal, Call::Extend { .. }), "at once");
        assert_eq!(machine.held(number, NOW).is_some(), has_it);
        assert_eq!(matches!(machine.next_event(), Some(MachineEvent::Lost { .. })), !has_it);
    }
}

#[test]
fn a_release_without_an_answer_is_repeated() {
    let mut machine = machine();
    let number = lock(&mut machine, 1, waits());
    only(&mut machine, ScriptAnswer::Granted { token: 7 });
    machine.next_event();
    machine.release(number, NOW).unwrap();
    calls(&mut machine);
    go_on(&mut machine, false);
    let again = only(&mut machine, ScriptAnswer::Released { released: 0 });
    assert!(matches!(again, Call::Unlock { .. }), "{again:?}");
    assert!(
        matches!(machine.next_event(), Some(MachineEvent::Done { outcome: Outcome::Released { held: true }, .. })),
        "the first one may have"
    );
}

#[test]
fn the_last_releases_are_repeated_while_another_server_may_have_missed_them() {
    let mut machine = machine();
    let mut released = Vec::new();
    for owner in 0..40 {
        let number = lock(&mut machine, owner, waits());
        only(&mut machine, ScriptAnswer::Granted { token: 7 + owner });
        machine.release(number, NOW).unwrap();
        released.push(only(&mut machine, ScriptAnswer::Released { released: 1 }));
    }
    let held_on = lock(&mut machine, 40, waits());
    only(&mut machine, ScriptAnswer::Granted { token: 50 });
    go_on(&mut machine, false);
    let mut repeated = calls(&mut machine);
    assert!(matches!(repeated.pop(), Some((_, Call::Extend { .. }))) && machine.held(held_on, NOW).is_some());
    assert_eq!(repeated.into_iter().map(|(_, call)| call).collect::<Vec<_>>(), released[8..]);
    machine.disconnected(&Error::unanswered(&"".into()), false, NOW);
    machine.connected(NOW + Duration::from_secs(10));
    assert!(calls(&mut machine).iter().all(|(_, call)| matches!(call, Call::Extend { .. })), "their ttls have passed");
}

#[test]
fn an_extension_waits_for_the_next_connection_unless_it_may_have_been_carried_out() {
    for (asked_before, moved) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut machine = machine();
        let number = lock(&mut machine, 1, waits());
        only(&mut machine, ScriptAnswer::Granted { token: 7 });
        machine.next_event();
        let extend = |machine: &mut Machine| machine.extend(number, Duration::from_secs(20), NOW).unwrap();
        if asked_before {
            extend(&mut machine);
            only_taken(&mut machine);
        }
        machine.disconnected(&Error::unanswered(&"".into()), moved, NOW);
        if !asked_before {
            extend(&mut machine);
        }
        let event = machine.next_event();
        let fails =
            matches!(event, Some(MachineEvent::Done { awaited: Awaited::Extension, outcome: Outcome::Failed(_), .. }));
        assert_eq!(fails, asked_before && !moved, "{event:?}");
        machine.connected(NOW);
        for (id, call) in calls(&mut machine) {
            assert!(matches!(call, Call::Extend { .. }), "{call:?}");
            machine.answer(id, Ok(ScriptAnswer::Extended([true].into())), NOW);
        }
        let extended =
            matches!(machine.next_event(), Some(MachineEvent::Done { outcome: Outcome::Extended { held: true }, .. }));
        assert_eq!(extended, !fails);
    }
}

/// The only call, which stays without an answer.
fn only_taken(machine: &mut Machine) {
    assert_eq!(calls(machine).len(), 1);
}
