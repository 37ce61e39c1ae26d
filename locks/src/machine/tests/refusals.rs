//! A server that answers, but refuses: for a while, or for a reason that somebody must remove.

use std::time::Duration;

use super::reconnecting::{calls, lock, machine, only, waits, NOW, QUEUED};
use crate::call::{Call, Names, Pushed, ScriptAnswer};
use crate::machine::{Awaited, LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Renewal};
use pinyon_net::error::{Error, Kind};

const PATIENCE: Duration = Duration::from_secs(2);
const RELEASED: ScriptAnswer = ScriptAnswer::Released { released: 1 };

fn error(kind: Kind) -> Error {
    Error::new(kind, &"redis1".into(), "BUSY Redis is busy running a script")
}

fn held(machine: &mut Machine, owner: u64) -> u64 {
    let number = lock(machine, owner, waits());
    only(machine, ScriptAnswer::Granted { token: 7 + owner });
    assert!(matches!(machine.next_event(), Some(MachineEvent::Done { outcome: Outcome::Granted { .. }, .. })));
    number
}

/// The server refuses everything that it is asked until `end`. Returns how often it was asked.
fn refuse_until(machine: &mut Machine, kind: Kind, from: Moment, end: Moment) -> usize {
    let (mut now, mut asked) = (from, 0);
    loop {
        for (id, _) in calls(machine) {
            machine.answer(id, Err(error(kind)), now);
            asked += 1;
        }
        match machine.due().filter(|due| *due < end) {
            Some(due) => now = due.max(now),
            None => return asked,
        }
        machine.expire(now);
    }
}

/// Whether nothing is left of its attempts and releases.
fn is_over(machine: &Machine) -> bool {
    machine.entries.is_empty() && machine.releases.are_taken()
}

