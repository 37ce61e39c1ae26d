//! Grants of a client whose server gives the answers that the test writes.

mod closing;

use super::*;
use crate::handler::HandlerKind;
use crate::keys;
use crate::loss::Loss;
use crate::machine::Renewal;
use crate::rate::Rate;
use crate::tests::in_memory::{name_of, settings, InMemory, GREETING};
use pinyon_net::connection::peer::Ending;
use pinyon_net::driven::{Action, Driven};
use pinyon_net::error::kinds::ErrorKind;

const TTL: Duration = Duration::from_secs(9);
const GRANTED: &str = ":5000\r\n";
const RELEASED: &str = ":1\r\n";

type Operation = LockOperation<&'static str>;

struct Host {
    front: Front<&'static str, &'static str, InMemory>,
    platform: InMemory,
    told: Vec<LockFinished<&'static str, &'static str>>,
}

impl Host {
    /// How many checks of rates were allowed, and how many refused.
    fn rates(&self) -> (u64, u64) {
        let metrics = self.front.settings().options.observed.metrics();
        (metrics.rates_allowed, metrics.rates_refused)
    }

    fn connected() -> Self {
        let platform = InMemory::default();
        let front = Front::on(platform.clone(), settings(HandlerKind::Script), "c".into());
        let mut host = Self { front, platform, told: Vec::new() };
        host.begin("inspect", inspect(StatusQuestion::IsLocked));
        for (asked, answer) in GREETING {
            assert_eq!(host.sent()[0], asked);
            host.answer(answer);
        }
        host.answer("*1\r\n*3\r\n$-1\r\n:-2\r\n:-1\r\n");
        let outcome = host.outcome("inspect");
        assert!(matches!(outcome, LockOutcome::Status(StatusAnswer::IsLocked(false))), "{outcome:?}");
        host
    }

    fn begin(&mut self, waiter: &'static str, operation: Operation) {
        self.front.begin(operation, waiter, self.platform.now());
        self.settle();
    }

    /// Asks for the lock. The test gives the answer.
    fn ask_for_lock(&mut self, renewal: Renewal, wait: Option<Duration>) -> Arc<Grant<&'static str>> {
        let names = keys::names(["a"]).unwrap();
        let grant = Grant::new(names.clone());
        let request = LockRequest { renewal, reentrant: true, ..asked(&names, 1, wait) };
        self.begin("lock", Operation::Acquire { grant: grant.clone(), request });
        grant
    }

    /// A held lock.
    fn held(&mut self) -> Arc<Grant<&'static str>> {
        let grant = self.ask_for_lock(Renewal::Always, Some(TTL));
        assert_eq!(self.sent(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
        self.answer(&["*1\r\n:4999\r\n", GRANTED].concat());
        assert!(matches!(self.outcome("lock"), LockOutcome::Held { notified: false }));
        assert_eq!(grant.token(), 5000);
        grant
    }

    fn outcome(&mut self, of: &'static str) -> LockOutcome {
        match self.told.pop() {
            Some(LockFinished::Done { waiter, outcome, .. }) if waiter == of => outcome,
            other => panic!("{of}: {other:?}"),
        }
    }

    fn sent(&mut self) -> Vec<String> {
        self.settle();
        self.platform.commands().iter().map(|command| name_of(command)).collect()
    }

    fn answer(&mut self, reply: &str) {
        self.platform.peer.reply(reply.as_bytes());
        self.front.ready(0, self.platform.now());
        self.settle();
    }

    /// Lets time pass. Returns what was sent meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Vec<String>> {
        self.platform.elapsed.set(self.platform.elapsed.get() + time);
        self.front.expire(self.platform.now());
        self.settle();
        self.platform.commands()
    }

    fn settle(&mut self) {
        loop {
            let (actions, finished) = (self.front.take_actions(), self.front.take_finished());
            if actions.is_none() && finished.is_empty() {
                return;
            }
            for action in actions.into_iter().flatten() {
                match action {
                    Action::Forget { lane, .. } => self.front.forgotten(lane, self.platform.now()),
                    Action::EndTurn => self.front.turn(self.platform.now()),
                    Action::Watch { .. } | Action::Resolve { .. } => {}
                    Action::Ask(question) => question.put(|| ()),
                }
            }
            // Events of the connection have tests of their own.
            let is_event = |finished: &LockFinished<_, _>| matches!(finished, LockFinished::Note(Note::Event { .. }));
            self.told.extend(finished.into_iter().filter(|finished| !is_event(finished)));
        }
    }
}

fn inspect(question: StatusQuestion) -> Operation {
    Operation::Inspect { asked: Asked::new(&["a"]).unwrap(), question }
}

fn release(grant: &Arc<Grant<&'static str>>) -> Operation {
    Operation::Release { grant: grant.clone(), early: false }
}

/// What an owner asks for that renews its lock, and holds none of these names.
fn asked(names: &Names, owner: u64, wait: Option<Duration>) -> LockRequest {
    LockRequest { names: names.clone(), owner, ttl: TTL, wait, renewal: Renewal::Always, reentrant: false, rare: None }
}

