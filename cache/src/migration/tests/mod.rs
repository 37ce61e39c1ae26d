mod many_keys;

use std::sync::Arc;

use super::*;
use crate::operations::{Beside, Compared, Direction, Fact, Finding, Found, FoundTags, Initial, Mode, Win};

type Machine = Migration<&'static str, &'static str>;
type StepOutcome = super::StepOutcome<&'static str, &'static str, &'static str>;

const WIN: Win = Win { cas: 7, keep: false };
const MISSING: StepOutcome = StepOutcome::Answered(Answer::Missing);
const DONE: StepOutcome = StepOutcome::Answered(Answer::Done(true));
const NOT_DONE: StepOutcome = StepOutcome::Answered(Answer::Done(false));
const MISSED: StepOutcome = StepOutcome::Operated { answer: "missed", found: false };
const FOUND: StepOutcome = StepOutcome::Operated { answer: "found", found: true };

const READ_NEW: &str = "New: Get(Nothing)";
const READ_OLD: &str = "Old: Get(Nothing)";
const LOOK: &str = "Old: Get(Ttl)";
const LEASE: &str = "New: Lease { lease: 5, recache: 0 }";
const GIVE_BACK: &str = "New: GiveBack(Win { cas: 7, keep: false })";
const DELETE_OLD: &str = "Old: Delete";
const DELETE_NEW: &str = "New: Delete";

fn said(step: Step<&'static str, &'static str, &'static str>) -> String {
    match step {
        Step::Ask(pool, request) => format!("{pool:?}: {request:?}"),
        Step::Store { value, cas, ttl } => format!("store {value} at {cas} for {ttl}"),
        Step::Operate => "operate".to_owned(),
        Step::Create => "create".to_owned(),
        Step::Read { pool, keys } => format!("read {keys:?} in {pool:?}"),
        Step::Tell(error) => format!("tell {error}"),
        Step::Return(end) => format!("{end:?}"),
        Step::Raise(error) => format!("raise {error}"),
        Step::NeedTtl(error) => format!("needs a ttl: {error}"),
    }
}

/// The plan for what users call so.
fn plan_of(operation: &str) -> Option<Plan> {
    let store = |mode, cas| Request::Store { mode, size: 1, client_flags: 0, ttl: 0, cas, returns_cas: false };
    let initial = Initial { number: 1, ttl: 0, client_flags: 0 };
    let arithmetic = |direction, initial| Request::Arithmetic { direction, delta: 1, initial };
    Plan::of(&match operation {
        "get" => Request::Get(Beside::Nothing),
        "gets" => Request::Get(Beside::Cas),
        "get_with_ttl" => Request::Get(Beside::Ttl),
        "gat" => Request::GetAndTouch { ttl: 60, cas: false },
        "meta" => Request::Metadata,
        "touch" => Request::Touch { ttl: 60 },
        "lease" => Request::Lease { lease: 10, recache: 0 },
        "set" => store(Mode::Set, None),
        "cas" => store(Mode::Set, Some(7)),
        "add" => store(Mode::Add, None),
        "replace" => store(Mode::Replace, None),
        "append" => store(Mode::Append, None),
        "prepend" => store(Mode::Prepend, None),
        "incr" => arithmetic(Direction::Increment, None),
        "decr" => arithmetic(Direction::Decrement, None),
        "incr_or_create" => arithmetic(Direction::Increment, Some(initial)),
        "decr_or_create" => arithmetic(Direction::Decrement, Some(initial)),
        "delete" => Request::Delete,
        "mark_stale" => Request::MarkStale { ttl: Some(60), cas: None },
        "get_many" => return Some(Plan::GetMany),
        "gets_many" => return Some(Plan::FindMany),
        "set_many" => return Some(Plan::Set),
        other => unreachable!("{other} is no operation"),
    })
}

fn value(value: &'static str) -> StepOutcome {
    StepOutcome::Answered(Answer::Value(value))
}

fn with_ttl(value: &'static str, ttl: Option<u32>) -> StepOutcome {
    StepOutcome::Answered(Answer::ValueAnd(value, Fact::Ttl(ttl)))
}

