//! Callers that want the values of many keys.

use std::collections::HashSet;

use super::schedules::Server;
use super::*;
use crate::lease::{Ended, GetOrSetMany, LeftOut, ManyOutcome, ManyStep, Storing};
use crate::operations::Request;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const OTHERS: StepOutcome<Texts, LeftOut> = StepOutcome::Found(FILLING);

fn many(process: &Process, caller: usize, keys: &[&str]) -> GetOrSetMany<Texts> {
    many_on(process, caller, keys, terms(), process.now)
}

fn many_on(process: &Process, caller: usize, keys: &[&str], terms: Terms, now: Instant) -> GetOrSetMany<Texts> {
    let keys: Vec<FlightKey> = keys.iter().map(|key| flight_key(key)).collect();
    GetOrSetMany::new(&process.flights, keys, caller, terms, caller as u64, now)
}

fn shown(step: &ManyStep<Texts>) -> String {
    let each = |requests: &Vec<(usize, Request)>| requests.iter().map(|(key, _)| key.to_string()).collect::<String>();
    match step {
        ManyStep::Ask(requests) => format!("ask {}", each(requests)),
        ManyStep::Make(keys) => format!("make {}", keys.iter().map(usize::to_string).collect::<String>()),
        ManyStep::Store(all) => {
            let one = |Storing { key, cas, ttl }: &Storing| format!(" {key} at {cas} for {ttl}");
            format!("store{}", all.iter().map(one).collect::<String>())
        }
        ManyStep::GiveBack(requests) => format!("give back {}", each(requests)),
        ManyStep::Share(key) => format!("share {key}"),
        ManyStep::Copy(key, (by, value)) => format!("copy {key} {by} {value}"),
        ManyStep::Listen(keys) => format!("listen {}", keys.iter().map(usize::to_string).collect::<String>()),
        ManyStep::Follow(key, time) => format!("follow {key} for {time:?}"),
        ManyStep::Pause(_) => "pause".to_owned(),
        ManyStep::End(ended) => {
            let one = |(key, ended): &(usize, Ended<Texts>)| match ended {
                Ended::Value(value) => format!(" {key}={value}"),
                Ended::Nothing => format!(" {key}=nothing"),
                Ended::Failed(error) => format!(" {key} failed: {error}"),
                Ended::Refused(refusal) => format!(" {key} refused: {refusal:?}"),
            };
            format!("end{}", ended.iter().map(one).collect::<String>())
        }
        ManyStep::Raise(error) => format!("raise {error}"),
        ManyStep::Refuse(key, refusal) => format!("refuse {key}: {refusal:?}"),
    }
}

fn won(cas: u64) -> StepOutcome<Texts, LeftOut> {
    won_with(cas, None)
}

fn won_with(cas: u64, value: Option<&'static str>) -> StepOutcome<Texts, LeftOut> {
    let win = Win { cas, keep: value.is_some() };
    StepOutcome::Found(Found { finding: Finding::Won(Some(win)), value, cas: Some(cas), tags: FoundTags::NONE })
}

fn there(value: &'static str) -> StepOutcome<Texts, LeftOut> {
    StepOutcome::Found(hit(value))
}

fn failing(error: &'static str) -> StepOutcome<Texts, LeftOut> {
    StepOutcome::Failed { error, is_outage: true }
}

fn each<const MANY: usize>(outcomes: [StepOutcome<Texts, LeftOut>; MANY]) -> ManyOutcome<Texts> {
    ManyOutcome::Each(outcomes.into())
}

/// Reports these outcomes one after the other. Returns the steps that follow them.
fn said_after(machine: &mut GetOrSetMany<Texts>, now: Instant, outcomes: Vec<ManyOutcome<Texts>>) -> Vec<String> {
    let first = shown(&machine.begin(now));
    let others = outcomes.into_iter().map(|outcome| shown(&machine.next(outcome, now)));
    std::iter::once(first).chain(others).collect()
}

const DONE: fn() -> ManyOutcome<Texts> = || ManyOutcome::All(StepOutcome::Done);

