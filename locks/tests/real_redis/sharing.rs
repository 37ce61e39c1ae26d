//! Readers, writers and permits of several clients, by functions and by plain commands.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::{
    owners, wanted, Asked, HandlerKind, LockOutcome, LockRequest, Mode, Names, PermitsWanted, Renewal, StatusAnswer,
    StatusQuestion,
};
use pinyon_net::error::kinds::ErrorKind;

use super::program::{Grant, Operation, Program};
use super::server::Redis;
use super::TIMEOUT;

const LIMIT: u32 = 3;

fn names(write: &[&str], read: &[&str], permits: u32) -> Names {
    let permits = (permits > 0).then_some(PermitsWanted { pool: "p", count: permits, limit: LIMIT });
    wanted(write.iter().copied(), read.iter().copied(), permits).unwrap()
}

fn request(names: Names, reentrant: bool) -> LockRequest {
    let (owner, wait) = (owners::this_thread(), Some(TIMEOUT));
    LockRequest { names, owner, ttl: TIMEOUT, wait, renewal: Renewal::Never, reentrant, rare: None }
}

fn acquire(program: &Program, request: LockRequest) -> Arc<Grant> {
    let grant = Grant::of(&request);
    let outcome = program.run(Operation::Acquire { grant: grant.clone(), request });
    assert!(matches!(outcome, LockOutcome::Held { .. }), "{outcome:?}");
    grant
}

fn programs(server: &Redis, handlers: [HandlerKind; 2]) -> [Program; 2] {
    handlers.map(|handler| Program::with(server.endpoint(), |setup| setup.handler = handler))
}

/// Who is where: a writer counts -1,000, a reader 1.
#[derive(Default)]
struct Watched {
    names: [AtomicI64; 2],
    permits: AtomicI64,
}

impl Watched {
    fn change(&self, names: &Names, sign: i64) {
        for (name, mode) in names.each() {
            let (count, by, range) = match mode {
                Mode::Permits { count, .. } => (&self.permits, i64::from(count), 0..=i64::from(LIMIT)),
                Mode::Read => (&self.names[usize::from(name[0] - b'a')], 1, 0..=1000),
                Mode::Write => (&self.names[usize::from(name[0] - b'a')], -1000, -1000..=0),
            };
            let after = count.fetch_add(sign * by, Ordering::SeqCst) + sign * by;
            assert!(range.contains(&after), "{name:?} {mode:?}: {after}");
        }
    }
}

