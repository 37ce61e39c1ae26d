//! The bookkeeping of an event loop, in memory: the test scripts both the machine and the host.

mod stepwise;

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{Action, Actions, Driven, Drivers, Keeper, LoopHost, LoopMachine, Polled, Wake};
use crate::address::Address;
use crate::credentials::Question;

type Machine = LoopMachine<Script, &'static str, u32>;

/// A machine that hands out what the test has put in.
#[derive(Default)]
struct Script {
    actions: Actions,
    finished: Vec<(&'static str, u32)>,
    /// What is over at the deadline.
    late: Vec<(&'static str, u32)>,
    deadline: Option<Instant>,
    in_flight: usize,
    calls: Vec<String>,
}

impl Script {
    fn submit(&mut self) {
        self.actions.push(Action::EndTurn);
        self.in_flight += 1;
    }

    fn watch(&mut self, lane: usize) {
        self.actions.push(Action::Watch { lane, fd: 7, write: false });
    }

    fn called(&mut self, call: impl Into<String>) {
        self.calls.push(call.into());
    }
}

impl Driven for Script {
    type Finished = (&'static str, u32);

    fn take_actions(&mut self) -> Option<Actions> {
        self.actions.take()
    }

    fn take_finished(&mut self) -> Vec<Self::Finished> {
        std::mem::take(&mut self.finished)
    }

    fn open_connections(&self, _: usize) -> usize {
        2
    }

    fn turn(&mut self, _: Instant) {
        self.called("turn");
    }

    fn ready(&mut self, lane: usize, _: Instant) {
        self.called(format!("ready {lane}"));
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, _: Instant) {
        self.called(format!("connect {lane} {}", resolved.is_ok()));
    }

    fn expire(&mut self, _: Instant) {
        self.called("expire");
        self.finished.append(&mut self.late);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn forgotten(&mut self, lane: usize, _: Instant) {
        self.called(format!("forgotten {lane}"));
        self.watch(lane);
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        [(0, 5), (1, 6)].into_iter()
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    fn discard(&mut self) -> Vec<Self::Finished> {
        self.called("discard");
        Vec::new()
    }

    fn close(&mut self, _: Instant) {
        self.called("close");
    }
}

/// A host that records its calls. The test chooses which calls fail and which call back.
struct Host<'l> {
    event_loop: &'l Machine,
    calls: RefCell<Vec<String>>,
    fails_at: Cell<&'static str>,
    comes_back_at: Cell<&'static str>,
    woken: RefCell<Vec<Duration>>,
    /// Told when it is about to wait for another thread.
    before_waiting: Cell<Option<Sender<()>>>,
}

impl<'l> Host<'l> {
    fn new(event_loop: &'l Machine) -> Self {
        Self {
            event_loop,
            calls: RefCell::default(),
            fails_at: Cell::new("nothing"),
            comes_back_at: Cell::new("nothing"),
            woken: RefCell::default(),
            before_waiting: Cell::default(),
        }
    }

    fn called(&self, call: impl Into<String>) -> Result<(), String> {
        let call = call.into();
        assert!(self.event_loop.machine(self).is_ok(), "{call}: called while the machine is borrowed");
        self.calls.borrow_mut().push(call.clone());
        if call == self.comes_back_at.get() {
            self.comes_back_at.set("nothing");
            self.event_loop.ready(self, 9)?;
        }
        if call == self.fails_at.get() {
            return Err(call);
        }
        Ok(())
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.borrow_mut())
    }

    /// Prepares what the loop's next call finds in the machine.
    fn prepare(&self, prepare: impl FnOnce(&mut Script)) {
        prepare(&mut self.event_loop.machine(self).unwrap());
    }

    fn machine_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.event_loop.machine(self).unwrap().calls)
    }
}

impl LoopHost<Script, &'static str, u32> for Host<'_> {
    type Error = String;

    fn end_turn(&self) -> Result<(), String> {
        self.called("end_turn")
    }

    fn end_turn_from_outside(&self) -> Result<(), String> {
        self.called("end_turn_from_outside")
    }

    fn watch(&self, lane: usize, _: RawFd, _: bool) -> Result<(), String> {
        self.called(format!("watch {lane}"))
    }

    fn watch_anew(&self, lane: usize, _: RawFd) -> Result<(), String> {
        self.called(format!("watch_anew {lane}"))
    }

    fn forget(&self, lane: usize, _: RawFd) -> Result<(), String> {
        self.called(format!("forget {lane}"))
    }

    fn forget_inherited(&self, lane: usize, fd: RawFd) -> Result<(), String> {
        self.called(format!("forget_inherited {lane} {fd}"))
    }

    fn resolve(&self, lane: usize, name: &str, port: u16) -> Result<(), String> {
        self.called(format!("resolve {lane} {name}:{port}"))
    }