#[test]
fn what_is_missing_is_asked_for_made_and_stored_at_once() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "c", "d"]);
    let made = each([StepOutcome::Value("x"), StepOutcome::Nothing(LeftOut), StepOutcome::Value("z")]);
    let stored = each([StepOutcome::Stored(true), StepOutcome::Stored(false)]);
    let outcomes = vec![each([won(7), there("old"), won(8), won(9)]), made, stored, each([StepOutcome::Done])];
    assert_eq!(
        said_after(&mut machine, process.now, outcomes),
        ["ask 0123", "make 023", "store 0 at 7 for 90 3 at 9 for 90", "give back 2", "end 0=x 1=old 2=nothing 3=z",]
    );
    assert!(machine.leave().is_empty() && process.flights.followers().is_empty());
}

#[test]
fn a_key_that_is_left_out_is_nothing_although_there_is_an_old_value() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a"]);
    let outcomes = vec![
        each([won_with(7, Some("old"))]),
        ManyOutcome::All(StepOutcome::Shared(("leader's", "old"))),
        each([StepOutcome::Nothing(LeftOut)]),
        each([StepOutcome::Done]),
    ];
    let said = said_after(&mut machine, process.now, outcomes);
    assert_eq!(said, ["ask 0", "share 0", "make 0", "give back 0", "end 0=nothing"]);
}

#[test]
fn values_that_cannot_be_read_at_the_end_are_made_anew() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "c"]);
    let outcomes = vec![each([there("odd"), there("old"), won(7)]), each([StepOutcome::Value("x")])];
    let mut said = said_after(&mut machine, process.now, outcomes);
    said.push(shown(&machine.next(each([StepOutcome::Stored(true)]), process.now)));
    assert_eq!(said[3], "end 0=odd 1=old 2=x");
    let renewal = machine.unreadable(&[0], process.now);
    assert!(matches!(&renewal, ManyStep::Ask(asked) if matches!(asked[..], [(0, Request::Renew { cas: 7, .. })])));
    let made = machine.next(each([won_with(8, None)]), process.now);
    assert_eq!(shown(&made), "make 0");
    let stored = machine.next(each([StepOutcome::Value("new")]), process.now);
    assert_eq!(shown(&stored), "store 0 at 8 for 90");
    assert_eq!(shown(&machine.next(each([StepOutcome::Stored(true)]), process.now)), "end 0=new");
}

#[test]
fn a_maker_that_fails_gives_all_back_and_raises_without_waiting() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "c"]);
    let outcomes = vec![
        each([won(7), OTHERS, won(8)]),
        ManyOutcome::All(failing("no database")),
        each([failing("down"), StepOutcome::Done]),
    ];
    let said = said_after(&mut machine, process.now, outcomes);
    assert_eq!(said, ["ask 012", "make 02", "give back 02", "raise no database"]);
    assert!(machine.leave().is_empty());
    assert!(process.flights.followers().is_empty(), "others may make what this caller waited for");
}

#[test]
fn old_values_outlive_a_maker_that_fails() {
    let process = Process::new();
    let terms = terms().stale_on_error(3).unwrap();
    let mut machine = many_on(&process, 1, &["a"], terms, process.now);
    let mut said = said_after(
        &mut machine,
        process.now,
        vec![
            each([won_with(7, Some("old"))]),
            ManyOutcome::All(StepOutcome::Shared(("leader's", "old"))),
            ManyOutcome::All(failing("no database")),
        ],
    );
    assert_eq!(machine.suppressed(), [(0, "no database")]);
    said.push(shown(&machine.next(each([StepOutcome::Stored(true)]), process.now)));
    assert!(said[3].starts_with("store 0 at 7 for "), "{said:?}");
    assert_eq!(said[4], "end 0=old");
}

#[test]
fn a_server_that_is_down_fails_its_own_keys() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "c"]);
    let outcomes = vec![
        each([failing("down"), won(7), won(8)]),
        each([StepOutcome::Value("x"), StepOutcome::Value("y")]),
        each([StepOutcome::Stored(true), failing("gone")]),
    ];
    let said = said_after(&mut machine, process.now, outcomes);
    assert_eq!(said[1], "make 12");
    assert_eq!(said[3], "end 0 failed: down 1=x 2 failed: gone");
}