fn failed_release(machine: &mut Machine) -> Error {
    match machine.next_event() {
        Some(MachineEvent::Done {
            awaited: Awaited::Release,
            outcome: Outcome::Failed(MachineFailure::Server(error)),
            ..
        }) => *error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_refused_for_a_while_is_repeated_until_it_is_answered() {
    let mut machine = machine();
    let number = held(&mut machine, 1);
    machine.release(number, NOW).unwrap();
    let half = NOW + Duration::from_millis(500);
    let asked = refuse_until(&mut machine, Kind::NotNow, NOW, half);
    assert!((2..20).contains(&asked), "{asked}");
    assert!(machine.next_event().is_none(), "its caller waits");
    machine.expire(half + Duration::from_millis(250));
    assert!(matches!(only(&mut machine, RELEASED), Call::Unlock { .. }));
    let event = machine.next_event();
    assert!(matches!(event, Some(MachineEvent::Done { outcome: Outcome::Released { held: true }, .. })), "{event:?}");
    assert!(is_over(&machine));
}

#[test]
fn a_release_goes_on_without_its_caller_until_the_ttl_has_passed() {
    for kind in [Kind::NotNow, Kind::Server] {
        let mut machine = machine();
        let number = held(&mut machine, 1);
        machine.release(number, NOW).unwrap();
        let bound = NOW + PATIENCE;
        refuse_until(&mut machine, kind, NOW, bound);
        machine.expire(bound);
        assert_eq!(failed_release(&mut machine).kind, kind, "what the server has said");
        let lasts = machine.lasts(number, bound).expect("it goes on");
        assert!((7..=8).contains(&lasts.as_secs()), "{lasts:?}");
        assert!(refuse_until(&mut machine, kind, bound, bound + Duration::from_secs(5)) > 0);
        let end = NOW + Duration::from_secs(11);
        refuse_until(&mut machine, kind, bound, end);
        machine.expire(end);
        assert!(calls(&mut machine).is_empty(), "the lock has ended by itself");
        machine.expire(end + Duration::from_secs(60));
        assert!(is_over(&machine) && machine.next_event().is_none());
    }
}

#[test]
fn one_release_asks_for_all_and_the_others_follow_it() {
    let mut machine = machine();
    let numbers: Vec<u64> = (0..20).map(|owner| held_at(&mut machine, owner)).collect();
    for number in &numbers {
        machine.release(*number, NOW).unwrap();
    }
    let asked = refuse_until(&mut machine, Kind::NotNow, NOW, NOW + Duration::from_millis(500));
    assert!(asked < numbers.len() + 20, "{asked}");
    let now = NOW + Duration::from_millis(750);
    machine.expire(now);
    only(&mut machine, RELEASED);
    let others = calls(&mut machine);
    assert_eq!(others.len(), numbers.len() - 1);
    for (id, _) in others {
        machine.answer(id, Ok(RELEASED), now);
    }
    let released = std::iter::from_fn(|| machine.next_event());
    assert_eq!(
        released
            .filter(|event| matches!(event, MachineEvent::Done { outcome: Outcome::Released { held: true }, .. }))
            .count(),
        20
    );
    assert!(is_over(&machine));
}

/// A lock of a name of its owner's own.
fn held_at(machine: &mut Machine, owner: u64) -> u64 {
    use crate::machine::{LockRequest, Renewal};
    let names = [format!("{owner}").as_bytes().into()].into();
    let (ttl, wait, renewal) = (Duration::from_secs(10), waits(), Renewal::Never);
    let number =
        machine.lock(LockRequest { names, owner, ttl, wait, renewal, reentrant: false, rare: None }, NOW).unwrap();
    only(machine, ScriptAnswer::Granted { token: 7 + owner });
    machine.next_event();
    number
}

#[test]
fn releases_on_a_server_known_to_refuse_or_to_be_away_end_at_once() {
    let mut machine = machine();
    let [first, second] = [1, 2].map(|owner| held_at(&mut machine, owner));
    machine.release(first, NOW).unwrap();
    let bound = NOW + PATIENCE;
    refuse_until(&mut machine, Kind::NotNow, NOW, bound);
    machine.expire(bound);
    failed_release(&mut machine);
    machine.release(second, bound).unwrap();
    refuse_until(&mut machine, Kind::NotNow, bound, bound + Duration::from_millis(1));
    assert_eq!(failed_release(&mut machine).kind, Kind::NotNow);

    let mut machine = super::reconnecting::machine();
    let [first, second, third] = [1, 2, 3].map(|owner| held_at(&mut machine, owner));
    machine.release(first, NOW).unwrap();
    calls(&mut machine);
    machine.disconnected(&error(Kind::Closed), false, NOW);
    assert!(machine.next_event().is_none(), "it may be back soon");
    machine.unreachable(&error(Kind::Connect), bound);
    assert_eq!(failed_release(&mut machine).kind, Kind::Connect);
    for number in [second, third] {
        machine.release(number, bound).unwrap();
        assert_eq!(failed_release(&mut machine).kind, Kind::Connect);
    }
    machine.connected(bound + PATIENCE);
    let again = calls(&mut machine).into_iter().filter(|(_, call)| matches!(call, Call::Unlock { .. })).count();
    assert_eq!(again, 3, "they are released as soon as that can be");
}

#[test]
fn an_attempt_asks_again_until_its_time_is_up_and_says_what_was_said_last() {
    for wait in [None, Some(Duration::ZERO), Some(Duration::from_secs(5))] {
        let mut machine = machine();
        lock(&mut machine, 1, wait);
        let end = NOW + wait.filter(|wait| !wait.is_zero()).unwrap_or(PATIENCE);
        let asked = refuse_until(&mut machine, Kind::NotNow, NOW, end);
        assert!((5..60).contains(&asked), "{asked}");
        assert!(machine.next_event().is_none());
        machine.expire(end);
        let Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(told)), .. }) =
            machine.next_event()
        else {
            panic!("{wait:?}: it failed for another reason")
        };
        assert_eq!((told.kind, &*told.message), (Kind::NotNow, "BUSY Redis is busy running a script"));
    }
}

#[test]
fn an_attempt_is_granted_once_the_server_answers() {
    let mut machine = machine();
    lock(&mut machine, 1, waits());
    refuse_until(&mut machine, Kind::NotNow, NOW, NOW + Duration::from_secs(1));
    machine.expire(NOW + Duration::from_secs(2));
    assert!(matches!(only(&mut machine, ScriptAnswer::Granted { token: 9 }), Call::Lock { .. }));
    assert!(matches!(
        machine.next_event(),
        Some(MachineEvent::Done { outcome: Outcome::Granted { token: 9, .. }, .. })
    ));
}