    fn ask(&self, _: Question) -> Result<(), String> {
        self.called("ask")
    }

    fn wake_in(&self, time: Duration) -> Result<(), String> {
        self.woken.borrow_mut().push(time);
        self.called("wake_in")
    }

    fn settle(&self, finished: Vec<(&'static str, u32)>) -> Result<(), String> {
        finished.into_iter().for_each(|(waiter, outcome)| self.event_loop.answered().push(waiter, outcome));
        self.called("settle")
    }

    fn resume(&self, waiter: &'static str, outcome: u32) -> Result<(), String> {
        if waiter == "submits" || waiter == "runs the loop" {
            self.event_loop.begin(self, |script, _| script.submit())?;
        }
        if waiter == "runs the loop" {
            self.event_loop.leave_to_loop(self)?;
            self.event_loop.turn(self)?;
        }
        self.called(format!("resume {waiter} {outcome}"))
    }

    fn unlocked(&self, wait: &(dyn Fn() + Sync)) {
        self.calls.borrow_mut().push("unlocked".into());
        self.before_waiting.take().into_iter().for_each(|tell| tell.send(()).unwrap());
        wait();
    }

    fn in_use(&self) -> String {
        "in use".into()
    }
}

fn in_future(seconds: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(seconds))
}

#[test]
fn waiters_are_resumed_in_the_order_in_which_they_were_answered() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    host.prepare(|script| script.finished.extend([("a", 1), ("b", 2)]));
    event_loop.answered().push("earlier", 0);
    event_loop.ready(&host, 3).unwrap();
    assert_eq!(host.machine_calls(), ["ready 3"]);
    assert_eq!(host.take_calls(), ["settle", "resume earlier 0", "resume a 1", "resume b 2"]);
}

#[test]
fn what_waiters_submit_is_sent_once_after_the_last_of_them() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    host.prepare(|script| script.finished.extend([("submits", 1), ("submits", 2), ("c", 3)]));
    event_loop.ready(&host, 0).unwrap();
    assert_eq!(host.take_calls(), ["settle", "resume submits 1", "resume submits 2", "resume c 3"]);
    assert_eq!(host.machine_calls(), ["ready 0", "turn"]);
}

#[test]
fn a_waiter_that_runs_the_loop_itself_finds_everything_sent_and_the_others_resumed() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    host.prepare(|script| script.finished.extend([("runs the loop", 1), ("b", 2)]));
    event_loop.ready(&host, 0).unwrap();
    let expected = ["settle", "watch_anew 0", "watch_anew 1", "end_turn", "resume b 2", "resume runs the loop 1"];
    assert_eq!(host.take_calls(), expected);
    assert_eq!(host.machine_calls()[..2], ["ready 0", "turn"]);
}

#[test]
fn what_is_submitted_outside_of_a_turn_is_sent_when_the_host_ends_it() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    event_loop.begin(&host, |script, _| script.submit()).unwrap();
    assert_eq!((host.take_calls(), host.machine_calls()), (vec!["end_turn".to_owned()], vec![]));
    event_loop.turn(&host).unwrap();
    assert_eq!(host.machine_calls(), ["turn"]);
    assert!(!event_loop.is_resuming_here());
}

#[test]
fn what_fails_when_it_begins_is_left_for_the_end_of_the_turn() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    let begun = event_loop.begin(&host, |script, _| {
        script.submit();
        script.finished.push(("failed", 0));
        "begun"
    });
    assert_eq!(begun.unwrap(), "begun");
    assert_eq!(host.take_calls(), ["end_turn"]);
    event_loop.turn(&host).unwrap();
    assert_eq!(host.take_calls(), ["settle", "resume failed 0"]);
}

#[test]
fn every_action_reaches_the_host_and_what_follows_from_it_does_too() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    let all = |script: &mut Script| {
        script.actions.push(Action::Forget { lane: 1, fd: 5 });
        script.actions.push(Action::Resolve { lane: 2, name: "name".into(), port: 11211 });
    };
    event_loop.begin(&host, |script, _| all(script)).unwrap();
    assert_eq!(host.take_calls(), ["forget 1", "resolve 2 name:11211", "watch 1"]);
    event_loop.resolved(&host, 2, Err("why".into())).unwrap();
    assert_eq!(host.machine_calls(), ["forgotten 1", "connect 2 false"]);
}