#[test]
fn others_are_waited_for_once_this_caller_has_made_what_it_won() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b"]);
    let outcomes = vec![
        each([OTHERS, won(7)]),
        each([StepOutcome::Value("x")]),
        each([StepOutcome::Stored(true)]),
        DONE(),
        each([won(8)]),
        each([StepOutcome::Value("y")]),
        each([StepOutcome::Stored(true)]),
    ];
    let said = said_after(&mut machine, process.now, outcomes);
    let expected =
        ["ask 01", "make 1", "store 1 at 7 for 90", "pause", "ask 0", "make 0", "store 0 at 8 for 90", "end 0=y 1=x"];
    assert_eq!(said, expected);
}

#[test]
fn callers_of_one_process_follow_each_other_key_by_key() {
    let mut process = Process::new();
    let (mut first, mut second) = (many(&process, 1, &["a", "b"]), many(&process, 2, &["c", "b", "a"]));
    assert_eq!(shown(&first.begin(process.now)), "ask 01");
    assert_eq!(shown(&second.begin(process.now)), "listen 12");
    let woken = [Woken::default(), Woken::default()];
    for (key, woken) in woken.iter().enumerate() {
        second.follow(key + 1, woken.clone());
    }
    assert_eq!(shown(&second.next(DONE(), process.now)), "ask 0", "what it leads comes first");
    assert_eq!(shown(&second.next(each([there("c")]), process.now)), "follow 1 for 12s");
    assert_eq!(shown(&first.next(each([there("x"), there("y")]), process.now)), "share 1");
    first.next(ManyOutcome::All(StepOutcome::Shared(("leader's", "y"))), process.now);
    first.next(ManyOutcome::All(StepOutcome::Shared(("leader's", "x"))), process.now);
    assert!(woken.iter().all(|woken| woken.0.get()));
    assert_eq!(shown(&second.next(DONE(), process.now)), "copy 2 leader's x");
    assert_eq!(shown(&second.next(ManyOutcome::All(StepOutcome::Value("x")), process.now)), "copy 1 leader's y");
    let end = second.next(ManyOutcome::All(StepOutcome::Value("y")), process.now);
    assert_eq!(shown(&end), "end 0=c 1=y 2=x");
    let single = process.caller_at(flight_key("a")).begin();
    assert_eq!(single, ASK, "no flight is left");
}

#[test]
fn who_follows_a_caller_goes_on_asking_about_what_others_make() {
    let process = Process::new();
    let mut leader = many(&process, 1, &["a"]);
    assert_eq!(shown(&leader.begin(process.now)), "ask 0");
    let mut caller = many(&process, 2, &["a", "b"]);
    caller.begin(process.now);
    caller.follow(0, Woken::default());
    assert_eq!(shown(&caller.next(DONE(), process.now)), "ask 1");
    let step = caller.next(each([OTHERS]), process.now);
    assert!(
        matches!(step, ManyStep::Follow(0, time) if time < LONGEST_PAUSE),
        "the leader may wait for what it asks about"
    );
    assert_eq!(shown(&caller.next(DONE(), process.now)), "ask 1");
}

#[test]
fn keys_that_are_given_twice_are_asked_for_once() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "a"]);
    assert_eq!(machine.repeated(), [(2, 0)]);
    let said = said_after(&mut machine, process.now, vec![each([there("x"), there("y")])]);
    assert_eq!(said, ["ask 01", "end 0=x 1=y"]);
    assert_eq!(said_after(&mut many(&process, 1, &[]), process.now, vec![]), ["end"]);
}

#[test]
fn a_maker_that_asks_for_what_it_makes_is_refused() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a"]);
    said_after(&mut machine, process.now, vec![each([won(7)])]);
    let inner = said_after(&mut many(&process, 1, &["b", "a"]), process.now, vec![]);
    assert_eq!(inner, ["refuse 1: Recursion"]);
}

#[test]
fn who_leaves_gives_back_all_that_it_won() {
    let process = Process::new();
    let mut machine = many(&process, 1, &["a", "b", "c"]);
    said_after(&mut machine, process.now, vec![each([won(7), OTHERS, won(8)])]);
    assert_eq!(machine.leave(), [(0, Win { cas: 7, keep: false }), (2, Win { cas: 8, keep: false })]);
    assert!(machine.leave().is_empty() && process.flights.followers().is_empty());
}

