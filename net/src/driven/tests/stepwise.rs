//! What a host is ordered to do, and when it gets outcomes.

use std::os::fd::BorrowedFd;

use super::*;
use crate::driven::{Order, Stepwise};

fn orders(stepwise: &mut Stepwise<Script>) -> Vec<Order> {
    std::iter::from_fn(|| stepwise.next_order()).collect()
}

fn calls(stepwise: &mut Stepwise<Script>) -> Vec<String> {
    stepwise.begin(|script, _| std::mem::take(&mut script.calls)).unwrap()
}

#[test]
fn what_was_begun_is_sent_and_answered_only_when_the_host_says_so() {
    let mut stepwise = Stepwise::new(Script::default());
    let begin = |script: &mut Script, _| {
        script.submit();
        script.finished.push(("fails at once", 1));
    };
    stepwise.begin(begin).unwrap();
    assert_eq!(stepwise.next_finished(), None, "the host is in the middle of its own work");
    assert_eq!(orders(&mut stepwise), [Order::EndTurn]);
    stepwise.turn();
    assert_eq!(stepwise.next_finished(), Some(("fails at once", 1)));
    assert_eq!(calls(&mut stepwise), ["turn"]);
}

#[test]
fn a_descriptor_is_closed_by_the_next_call_after_the_host_forgot_it() {
    let mut stepwise = Stepwise::new(Script::default());
    let begin = |script: &mut Script, _| {
        script.watch(0);
        script.actions.push(Action::Forget { lane: 0, fd: 7 });
        script.submit();
    };
    stepwise.begin(begin).unwrap();
    let watch = Order::Watch { lane: 1, fd: 7, write: false };
    assert_eq!(stepwise.next_order(), Some(watch));
    assert_eq!(stepwise.next_order(), Some(Order::Forget { lane: 1, fd: 7 }));
    assert!(stepwise.machine().calls.is_empty(), "the host has not stopped yet");
    assert_eq!(orders(&mut stepwise), [Order::EndTurn, watch], "the script connects again");
    assert_eq!(calls(&mut stepwise), ["forgotten 0"]);
}

#[test]
fn a_host_that_has_forgotten_need_not_ask_for_orders() {
    let mut stepwise = Stepwise::new(Script::default());
    stepwise.begin(|script, _| script.actions.push(Action::Forget { lane: 2, fd: 7 })).unwrap();
    assert!(stepwise.next_order().is_some());
    stepwise.ready(1);
    assert_eq!(calls(&mut stepwise), ["forgotten 2", "ready 0"]);
}

#[test]
fn an_alarm_comes_only_if_it_is_news() {
    let mut stepwise = Stepwise::new(Script { deadline: in_future(10), ..Script::default() });
    let is_alarm = |order: &Order| matches!(order, Order::Alarm(_));
    stepwise.begin(|script, _| script.submit()).unwrap();
    assert!(
        matches!(orders(&mut stepwise)[..], [Order::EndTurn, Order::Alarm(time)] if time <= Duration::from_secs(10))
    );
    stepwise.turn();
    assert!(orders(&mut stepwise).is_empty());
    stepwise.begin(|script, _| (script.deadline = in_future(20), script.submit())).unwrap();
    assert_eq!(orders(&mut stepwise), [Order::EndTurn], "a later deadline waits for the alarm");
    stepwise.begin(|script, _| (script.deadline = in_future(5), script.submit())).unwrap();
    assert!(orders(&mut stepwise).iter().any(is_alarm));
    stepwise.expire();
    assert!(orders(&mut stepwise).iter().all(is_alarm), "it is set again for the deadline that stands");
    assert_eq!(stepwise.deadline(), stepwise.machine().deadline);
}

#[test]
fn a_name_is_resolved_inside() {
    let mut stepwise = Stepwise::new(Script::default());
    let resolve = |lane, name: &str| Action::Resolve { lane, name: name.into(), port: 1 };
    let both = [resolve(0, "localhost"), resolve(1, "no such name.invalid")];
    stepwise.begin(|script, _| script.actions.extend(both)).unwrap();
    let Some(Order::Watch { lane, fd, write: false }) = stepwise.next_order() else { panic!("the bell is watched") };
    assert_eq!(stepwise.next_order(), None, "once");
    let late = Instant::now() + Duration::from_secs(60);
    while stepwise.machine().calls.len() < 2 {
        #[allow(unsafe_code)]
        // SAFETY: the descriptor is open until the host is told to forget it.
        let bell = unsafe { BorrowedFd::borrow_raw(fd) };
        let readable = rustix::event::PollFd::from_borrowed_fd(bell, rustix::event::PollFlags::IN);
        assert_ne!(crate::doorbell::wait_for(&mut [readable], late), Wake::Deadline);
        stepwise.ready(lane);
    }
    let mut connected = calls(&mut stepwise);
    connected.sort();
    assert_eq!(connected, ["connect 0 true", "connect 1 false"]);
    stepwise.close();
    stepwise.close();
    assert_eq!(orders(&mut stepwise), [Order::Forget { lane, fd }]);
    assert_eq!(calls(&mut stepwise), ["close", "close"]);
}

#[test]
fn what_a_closing_fails_is_handed_out_at_once() {
    let mut stepwise = Stepwise::new(Script { finished: vec![("a", 1)], in_flight: 1, ..Script::default() });
    assert!(!stepwise.is_idle());
    stepwise.close();
    assert_eq!(stepwise.next_finished(), Some(("a", 1)));
}

#[test]
fn a_forked_child_has_nothing_to_do() {
    let mut stepwise = Stepwise::new(Script { deadline: in_future(0), ..Script::default() });
    stepwise.begin(|script, _| script.submit()).unwrap();
    crate::fork::pretended::fork();
    let refused = stepwise.begin(|script, _| script.submit()).unwrap_err();
    assert!(refused.to_string().contains("a forked child makes its own"), "{refused}");
    stepwise.turn();
    stepwise.ready(1);
    stepwise.expire();
    stepwise.close();
    assert_eq!((stepwise.next_order(), stepwise.deadline()), (None, None));
    assert!(stepwise.machine().calls.is_empty());
}
