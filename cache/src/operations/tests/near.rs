//! What each kind of read and change does to the keys in memory. Who reads what for how long, `scenarios/near.json` says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::{Direction, Mode};

use super::single::{on, store, value, Op, GET};
use super::stage::{keeping, keys, owned, Stage, COMPARING, META};
use crate::near::{Limits, Near};
use crate::operations::{
    Answer, AsBytes, Beside, Change, Everywhere, Fetch, Operation, Policy, Quiet, Request, ServerCommand, Several, Win,
};
use pinyon_net::error::Kind;

const MILLISECOND: Duration = Duration::from_millis(1);
const FRESH: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// A process with hot keys.
struct Process {
    near: Arc<Near>,
    now: Instant,
}

impl Process {
    fn new() -> Self {
        let now = Instant::now();
        Self { near: Near::new(Limits { bytes: 1 << 20, fresh: FRESH, grace: TIMEOUT }).into(), now }
    }

    /// It has read the key just now.
    fn holding(text: &str) -> Self {
        let process = Self::new();
        process.read_from_server("k", text);
        process
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn stage<O: Operation>(&self, operation: O) -> Stage<O> {
        self.stage_of(META, operation)
    }

    fn stage_of<O: Operation>(&self, version: &'static str, operation: O) -> Stage<O> {
        let mut stage = Stage::with(keeping("a", &self.near), version, operation);
        (stage.now, stage.is_shared) = (self.now, false);
        stage
    }

    fn read_from_server(&self, key: &str, text: &str) {
        let mut stage = self.stage(on(key, GET));
        assert_eq!(stage.begin(), [format!("a: mg {key} f v O*")]);
        stage.answer("a", &format!("VA {} f7 O*|{text}", text.len()));
        assert_eq!(stage.operation.finish().unwrap(), Answer::Value(value(text, 7)));
    }

    /// What a reader gets without a question to the server.
    fn in_memory(&self) -> Option<String> {
        let mut stage = self.stage(on("k", GET));
        match stage.begin().is_empty() {
            true => match stage.operation.finish() {
                Ok(Answer::Value(value)) => Some(String::from_utf8(value.bytes).unwrap()),
                other => panic!("{other:?}"),
            },
            false => None,
        }
    }

    fn begun(&self) -> Stage<Op> {
        let mut stage = self.stage(on("k", GET));
        assert_eq!(stage.begin().len(), 1, "the server is asked");
        stage
    }
}

fn answer(mut stage: Stage<Op>, text: &str) {
    stage.answer("a", text);
    assert!(stage.is_over());
}

/// Every request that changes the item of a key.
fn changes() -> Vec<Request> {
    let win = Win { cas: 5, keep: true };
    let mut all = vec![
        Request::Touch { ttl: 1 },
        Request::GetAndTouch { ttl: 1, cas: false },
        Request::Delete,
        Request::MarkStale { ttl: None, cas: None },
        Request::Renew { lease: 1, recache: 0, cas: 5 },
        Request::GiveBack(win),
        Request::GiveBack(Win { keep: false, ..win }),
        Request::Arithmetic { direction: Direction::Increment, delta: 1, initial: None },
    ];
    all.extend([Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend].map(store));
    all
}

#[test]
fn row_this_process_changes_the_item() {
    for change in changes() {
        let process = Process::holding("old");
        let mut stage = process.stage(on("k", change));
        stage.begin();
        assert_eq!(process.in_memory(), None, "{change:?}: it is forgotten before the server has it");
        let during = process.begun();
        answer(during, "VA 3 f0 O*|old");
        assert_eq!(process.in_memory(), None, "{change:?}: what was read meanwhile may be old");
        let during = process.begun();
        stage.close("a");
        drop(stage);
        answer(during, "VA 3 f0 O*|old");
        assert_eq!(process.in_memory(), None, "{change:?}");
        process.read_from_server("k", "new");
        assert_eq!(process.in_memory().as_deref(), Some("new"), "{change:?}");
    }
}

#[test]
fn row_a_change_that_no_server_could_be_asked_for() {
    for change in changes() {
        let process = Process::holding("old");
        let mut stage = process.stage(on("k", change));
        stage.unreachable.push(("a", Kind::Connect));
        stage.begin();
        assert_eq!(process.in_memory(), None, "{change:?}");
    }
}

#[test]
fn row_many_keys_are_changed() {
    let both = |process: &Process| ["k", "l"].map(|key| process.stage(on(key, GET)).begin().is_empty());
    let begun: [fn(&Process); 5] = [
        |process| {
            drop(
                process
                    .stage(Change::<Option<Vec<u8>>>::each(keys(&["k", "l"]), Request::Delete, Policy::default()))
                    .begin(),
            )
        },
        |process| {
            let touched = Request::GetAndTouch { ttl: 1, cas: false };
            drop(process.stage(Fetch::new(keys(&["k", "l"]), touched, AsBytes, Policy::default())).begin());
        },
        |process| {
            let mut quiet = Quiet::new(true, 0);
            ["k", "l"].iter().for_each(|key| quiet.push(owned(key), Request::Delete, None::<Vec<u8>>));
            drop(process.stage(quiet).begin());
        },
        |process| drop(process.stage(Several::new(vec![on("k", Request::Delete), on("l", store(Mode::Set))])).begin()),
        |process| drop(process.stage(Everywhere::new(ServerCommand::FlushAll { delay: 0 })).begin()),
    ];
    for begin in begun {
        let process = Process::new();
        ["k", "l"].iter().for_each(|key| process.read_from_server(key, "old"));
        assert_eq!(both(&process), [true; 2]);
        begin(&process);
        assert_eq!(both(&process), [false; 2]);
    }
}

#[test]
fn leases_cas_tokens_and_metadata_are_always_the_servers() {
    let process = Process::holding("old");
    let others = [
        Request::Get(Beside::Cas),
        Request::Get(Beside::Ttl),
        Request::Get(Beside::Metadata { bumps: true }),
        Request::Lease { lease: 1, recache: 0 },
        Request::Metadata,
    ];
    for request in others {
        assert_eq!(process.stage(on("k", request)).begin().len(), 1, "{request:?}");
    }
    assert_eq!(process.in_memory().as_deref(), Some("old"), "they change nothing");
}

#[test]
fn of_many_keys_those_in_memory_are_not_asked_for() {
    let mut process = Process::holding("old");
    let fetch = |names: &[&str]| Fetch::new(keys(names), GET, AsBytes, Policy::default());
    let mut stage = process.stage(fetch(&["j", "k", "l"]));
    assert_eq!(stage.begin(), ["a: get j l"]);
    stage.answer("a", "VALUE l 7 3|new|END");
    let found = stage.operation.finish().found;
    let found: Vec<_> = found.into_iter().map(|one| (one.index, one.value)).collect();
    assert_eq!(found, [(1, value("old", 7)), (2, value("new", 7))]);
    let mut all = process.stage(fetch(&["l", "k"]));
    assert!(all.begin().is_empty());
    assert_eq!(all.operation.finish().found.len(), 2);
    process.pass(FRESH);
    let mut stage = process.stage(fetch(&["k", "l"]));
    assert_eq!(stage.begin(), ["a: get k l"]);
    stage.answer("a", "END");
    assert_eq!(process.near.figures().bytes, 0, "those that the server does not have are forgotten");
}

#[test]
fn of_gets_that_share_a_line_only_whole_values_are_kept() {
    let process = Process::new();
    let mut stage = process.stage(on("k", GET));
    stage.is_shared = true;
    assert_eq!(stage.begin(), ["a: mg k f v O*"]);
    answer(stage, "VA 0 f0 t5 Z O*|");
    assert_eq!(process.near.figures().fills, 0, "a placeholder is not a value");
}

#[test]
fn another_servers_answer_after_a_failure_fills_too() {
    let process = Process::new();
    let mut stage = process.begun();
    assert_eq!(stage.close("a").len(), 1, "it is asked again");
    answer(stage, "VA 3 f0 O*|new");
    assert_eq!(process.in_memory().as_deref(), Some("new"));
}

/// A process whose connections were all there before this moment, and which has read the key from a server that compares.
fn holding_with_token() -> Process {
    let mut process = Process::new();
    process.pass(Duration::from_secs(100));
    revalidate(&process, "mg k f c v O*", "VA 3 f7 c5 O*|old", "old");
    process
}

/// Reads the key. The server is asked this, and answers so.
fn revalidate(process: &Process, asked: &str, answer: &str, read: &str) {
    let mut stage = process.stage_of(COMPARING, on("k", GET));
    assert_eq!(stage.begin(), [format!("a: {asked}")]);
    stage.answer("a", answer);
    assert!(stage.is_over());
    assert_eq!(stage.operation.finish().unwrap(), Answer::Value(value(read, 7)));
}

#[test]
fn a_value_whose_token_the_server_still_has_is_fresh_again_without_being_sent() {
    let mut process = holding_with_token();
    for _ in 0..3 {
        process.pass(FRESH);
        revalidate(&process, "mg k C5 f c v O*", "HD f7 c5 O*", "old");
        process.pass(FRESH - MILLISECOND);
        assert_eq!(process.in_memory().as_deref(), Some("old"));
        process.pass(MILLISECOND);
    }
    let figures = process.near.figures();
    assert_eq!((figures.fills, figures.revalidations), (4, 3));
}

#[test]
fn a_value_that_has_changed_comes_with_the_next_token() {
    let mut process = holding_with_token();
    process.pass(FRESH);
    revalidate(&process, "mg k C5 f c v O*", "VA 3 f7 c6 O*|new", "new");
    assert_eq!(process.in_memory().as_deref(), Some("new"));
    process.pass(FRESH);
    revalidate(&process, "mg k C6 f c v O*", "HD f7 c6 O*", "new");
    process.pass(FRESH);
    let mut gone = process.stage_of(COMPARING, on("k", GET));
    assert_eq!(gone.begin(), ["a: mg k C6 f c v O*"]);
    answer(gone, "EN O*");
    assert_eq!(process.near.figures().bytes, 0);
}

#[test]
fn a_write_during_a_revalidation_is_not_undone_by_it() {
    let mut process = holding_with_token();
    process.pass(FRESH);
    let mut asking = process.stage_of(COMPARING, on("k", GET));
    asking.begin();
    let mut writing = process.stage_of(COMPARING, on("k", store(Mode::Set)));
    writing.begin();
    writing.answer("a", "HD O*");
    asking.answer("a", "HD f7 c5 O*");
    assert_eq!(asking.operation.finish().unwrap(), Answer::Value(value("old", 7)));
    assert_eq!(process.in_memory(), None);
}

#[test]
fn a_token_is_not_used_on_a_connection_that_may_be_to_another_process() {
    let mut process = Process::new();
    revalidate(&process, "mg k f c v O*", "VA 3 f7 c5 O*|old", "old");
    process.pass(FRESH);
    revalidate(&process, "mg k f c v O*", "VA 3 f7 c5 O*|new", "new");
    let mut process = holding_with_token();
    process.pass(FRESH);
    let mut elsewhere = Stage::with(keeping("b", &process.near), COMPARING, on("k", GET));
    (elsewhere.now, elsewhere.is_shared) = (process.now, false);
    assert_eq!(elsewhere.begin(), ["b: mg k f c v O*"]);
}

#[test]
fn a_server_without_tokens_or_of_an_earlier_version_sends_the_value_again() {
    let mut process = Process::new();
    process.pass(Duration::from_secs(100));
    revalidate(&process, "mg k f c v O*", "VA 3 f7 c0 O*|old", "old");
    process.pass(FRESH);
    revalidate(&process, "mg k f c v O*", "VA 3 f7 c0 O*|old", "old");
    let mut process = holding_with_token();
    process.pass(FRESH);
    process.read_from_server("k", "new");
}

#[test]
fn gets_that_share_a_line_learn_their_tokens_once_they_are_asked_for_again() {
    let mut process = Process::new();
    process.pass(Duration::from_secs(100));
    let shared = |process: &Process| {
        let mut stage = process.stage_of(COMPARING, on("k", GET));
        stage.is_shared = true;
        stage
    };
    let (mut first, answer) = (shared(&process), "VA 3 f7 c5 O*|old");
    assert_eq!(first.begin(), ["a: mg k f v O*"]);
    first.answer("a", "VA 3 f7 O*|old");
    process.pass(FRESH);
    let mut second = shared(&process);
    assert_eq!(second.begin(), ["a: mg k f c v O*"]);
    second.answer("a", answer);
    process.pass(FRESH);
    let mut third = shared(&process);
    assert_eq!(third.begin(), ["a: mg k C5 f c v O*"]);
    third.answer("a", "HD f7 c5 O*");
    assert_eq!(third.operation.finish().unwrap(), Answer::Value(value("old", 7)));
    assert_eq!(process.in_memory().as_deref(), Some("old"));
}

#[test]
fn an_empty_value_in_memory_is_no_placeholder_when_it_is_unchanged() {
    let mut process = Process::new();
    process.pass(Duration::from_secs(100));
    let mut stage = process.stage_of(COMPARING, on("k", GET));
    stage.begin();
    stage.answer("a", "VA 0 f0 c5 O*|");
    process.pass(FRESH);
    let mut stage = process.stage_of(COMPARING, on("k", GET));
    stage.is_shared = true;
    assert_eq!(stage.begin(), ["a: mg k C5 f c v O*"]);
    assert!(stage.answer("a", "HD f0 c5 O*").is_empty());
    assert_eq!(stage.operation.finish().unwrap(), Answer::Value(value("", 0)));
}