#[test]
fn a_host_may_come_back_from_every_call() {
    for call in ["watch 1", "settle", "resume a 1", "end_turn", "wake_in"] {
        let event_loop = Machine::new(Script::default());
        let host = Host::new(&event_loop);
        host.comes_back_at.set(call);
        event_loop.begin(&host, |script, _| script.submit()).unwrap();
        host.prepare(|script| {
            script.watch(1);
            script.finished.extend([("a", 1), ("submits", 2)]);
            script.deadline = in_future(5);
        });
        event_loop.ready(&host, 1).unwrap();
        let calls = host.take_calls();
        assert!(calls.contains(&call.to_owned()), "{calls:?}");
        assert!(calls.contains(&"resume submits 2".to_owned()), "{call}: {calls:?}");
        let calls = host.machine_calls();
        assert!(calls.contains(&"ready 9".to_owned()), "{call}: {calls:?}");
        assert_eq!(calls.iter().filter(|call| *call == "turn").count(), 1, "{call}: {calls:?}");
        assert!(!event_loop.is_resuming_here());
    }
}

#[test]
fn an_error_of_the_host_keeps_nothing_else_from_being_done() {
    for call in ["watch 1", "settle"] {
        let event_loop = Machine::new(Script::default());
        let host = Host::new(&event_loop);
        host.fails_at.set(call);
        host.prepare(|script| {
            script.watch(1);
            script.watch(2);
            script.finished.extend([("submits", 1), ("b", 2)]);
            script.deadline = in_future(5);
        });
        assert_eq!(event_loop.ready(&host, 1), Err(call.to_owned()));
        let expected = ["watch 1", "watch 2", "settle", "wake_in", "resume submits 1", "resume b 2"];
        assert!(host.take_calls().starts_with(&expected.map(str::to_owned)), "{call}");
        assert_eq!(host.machine_calls(), ["ready 1", "turn"], "{call}");
    }
}

#[test]
fn a_waiter_that_raises_into_the_loop_leaves_the_others_to_the_next_turn() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    host.fails_at.set("resume submits 1");
    host.prepare(|script| script.finished.extend([("submits", 1), ("b", 2)]));
    assert_eq!(event_loop.ready(&host, 0), Err("resume submits 1".to_owned()));
    assert_eq!(host.take_calls(), ["settle", "resume submits 1", "end_turn"]);
    assert_eq!(host.machine_calls(), ["ready 0", "turn"]);
    event_loop.turn(&host).unwrap();
    assert_eq!(host.take_calls(), ["resume b 2"]);
}

#[test]
fn the_alarm_is_never_later_than_the_deadline_and_told_once() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    let told_after = |deadline| {
        host.prepare(|script| script.deadline = deadline);
        event_loop.begin(&host, |script, _| script.submit()).unwrap();
        std::mem::take(&mut *host.woken.borrow_mut())
    };
    assert!(told_after(None).is_empty());
    let [first] = told_after(in_future(50))[..] else { panic!("told once") };
    assert!(first <= Duration::from_secs(50));
    assert!(told_after(in_future(60)).is_empty(), "the alarm is sooner already");
    let [sooner] = told_after(in_future(10))[..] else { panic!("told once") };
    assert!(sooner <= Duration::from_secs(10));
    event_loop.woken(&host).unwrap();
    assert_eq!(host.machine_calls(), ["expire"]);
    assert_eq!(host.woken.take().len(), 1, "it is set again for the deadline that stands");
}

#[test]
fn an_alarm_that_the_host_could_not_set_is_told_again() {
    let event_loop = Machine::new(Script { deadline: in_future(5), ..Script::default() });
    let host = Host::new(&event_loop);
    host.fails_at.set("wake_in");
    assert!(event_loop.begin(&host, |script, _| script.submit()).is_err());
    host.fails_at.set("nothing");
    event_loop.begin(&host, |script, _| script.submit()).unwrap();
    assert_eq!(host.woken.take().len(), 2);
}

#[test]
fn a_retired_loop_is_closed_once_nothing_is_on_its_way() {
    let event_loop = Machine::new(Script { in_flight: 1, ..Script::default() });
    let host = Host::new(&event_loop);
    event_loop.retire(&host).unwrap();
    assert_eq!(host.take_calls(), ["end_turn_from_outside"]);
    event_loop.turn(&host).unwrap();
    assert_eq!(host.machine_calls(), ["turn"]);
    host.prepare(|script| script.in_flight = 0);
    event_loop.ready(&host, 0).unwrap();
    event_loop.ready(&host, 0).unwrap();
    assert_eq!(host.machine_calls(), ["ready 0", "close", "ready 0"]);
}

#[test]
fn what_a_closing_fails_is_resumed_by_the_loop() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    event_loop.shut(&host).unwrap();
    assert!(host.take_calls().is_empty());
    host.prepare(|script| script.finished.push(("a", 1)));
    event_loop.shut(&host).unwrap();
    assert_eq!(host.take_calls(), ["settle", "end_turn_from_outside"]);
    event_loop.turn(&host).unwrap();
    assert_eq!(host.take_calls(), ["resume a 1"]);
}

