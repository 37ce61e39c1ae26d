//! A waiter on a condition whose connection breaks when its time is up.

use std::time::Duration;

use crate::call::{Call, Names, ScriptAnswer};
use crate::machine::{LockOptions, LockRequest, Machine, Moment, Renewal};
use pinyon_net::error::Error;

const fn at(milliseconds: u64) -> Moment {
    Moment(Duration::from_millis(milliseconds))
}

/// A machine whose lock is parked until 50 ms, and the number of the lock.
fn parked() -> (Machine, u64) {
    let (mut machine, number) = parking();
    answer_last(&mut machine, at(3));
    (machine, number)
}

/// The same, but the server has not answered yet.
fn parking() -> (Machine, u64) {
    let mut machine = Machine::new("0123.ab.0".into(), LockOptions::default());
    let names: Names = [b"a".as_slice().into()].into();
    let (ttl, wait) = (Duration::from_secs(10), Some(Duration::from_secs(10)));
    machine.connected(at(0));
    let request = LockRequest { names, owner: 1, ttl, wait, renewal: Renewal::Always, reentrant: false, rare: None };
    let number = machine.lock(request, at(0)).unwrap();
    while let Some((id, call)) = machine.next_call() {
        if matches!(call, Call::Lock { .. }) {
            machine.answer(id, Ok(ScriptAnswer::Granted { token: 1 }), at(1));
        }
    }
    machine.park(number, Some(Duration::from_millis(48)), Duration::from_secs(10), at(2)).unwrap();
    (machine, number)
}

/// Answers the last call with "queued" or "parked", and returns the call.
fn answer_last(machine: &mut Machine, now: Moment) -> Call {
    let (id, call) = last_call(machine).expect("something is asked");
    machine.answer(id, Ok(ScriptAnswer::Queued { pttl: None }), now);
    call
}

fn last_call(machine: &mut Machine) -> Option<(u64, Call)> {
    std::iter::from_fn(|| machine.next_call()).last()
}

fn cut(machine: &mut Machine, now: Moment) {
    machine.disconnected(&Error::unanswered(&"".into()), false, now);
}

#[test]
fn one_whose_time_is_up_without_a_connection_says_so_on_the_next() {
    let (mut machine, _) = parked();
    cut(&mut machine, at(40));
    machine.expire(at(60));
    machine.connected(at(70));
    assert!(matches!(answer_last(&mut machine, at(71)), Call::Unpark { .. }));
    cut(&mut machine, at(80));
    machine.connected(at(90));
    assert!(matches!(answer_last(&mut machine, at(91)), Call::Poll { .. }), "the server has confirmed it");
}

#[test]
fn one_that_was_not_answered_says_so_again() {
    let (mut machine, _) = parked();
    machine.expire(at(60));
    assert!(matches!(last_call(&mut machine), Some((_, Call::Unpark { .. }))));
    for now in [70, 80] {
        cut(&mut machine, at(now));
        machine.connected(at(now + 5));
        assert!(matches!(last_call(&mut machine), Some((_, Call::Unpark { .. }))));
    }
}

#[test]
fn one_whose_time_is_not_up_stays_parked() {
    let (mut machine, number) = parked();
    cut(&mut machine, at(20));
    machine.connected(at(30));
    assert!(matches!(answer_last(&mut machine, at(31)), Call::Poll { .. }));
    machine.expire(at(60));
    assert!(matches!(answer_last(&mut machine, at(61)), Call::Unpark { .. }));
    machine.cancel(number, at(62));
}

#[test]
fn the_time_to_take_its_names_again_begins_once() {
    let (mut machine, number) = parking();
    cut(&mut machine, at(20));
    machine.expire(at(60));
    assert_eq!(machine.wait_ends(number), Some(at(10_060)));
    for now in [5_000, 9_000] {
        machine.connected(at(now));
        assert!(matches!(last_call(&mut machine), Some((_, Call::Lock { .. }))), "with a new attempt");
        assert_eq!(machine.wait_ends(number), Some(at(10_060)), "although it reconnected at {now}");
        cut(&mut machine, at(now + 100));
    }
}