fn lease(finding: Finding, value: Option<&'static str>) -> StepOutcome {
    StepOutcome::Answered(Answer::Lease(Found { finding, value, cas: None, tags: FoundTags::NONE }.into()))
}

fn won() -> StepOutcome {
    lease(Finding::Won(Some(WIN)), None)
}

fn compared(compared: Compared) -> StepOutcome {
    StepOutcome::Answered(Answer::Compared(compared))
}

fn failed(kind: ErrorKind) -> StepOutcome {
    StepOutcome::Failed { error: "error", kind }
}

fn counted(new: u64, old: u64, moved: u64, refused: u64, missing: u64) -> Progress {
    Progress { new, old, moved, refused, missing }
}

/// Runs an operation through these outcomes, each for the step before it, and returns the last step.
fn follow_with(operation: &str, ttl: Option<i64>, first: &str, course: Vec<(StepOutcome, &str)>) -> Progress {
    let counts: Arc<Counts> = Arc::default();
    // A read of many keys starts this for each key that it moves; users cannot.
    let plan = if operation == "move" { Some(Plan::Move) } else { plan_of(operation) };
    let mut machine = Machine::new(plan.expect("the operation has a plan"), 1, false, counts.clone(), ttl);
    assert_eq!(said(machine.begin::<&str>()), first, "{operation}");
    for (outcome, step) in course {
        let told = format!("{operation} after {outcome:?}");
        assert_eq!(said(machine.next(outcome)), step, "{told}");
    }
    counts.progress()
}

fn follow(operation: &str, first: &str, course: Vec<(StepOutcome, &str)>) -> Progress {
    follow_with(operation, None, first, course)
}

/// The course of a value that only the old pool has, until it is stored in the new pool.
fn moving(then: &'static str) -> Vec<(StepOutcome, &'static str)> {
    vec![
        (MISSING, LOOK),
        (with_ttl("7", Some(60)), LEASE),
        (won(), LOOK),
        (with_ttl("7", Some(60)), "store 7 at 7 for 60"),
        (compared(Compared::Stored), then),
    ]
}

/// The course of a key that neither pool has.
fn nowhere(then: &'static str) -> Vec<(StepOutcome, &'static str)> {
    vec![(MISSING, LOOK), (MISSING, READ_NEW), (MISSING, then)]
}

