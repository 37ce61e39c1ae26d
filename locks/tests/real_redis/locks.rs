//! Threads that share a client's locks.

use std::cell::Cell;
use std::time::Duration;

use pinyon_locks::{
    owners, GiveUp, LockEventKind, LockOutcome, LockRequest, Loss, Note, Renewal, StatusAnswer, StatusQuestion,
};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::events::Level;
use pinyon_net::host;
use pinyon_proto::resp::{Command, Value};

use super::program::{acquiring, until, Operation, Program, TTL};
use super::server::Redis;
use super::TIMEOUT;

/// Permits a number of waits, and refuses the next one.
struct Refusing(Cell<usize>);

#[derive(Debug)]
struct RefusedWait;

impl host::Host for Refusing {
    type Interrupt = RefusedWait;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, RefusedWait> {
        self.0.set(self.0.get().checked_sub(1).ok_or(RefusedWait)?);
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), RefusedWait> {
        Ok(())
    }
}

#[test]
fn an_attempt_whose_wait_is_refused_is_given_up() {
    let server = Redis::start("");
    let [holder, other] = [(); 2].map(|()| Program::on(&server));
    let held = holder.acquire("a", Renewal::Never);
    for permitted in 0..4 {
        let (_, operation) = acquiring("a", Renewal::Never, false);
        assert!(matches!(other.station().run(&Refusing(Cell::new(permitted)), operation), Err(RefusedWait)));
        // Asked on the same connection, so everything that was given up has been carried out.
        assert_eq!(other.ask("a", StatusQuestion::Waiting), StatusAnswer::Waiting(0), "after {permitted} waits");
    }
    assert!(holder.release(&held));
    other.acquire("a", Renewal::Never);
}

#[test]
fn what_is_held_is_renewed_although_no_thread_waits() {
    let server = Redis::start("");
    let [holder, other] = [(); 2].map(|()| Program::on(&server));
    let held = holder.acquire("a", Renewal::Always);
    other.see_renewed("a", TTL);
    assert!(holder.station().remaining(&held).is_some());
    assert!(holder.release(&held) && !holder.release(&held));
    assert_eq!(holder.station().remaining(&held), None);
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
}

#[test]
fn a_loss_is_noted_although_no_thread_waits() {
    let server = Redis::start("");
    let [holder, other] = [(); 2].map(|()| Program::on(&server));
    let [forced, gone] = ["a", "b"].map(|name| holder.acquire(name, Renewal::Always));
    forced.listen("forced").unwrap();
    gone.listen("gone").unwrap();
    let (names, token) = (forced.names().clone(), Some(forced.token()));
    assert!(matches!(other.run(Operation::ForceRelease { names, token }), LockOutcome::ForceReleased { released: 1 }));
    assert_eq!(holder.note(), Note::Lost { listener: "forced", loss: Loss::Forced });
    let deleted = Operation::Execute { command: Command::of(["DEL", "{n}:l:b"]) };
    assert!(matches!(other.run(deleted), LockOutcome::Value(Value::Integer(1))));
    assert_eq!(holder.note(), Note::Lost { listener: "gone", loss: Loss::Gone });
    assert_eq!(gone.not_held().message, "the lock \"b\" is no longer held: it is gone from the server");
    assert!(!holder.release(&forced) && !holder.release(&gone));
    assert_eq!(holder.notes.take(), None);
}

#[test]
fn a_warning_is_noted() {
    let server = Redis::start("maxmemory-policy allkeys-lru\n");
    let locks = Program::on(&server);
    locks.acquire("a", Renewal::Never);
    let Note::Event { source, event } = locks.note() else { panic!("nothing is lost") };
    assert_eq!(source, locks.threads.settings().options.observed.source());
    assert!(event.line.contains("maxmemory-policy is allkeys-lru"), "{event:?}");
    assert_eq!((event.kind, event.kind.level()), (LockEventKind::Warning, Level::Warning));
}

#[test]
fn what_becomes_of_locks_is_counted() {
    let server = Redis::start("");
    let [locks, other] = [(); 2].map(|()| Program::on(&server));
    let first = locks.acquire("a", Renewal::Never);
    for (wait, kind) in [(None, None), (Some(Duration::from_millis(20)), Some(ErrorKind::LockTimeout))] {
        let (grant, operation) = acquiring("a", Renewal::Never, false);
        let Operation::Acquire { request, .. } = operation else { unreachable!() };
        let outcome = other.run(Operation::Acquire { grant, request: LockRequest { wait, ..request } });
        match (outcome, kind) {
            (LockOutcome::Busy, None) => {}
            (LockOutcome::Failed(failure), Some(kind)) => assert_eq!(failure.kind, kind),
            (other, _) => panic!("{other:?}"),
        }
    }
    assert!(locks.release(&first));
    let forced = locks.acquire("a", Renewal::Never);
    other.run(Operation::ForceRelease { names: forced.names().clone(), token: None });
    until(|| forced.loss().is_some());
    let [counted, others] = [&locks, &other].map(|program| program.threads.metrics());
    assert_eq!((counted.acquired, counted.released, counted.connects), (2, 1, 1));
    assert_eq!((counted.lost, counted.waits.count()), (vec![(Loss::Forced, 1)], 2));
    assert_eq!((others.acquired, others.busy, others.queued), (0, 1, 1));
    assert_eq!(others.errors, [(ErrorKind::LockTimeout, 1)]);
}

