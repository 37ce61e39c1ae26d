//! Commands of a quiet batch: how each is reported, which move to another server, and which are never sent twice.

use pinyon_proto::{Direction, Mode};

use super::single::store;
use super::stage::{fleet, key_of, letter, owned, Stage, META};
use crate::operations::{Broken, End, Next, Operation, OwnedKey, Quiet, Request, SentKey};
use pinyon_net::error::{Error, Kind, Sent};

type Op = Quiet<OwnedKey, Option<Vec<u8>>>;

const TOUCH: Request = Request::Touch { ttl: 9 };
const COUNT: Request = Request::Arithmetic { direction: Direction::Increment, delta: 2, initial: None };

fn push(operation: &mut Op, key: &str, request: Request) {
    let data = matches!(request, Request::Store { .. }).then(|| b"value".to_vec());
    operation.push(owned(key), request, data);
}

fn batch(commands: &[(&str, Request)]) -> Op {
    let mut operation = Quiet::new(true, 0);
    commands.iter().for_each(|(key, request)| push(&mut operation, key, *request));
    operation
}

/// Number, key, command and reason of each command that was not carried out.
fn told(operation: Op) -> Vec<(usize, String, &'static str, String)> {
    let key = |key: &OwnedKey| String::from_utf8(key.wire().wire().to_vec()).unwrap();
    let unsuccessful = operation.finish().into_iter();
    unsuccessful.map(|one| (one.number, key(&one.key), one.command, one.why.to_string())).collect()
}

fn failures(operation: Op) -> Vec<(usize, Kind, Sent, String)> {
    let failure = |one: crate::operations::Unsuccessful<OwnedKey>| match one.why {
        Broken::Failed(error) => {
            assert_eq!(error.command, one.command);
            (one.number, error.kind, error.sent, letter(&error.server).to_owned())
        }
        Broken::Refused(status) => panic!("refused: {status:?}"),
    };
    operation.finish().into_iter().map(failure).collect()
}

fn unattributed() -> End {
    let error = Error::new(Kind::Server, &"a:11211".into(), "out of memory").of("", Sent::Maybe);
    End::Failed { error, in_time: true }
}

#[test]
fn every_command_that_was_refused_is_told_in_the_order_of_submission() {
    let commands = [("a", store(Mode::Add)), ("b", COUNT), ("c", Request::Delete), ("d", store(Mode::Replace))];
    let mut stage = Stage::new("a", META, batch(&commands));
    let sent = stage.begin();
    assert_eq!(sent, ["a: add a 7 60 5|value|ma b v D2 O*|md c O*|replace d 7 60 5|value"]);
    assert!(stage.answer("a", "NOT_STORED|VA 1 O*|2|NF O*|NOT_STORED").is_empty());
    assert!(stage.is_over());
    let (told, of) = (told(stage.operation), |text: &str| text.to_owned());
    assert_eq!(
        told,
        [
            (0, of("a"), "add", of("not stored")),
            (2, of("c"), "delete", of("not found")),
            (3, of("d"), "replace", of("not stored"))
        ]
    );
}