#[test]
fn a_waiter_that_is_told_to_look_learns_when_the_lock_in_its_way_ends() {
    let mut machine = machine();
    let number = lock(&mut machine, 1, waits());
    only(&mut machine, ScriptAnswer::Queued { pttl: Some(Duration::from_secs(10)) });
    machine.pushed(Pushed::Look { attempt: machine.attempt(number) }, NOW);
    let poll = only(&mut machine, ScriptAnswer::Queued { pttl: Some(Duration::from_secs(1)) });
    assert!(matches!(poll, Call::Poll { .. }), "{poll:?}");
    machine.expire(NOW + Duration::from_millis(1100));
    assert!(matches!(only(&mut machine, ScriptAnswer::Granted { token: 9 }), Call::Poll { .. }));
}

#[test]
fn what_does_not_pass_fails_at_once() {
    let mut machine = machine();
    lock(&mut machine, 1, waits());
    refuse_until(&mut machine, Kind::Server, NOW, NOW + Duration::from_millis(1));
    assert!(matches!(
        machine.next_event(),
        Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(_)), .. })
    ));
}

#[test]
fn a_server_that_is_not_there_is_awaited_and_one_that_refuses_the_client_is_not() {
    for (kind, awaited) in [(Kind::Connect, true), (Kind::Crowded, true), (Kind::Refused, false)] {
        let mut machine = Machine::new("0123.ab.0".into(), Default::default());
        lock(&mut machine, 1, waits());
        machine.disconnected(&error(kind), false, NOW);
        machine.unreachable(&error(kind), NOW);
        assert_eq!(machine.next_event().is_none(), awaited, "{kind:?}");
        if awaited {
            machine.connected(NOW + Duration::from_secs(30));
            only(&mut machine, ScriptAnswer::Granted { token: 9 });
            assert!(matches!(machine.next_event(), Some(MachineEvent::Done { outcome: Outcome::Granted { .. }, .. })));
        }
    }
}

#[test]
fn a_waiter_whose_poll_is_refused_asks_again_soon() {
    let mut machine = machine();
    lock(&mut machine, 1, waits());
    only(&mut machine, QUEUED);
    let heartbeat = NOW + Duration::from_secs(6);
    machine.expire(heartbeat);
    let [(id, Call::Poll { .. })] = calls(&mut machine)[..] else { panic!("one poll") };
    machine.answer(id, Err(error(Kind::NotNow)), heartbeat);
    machine.expire(heartbeat + Duration::from_secs(1));
    assert!(matches!(only(&mut machine, ScriptAnswer::Granted { token: 9 }), Call::Poll { .. }));
}

#[test]
fn of_nested_blocks_only_the_first_waits_for_a_server_that_is_gone() {
    let mut machine = machine();
    let numbers: Vec<u64> = [("a", 7), ("b", 8), ("c", 9)]
        .map(|(name, token)| {
            let (names, ttl) = (Names::from([name.as_bytes().into()]), Duration::from_secs(10));
            let (owner, wait, renewal) = (1, waits(), Renewal::Always);
            let request = LockRequest { names, owner, ttl, wait, renewal, reentrant: false, rare: None };
            let number = machine.lock(request, NOW).unwrap();
            only(&mut machine, ScriptAnswer::Granted { token });
            assert!(matches!(machine.next_event(), Some(MachineEvent::Done { outcome: Outcome::Granted { .. }, .. })));
            number
        })
        .into();
    machine.disconnected(&error(Kind::Closed), false, NOW);
    machine.release(numbers[2], NOW).unwrap();
    assert!(machine.next_event().is_none(), "it waits");
    let bound = NOW + PATIENCE;
    machine.expire(bound);
    failed_release(&mut machine);
    for number in &numbers[..2] {
        machine.release(*number, bound).unwrap();
        failed_release(&mut machine);
    }
}
