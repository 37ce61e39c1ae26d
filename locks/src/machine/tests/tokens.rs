//! A server that has lost its counter, and whose clock is behind.

use std::time::Duration;

use crate::call::{Call, Names, Pushed, ScriptAnswer};
use crate::machine::{LockOptions, LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Renewal};
use pinyon_net::error::Error;

const NOW: Moment = Moment(Duration::from_secs(1));

/// A machine that has been granted a lock with the token 1000, and has released it.
fn experienced() -> Machine {
    let mut machine = Machine::new("0123.ab.0".into(), LockOptions::default());
    machine.connected(NOW);
    let number = lock(&mut machine, "a");
    answer(&mut machine, Call::is_lock, ScriptAnswer::Granted { token: 1000 });
    assert_eq!(granted(&mut machine), Some((number, 1000)));
    machine.release(number, NOW).unwrap();
    answer(&mut machine, |call| matches!(call, Call::Unlock { .. }), ScriptAnswer::Released { released: 1 });
    machine.next_event();
    machine
}

fn lock(machine: &mut Machine, name: &str) -> u64 {
    let names: Names = [name.as_bytes().into()].into();
    let (ttl, wait) = (Duration::from_secs(10), Some(Duration::from_secs(10)));
    machine
        .lock(LockRequest { names, owner: 1, ttl, wait, renewal: Renewal::Never, reentrant: false, rare: None }, NOW)
        .unwrap()
}

/// Answers the first call of this kind. Returns all that were made.
fn answer(machine: &mut Machine, is_it: impl Fn(&Call) -> bool, answer: ScriptAnswer) -> Vec<Call> {
    let calls: Vec<(u64, Call)> = std::iter::from_fn(|| machine.next_call()).collect();
    let (id, _) = calls.iter().find(|(_, call)| is_it(call)).expect("it was asked");
    machine.answer(*id, Ok(answer), NOW);
    calls.into_iter().map(|(_, call)| call).collect()
}

fn granted(machine: &mut Machine) -> Option<(u64, u64)> {
    match machine.next_event() {
        Some(MachineEvent::Done { outcome: Outcome::Granted { number, token, .. }, .. }) => Some((number, token)),
        None => None,
        other => panic!("{other:?}"),
    }
}

impl Call {
    fn is_lock(&self) -> bool {
        matches!(self, Call::Lock { .. })
    }
}

#[test]
fn the_next_server_is_told_the_highest_number_that_the_last_one_gave_out() {
    let mut machine = experienced();
    machine.disconnected(&Error::unanswered(&"".into()), false, NOW);
    lock(&mut machine, "b");
    machine.connected(NOW);
    let calls = answer(&mut machine, Call::is_lock, ScriptAnswer::Granted { token: 1001 });
    assert_eq!(calls[0], Call::Open { seen: 1000 });
    assert!(matches!(calls[1], Call::Unlock { .. }) && calls[2].is_lock(), "{calls:?}");
}

#[test]
fn a_token_that_is_not_higher_is_given_back_and_drawn_again() {
    let mut machine = experienced();
    let number = lock(&mut machine, "b");
    let calls = answer(&mut machine, Call::is_lock, ScriptAnswer::Granted { token: 1000 });
    let Call::Lock { attempt: first, .. } = &calls[0] else { panic!("{calls:?}") };
    assert_eq!(granted(&mut machine), None);

    let calls = answer(&mut machine, Call::is_lock, ScriptAnswer::Granted { token: 1001 });
    assert_eq!(calls[0], Call::Open { seen: 1000 });
    assert!(matches!(&calls[1], Call::Unlock { attempt, .. } if attempt == first), "{calls:?}");
    assert!(matches!(&calls[2], Call::Lock { attempt, .. } if attempt != first), "{calls:?}");
    assert_eq!(granted(&mut machine), Some((number, 1001)));
}

#[test]
fn a_server_that_does_so_again_is_not_asked_without_end() {
    let mut machine = experienced();
    lock(&mut machine, "b");
    for token in [7, 8] {
        answer(&mut machine, Call::is_lock, ScriptAnswer::Granted { token });
    }
    let calls: Vec<Call> = std::iter::from_fn(|| machine.next_call()).map(|(_, call)| call).collect();
    assert!(matches!(calls[..], [Call::Unlock { .. }]), "{calls:?}");
    let failed = machine.next_event();
    let Some(MachineEvent::Done { outcome: Outcome::Failed(MachineFailure::Server(error)), .. }) = failed else {
        panic!("{failed:?}")
    };
    assert!(error.to_string().contains("8, although 1000 was seen"), "{error}");
}

#[test]
fn one_that_was_asked_for_earlier_may_be_read_later() {
    let mut machine = experienced();
    let [first, second] = ["b", "c"].map(|name| lock(&mut machine, name));
    let attempt = machine.attempt(first);
    machine.pushed(Pushed::Granted { attempt: machine.attempt(second), token: 1002 }, NOW);
    machine.pushed(Pushed::Granted { attempt, token: 1001 }, NOW);
    assert_eq!([granted(&mut machine), granted(&mut machine)], [Some((second, 1002)), Some((first, 1001))]);
}