fn course(parts: impl IntoIterator<Item = Vec<(StepOutcome, &'static str)>>) -> Vec<(StepOutcome, &'static str)> {
    parts.into_iter().flatten().collect()
}

#[test]
fn what_the_new_pool_has_is_what_counts() {
    assert_eq!(follow("get", READ_NEW, vec![(value("new"), "Value(\"new\")")]), counted(1, 0, 0, 0, 0));
}

#[test]
fn what_only_the_old_pool_has_is_moved_under_a_lease() {
    assert_eq!(follow("get", READ_NEW, moving("Value(\"7\")")), counted(0, 1, 1, 0, 0));
}

#[test]
fn what_neither_pool_has_is_looked_for_in_the_new_one_again() {
    assert_eq!(follow("get", READ_NEW, nowhere("Missing")), counted(0, 0, 0, 0, 1));
    let meanwhile = vec![(MISSING, LOOK), (MISSING, READ_NEW), (value("newer"), "Value(\"newer\")")];
    assert_eq!(follow("get", READ_NEW, meanwhile), counted(1, 0, 0, 0, 0));
}

#[test]
fn a_known_miss_is_not_looked_for_in_the_new_pool_first() {
    let moved = moving("Value(\"7\")").into_iter().skip(1).collect();
    assert_eq!(follow("move", LOOK, moved), counted(0, 1, 1, 0, 0));
}

#[test]
fn what_is_moved_keeps_its_ttl() {
    for (ttl, stored) in [(Some(60), 60), (None, 0), (Some(0), 1)] {
        let stores = format!("store 7 at 7 for {stored}");
        let course = vec![(with_ttl("7", ttl), LEASE), (won(), LOOK), (with_ttl("7", ttl), stores.as_str())];
        follow("move", LOOK, course);
    }
}

#[test]
fn what_cannot_be_read_is_made_anew_in_the_new_pool() {
    let unreadable = || failed(ErrorKind::UnknownFlags);
    follow("lease", READ_NEW, vec![(unreadable(), "operate")]);
    follow("lease", READ_NEW, vec![(MISSING, LOOK), (unreadable(), "operate")]);
    follow("get", READ_NEW, vec![(unreadable(), "raise error")]);
}

#[test]
fn without_the_right_to_store_it_a_value_is_returned_and_stays() {
    for (found, expected) in [
        (lease(Finding::Hit, Some("newer")), "Value(\"newer\")"),
        (lease(Finding::Stale, Some("stale")), "Value(\"stale\")"),
        (lease(Finding::Filling, None), "Value(\"7\")"),
        (lease(Finding::Won(None), None), "Value(\"7\")"),
    ] {
        let course = vec![(with_ttl("7", None), LEASE), (found, expected)];
        assert_eq!(follow("move", LOOK, course), counted(0, 1, 0, 0, 0));
    }
}

#[test]
fn what_was_deleted_before_the_lease_was_won_is_not_stored() {
    let deleted = vec![(MISSING, LOOK), (with_ttl("7", None), LEASE), (won(), LOOK), (MISSING, GIVE_BACK)];
    let gone = course([deleted.clone(), vec![(DONE, READ_NEW), (MISSING, "Missing")]]);
    assert_eq!(follow("get", READ_NEW, gone), counted(0, 1, 0, 0, 1));
    let set = course([deleted, vec![(NOT_DONE, READ_NEW), (value("newer"), "Value(\"newer\")")]]);
    assert_eq!(follow("get", READ_NEW, set), counted(1, 1, 0, 0, 0));
}

#[test]
fn what_was_changed_before_the_lease_was_won_is_stored_as_it_is_now() {
    let course = vec![
        (with_ttl("7", None), LEASE),
        (won(), LOOK),
        (with_ttl("8", Some(5)), "store 8 at 7 for 5"),
        (compared(Compared::Stored), "Value(\"8\")"),
    ];
    assert_eq!(follow("move", LOOK, course), counted(0, 1, 1, 0, 0));
}

#[test]
fn a_lease_that_others_took_away_moves_nothing() {
    for lost in [Compared::Changed, Compared::Gone] {
        let mut course = moving("Value(\"7\")");
        course.pop();
        course.push((compared(lost), "Value(\"7\")"));
        assert_eq!(follow("get", READ_NEW, course), counted(0, 1, 0, 0, 0));
    }
}

#[test]
fn a_value_that_the_new_pool_refuses_is_returned_and_its_lease_given_back() {
    let refusals =
        [ErrorKind::UnsupportedType, ErrorKind::Unpicklable, ErrorKind::ValueTooLarge, ErrorKind::ServerError];
    for kind in refusals {
        let mut course = moving("");
        course.pop();
        course.extend([(failed(kind), GIVE_BACK), (DONE, "Value(\"7\")")]);
        assert_eq!(follow("get", READ_NEW, course), counted(0, 1, 0, 1, 0), "{kind:?}");
    }
}

#[test]
fn other_failures_are_raised_wherever_they_happen() {
    for length in 0..5 {
        let mut course: Vec<_> = moving("").into_iter().take(length).collect();
        course.push((failed(ErrorKind::Timeout), "raise error"));
        follow("get", READ_NEW, course);
    }
    for (operation, first) in [("set", "operate"), ("touch", "operate"), ("delete", DELETE_OLD)] {
        follow(operation, first, vec![(failed(ErrorKind::ServerError), "raise error")]);
    }
    follow("set", "operate", vec![(FOUND, DELETE_OLD), (failed(ErrorKind::Timeout), "raise error")]);
}

#[test]
fn servers_that_cannot_tell_a_ttl_need_one() {
    let unsupported = || failed(ErrorKind::Unsupported);
    follow("move", LOOK, vec![(unsupported(), "needs a ttl: error")]);
    let told =
        vec![(unsupported(), READ_OLD), (value("7"), LEASE), (won(), READ_OLD), (value("7"), "store 7 at 7 for 100")];
    follow_with("move", Some(100), LOOK, told);
    let missing = vec![(unsupported(), READ_OLD), (MISSING, READ_NEW), (MISSING, "Missing")];
    assert_eq!(follow_with("move", Some(100), LOOK, missing), counted(0, 0, 0, 0, 1));
    follow_with("move", Some(100), LOOK, vec![(unsupported(), READ_OLD), (unsupported(), "raise error")]);
    let leases = vec![(with_ttl("7", None), LEASE), (unsupported(), "raise error")];
    follow_with("move", Some(100), LOOK, leases);
}

#[test]
fn what_is_known_is_kept_in_the_lease_of_get_or_set() {
    for brings in [vec![(value("7"), "operate")], moving("operate"), nowhere("operate")] {
        follow("lease", READ_NEW, course([brings, vec![(MISSED, "Answer(\"missed\")")]]));
    }
}

#[test]
fn add_stores_where_neither_pool_has_a_value() {
    follow("add", READ_NEW, vec![(value("7"), "Done(false)")]);
    follow("add", READ_NEW, moving("Done(false)"));
    follow("add", READ_NEW, course([nowhere("operate"), vec![(FOUND, "Answer(\"found\")")]]));
}

#[test]
fn reading_operates_again_once_the_value_is_moved() {
    for operation in ["gets", "get_with_ttl", "gat", "meta", "touch"] {
        follow(operation, "operate", vec![(FOUND, "Answer(\"found\")")]);
        let missed = vec![(MISSED, READ_NEW)];
        let again = vec![(FOUND, "Answer(\"found\")")];
        follow(operation, "operate", course([missed.clone(), moving("operate"), again]));
        follow(operation, "operate", course([missed.clone(), nowhere("Answer(\"missed\")")]));
        let lost = vec![(MISSED, "Answer(\"missed\")")];
        follow(operation, "operate", course([missed, moving("operate"), lost]));
    }
}

#[test]
fn what_is_changed_is_deleted_in_the_old_pool() {
    for operation in ["replace", "append", "prepend", "cas", "incr", "decr", "mark_stale"] {
        let deletes = vec![(FOUND, DELETE_OLD), (NOT_DONE, "Answer(\"found\")")];
        follow(operation, "operate", deletes.clone());
        let missed = vec![(MISSED, READ_NEW)];
        follow(operation, "operate", course([missed.clone(), moving("operate"), deletes]));
        follow(operation, "operate", course([missed, nowhere("Answer(\"missed\")")]));
    }
}

#[test]
fn a_number_is_made_where_neither_pool_has_one() {
    for operation in ["incr_or_create", "decr_or_create"] {
        let missed = vec![(MISSED, READ_NEW)];
        let created = vec![(FOUND, "Answer(\"found\")")];
        follow(operation, "operate", course([missed.clone(), nowhere("create"), created.clone()]));
        follow(operation, "operate", course([missed.clone(), moving("operate"), vec![(MISSED, "create")], created]));
        let changed = vec![(FOUND, DELETE_OLD), (DONE, "Answer(\"found\")")];
        follow(operation, "operate", course([missed, moving("operate"), changed]));
    }
}

#[test]
fn what_is_set_is_deleted_in_the_old_pool_whatever_came_of_it() {
    for operation in ["set", "set_many"] {
        follow(operation, "operate", vec![(FOUND, DELETE_OLD), (DONE, "Answer(\"found\")")]);
        follow(operation, "operate", vec![(MISSED, DELETE_OLD), (DONE, "Answer(\"missed\")")]);
    }
}

#[test]
fn delete_deletes_in_the_old_pool_first() {
    for (old, new, deleted) in
        [(DONE, DONE, true), (DONE, NOT_DONE, true), (NOT_DONE, DONE, true), (NOT_DONE, NOT_DONE, false)]
    {
        let done = format!("Done({deleted})");
        follow("delete", DELETE_OLD, vec![(old, DELETE_NEW), (new, done.as_str())]);
    }
}

#[test]
fn what_needs_no_plan_has_none() {
    assert_eq!(Plan::of(&Request::GiveBack(WIN)), None);
    assert_eq!(Plan::of(&Request::Renew { lease: 5, recache: 0, cas: 7 }), None);
}