#[test]
fn nobody_is_beside_a_writer_and_no_more_permits_are_taken_than_there_are() {
    use HandlerKind::{Pure, Script};
    for handlers in [[Script, Script], [Pure, Pure], [Script, Pure]] {
        let server = Redis::start("");
        let (programs, watched) = (programs(&server, handlers), Watched::default());
        std::thread::scope(|scope| {
            for thread in 0..8usize {
                let (program, watched) = (&programs[thread % 2], &watched);
                scope.spawn(move || {
                    for round in 0..40 {
                        let wanted = match (thread + round) % 5 {
                            0 => names(&["a"], &[], 0),
                            1 => names(&["b"], &["a"], 1),
                            2 => names(&[], &["a", "b"], 0),
                            3 => names(&[], &[], 2),
                            _ => names(&[], &["b"], 1),
                        };
                        let held = acquire(program, request(wanted.clone(), false));
                        watched.change(&wanted, 1);
                        std::thread::yield_now();
                        watched.change(&wanted, -1);
                        assert!(program.release(&held));
                    }
                });
            }
        });
        assert_eq!(programs[0].ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
    }
}

#[test]
fn readers_are_there_together_and_seen() {
    for handler in [HandlerKind::Script, HandlerKind::Pure] {
        let server = Redis::start("");
        let [one, other] = programs(&server, [handler; 2]);
        let readers = [&one, &other].map(|program| acquire(program, request(names(&[], &["a"], 1), false)));
        let StatusAnswer::Each(state) = one.ask("a", StatusQuestion::Each) else { panic!("no state") };
        assert_eq!(state[0].sharing.len(), 2, "{handler:?}");
        let busy = LockRequest { wait: None, ..request(names(&["a"], &[], 0), false) };
        let outcome = one.run(Operation::Acquire { grant: Grant::of(&busy), request: busy.clone() });
        // Its own thread reads it.
        assert!(matches!(outcome, LockOutcome::Busy), "{outcome:?}");
        for (program, held) in [&one, &other].iter().zip(&readers) {
            let ttl = 2 * TIMEOUT;
            let extended = program.run(Operation::Extend { grant: held.clone(), ttl });
            assert!(matches!(extended, LockOutcome::Extended { held: true }), "{extended:?}");
            assert!(program.release(held));
        }
        acquire(&other, busy);
    }
}

#[test]
fn a_reader_is_upgraded_when_it_is_alone_and_downgraded_beside_others() {
    use HandlerKind::{Pure, Script};
    for handlers in [[Script, Script], [Pure, Pure], [Script, Pure], [Pure, Script]] {
        let server = Redis::start("");
        let [one, other] = programs(&server, handlers);
        let reads = request(names(&[], &["a"], 0), false);
        let [first, second] = [&one, &other].map(|program| acquire(program, reads.clone()));
        let turn = |mode| {
            let wait = Duration::ZERO;
            one.run(Operation::Change { grant: first.clone(), names: Vec::new(), mode, wait })
        };
        let refused = turn(Mode::Write);
        assert!(matches!(refused, LockOutcome::Failed(_)), "{handlers:?}: {refused:?}");
        assert!(other.release(&second));
        let upgraded = turn(Mode::Write);
        assert!(matches!(upgraded, LockOutcome::Held { .. }), "{handlers:?}: {upgraded:?}");
        let busy = LockRequest { wait: None, ..reads.clone() };
        let outcome = other.run(Operation::Acquire { grant: Grant::of(&busy), request: busy });
        assert!(matches!(outcome, LockOutcome::Busy), "{handlers:?}: {outcome:?}");
        let downgraded = turn(Mode::Read);
        assert!(matches!(downgraded, LockOutcome::Held { .. }), "{handlers:?}: {downgraded:?}");
        let third = acquire(&other, reads);
        assert!(one.release(&first) && other.release(&third));
        assert_eq!(one.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
    }
}

#[test]
fn a_renewal_does_not_bring_an_earlier_limit_back() {
    let pool = |limit| wanted([], [], Some(PermitsWanted { pool: "p", count: 1, limit })).unwrap();
    for handler in [HandlerKind::Script, HandlerKind::Pure] {
        let server = Redis::start("");
        let [one, other] = programs(&server, [handler, HandlerKind::Script]);
        let first = acquire(&one, request(pool(9), false));
        acquire(&other, request(pool(2), false));
        let extended = one.run(Operation::Extend { grant: first, ttl: 2 * TIMEOUT });
        assert!(matches!(extended, LockOutcome::Extended { held: true }), "{extended:?}");
        let asked = Asked::pool(b"p").unwrap();
        let outcome = other.run(Operation::Inspect { asked, question: StatusQuestion::Permits });
        let LockOutcome::Status(answer) = outcome else { panic!("{outcome:?}") };
        assert_eq!(answer, StatusAnswer::Permits(Some((2, 2))), "{handler:?}");
    }
}

#[test]
fn a_reader_cannot_write_what_it_reads_and_a_writer_may_read() {
    let server = Redis::start("");
    let program = Program::on(&server);
    let reads = acquire(&program, request(names(&[], &["a"], 0), true));
    let wants = request(names(&["a"], &[], 0), true);
    let outcome = program.run(Operation::Acquire { grant: Grant::of(&wants), request: wants.clone() });
    let LockOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.kind, ErrorKind::AlreadyHeld);
    assert!(program.release(&reads));
    let writes = acquire(&program, wants);
    let again = acquire(&program, request(names(&[], &["a"], 0), true));
    assert!(program.release(&again) && program.release(&writes));
}

#[test]
fn a_condition_needs_names_alone() {
    let server = Redis::start("");
    let program = Program::on(&server);
    let held = acquire(&program, request(names(&["a"], &["b"], 0), false));
    let outcome = program.run(Operation::Park { grant: held, wait: Some(TIMEOUT), relock: TIMEOUT });
    let LockOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.to_string().ends_with("use a lock that writes its names"), "{failure}");
}