/// Callers in two processes, which want some of four keys in any order.
struct Callers {
    random: u64,
    servers: [Server; 4],
    processes: [Process; 2],
    running: Vec<Running>,
    fulfilled: HashSet<(usize, u64)>,
    makes: usize,
    ends: usize,
    followed: usize,
}

struct Running {
    machine: GetOrSetMany<Texts>,
    keys: Vec<usize>,
    step: Option<ManyStep<Texts>>,
    signals: Vec<(usize, Woken)>,
    /// When it goes on at the latest.
    until: u64,
    wins: Vec<Option<u64>>,
    begun: u64,
}

impl Callers {
    fn new(seed: u64) -> Self {
        let processes = [Process::new(), Process::new()];
        let (servers, random) = (Default::default(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (running, fulfilled) = (Vec::new(), HashSet::new());
        let mut all = Self { random, servers, processes, running, fulfilled, makes: 0, ends: 0, followed: 0 };
        for number in 0..6 {
            let running = all.called(number);
            all.running.push(running);
        }
        all
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn now(&self) -> Instant {
        self.processes[0].now + Duration::from_millis(self.servers[0].now)
    }

    fn called(&mut self, number: usize) -> Running {
        let mut keys: Vec<usize> = (0..4).collect();
        for at in (1..4).rev() {
            keys.swap(at, self.chance(at as u64 + 1) as usize);
        }
        keys.truncate(1 + self.chance(4) as usize);
        let texts: Vec<&str> = keys.iter().map(|key| KEYS[*key]).collect();
        let terms = Terms::new(6, 4, 2, 2, None).unwrap();
        let mut machine = many_on(&self.processes[number % 2], number + 1, &texts, terms, self.now());
        let step = Some(machine.begin(self.now()));
        let (wins, begun) = (vec![None; keys.len()], self.servers[0].now);
        Running { machine, keys, step, signals: Vec::new(), until: 0, wins, begun }
    }

    fn run(&mut self) {
        for _ in 0..3000 {
            match self.chance(12) {
                0..=3 => {
                    let later = self.chance(150);
                    self.servers.iter_mut().for_each(|server| server.now += later);
                }
                _ => {
                    let number = self.chance(6) as usize;
                    self.go_on(number);
                }
            }
        }
        // Without new callers, all come to their ends.
        let ended = self.ends;
        for _ in 0..4000 {
            self.servers.iter_mut().for_each(|server| server.now += 10);
            (0..6).for_each(|number| self.go_on(number));
        }
        assert!(self.ends > ended + 6, "some caller waits for ever");
    }

    fn go_on(&mut self, number: usize) {
        let now = self.servers[0].now;
        let waits = |running: &Running| match &running.step {
            Some(ManyStep::Follow(key, _)) => {
                let of_key = |(of, woken): &&(usize, Woken)| of == key && woken.0.get();
                running.until > now && !running.signals.iter().any(|signal| of_key(&signal))
            }
            Some(ManyStep::Pause(_) | ManyStep::Make(_)) => running.until > now,
            _ => false,
        };
        if waits(&self.running[number]) {
            return;
        }
        let idle = self.idle(number);
        let mut running = std::mem::replace(&mut self.running[number], idle);
        let Some(step) = running.step.take() else { unreachable!("it has a step") };
        let outcome = match step {
            ManyStep::End(ended) => {
                assert_eq!(ended.len(), running.keys.len(), "each key ends");
                return self.over(number, &running);
            }
            ManyStep::Raise(_) | ManyStep::Refuse(..) => return self.over(number, &running),
            step => self.carry_out(&mut running, step),
        };
        let step = running.machine.next(outcome, self.now());
        running.until = match &step {
            ManyStep::Pause(time) | ManyStep::Follow(_, time) => now + time.as_millis() as u64 + 1,
            ManyStep::Make(keys) => {
                self.check_make(&running, keys);
                now + self.chance(1500)
            }
            _ => 0,
        };
        self.followed += usize::from(matches!(step, ManyStep::Follow(..)));
        running.step = Some(step);
        self.running[number] = running;
    }

    fn idle(&self, number: usize) -> Running {
        let machine = many_on(&self.processes[number % 2], 100, &[], terms(), self.now());
        Running { machine, keys: vec![], step: None, signals: vec![], until: 0, wins: vec![], begun: 0 }
    }

    fn over(&mut self, number: usize, running: &Running) {
        self.ends += 1;
        let took = self.servers[0].now - running.begun;
        assert!(took < 30_000, "it waited for {took} ms");
        assert!(running.wins.iter().all(Option::is_none), "it keeps a lease");
        self.running[number] = self.called(number);
    }

    fn carry_out(&mut self, running: &mut Running, step: ManyStep<Texts>) -> ManyOutcome<Texts> {
        let outcomes = match step {
            ManyStep::Ask(all) => all.into_iter().map(|(key, request)| self.ask(running, key, request)).collect(),
            ManyStep::Store(all) => all.into_iter().map(|storing| self.store(running, storing)).collect(),
            ManyStep::GiveBack(all) => all
                .into_iter()
                .map(|(key, request)| {
                    let Request::GiveBack(win) = request else { unreachable!("it gives back") };
                    running.wins[key] = None;
                    self.servers[running.keys[key]].give_back(win);
                    StepOutcome::Done
                })
                .collect(),
            ManyStep::Make(_) if self.chance(5) == 0 => return ManyOutcome::All(failing("no database")),
            ManyStep::Make(keys) => keys
                .into_iter()
                .map(|_| match self.chance(6) {
                    0 => StepOutcome::Nothing(LeftOut),
                    _ => StepOutcome::Value("made"),
                })
                .collect(),
            ManyStep::Share(key) => {
                let value = running.machine.value(key).copied().unwrap();
                return ManyOutcome::All(StepOutcome::Shared(("leader's", value)));
            }
            ManyStep::Copy(_, (_, value)) => return ManyOutcome::All(StepOutcome::Value(value)),
            ManyStep::Listen(keys) => {
                for key in keys {
                    let woken = Woken::default();
                    running.machine.follow(key, woken.clone());
                    running.signals.retain(|(of, _)| *of != key);
                    running.signals.push((key, woken));
                }
                return DONE();
            }
            _ => return DONE(),
        };
        ManyOutcome::Each(outcomes)
    }

    fn ask(&mut self, running: &mut Running, key: usize, request: Request) -> StepOutcome<Texts, LeftOut> {
        let Request::Lease { lease, recache } = request else { unreachable!("all values can be read") };
        if self.chance(30) == 0 {
            return failing("down");
        }
        let found = self.servers[running.keys[key]].lease(lease, recache);
        running.wins[key] = found.win().map(|win| win.cas);
        StepOutcome::Found(found)
    }

    fn store(&mut self, running: &mut Running, Storing { key, cas, ttl }: Storing) -> StepOutcome<Texts, LeftOut> {
        let (of, value) = (running.keys[key], running.machine.value(key).copied().unwrap());
        assert_eq!(running.wins[key].take(), Some(cas), "whoever stores has won");
        let stored = self.servers[of].store(cas, value, ttl);
        assert!(!stored || self.fulfilled.insert((of, cas)), "two stores of one lease");
        StepOutcome::Stored(stored)
    }

    fn check_make(&mut self, running: &Running, keys: &[usize]) {
        self.makes += 1;
        for key in keys {
            let (of, win) = (running.keys[*key], running.wins[*key].expect("whoever makes a value has won"));
            let has_it =
                |other: &Running| other.keys.iter().zip(&other.wins).any(|(key, cas)| *key == of && *cas == Some(win));
            assert!(!self.running.iter().any(has_it), "another caller has the lease");
        }
    }
}

#[test]
fn callers_of_many_keys_make_each_value_once_and_all_come_to_an_end() {
    let schedules = std::env::var("PINYON_SCHEDULES").ok().and_then(|number| number.parse().ok()).unwrap_or(30);
    let mut all = [0; 3];
    for seed in 0..schedules {
        let mut callers = Callers::new(seed);
        callers.run();
        let counts = [callers.makes, callers.ends, callers.followed];
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(all.iter().all(|count| *count as u64 > schedules), "the schedules show little: {all:?}");
}