#[test]
fn the_host_cannot_come_back_while_the_machine_is_borrowed() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    let inner = event_loop.begin(&host, |_, _| event_loop.begin(&host, |_, _| ())).unwrap();
    assert_eq!(inner, Err("in use".to_owned()));
    assert!(event_loop.begin(&host, |_, _| event_loop.discard(&host).is_err()).unwrap());
    event_loop.discard(&host).unwrap();
    assert_eq!(host.machine_calls(), ["discard"]);
}

#[test]
fn another_thread_waits_while_the_machine_is_borrowed() {
    let event_loop = Machine::new(Script::default());
    let host = Host::new(&event_loop);
    let ((borrowed, is_borrowed), (waits, go_on)) = (channel(), channel());
    host.before_waiting.set(Some(waits));
    thread::scope(|scope| {
        let event_loop = &event_loop;
        scope.spawn(move || {
            let of_loop = Host::new(event_loop);
            let busy = |_: &mut Script, _| {
                borrowed.send(()).unwrap();
                // An error: nothing waits, and the test fails.
                let _ = go_on.recv();
            };
            event_loop.begin(&of_loop, busy).unwrap();
        });
        is_borrowed.recv().unwrap();
        let begun = event_loop.begin(&host, |_, _| ());
        drop(host.before_waiting.take());
        assert_eq!(begun, Ok(()));
    });
    assert_eq!(host.take_calls(), ["unlocked"]);
}

#[test]
fn a_forked_child_does_not_wait_for_a_thread_of_its_parent() {
    let event_loop = Machine::new(Script::default()).inherited();
    let host = Host::new(&event_loop);
    let _of_a_thread_that_is_gone = event_loop.machine(&host).unwrap();
    thread::scope(|scope| {
        let event_loop = &event_loop;
        let forgets = scope.spawn(move || event_loop.leave_watched(&Host::new(event_loop)));
        assert_eq!(forgets.join().unwrap(), Err("in use".to_owned()));
    });
}

#[test]
fn a_forked_child_does_nothing_but_forget() {
    let event_loop = Machine::new(Script::default()).inherited();
    let host = Host::new(&event_loop);
    host.prepare(|script| script.finished.push(("a", 1)));
    event_loop.ready(&host, 0).unwrap();
    event_loop.woken(&host).unwrap();
    event_loop.shut(&host).unwrap();
    event_loop.retire(&host).unwrap();
    assert_eq!(event_loop.open_connections(&host, 0), Ok(0));
    assert!(host.machine_calls().is_empty() && host.take_calls().is_empty());
    event_loop.leave_watched(&host).unwrap();
    assert_eq!(host.take_calls(), ["forget_inherited 0 5", "forget_inherited 1 6"]);
}

#[test]
fn a_keeper_does_what_is_due_while_the_host_is_held_up() {
    let machine = Arc::new(Mutex::new(Polled::new(Script::default()).unwrap()));
    let keeper = Keeper::start(&machine).unwrap();
    let bell = machine.lock().unwrap().bell().clone();
    let due = Instant::now() + Duration::from_millis(10);
    let begin = |script: &mut Script, _| {
        script.submit();
        script.deadline = Some(due);
        script.late.push(("a", 1));
    };
    machine.lock().unwrap().begin(begin).unwrap();
    keeper.plan(Some(due));
    let give_up = Instant::now() + Duration::from_secs(60);
    while bell.wait(give_up) == Wake::Interrupted {}
    let mut polled = machine.lock().unwrap();
    assert_eq!(polled.next_finished(), Some(("a", 1)));
    assert!(polled.machine().calls.iter().any(|call| call == "turn"), "what was begun is sent, too");
}

#[test]
fn each_loop_has_a_driver_of_its_own_in_each_process() {
    let drivers = Drivers::default();
    let of = |wanted: &str| drivers.find(|event_loop, driver| (*event_loop == wanted).then_some(*driver));
    assert_eq!(of("one"), None);
    assert!(drivers.add("one", 1, |_, _| false).is_empty());
    assert!(drivers.add("two", 2, |_, _| false).is_empty());
    assert_eq!((of("one"), of("two")), (Some(1), Some(2)));
    assert_eq!(drivers.add("three", 3, |event_loop, _| *event_loop == "one"), [1]);
    assert_eq!((of("one"), of("two"), of("three")), (None, Some(2), Some(3)));

    drivers.inherit();
    assert_eq!(of("two"), None, "it is the parent's");
    assert_eq!(drivers.all(|_, driver| *driver), [3, 2]);
    assert_eq!(drivers.add("two", 4, |event_loop, _| *event_loop == "two"), [2]);
    assert_eq!(of("two"), Some(4));
    assert_eq!(drivers.take(), [4, 3]);
    assert_eq!(of("two"), None);
}
