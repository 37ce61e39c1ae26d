//! Tags against a model: processes that read, store, make and invalidate, in random order. Requests and replies travel
//! when the schedule says so, connections break, time passes, and servers evict generations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{fetch, get, invalidate, known, named, set, single, store, LEASE, TTL};
use crate::operations::tests::world::{Any, Running, World};
use crate::operations::{Answer, AnyOperation, Bytes, Mode, ReadTags, Tagging, Win};
use crate::tags::KnownTags;
use pinyon_net::fake_clock::{clock, pass};

const PROCESSES: usize = 2;
const KEYS: [&str; 2] = ["k", "l"];
const TAGS: [&str; 2] = ["t", "u"];

#[derive(Clone, Debug)]
enum Step {
    Get(usize, usize),
    GetMany(usize),
    Set(usize, usize, Vec<usize>),
    /// Asks for a lease, and stores what it makes once it has won.
    Make(usize, usize, Vec<usize>),
    Invalidate(usize, usize),
    /// The replies to an operation arrive that are on their way, or else its requests.
    Advance(usize),
    /// The requests of an operation arrive at a server, and are carried out.
    Serve(usize, usize),
    /// The replies arrive.
    Answer(usize, usize),
    Break(usize, usize),
    Pass(u64),
    Evict(usize),
    Delete(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (process, key, tag) = (|| 0..PROCESSES, || 0..KEYS.len(), || 0..TAGS.len());
    let tags = move || proptest::collection::vec(tag(), 1..3);
    let (number, server) = (|| 0..100_usize, || 0..2_usize);
    prop_oneof![
        6 => (process(), key()).prop_map(|(process, key)| Step::Get(process, key)),
        1 => process().prop_map(Step::GetMany),
        1 => (process(), key(), tags()).prop_map(|(process, key, tags)| Step::Set(process, key, tags)),
        3 => (process(), key(), tags()).prop_map(|(process, key, tags)| Step::Make(process, key, tags)),
        2 => (process(), tag()).prop_map(|(process, tag)| Step::Invalidate(process, tag)),
        1 => key().prop_map(Step::Delete),
        60 => number().prop_map(Step::Advance),
        10 => (number(), server()).prop_map(|(number, server)| Step::Serve(number, server)),
        10 => (number(), server()).prop_map(|(number, server)| Step::Answer(number, server)),
        1 => (number(), server()).prop_map(|(number, server)| Step::Break(number, server)),
        2 => (0..1500u64).prop_map(Step::Pass),
        1 => tag().prop_map(Step::Evict),
    ]
}

/// An operation under way, and when it was begun: the number of the step, and the time.
struct Call {
    running: Running,
    kind: Kind,
    since: (usize, Instant),
}

enum Kind {
    Read,
    Set(String, Vec<usize>),
    Lease { key: usize, tags: Vec<usize> },
    StoreMade,
    Invalidate(usize),
}

/// A value, and the step from which on it does not depend on what was there before.
struct Value {
    tags: Vec<usize>,
    made: usize,
}

struct Invalidation {
    process: usize,
    tag: usize,
    begun: usize,
    over: (usize, Instant),
}

struct Model {
    ttl: Duration,
    known: Vec<Arc<KnownTags>>,
    world: World,
    calls: Vec<Call>,
    values: HashMap<String, Value>,
    invalidations: Vec<Invalidation>,
    number: usize,
    step: usize,
}

impl Model {
    fn new(ttl: Duration, remembered: usize) -> Self {
        let known: Vec<_> = (0..PROCESSES).map(|_| known(ttl, remembered)).collect();
        let world = super::world(&known);
        let (calls, values, invalidations) = Default::default();
        Self { ttl, known, world, calls, values, invalidations, number: 0, step: 0 }
    }

    fn run(&mut self, step: &Step) {
        self.step += 1;
        let names = |tags: &[usize]| tags.iter().map(|tag| TAGS[*tag]).collect::<Vec<_>>();
        match step {
            Step::Get(process, key) => self.begin(*process, get(KEYS[*key]), Kind::Read),
            Step::GetMany(process) => self.begin(*process, fetch(&KEYS), Kind::Read),
            Step::Set(process, key, tags) => {
                let value = self.new_value();
                let set = set(&self.known[*process], KEYS[*key], &value, &names(tags));
                self.begin(*process, set, Kind::Set(value, tags.clone()));
            }
            Step::Make(process, key, tags) => {
                let tagging = Tagging::Named(named(&self.known[*process], &names(tags)));
                let lease = single(LEASE, KEYS[*key], None).with_tags(Some(tagging));
                self.begin(*process, lease, Kind::Lease { key: *key, tags: tags.clone() });
            }
            Step::Invalidate(process, tag) => {
                let operation = invalidate(&self.known[*process], &[TAGS[*tag]]);
                self.begin(*process, operation, Kind::Invalidate(*tag));
            }
            Step::Advance(number) => self.travel(*number, 0, |world, running, _| world.advance(running)),
            Step::Serve(number, server) => self.travel(*number, *server, World::serve),
            Step::Answer(number, server) => self.travel(*number, *server, |world, running, server| {
                world.answer(running, server);
            }),
            Step::Break(number, server) => self.travel(*number, *server, |world, running, server| {
                world.break_off(running, server);
            }),
            Step::Pass(time) => pass(Duration::from_millis(*time)),
            Step::Evict(tag) => self.remove(&format!("!tag:{}", TAGS[*tag])),
            Step::Delete(key) => self.remove(KEYS[*key]),
        }
    }