#[test]
fn notes_are_left_for_a_host_that_takes_them_elsewhere() {
    let (mut host, notes) = (Host::connected(), Arc::new(Notes::default()));
    host.front.notes = Some(notes.clone());
    host.held().listen("somebody").unwrap();
    host.pass(TTL / 2);
    host.answer("*1\r\n:0\r\n");
    assert!(host.told.is_empty(), "{:?}", host.told);
    assert_eq!(notes.take(), Some(Note::Lost { listener: "somebody", loss: Loss::Gone }));
}

#[test]
fn what_is_held_is_renewed_and_its_loss_noted() {
    let mut host = Host::connected();
    let grant = host.held();
    grant.listen("somebody").unwrap();
    assert_eq!(
        host.pass(TTL / 2).iter().map(|command| name_of(command)).collect::<Vec<_>>(),
        ["FCALL pinyon_extend_8"]
    );
    host.answer("*1\r\n:0\r\n");
    assert!(
        matches!(host.told[..], [LockFinished::Note(Note::Lost { listener: "somebody", loss: Loss::Gone })]),
        "{:?}",
        host.told
    );
    assert_eq!((grant.loss(), host.front.remaining(&grant)), (Some(Loss::Gone), None));
}

#[test]
fn listeners_of_what_was_released_are_handed_back() {
    let mut host = Host::connected();
    let grant = host.held();
    grant.listen("somebody").unwrap();
    host.begin("release", release(&grant));
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
    host.answer(RELEASED);
    match host.told.pop() {
        Some(LockFinished::Done { waiter: "release", outcome: LockOutcome::Released { held: true }, unheard }) => {
            assert_eq!(unheard, ["somebody"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_released_a_lock_asks_nothing_of_it_while_others_hold_it() {
    let mut host = Host::connected();
    let (first, second) = (host.held(), host.ask_for_lock(Renewal::Always, Some(TTL)));
    assert!(matches!(host.outcome("lock"), LockOutcome::Held { .. }), "its owner has it already");
    host.begin("release", release(&first));
    assert!(matches!(host.outcome("release"), LockOutcome::Released { held: true }));
    host.begin("again", release(&first));
    assert!(matches!(host.outcome("again"), LockOutcome::Released { held: false }));
    host.begin("extend", Operation::Extend { grant: first.clone(), ttl: TTL });
    assert!(matches!(host.outcome("extend"), LockOutcome::Extended { held: false }));
    host.begin("notify", Operation::Notify { grant: first.clone(), most: 0 });
    let LockOutcome::Failed(failure) = host.outcome("notify") else { panic!("it holds nothing") };
    assert!(failure.kind == ErrorKind::LockLost, "{failure:?}");
    assert!(host.sent().is_empty());
    assert_eq!(host.front.remaining(&first), None);
    assert!(host.front.remaining(&second).is_some());
    host.begin("release", release(&second));
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
}

#[test]
fn a_wait_that_is_ended_leaves_the_queue_and_one_that_only_begins_asks_nothing() {
    let mut host = Host::connected();
    let waiting = host.ask_for_lock(Renewal::Always, Some(TTL));
    host.sent();
    host.answer("*1\r\n:4999\r\n");
    host.front.give_up(&waiting, GiveUp::Wait, host.platform.now());
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
    assert!(matches!(host.outcome("lock"), LockOutcome::Busy));
    host.answer(":0\r\n");
    host.answer(":0\r\n");
    let request = asked(waiting.names(), 1, Some(TTL));
    host.begin("lock", Operation::Acquire { grant: waiting, request });
    assert!(matches!(host.outcome("lock"), LockOutcome::Busy) && host.sent().is_empty());
}

#[test]
fn a_lock_that_was_granted_before_its_wait_ends_is_held() {
    let mut host = Host::connected();
    let grant = host.held();
    host.front.give_up(&grant, GiveUp::Wait, host.platform.now());
    assert!(host.sent().is_empty() && host.front.remaining(&grant).is_some());
}

#[test]
fn a_lock_that_nobody_can_release_once_it_is_granted_is_not_renewed() {
    let mut host = Host::connected();
    host.held();
    let other = keys::names(["b"]).unwrap();
    let grant = Grant::new(other.clone());
    let request = asked(&other, 2, None);
    host.begin("lock", Operation::Acquire { grant: grant.clone(), request });
    assert_eq!(host.sent(), ["FCALL pinyon_lock_8"]);
    host.front.forsake(&grant);
    host.answer(":5001\r\n");
    assert!(matches!(host.outcome("lock"), LockOutcome::Held { .. }));
    assert_eq!(host.front.remaining(&grant), None);
    let renewed = host.pass(TTL / 2);
    assert!(matches!(&renewed[..], [extend] if !extend.iter().any(|part| part.contains(":l:b"))), "{renewed:?}");
}

#[test]
fn a_lock_that_is_held_cannot_be_acquired_at_once() {
    let mut host = Host::connected();
    host.held();
    let names = keys::names(["a"]).unwrap();
    for (wait, owner) in [(None, 2), (Some(Duration::ZERO), 3)] {
        let request = LockRequest { renewal: Renewal::Never, ..asked(&names, owner, wait) };
        host.begin("lock", Operation::Acquire { grant: Grant::new(names.clone()), request });
    }
    let LockOutcome::Failed(failure) = host.outcome("lock") else { panic!("it was not to wait") };
    assert_eq!(failure.kind, ErrorKind::LockTimeout);
    assert_eq!(
        failure.message,
        "redis1: the lock \"a\" could not be acquired at once; held by c:1:2 for less than 0.1 s"
    );
    assert!(matches!(host.outcome("lock"), LockOutcome::Busy));
}

#[test]
fn closing_loses_what_is_held() {
    let mut host = Host::connected();
    let grant = host.held();
    grant.listen("nobody").unwrap();
    host.front.close(host.platform.now());
    host.settle();
    assert!(host.told.is_empty(), "{:?}", host.told);
    assert_eq!((grant.loss(), host.front.remaining(&grant)), (Some(Loss::Closed), None));
    host.begin("release", release(&grant));
    assert!(matches!(host.outcome("release"), LockOutcome::Released { held: false }));
}

/// A question for a permit of a rate that gives one a second. Its ticks are microseconds.
fn rate(timeout: Option<f64>) -> Operation {
    let rate = Arc::new(Rate::new("a", 1, 1.0, None).unwrap());
    Operation::Rate { question: rate.ask(1, timeout).unwrap() }
}

#[test]
fn a_check_is_one_command_and_is_answered_at_once() {
    let mut host = Host::connected();
    host.begin("rate", rate(None));
    assert_eq!(host.sent(), ["FCALL pinyon_rate_8"]);
    host.answer(":1000000\r\n");
    let LockOutcome::Rated(answer) = host.outcome("rate") else { panic!("an answer") };
    assert_eq!((answer.allowed, answer.remaining, answer.reset), (true, 0, Duration::from_secs(1)));
    host.begin("rate", rate(None));
    host.answer(":-600001\r\n");
    let LockOutcome::Rated(answer) = host.outcome("rate") else { panic!("an answer") };
    assert_eq!((answer.allowed, answer.retry_after), (false, Some(Duration::from_millis(600))));
    assert_eq!(host.rates(), (1, 1));
}

#[test]
fn waiters_get_their_permits_when_their_times_have_come_and_not_before() {
    let mut host = Host::connected();
    host.begin("first", rate(Some(5.0)));
    host.begin("second", rate(Some(5.0)));
    assert_eq!(host.sent().len(), 2);
    host.answer(":2000000\r\n:3000000\r\n");
    assert!(host.told.is_empty() && !host.front.is_idle());
    assert_eq!(host.rates(), (2, 0), "their permits are taken");
    assert_eq!(host.front.deadline(), Some(host.platform.now() + Duration::from_secs(1)));
    assert!(host.pass(Duration::from_millis(999)).is_empty() && host.told.is_empty());
    assert!(host.pass(Duration::from_millis(1)).is_empty(), "it needs no further command");
    let LockOutcome::Rated(answer) = host.outcome("first") else { panic!("an answer") };
    assert_eq!((answer.allowed, answer.reset), (true, Duration::from_secs(1)));
    assert!(host.told.is_empty());
    host.pass(Duration::from_secs(1));
    assert!(matches!(host.outcome("second"), LockOutcome::Rated(RateAnswer { allowed: true, .. })));
    assert_eq!(host.front.deadline(), None);
}

#[test]
fn a_wait_in_vain_fails_at_once() {
    let mut host = Host::connected();
    host.begin("rate", rate(Some(0.5)));
    host.sent();
    host.answer(":-1000001\r\n");
    let LockOutcome::Failed(failure) = host.outcome("rate") else { panic!("too late") };
    assert_eq!(failure.kind, ErrorKind::LockTimeout);
    assert_eq!(failure.message, "redis1: the rate \"a\" does not allow it within 0.5 s; it does in 1 s");
    assert_eq!(host.rates(), (0, 1));
}

#[test]
fn a_check_that_was_sent_and_not_answered_is_not_repeated() {
    let mut host = Host::connected();
    host.begin("rate", rate(None));
    assert_eq!(host.sent(), ["FCALL pinyon_rate_8"]);
    host.platform.peer.end(Ending::Closed);
    host.front.ready(0, host.platform.now());
    host.settle();
    let LockOutcome::Failed(failure) = host.outcome("rate") else { panic!("it may have been carried out") };
    assert_eq!(failure.kind, ErrorKind::ConnectionLost);
    assert!(!host.sent().iter().any(|sent| sent.contains("rate")));
    assert_eq!(host.rates(), (0, 0));
}

#[test]
fn closing_fails_waiters_whose_time_has_not_come() {
    let mut host = Host::connected();
    host.begin("rate", rate(Some(5.0)));
    host.sent();
    host.answer(":2000000\r\n");
    host.front.close(host.platform.now());
    host.settle();
    let LockOutcome::Failed(failure) = host.outcome("rate") else { panic!("it is closed") };
    assert_eq!(failure.kind, ErrorKind::ConnectionLost);
    assert!(host.front.is_idle());
}
