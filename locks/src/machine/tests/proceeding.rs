//! Attempts whose callers go on without the lock once the server has been away for a while.

use std::time::Duration;

use super::reconnecting::{calls, machine, only, waits, NOW, QUEUED};
use crate::call::{Call, Names};
use crate::machine::{Awaited, LockRequest, Machine, MachineEvent, MachineFailure, Outcome, Rare, Renewal};
use pinyon_net::error::{Error, Kind};

fn ask(machine: &mut Machine, owner: u64, name: &'static [u8], proceeds: bool) -> u64 {
    let (names, ttl): (Names, _) = ([name.into()].into(), Duration::from_secs(10));
    let rare = Rare { proceeds, ..Rare::default() }.boxed();
    let (wait, renewal) = (waits(), Renewal::Always);
    machine.lock(LockRequest { names, owner, ttl, wait, renewal, reentrant: false, rare }, NOW).unwrap()
}

fn refused() -> Error {
    Error::new(Kind::Connect, &"".into(), "refused".to_owned())
}

/// The attempts that failed since the last time, with the kinds of their errors.
fn failed(machine: &mut Machine) -> Vec<(u64, Kind)> {
    let failed = |event| match event {
        MachineEvent::Done {
            number,
            awaited: Awaited::Grant,
            outcome: Outcome::Failed(MachineFailure::Server(error)),
        } => Some((number, error.kind)),
        _ => None,
    };
    std::iter::from_fn(|| machine.next_event()).filter_map(failed).collect()
}

#[test]
fn they_fail_when_the_server_cannot_be_reached_and_others_wait_on() {
    let mut machine = machine();
    let queued = ask(&mut machine, 1, b"a", true);
    only(&mut machine, QUEUED);
    machine.disconnected(&refused(), false, NOW);
    assert_eq!(failed(&mut machine), [], "it may be back soon");
    let (fresh, waiting) = (ask(&mut machine, 2, b"b", true), ask(&mut machine, 3, b"c", false));
    machine.unreachable(&refused(), NOW);
    assert_eq!(failed(&mut machine), [(queued, Kind::Connect), (fresh, Kind::Connect)]);
    machine.connected(NOW);
    let calls = calls(&mut machine);
    let is_of = |call: &Call, number| match call {
        Call::Unlock { attempt, .. } | Call::Lock { attempt, .. } => attempt.number == number,
        _ => false,
    };
    assert!(calls.iter().any(|(_, call)| is_of(call, queued)), "what the server may still grant is given back");
    assert!(calls.iter().any(|(_, call)| is_of(call, waiting)));
}
