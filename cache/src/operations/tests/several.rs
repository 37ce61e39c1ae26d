//! Several requests at the same time: each has its own answer, and fails or is repeated by itself.

use pinyon_proto::Mode;

use super::single::{on, store, value, with, Op, Value, GET};
use super::stage::{fleet, key_of, Stage, META};
use crate::operations::{Answer, Failed, Operation, Policy, Request, Several};
use pinyon_net::error::{Error, Kind, Sent};

type Ops = Several<crate::operations::OwnedKey, Option<Vec<u8>>, crate::operations::AsBytes>;

fn on_one_server(singles: Vec<Op>) -> Stage<Ops> {
    Stage::new("a", META, Several::new(singles))
}

fn answers(stage: Stage<Ops>) -> Vec<Result<Answer<Value>, Box<Error>>> {
    assert!(stage.is_over());
    let each = stage.operation.finish().into_iter().map(|single| single.finish());
    each.map(|answer| {
        answer.map_err(|failed| match failed {
            Failed::Error(error) => error,
            Failed::Unreadable { error, .. } => match error {},
        })
    })
    .collect()
}

#[test]
fn each_has_its_own_answer() {
    let singles = vec![on("k", GET), on("l", GET), on("m", store(Mode::Set)), on("n", store(Mode::Add))];
    let mut stage = on_one_server(singles);
    stage.is_shared = false;
    assert_eq!(stage.begin(), ["a: mg k f v O*|mg l f v O*|ms m 5 F7 T60 O*|value|add n 7 60 5|value"]);
    assert!(stage.answer("a", "VA 5 f7 O*|other|VA 5 f7 O*|value|HD O*|NOT_STORED").is_empty());
    let answers: Vec<_> = answers(stage).into_iter().map(Result::unwrap).collect();
    let found = |text| Answer::Value(value(text, 7));
    assert_eq!(answers, [found("other"), found("value"), Answer::Done(true), Answer::Done(false)]);
}

#[test]
fn what_fails_is_repeated_if_it_may_be_and_the_others_are_not_touched() {
    let fleet = fleet("a,b", &[]);
    let keys = ["a", "b"].map(|server| key_of(&fleet, server, 0));
    let requests = [(&keys[0], Request::Delete), (&keys[1], GET), (&keys[1], Request::Delete)];
    let singles = requests.map(|(key, request)| with(key, request, Policy::default())).into();
    let mut stage = Stage::with(fleet, META, Several::new(singles));
    assert_eq!(stage.begin().len(), 2);
    assert!(stage.answer("a", "HD O*").is_empty());
    let again = stage.close("b");
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].starts_with("a: ") && !again[0].contains("md "), "a delete may have been carried out: {again:?}");
    assert!(stage.answer("a", "VA 5 f7 O*|value").is_empty());
    let [deleted, found, in_doubt] = &answers(stage)[..] else { unreachable!("three were asked") };
    assert!(matches!(deleted, Ok(Answer::Done(true))) && matches!(found, Ok(Answer::Value(_))));
    assert!(matches!(in_doubt, Err(error) if error.sent == Sent::Maybe && error.command == "delete"), "{in_doubt:?}");
}

#[test]
fn each_says_which_command_could_not_begin() {
    let mut several: Ops = Several::new(vec![on("k", GET), on("l", Request::Delete)]);
    several.fail(Error::new(Kind::Closed, &"".into(), "closed").of("several", Sent::No));
    let commands: Vec<_> = several
        .finish()
        .into_iter()
        .map(|single| match single.finish() {
            Err(Failed::Error(error)) => (error.command, error.kind),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(commands, [("get", Kind::Closed), ("delete", Kind::Closed)]);
}
