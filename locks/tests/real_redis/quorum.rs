//! Locks on a quorum of real servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinyon_locks::machine::{Fairness, LockOptions};
use pinyon_locks::{
    owners, GiveUp, HandlerKind, LockOutcome, Loss, Note, QuorumSetup, Renewal, Setup, StatusAnswer, StatusQuestion,
    Voting,
};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_proto::resp::{Command, Value};

use super::program::{acquiring, setup, until, Grant, Operation, Program, TIMEOUT, TTL};
use super::server::Redis;

/// Five servers that vote. Starting them takes as long as it takes until they do, so tests run one after another on
/// the same ones, unless they stop some.
struct Five(Vec<Redis>);

impl Five {
    /// Servers that are old enough to vote at once.
    fn start() -> Self {
        let five = Self::young();
        std::thread::sleep(TTL + Duration::from_secs(2));
        five
    }

    fn young() -> Self {
        Self((0..5).map(|_| Redis::start("")).collect())
    }

    fn program(&self) -> Program {
        self.program_with(|_| {})
    }

    fn program_with(&self, change: impl FnOnce(&mut Setup)) -> Program {
        let options = LockOptions { fairness: Fairness::Throughput, ..LockOptions::default() };
        let common = Setup { handler: HandlerKind::Script, options, ..setup(self.0[0].endpoint(), None) };
        let member = |(index, server): (usize, &Redis)| Setup {
            endpoint: server.endpoint(),
            server: format!("redis{index}").into(),
            voting: Voting::Member { longest_ttl: TTL },
            ..common.clone()
        };
        let members = self.0.iter().enumerate().map(member).collect();
        let voting = Voting::Quorum(QuorumSetup { members, longest_ttl: TTL }.into());
        let mut setup = Setup { voting, server: "the quorum".into(), ..common };
        change(&mut setup);
        Program::of(setup)
    }

    /// How many servers have a lock on this name.
    fn having(&self, name: &str) -> usize {
        let has = |server: &&Redis| server.ask(&["EXISTS", &format!("{{n}}:l:{name}")]) == Value::Integer(1);
        self.0.iter().filter(|server| server.is_running()).filter(has).count()
    }
}

fn taking(name: &str, wait: Option<Duration>) -> (Arc<Grant>, Operation) {
    let (grant, mut operation) = acquiring(name, Renewal::Always, false);
    if let Operation::Acquire { request, .. } = &mut operation {
        (request.wait, request.owner) = (wait, owners::new_owner());
    }
    (grant, operation)
}

fn take(program: &Program, name: &str) -> Arc<Grant> {
    program.acquire_with(name, Renewal::Always, |request| request.owner = owners::new_owner())
}

fn take_without_renewal(program: &Program, name: &str) -> Arc<Grant> {
    program.acquire_with(name, Renewal::Always, |request| {
        (request.owner, request.renewal) = (owners::new_owner(), Renewal::Never);
    })
}

fn failure(program: &Program, name: &str, wait: Option<Duration>) -> pinyon_locks::LockFailure {
    match program.run(taking(name, wait).1) {
        LockOutcome::Failed(failure) => *failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_is_on_all_servers_and_gone_from_all() {
    let five = Five::start();
    let [locks, other] = [(); 2].map(|()| five.program());
    let held = take(&locks, "a");
    until(|| five.having("a") == 5);
    assert!(locks.station().remaining(&held).is_some());
    assert!(matches!(other.run(taking("a", None).1), LockOutcome::Busy));
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(true));
    let StatusAnswer::Each(names) = other.ask("a", StatusQuestion::Each) else { panic!("no names") };
    assert_eq!(names[0].holder.as_ref().unwrap().token, Some(held.token()));
    assert!(locks.release(&held));
    until(|| five.having("a") == 0);
    let next = take(&other, "a");
    assert!(next.token() > held.token());
    let extend = Operation::Extend { grant: next.clone(), ttl: TTL };
    assert!(matches!(other.run(extend), LockOutcome::Extended { held: true }));
    let execute = Operation::Execute { command: Command::of(["PING"]) };
    let LockOutcome::Failed(refused) = other.run(execute) else { panic!("which server?") };
    assert_eq!(refused.kind, ErrorKind::Unsupported);

    next.listen("forced").unwrap();
    let (names, token) = (next.names().clone(), Some(next.token()));
    assert!(matches!(locks.run(Operation::ForceRelease { names, token }), LockOutcome::ForceReleased { released: 1 }));
    assert_eq!(other.note(), Note::Lost { listener: "forced", loss: Loss::Forced });
}

#[test]
fn an_uncontended_pair_is_two_commands_on_each_server() {
    let five = Five::start();
    let locks = five.program();
    let pairs = |count: u64| {
        for _ in 0..count {
            let held = take_without_renewal(&locks, "a");
            assert!(locks.release(&held));
            // So that the slowest server is not asked for the next lock before it has answered for this one.
            until(|| five.having("a") == 0);
        }
    };
    let calls_of_pairs = |count: u64| {
        five.0.iter().for_each(|server| drop(server.ask(&["CONFIG", "RESETSTAT"])));
        pairs(count);
        five.0.iter().map(Redis::calls).collect::<Vec<u64>>()
    };
    // At first there are more: when a slow server is connected at last, all are asked for their counters.
    until(|| calls_of_pairs(10) == [20; 5]);
}

#[test]
fn threads_of_several_programs_take_turns_and_tokens_grow() {
    let five = Five::start();
    let programs: Vec<Program> = (0..3).map(|_| five.program()).collect();
    let (inside, turns, last) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(0));
    std::thread::scope(|scope| {
        for program in programs.iter().chain(&programs) {
            scope.spawn(|| {
                for _ in 0..30 {
                    let held = take(program, "a");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    {
                        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                        assert!(held.token() > *last, "{} after {last}", held.token());
                        *last = held.token();
                    }
                    turns.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert!(program.release(&held));
                }
            });
        }
    });
    assert_eq!(turns.load(Ordering::SeqCst), 180);
    until(|| five.having("a") == 0);
}

