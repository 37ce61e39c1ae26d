//! Servers that let scripts use only keys that they declare.

use std::collections::BTreeSet;

use pinyon_locks::call::{Call, Pushed, ScriptAnswer};
use pinyon_locks::keys::Declared;

use crate::lab::{attempt, is_granted, is_queued, lock, names, Lab, LONG};
use crate::redis::Monitor;

/// Makes calls that together do everything functions do, and checks that all worlds answer alike.
struct Strict {
    lab: Lab,
    monitor: Monitor,
}

impl Strict {
    fn new(declared: Declared) -> Self {
        let mut lab = Lab::new();
        lab.declare(declared);
        let monitor = lab.monitor();
        Self { lab, monitor }
    }

    fn call(&mut self, call: &Call) -> (ScriptAnswer, Vec<Pushed>) {
        let (answers, mut pushes) = self.lab.call_servers(call);
        let mut answers: Vec<ScriptAnswer> = answers.into_iter().map(|answer| answer.unwrap()).collect();
        assert!(pushes.iter().all(|of| of.len() == pushes[0].len()), "{pushes:?}");
        (answers.swap_remove(0), pushes.swap_remove(0))
    }

    fn lock(&mut self, who: &str, on: &str, nested: bool) -> ScriptAnswer {
        self.lab.connect(&attempt(who).client);
        self.call(&lock(who, on, true, nested)).0
    }

    fn poll(&mut self, who: &str, on: &str) -> ScriptAnswer {
        self.call(&Call::Poll { attempt: attempt(who), names: names(on), ttl: LONG, nested: false }).0
    }

    fn unlock(&mut self, who: &str, on: &str) -> Vec<Pushed> {
        self.call(&Call::Unlock { attempt: attempt(who), names: names(on), tombstone: false, rest: None }).1
    }

    /// What was used in calls without being declared.
    fn undeclared(&mut self) -> BTreeSet<String> {
        self.lab.redis.run(&[b"ECHO", b"that was all"]);
        let mut declared = Vec::new();
        let mut undeclared = BTreeSet::new();
        for line in self.monitor.until("that was all") {
            let words: Vec<&str> = line.split("] ").nth(1).unwrap_or_default().split(' ').collect();
            if !line.contains(" lua] ") {
                let is_call = matches!(words[0], "\"FCALL\"" | "\"EVALSHA\"");
                declared = if is_call { words.iter().map(|word| word.to_string()).collect() } else { Vec::new() };
                continue;
            }
            let is_about_keys = !matches!(words[0], "\"PUBLISH\"" | "\"PUBSUB\"");
            let keys = words.iter().filter(|word| word.starts_with("\"{") && word.contains("}:"));
            undeclared.extend(
                keys.filter(|key| is_about_keys && !declared.contains(&key.to_string())).map(|key| key.to_string()),
            );
        }
        undeclared
    }

    /// Everything that functions do, with waiters for one name only.
    fn everything(&mut self) {
        self.lock("x", "a", false);
        assert!(is_queued(&self.lock("y", "a", false)));
        assert_eq!(self.unlock("x", "a").len(), 1);
        self.call(&Call::Notify { attempt: attempt("y"), names: names("a"), most: 0 });
        self.call(&Call::Park { attempt: attempt("y"), names: names("a"), ttl: LONG });
        self.lock("x.2", "a", false);
        self.call(&Call::Notify { attempt: attempt("x.2"), names: names("a"), most: 1 });
        self.poll("y", "a");
        self.call(&Call::Unlock { attempt: attempt("y"), names: names("a"), tombstone: true, rest: None });
        self.call(&Call::Unpark { attempt: attempt("y.2"), names: names("a"), ttl: LONG });
        self.call(&Call::Inspect { names: names("a b"), remarks: false });
        self.call(&Call::Extend { held: vec![(attempt("x.2"), names("a"), LONG)] });
        self.call(&Call::Raise { attempt: attempt("x.2"), names: names("a"), ttl: LONG, floor: 1 });
        self.call(&Call::Open { seen: 1 });
        self.lab.pure_waits();
        self.call(&Call::ForceRelease { names: names("a"), token: None });
        self.unlock("y.2", "a");
        for on in ["r:b", "r:b r:c"] {
            self.lock("x", on, false);
            self.lock("y", on, false);
            self.unlock("x", on);
            self.unlock("y", on);
        }
        // Tickets come by at which members of the queue are looked after.
        for number in 0..40 {
            self.lock(&format!("z.{number}1"), "a", false);
        }
    }
}

#[test]
fn calls_use_no_key_that_they_do_not_declare() {
    for declared in [Declared::All, Declared::Strictly] {
        let mut strict = Strict::new(declared);
        strict.everything();
        assert_eq!(strict.undeclared(), BTreeSet::new(), "{declared:?}");
    }
    let mut few = Strict::new(Declared::Few);
    few.everything();
    assert!(few.undeclared().len() >= 4, "the test sees keys that are not declared");
}

#[test]
fn a_waiter_for_names_of_which_the_call_declares_some_is_told_to_ask() {
    let mut strict = Strict::new(Declared::Strictly);
    strict.lock("x", "a", false);
    strict.lock("x.2", "c", false);
    assert!(is_queued(&strict.lock("y", "a b", false)));
    assert!(is_queued(&strict.lock("z", "a", false)));
    assert_eq!(strict.unlock("x.2", "c"), []);
    let told = vec![Pushed::Freed { names: names("a b").to_vec() }];
    assert_eq!(strict.unlock("x", "a"), told);
    assert!(is_queued(&strict.poll("z", "a")), "the first in the queue is the first to have it");
    assert!(is_granted(&strict.poll("y", "a b")));
    assert_eq!(strict.unlock("y", "a b").len(), 1, "all of its names are declared");
    assert_eq!(strict.undeclared(), BTreeSet::new());
}

#[test]
fn waiters_that_share_some_names_do_not_make_each_other_ask_for_ever() {
    let mut strict = Strict::new(Declared::Strictly);
    strict.lock("x", "a", false);
    strict.lock("x.2", "c", false);
    strict.lock("x.3", "b", false);
    strict.lock("y", "a b", true);
    strict.lock("z", "b c", true);
    assert_eq!(strict.unlock("x.3", "b").len(), 2, "both may have b now");
    for (who, on) in [("y", "a b"), ("z", "b c"), ("y", "a b")] {
        let poll = Call::Poll { attempt: attempt(who), names: names(on), ttl: LONG, nested: true };
        assert_eq!(strict.call(&poll).1, [], "{who} is told nothing, and tells nothing");
    }
    assert_eq!(strict.undeclared(), BTreeSet::new());
}
