//! Upgrades and downgrades, one answer after the other.

use std::time::Duration;

use super::reconnecting::{calls, machine, only, NOW};
use super::world::names;
use crate::call::{Call, Mode, Names, Pushed, ScriptAnswer};
use crate::machine::{LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Renewal};
use pinyon_net::error::Error;

const TTL: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(60);

/// A machine that reads a name with the token 5, and the lock's number.
fn reader() -> (Machine, u64) {
    let mut machine = machine();
    let (names, wait, renewal) = (names("A"), Some(WAIT), Renewal::Never);
    let request = LockRequest { names, owner: 1, ttl: TTL, wait, renewal, reentrant: false, rare: None };
    let number = machine.lock(request, NOW).unwrap();
    only(&mut machine, ScriptAnswer::Granted { token: 5 });
    machine.next_event().expect("it is granted");
    (machine, number)
}

/// One that waits to write the name.
fn waiting() -> (Machine, u64) {
    let (mut machine, number) = reader();
    machine.change(number, &[], Mode::Write, WAIT, NOW).unwrap();
    only(&mut machine, queued());
    (machine, number)
}

fn queued() -> ScriptAnswer {
    ScriptAnswer::Queued { pttl: Some(TTL) }
}

/// The only question, with the modes that it asks for.
fn asked(machine: &mut Machine) -> (u64, Names) {
    match &calls(machine)[..] {
        [(id, Call::Change { names, .. })] => (*id, names.clone()),
        other => panic!("{other:?}"),
    }
}

fn push(machine: &mut Machine, number: u64, token: u64) {
    let attempt = machine.attempt(number);
    machine.pushed(Pushed::Granted { attempt, token }, NOW);
}

fn upgraded(machine: &mut Machine) -> Option<u64> {
    match machine.next_event() {
        Some(MachineEvent::Done { outcome: Outcome::Granted { token, .. }, .. }) => Some(token),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_upgrade_with_a_token_that_is_not_higher_fails_and_the_lock_asks_for_the_modes_that_it_has() {
    let (mut machine, number) = reader();
    machine.change(number, &[], Mode::Write, WAIT, NOW).unwrap();
    only(&mut machine, ScriptAnswer::Granted { token: 5 });
    let event = machine.next_event();
    assert!(
        matches!(event, Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(_)), .. })),
        "{event:?}"
    );
    assert_eq!(asked(&mut machine).1, names("A"));
}

#[test]
fn a_push_whose_token_is_not_higher_is_no_upgrade() {
    let (mut machine, number) = waiting();
    push(&mut machine, number, 5);
    assert_eq!(upgraded(&mut machine), None);
    push(&mut machine, number, 6);
    assert_eq!(upgraded(&mut machine), Some(6));
}

#[test]
fn an_upgrade_that_nobody_waits_for_any_more_is_taken_back() {
    let (mut machine, number) = waiting();
    machine.stop_changing(number, NOW);
    let (id, asks_for) = asked(&mut machine);
    assert_eq!(asks_for, names("A"));
    machine.answer(id, Ok(ScriptAnswer::Granted { token: 0 }), NOW);
    assert!(calls(&mut machine).is_empty());
    push(&mut machine, number, 7);
    let (id, asks_for) = asked(&mut machine);
    assert_eq!(asks_for, names("A"), "the push was late");
    machine.answer(id, Ok(ScriptAnswer::Granted { token: 9 }), NOW);
    assert_eq!(asked(&mut machine).1, names("A"), "it writes more than was known");
}

#[test]
fn the_next_upgrade_begins_when_the_one_before_has_been_taken_back() {
    let (mut machine, number) = waiting();
    machine.stop_changing(number, NOW);
    let (id, _) = asked(&mut machine);
    machine.change(number, &[], Mode::Write, WAIT, NOW).unwrap();
    machine.answer(id, Ok(ScriptAnswer::Granted { token: 9 }), NOW);
    let (id, asks_for) = asked(&mut machine);
    assert_eq!(asks_for, names("A"), "the server has just upgraded it");
    machine.answer(id, Ok(ScriptAnswer::Granted { token: 0 }), NOW);
    assert_eq!(asked(&mut machine).1, names("a"));
}

#[test]
fn a_lock_that_waits_to_be_upgraded_is_extended_by_each_question() {
    let (mut machine, number) = reader();
    let later = |seconds| Moment(NOW.0 + Duration::from_secs(seconds));
    machine.change(number, &[], Mode::Write, WAIT, later(8)).unwrap();
    let (id, _) = asked(&mut machine);
    machine.answer(id, Ok(queued()), later(8));
    assert!(machine.held(number, later(12)).is_some());
    machine.pushed(Pushed::Granted { attempt: machine.attempt(number), token: 6 }, later(16));
    assert_eq!(upgraded(&mut machine), Some(6));
    assert!(machine.held(number, later(18)).is_none(), "a push extends nothing");
}

#[test]
fn an_upgraded_lock_is_released_whichever_mode_the_server_knows() {
    let (mut machine, number) = reader();
    machine.change(number, &[], Mode::Write, WAIT, NOW).unwrap();
    only(&mut machine, ScriptAnswer::Granted { token: 6 });
    machine.release(number, NOW).unwrap();
    let released = |call: &Call| matches!(call, Call::Unlock { names: of, .. } if *of == names("A"));
    assert!(calls(&mut machine).iter().any(|(_, call)| released(call)));
}

#[test]
fn an_upgrade_asks_again_without_being_told_and_after_a_cut() {
    let (mut machine, _) = waiting();
    let later = Moment(NOW.0 + TTL / 2);
    machine.expire(later);
    assert_eq!(asked(&mut machine).1, names("a"));
    machine.disconnected(&Error::unanswered(&"".into()), false, later);
    machine.connected(later);
    assert_eq!(asked(&mut machine).1, names("a"));
}
