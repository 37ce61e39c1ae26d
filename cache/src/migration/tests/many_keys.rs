//! Operations on several keys, each addressed by its index.

use super::*;

struct Many {
    machine: Machine,
    counts: Arc<Counts>,
    step: String,
}

impl Many {
    fn begin(operation: &str, keys: usize, tells_outages: bool, ttl: Option<i64>) -> Self {
        let (counts, plan) = (Arc::<Counts>::default(), plan_of(operation).expect("it has a plan"));
        assert!(plan.is_of_many());
        let mut machine = Machine::new(plan, keys, tells_outages, counts.clone(), ttl);
        let step = said(machine.begin());
        Self { machine, counts, step }
    }

    fn of(operation: &str, keys: usize) -> Self {
        Self::begin(operation, keys, false, None)
    }

    fn is_asked(&self, step: &str) {
        assert_eq!(self.step, step);
    }

    fn answer(&mut self, asked: &str, outcome: StepOutcome) {
        self.is_asked(asked);
        self.step = said(self.machine.next(outcome));
    }

    fn found<const COUNT: usize>(&mut self, asked: &str, keys: [usize; COUNT]) {
        self.answer(asked, StepOutcome::Found(keys.to_vec()));
    }

    /// Answers all steps about one key.
    fn of_key<'s>(&mut self, key: usize, course: impl IntoIterator<Item = (&'s str, StepOutcome)>) {
        for (asked, outcome) in course {
            assert_eq!(self.machine.key(), key);
            self.answer(asked, outcome);
        }
    }

    fn is_moved(&mut self, key: usize) {
        let stored = compared(Compared::Stored);
        let (seen, again) = (with_ttl("7", Some(60)), with_ttl("7", Some(60)));
        self.of_key(key, [(LOOK, seen), (LEASE, won()), (LOOK, again), ("store 7 at 7 for 60", stored)]);
    }

    fn ends(self, end: &str) -> Progress {
        self.is_asked(end);
        self.counts.progress()
    }
}

#[test]
fn keys_that_the_new_pool_has_are_not_looked_for_in_the_old_one() {
    let mut many = Many::of("get_many", 2);
    many.found("read [0, 1] in New", [1, 0]);
    assert_eq!(many.ends("Values"), counted(2, 0, 0, 0, 0));
    let mut none = Many::of("get_many", 0);
    none.found("read [] in New", []);
    assert_eq!(none.ends("Values"), counted(0, 0, 0, 0, 0));
}

#[test]
fn keys_that_neither_pool_has_may_have_been_moved_meanwhile() {
    let mut many = Many::of("get_many", 5);
    many.found("read [0, 1, 2, 3, 4] in New", [1]);
    many.found("read [0, 2, 3, 4] in Old", [4, 2]);
    many.found("read [0, 3] in New", [0]);
    many.is_moved(4);
    many.is_moved(2);
    assert_eq!(many.ends("Values"), counted(2, 2, 2, 0, 1));
}

#[test]
fn what_only_the_old_pool_has_is_moved_a_few_keys_at_a_time() {
    let mut many = Many::of("get_many", 40);
    many.answer(&format!("read {:?} in New", (0..40).collect::<Vec<_>>()), StepOutcome::Found(vec![]));
    many.answer(&format!("read {:?} in Old", (0..40).collect::<Vec<_>>()), StepOutcome::Found((0..40).collect()));
    (0..16).for_each(|key| many.is_moved(key));
    assert_eq!(many.ends("Values"), counted(0, 40, 16, 0, 0));
}

#[test]
fn tokens_are_read_where_keys_were_moved_to() {
    let mut many = Many::of("gets_many", 4);
    many.found("read [0, 1, 2, 3] in New", [1]);
    many.of_key(0, [(READ_NEW, MISSING), (LOOK, MISSING), (READ_NEW, MISSING)]);
    many.of_key(2, [(READ_NEW, MISSING)]);
    many.is_moved(2);
    many.of_key(3, [(READ_NEW, value("newer"))]);
    many.found("read [2, 3] in New", [2, 3]);
    assert_eq!(many.ends("Values"), counted(1, 1, 1, 0, 1));
    let mut nowhere = Many::of("gets_many", 1);
    nowhere.found("read [0] in New", []);
    nowhere.of_key(0, [(READ_NEW, MISSING), (LOOK, MISSING), (READ_NEW, MISSING)]);
    nowhere.ends("Values");
}

#[test]
fn failures_end_an_operation_on_many_keys() {
    let timeout = || failed(ErrorKind::Timeout);
    let mut reading = Many::begin("get_many", 1, true, None);
    reading.answer("read [0] in New", timeout());
    reading.ends("raise error");
    let mut looking = Many::of("get_many", 1);
    looking.found("read [0] in New", []);
    looking.answer("read [0] in Old", timeout());
    assert_eq!(looking.ends("raise error"), counted(0, 0, 0, 0, 0));
    let mut moving = Many::of("get_many", 1);
    moving.found("read [0] in New", []);
    moving.found("read [0] in Old", [0]);
    moving.of_key(0, [(LOOK, timeout())]);
    moving.ends("raise error");
}

#[test]
fn those_who_are_told_of_outages_get_what_there_is_though_keys_cannot_be_moved() {
    let begun = |operation| {
        let mut many = Many::begin(operation, 2, true, None);
        many.found("read [0, 1] in New", []);
        many
    };
    let mut many = begun("get_many");
    many.found("read [0, 1] in Old", [0, 1]);
    many.of_key(
        0,
        [(LOOK, with_ttl("7", None)), (LEASE, failed(ErrorKind::ServerDown)), ("tell error", StepOutcome::Told)],
    );
    many.is_moved(1);
    assert_eq!(many.ends("Values"), counted(0, 2, 1, 0, 0));

    let mut many = begun("gets_many");
    many.of_key(0, [(READ_NEW, failed(ErrorKind::Timeout)), ("tell error", StepOutcome::Told)]);
    many.of_key(1, [(READ_NEW, value("newer"))]);
    many.found("read [1] in New", [1]);
    many.ends("Values");

    for (kind, end) in [(ErrorKind::Unsupported, "needs a ttl: error"), (ErrorKind::UnknownFlags, "raise error")] {
        let mut many = begun("get_many");
        many.found("read [0, 1] in Old", [0]);
        many.found("read [1] in New", []);
        many.of_key(0, [(LOOK, failed(kind))]);
        many.ends(end);
    }
}