#[test]
fn a_dead_minority_does_not_matter_and_a_dead_majority_is_named() {
    let mut five = Five::start();
    let locks = five.program();
    let held = take(&locks, "kept");
    five.0[1].stop();
    five.0[3].stop();
    for name in ["a", "b"] {
        let held = take(&locks, name);
        assert!(locks.release(&held));
    }
    // Longer than the ttl: a majority renews it.
    let begun = Instant::now();
    until(|| begun.elapsed() > 2 * TTL);
    assert!(locks.station().remaining(&held).is_some());
    held.listen("lost").unwrap();
    five.0[4].stop();
    let failure = failure(&locks, "c", Some(Duration::from_secs(5)));
    assert!(matches!(failure.kind, ErrorKind::ConnectError | ErrorKind::ConnectionLost), "{failure:?}");
    for server in ["redis1", "redis3", "redis4"] {
        assert!(failure.message.contains(server), "{failure}");
    }
    assert_eq!(locks.note(), Note::Lost { listener: "lost", loss: Loss::Expired });
}

#[test]
fn servers_that_have_just_been_started_have_no_vote() {
    let mut five = Five::young();
    let locks = five.program();
    let refused = failure(&locks, "a", Some(Duration::ZERO));
    assert!(refused.message.contains("was started a short time ago"), "{refused}");
    let held = take(&locks, "a");
    // One after another is restarted without its data, and the lock stays.
    for index in 0..5 {
        five.0[index].restart();
        until(|| {
            assert!(locks.station().remaining(&held).is_some(), "it is lost: {:?}", held.loss());
            five.having("a") == 5
        });
        std::thread::sleep(TTL + Duration::from_secs(1));
    }
    assert!(locks.station().remaining(&held).is_some());
    assert!(locks.release(&held));
}

#[test]
fn the_same_server_twice_is_refused() {
    let five = Five::young();
    let locks = five.program_with(|setup| {
        let Voting::Quorum(quorum) = &mut setup.voting else { unreachable!("it is a quorum") };
        let quorum = Arc::make_mut(quorum);
        quorum.members[4].endpoint = quorum.members[2].endpoint.clone();
    });
    let refused = failure(&locks, "a", Some(TIMEOUT));
    assert_eq!(refused.kind, ErrorKind::UsageError);
    assert!(refused.message.contains("redis2 and redis4 are the same server"), "{refused}");
}

#[test]
fn a_wait_that_another_thread_ends_leaves_the_queues_of_all_servers() {
    let five = Five::start();
    let [program, other] = [(); 2].map(|()| five.program());
    let held = take(&other, "a");
    let (grant, operation) = taking("a", Some(Duration::from_secs(1_000_000_000)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program.run(operation));
        until(|| other.ask("a", StatusQuestion::Waiting) != StatusAnswer::Waiting(0));
        program.station().give_up(&grant, GiveUp::Wait);
        assert!(matches!(waiting.join().unwrap(), LockOutcome::Busy));
    });
    until(|| other.ask("a", StatusQuestion::Waiting) == StatusAnswer::Waiting(0));
    assert!(other.release(&held));
    let again = take(&program, "a");
    assert!(program.release(&again));
}