    fn remove(&mut self, key: &str) {
        self.world.servers.iter_mut().for_each(|server| drop(server.items.remove(key)));
    }

    fn new_value(&mut self) -> String {
        self.number += 1;
        format!("{:05}", self.number)
    }

    fn begin(&mut self, process: usize, operation: impl Into<Any>, kind: Kind) {
        let since = (self.step, clock());
        let running = self.world.begin(process, operation);
        self.calls.push(Call { running, kind, since });
        self.end_calls();
    }

    fn travel(&mut self, number: usize, server: usize, act: impl FnOnce(&mut World, &mut Running, usize)) {
        if self.calls.is_empty() {
            return;
        }
        let index = number % self.calls.len();
        act(&mut self.world, &mut self.calls[index].running, server);
        self.end_calls();
    }

    fn end_calls(&mut self) {
        while let Some(index) = self.calls.iter().position(|call| call.running.is_over()) {
            let call = self.calls.remove(index);
            self.end(call);
        }
    }

    fn end(&mut self, Call { running: Running { process, operation, .. }, kind, since }: Call) {
        match (kind, operation) {
            (Kind::Read, AnyOperation::Single(mut single)) => {
                if let Ok(Answer::Value(value)) = single.take_answer() {
                    self.check(process, since, &value);
                }
            }
            (Kind::Read, AnyOperation::Fetch(fetch)) => {
                fetch.finish().found.iter().for_each(|found| self.check(process, since, &found.value));
            }
            (Kind::Set(value, tags), _) => {
                self.values.insert(value, Value { tags, made: self.step });
            }
            (Kind::Lease { key, tags }, AnyOperation::Single(mut single)) => {
                let Ok(Answer::Lease(found)) = single.take_answer() else { return };
                found.value.iter().for_each(|value| self.check(process, since, value));
                if let (Some(win), Some(given)) = (found.win(), found.tags.given) {
                    self.make(process, key, tags, win, given);
                }
            }
            (Kind::Invalidate(tag), AnyOperation::Change(change)) => {
                let is_refused = change.finish().failures.raised().is_some();
                let over = (self.step, clock());
                self.invalidations.extend((!is_refused).then_some(Invalidation { process, tag, begun: since.0, over }));
            }
            _ => {}
        }
    }

    /// Makes a value now, and stores it when the schedule says so.
    fn make(&mut self, process: usize, key: usize, tags: Vec<usize>, Win { cas, .. }: Win, given: ReadTags) {
        let value = self.new_value();
        let stores = single(store(Mode::Set, Some(cas), &value), KEYS[key], Some(&value));
        self.values.insert(value, Value { tags, made: self.step });
        let since = (self.step, clock());
        let running = self.world.begin(process, stores.with_tags(Some(Tagging::Read(given))));
        self.calls.push(Call { running, kind: Kind::StoreMade, since });
    }

    fn check(&self, process: usize, since: (usize, Instant), read: &Bytes) {
        assert_eq!(read.client_flags, 16);
        let text = std::str::from_utf8(&read.bytes).expect("the value alone");
        // What is not stored for sure may have been made a moment ago.
        let Some(value) = self.values.get(text) else { return };
        for Invalidation { process: by, tag, begun, over } in &self.invalidations {
            let is_known = over.0 < since.0 && (*by == process || over.1 + self.ttl <= since.1);
            let hides = value.tags.contains(tag) && value.made < *begun && is_known;
            assert!(!hides, "{text} of step {} is read in {} after {begun}..{}", value.made, since.0, over.0);
        }
    }

    /// Everything arrives, until nothing is under way.
    fn finish(&mut self) {
        for _ in 0..200 {
            for number in (0..self.calls.len()).rev() {
                for server in [0, 1] {
                    self.travel(number, server, World::serve);
                    self.travel(number, server, |world, running, server| world.answer(running, server));
                }
            }
        }
        assert!(self.calls.is_empty(), "{} operations have not ended", self.calls.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_value_of_an_invalidated_tag_is_read(
        steps in proptest::collection::vec(step(), 0..400), asks_each_time: bool, remembers_two: bool,
    ) {
        let ttl = if asks_each_time { Duration::ZERO } else { TTL };
        let mut model = Model::new(ttl, if remembers_two { 2 } else { 100 });
        steps.iter().for_each(|step| model.run(step));
        model.finish();
    }
}