#[test]
fn a_batch_grows_while_its_commands_are_under_way() {
    let mut stage = Stage::new("a", META, batch(&[("k", TOUCH)]));
    assert_eq!(stage.begin(), ["a: mg k T9 O*"]);
    push(&mut stage.operation, "l", TOUCH);
    assert_eq!(stage.begin(), ["a: mg l T9 O*"]);
    stage.answer("a", "HD O*|EN O*");
    push(&mut stage.operation, "m", TOUCH);
    assert_eq!(stage.begin(), ["a: mg m T9 O*"], "after all the others are over");
    stage.answer("a", "EN O*");
    assert!(stage.is_over());
    assert_eq!(told(stage.operation).iter().map(|one| one.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn what_was_not_sent_goes_on_elsewhere_in_its_order() {
    let fleet = fleet("a,b", &[]);
    let key = key_of(&fleet, "b", 0);
    let commands = [(&*key, Request::Delete), (&*key, TOUCH), (&*key, COUNT)];
    let mut stage = Stage::with(fleet, META, batch(&commands));
    stage.unreachable.push(("b", Kind::Connect));
    assert_eq!(stage.begin(), [format!("a: md {key} O*|mg {key} T9 O*|ma {key} v D2 O*")]);
    let events = stage.events();
    assert_eq!(events.iter().filter(|event| event.starts_with("down")).count(), 1);
    assert_eq!(events[events.len() - 3..], ["retry delete on b", "retry touch on b", "retry incr on b"]);
    stage.answer("a", "HD O*|HD O*|VA 1 O*|2");
    assert!(stage.is_over() && told(stage.operation).is_empty());
}

#[test]
fn what_failed_out_of_order_is_sent_again_in_order() {
    let mut stage = Stage::new("a", META, batch(&[("k", Request::Delete), ("k", TOUCH)]));
    stage.begin();
    for part in [1, 0] {
        let error = Error::new(Kind::Closed, &"a:11211".into(), "closed").of("", Sent::No);
        stage.operation.over(part, End::Failed { error, in_time: true });
    }
    assert_eq!(stage.begin(), ["a: md k O*|mg k T9 O*"]);
}

#[test]
fn what_may_have_been_done_is_told_and_not_sent_again() {
    let mut stage = Stage::new("a,b", META, batch(&[]));
    let key = key_of(&stage.fleet, "a", 0);
    for request in [store(Mode::Set), Request::Delete, COUNT] {
        push(&mut stage.operation, &key, request);
    }
    stage.begin();
    assert!(stage.close("a").is_empty() && stage.is_over());
    let told = |number| (number, Kind::Closed, Sent::Maybe, "a".to_owned());
    assert_eq!(failures(stage.operation), [told(0), told(1), told(2)]);
}

#[test]
fn what_is_too_late_is_told() {
    let mut stage = Stage::new("a", META, batch(&[("k", TOUCH)]));
    stage.unreachable.push(("a", Kind::Connect));
    stage.in_time = false;
    assert!(stage.begin().is_empty() && stage.is_over());
    assert_eq!(failures(stage.operation), [(0, Kind::Connect, Sent::No, "a".to_owned())]);
}

#[test]
fn a_store_in_doubt_is_insisted_on_by_itself_and_once() {
    let mut stage = Stage::new("a", META, batch(&[("k", store(Mode::Set))]));
    stage.begin();
    assert_eq!(stage.operation.over(0, unattributed()), Next::Again);
    push(&mut stage.operation, "l", store(Mode::Set));
    assert_eq!(stage.begin(), ["a: ms k 5 F7 T60 O*|value|ms l 5 F7 T60 O*|value"]);
    assert_eq!(stage.operation.over(0, unattributed()), Next::Nothing);
    assert_eq!(failures(stage.operation), [(0, Kind::Server, Sent::Maybe, "a".to_owned())]);
}

#[test]
fn what_would_be_done_twice_or_undo_a_later_command_is_not_insisted_on() {
    let begun = |commands: &[(&str, Request)]| {
        let mut stage = Stage::new("a", META, batch(commands));
        stage.begin();
        stage.operation
    };
    for request in [store(Mode::Add), store(Mode::Append), Request::Delete, COUNT] {
        assert_eq!(begun(&[("k", request)]).over(0, unattributed()), Next::Nothing, "{request:?}");
    }
    let followed = [("k", store(Mode::Set)), ("l", TOUCH), ("k", store(Mode::Append))];
    assert_eq!(begun(&followed).over(0, unattributed()), Next::Nothing);
    assert_eq!(begun(&followed[..2]).over(0, unattributed()), Next::Again);
}

#[test]
fn where_no_server_is_known_every_command_says_why() {
    let mut operation = batch(&[("k", TOUCH), ("l", Request::Delete)]);
    operation.fail(Error::new(Kind::Connect, &"".into(), "no servers were found"));
    let told: Vec<_> = told(operation).into_iter().map(|(_, _, _, why)| why).collect();
    assert_eq!(told, ["touch: no servers were found", "delete: no servers were found"]);
}

#[test]
fn large_values_are_held_until_their_outcome_is_known() {
    let mut stage = Stage::new("a", META, batch(&[("k", store(Mode::Set)), ("l", store(Mode::Set))]));
    assert_eq!(stage.operation.held(), 10);
    stage.begin();
    stage.answer("a", "HD O*");
    assert_eq!(stage.operation.held(), 5);
    stage.close("a");
    assert_eq!(stage.operation.held(), 0);
}