#[test]
fn what_nobody_can_release_is_not_renewed() {
    let server = Redis::start("");
    let locks = Program::on(&server);
    let held = locks.acquire("a", Renewal::Always);
    locks.station().forsake(&held);
    assert_eq!(locks.station().remaining(&held), None);
    until(|| locks.ask("a", StatusQuestion::IsLocked) == StatusAnswer::IsLocked(false));
    // The other one can still release it.
    let [first, second] = [(); 2].map(|()| {
        let (grant, operation) = acquiring("a", Renewal::Never, true);
        assert!(matches!(locks.run(operation), LockOutcome::Held { .. }));
        grant
    });
    locks.station().forsake(&first);
    assert!(locks.release(&second));
    assert_eq!(locks.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
}

#[test]
fn a_thread_that_waits_gets_the_lock_of_another() {
    let server = Redis::start("");
    let locks = Program::on(&server);
    let held = locks.acquire("a", Renewal::Never);
    let later = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.acquire("a", Renewal::Never));
        let parked = locks.acquire("b", Renewal::Never);
        let wait = Some(Duration::from_millis(1));
        let park = Operation::Park { grant: parked.clone(), wait, relock: TIMEOUT };
        assert!(matches!(locks.run(park), LockOutcome::Held { notified: false }));
        let notify = Operation::Notify { grant: parked.clone(), most: 0 };
        assert!(matches!(locks.run(notify), LockOutcome::Notified { moved: 0 }));
        let extend = Operation::Extend { grant: parked.clone(), ttl: TIMEOUT };
        assert!(matches!(locks.run(extend), LockOutcome::Extended { held: true }));
        assert!(locks.release(&held));
        waiting.join().unwrap()
    });
    assert!(later.token() > held.token());
    let (_, mut at_once) = acquiring("a", Renewal::Never, false);
    if let Operation::Acquire { request, .. } = &mut at_once {
        request.wait = None;
        request.owner = owners::new_owner();
    }
    assert!(matches!(locks.run(at_once), LockOutcome::Busy));
}

#[test]
fn a_thread_whose_wait_another_one_ends_leaves_the_queue() {
    let server = Redis::start("");
    let [locks, other] = [(); 2].map(|()| Program::on(&server));
    let held = other.acquire("a", Renewal::Never);
    let (grant, mut operation) = acquiring("a", Renewal::Never, false);
    if let Operation::Acquire { request, .. } = &mut operation {
        request.wait = Some(Duration::from_secs(1_000_000_000));
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.run(operation));
        until(|| other.ask("a", StatusQuestion::Waiting) == StatusAnswer::Waiting(1));
        locks.station().give_up(&grant, GiveUp::Wait);
        assert!(matches!(waiting.join().unwrap(), LockOutcome::Busy));
    });
    until(|| other.ask("a", StatusQuestion::Waiting) == StatusAnswer::Waiting(0));
    assert!(other.release(&held));
}

#[test]
fn closing_ends_what_waits_and_loses_what_is_held() {
    let server = Redis::start("");
    let [locks, other] = [(); 2].map(|()| Program::on(&server));
    let held = locks.acquire("a", Renewal::Always);
    held.listen("nobody").unwrap();
    let elsewhere = other.acquire("b", Renewal::Never);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.run(acquiring("b", Renewal::Never, false).1));
        until(|| other.ask("b", StatusQuestion::Waiting) == StatusAnswer::Waiting(1));
        let station = locks.station();
        locks.threads.close();
        let LockOutcome::Failed(failure) = waiting.join().unwrap() else { panic!("it has the lock") };
        assert_eq!(failure.kind, ErrorKind::ConnectionLost);
        let released = station.run(&Refusing(Cell::new(9)), Operation::Release { grant: held.clone(), early: false });
        assert!(matches!(released, Ok(LockOutcome::Released { held: false })));
    });
    assert!(matches!(locks.threads.station(), Err(failure) if failure.kind == ErrorKind::Closed));
    assert_eq!((held.loss(), locks.notes.take()), (Some(Loss::Closed), None));
    assert!(other.release(&elsewhere));
}

#[test]
fn a_lock_that_is_granted_just_when_its_client_is_closed_does_not_stay_locked() {
    let server = Redis::start("");
    let [locks, other] = [(); 2].map(|()| Program::on(&server));
    let held = other.acquire("a", Renewal::Never);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.run(acquiring("a", Renewal::Never, false).1));
        until(|| other.ask("a", StatusQuestion::Waiting) == StatusAnswer::Waiting(1));
        // When the server goes on, it reads the release first, and grants the lock to the client that is closed.
        server.signal("STOP");
        other.station().give_up(&held, GiveUp::Lock);
        locks.threads.close();
        server.signal("CONT");
        assert!(matches!(waiting.join().unwrap(), LockOutcome::Failed(_)));
    });
    let third = Program::on(&server);
    assert_eq!(third.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
    assert_eq!(third.ask("a", StatusQuestion::Waiting), StatusAnswer::Waiting(0));
}
