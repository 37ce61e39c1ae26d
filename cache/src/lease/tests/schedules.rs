//! Random schedules of callers in two processes, with makers that fail or go on behind, and with values that are made anew
//! among them, over a model of memcached's item.
//!
//! The same number makes the same schedule. `PINYON_SCHEDULES` runs more of them, from 0 on.

use std::collections::HashSet;

use super::*;
use crate::operations::Request;

const RETRY_AFTER: u64 = 3;
const CALLERS: usize = 6;
const ACTIONS: usize = 3000;

/// One item of memcached, and its clock in milliseconds.
#[derive(Default)]
pub(super) struct Server {
    pub(super) now: u64,
    item: Option<Item>,
    cas: u64,
}

#[derive(Clone, Copy)]
struct Item {
    /// A placeholder has none.
    value: Option<&'static str>,
    cas: u64,
    ends: Option<u64>,
    is_stale: bool,
    is_won: bool,
}

impl Server {
    fn item(&mut self) -> Option<&mut Item> {
        let now = self.now;
        self.item = self.item.filter(|item| item.ends.is_none_or(|ends| ends > now));
        self.item.as_mut()
    }

    fn put(&mut self, value: Option<&'static str>, ttl: u64, is_won: bool) -> u64 {
        self.cas += 1;
        let ends = (ttl > 0).then(|| self.now + ttl * 1000);
        self.item = Some(Item { value, cas: self.cas, ends, is_stale: false, is_won });
        self.cas
    }

    pub(super) fn lease(&mut self, lease: i32, recache: i32) -> Found<&'static str> {
        let now = self.now;
        let Some(item) = self.item() else {
            let cas = self.put(None, lease as u64, true);
            return Found {
                finding: Finding::Won(Some(Win { cas, keep: false })),
                value: None,
                cas: Some(cas),
                tags: FoundTags::NONE,
            };
        };
        let is_due = item.is_stale || item.ends.is_some_and(|ends| ends - now < recache as u64 * 1000);
        let wins = is_due && !item.is_won;
        item.is_won |= wins;
        let finding = match (wins, item.is_won, item.value) {
            (true, ..) => Finding::Won(Some(Win { cas: item.cas, keep: item.value.is_some() })),
            (_, true, None) => Finding::Filling,
            (_, true, Some(_)) => Finding::Stale,
            _ => Finding::Hit,
        };
        Found { finding, value: item.value, cas: Some(item.cas), tags: FoundTags::NONE }
    }

    pub(super) fn store(&mut self, cas: u64, value: &'static str, ttl: i64) -> bool {
        let matches = self.has(cas);
        if matches {
            self.put(Some(value), ttl as u64, false);
        }
        matches
    }

    fn set(&mut self, value: &'static str, ttl: i64) {
        self.put(Some(value), ttl as u64, false);
    }

    pub(super) fn give_back(&mut self, win: Win) {
        if !self.has(win.cas) {
            return;
        }
        match win.keep {
            true => self.mark_stale(),
            false => self.item = None,
        }
    }

    pub(super) fn mark_stale(&mut self) {
        self.cas += 1;
        let cas = self.cas;
        if let Some(item) = self.item() {
            (item.is_stale, item.is_won, item.cas) = (true, false, cas);
        }
    }

    pub(super) fn has(&mut self, cas: u64) -> bool {
        self.item().is_some_and(|item| item.cas == cas)
    }
}

/// A caller, and what it waits for.
struct Running {
    caller: Caller,
    at: Doing,
    win: Option<Win>,
    /// Whether it makes a value whatever is stored.
    is_anew: bool,
    /// Whether it was told to store that.
    has_set: bool,
    beside_old: bool,
    has_failed: bool,
    is_behind: bool,
}

enum Doing {
    Step(Step<Texts>),
    Making(u64),
    /// When the value is made, and until when its caller waits for it.
    MakingWithin(u64, u64),
    /// When the value is made that its caller does not wait for.
    Late(u64),
    Pausing(u64),
    Following(Woken, u64),
}

struct Schedule {
    random: u64,
    server: Server,
    processes: [Process; 2],
    /// Each but the one that goes on just now: callers, and then what goes on behind those that are done.
    running: Vec<Option<Running>>,
    begun: Instant,
    fulfilled: HashSet<u64>,
    /// The token of an old item that was stored again, and until when no maker may be called while it is there.
    rest: Option<(u64, u64)>,
    /// The token of the last value that was made anew.
    set_anew: u64,
    /// How often what this is about has happened: makers called, old values kept, errors raised, values returned, values stored
    /// behind, failures told behind, values set anew, values that came too late for that.
    counts: [usize; 8],
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let processes = [Process::new(), Process::new()];
        let begun = processes[0].now;
        let mut schedule = Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            server: Server::default(),
            processes,
            running: Vec::new(),
            begun,
            fulfilled: HashSet::new(),
            rest: None,
            set_anew: 0,
            counts: [0; 8],
        };
        for number in 0..CALLERS {
            let running = schedule.called(number);
            schedule.running.push(Some(running));
        }
        schedule
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn now(&self) -> Instant {
        self.begun + Duration::from_millis(self.server.now)
    }

    fn called(&mut self, number: usize) -> Running {
        let (now, chance) = (self.now(), self.chance(1 << 40));
        let terms = Terms::new(6, 4, 2, 2, None).unwrap().stale_on_error(RETRY_AFTER as i64).unwrap();
        let terms = match self.chance(4) {
            0 => terms,
            timeout => terms.behind("soft_timeout", (timeout / 3) as f64 / 2.0, Behind::Can).unwrap(),
        };
        let flights = self.processes[number % 2].flights.clone();
        let machine = GetOrSet::new(flights, flight_key("key"), number, terms, chance, now);
        let mut caller = Caller { machine, now };
        let is_anew = self.chance(16) == 0;
        let first = if is_anew { caller.machine.begin_anew() } else { caller.machine.begin(now) };
        Running {
            caller,
            at: Doing::Step(first),
            win: None,
            is_anew,
            has_set: false,
            beside_old: false,
            has_failed: false,
            is_behind: false,
        }
    }

    fn run(&mut self) {
        for _ in 0..ACTIONS {
            match self.chance(12) {
                0..=3 => self.server.now += self.chance(150),
                4 => self.disturb(),
                _ => {
                    let number = self.chance(self.running.len() as u64) as usize;
                    self.go_on(number);
                }
            }
        }
    }

    /// What others do to the item.
    fn disturb(&mut self) {
        match self.chance(40) {
            0 => self.server.item = None,
            1 => self.server.mark_stale(),
            _ => {}
        }
    }

    fn go_on(&mut self, number: usize) {
        let Some(mut running) = self.running[number].take() else { return };
        let (now, is_over) = (self.server.now, |until: &u64| *until <= self.server.now);
        let outcome = match &running.at {
            Doing::Making(until) | Doing::Pausing(until) if !is_over(until) => None,
            Doing::Following(woken, until) if !woken.0.get() && !is_over(until) => None,
            Doing::Making(_) => Some(self.made(&mut running)),
            Doing::MakingWithin(until, within) if !is_over(until.min(within)) => None,
            Doing::MakingWithin(until, within) if until <= within => Some(self.made(&mut running)),
            Doing::MakingWithin(..) => Some(StepOutcome::Late),
            Doing::Late(until) => {
                let again = match number < CALLERS {
                    true => self.called(number),
                    false => unreachable!("only callers are late"),
                };
                running.at = Doing::Making(*until);
                running.is_behind = true;
                self.running.push(Some(running));
                self.running[number] = Some(again);
                return;
            }
            Doing::Pausing(_) | Doing::Following(..) => Some(StepOutcome::Done),
            Doing::Step(Step::Pause(time)) => {
                running.at = Doing::Pausing(now + time.as_millis() as u64 + 1);
                None
            }
            Doing::Step(Step::Follow(time)) => {
                let (woken, until) = (Woken::default(), now + time.as_millis() as u64 + 1);
                match running.caller.machine.follow(woken.clone()) {
                    true => {
                        running.at = Doing::Following(woken, until);
                        None
                    }
                    false => Some(StepOutcome::Done),
                }
            }
            Doing::Step(Step::Make) => {
                self.check_make(&running);
                running.at = Doing::Making(now + self.chance(1500));
                None
            }
            Doing::Step(Step::MakeWithin(within)) => {
                self.check_make(&running);
                assert!(running.beside_old, "without an old value it waits");
                let within = now + within.as_millis() as u64;
                running.at = Doing::MakingWithin(now + self.chance(1500), within);
                None
            }
            Doing::Step(Step::Return(_) | Step::Raise(_) | Step::Refuse(_)) if number >= CALLERS => {
                assert!(!matches!(running.at, Doing::Step(Step::Raise(_))), "nobody is there to whom it is raised");
                self.running.swap_remove(number);
                return;
            }
            Doing::Step(Step::Return(_) | Step::Raise(_) | Step::Refuse(_)) => {
                self.check_end(running);
                self.running[number] = Some(self.called(number));
                return;
            }
            Doing::Step(_) => Some(self.carry_out(&mut running)),
        };
        if let Some(outcome) = outcome {
            running.at = self.next(&mut running, outcome);
        }
        self.running[number] = Some(running);
    }

    fn next(&mut self, running: &mut Running, outcome: StepOutcome<Texts>) -> Doing {
        let until = match running.at {
            Doing::MakingWithin(until, _) => until,
            _ => 0,
        };
        let step = running.caller.machine.next(outcome, self.now());
        if running.caller.machine.suppressed().is_some() && running.is_behind {
            self.counts[5] += 1;
        }
        match step {
            Step::ReturnOld => Doing::Late(until),
            step => Doing::Step(step),
        }
    }

    fn made(&mut self, running: &mut Running) -> StepOutcome<Texts> {
        running.has_failed = self.chance(2) > 0;
        match running.has_failed {
            true => StepOutcome::Failed { error: "no database", is_outage: false },
            false if running.is_anew => StepOutcome::Value("made anew"),
            false => StepOutcome::Value("made"),
        }
    }

    fn carry_out(&mut self, running: &mut Running) -> StepOutcome<Texts> {
        let Doing::Step(step) = &running.at else { unreachable!("it is to carry out a step") };
        let outage = self.chance(8);
        let (is_leased, is_resting) = (self.is_leased(), self.is_resting());
        let server = &mut self.server;
        let outcome = match step {
            Step::Ask(Request::Lease { lease, recache }) => {
                let found = server.lease(*lease, *recache);
                running.win = found.win();
                assert!(!(is_leased && running.win.is_some()), "another caller has the lease, and makes the value");
                assert!(!(is_resting && running.win.is_some()), "a maker may be called before retry_after is over");
                running.beside_old = running.win.is_some() && found.value.is_some();
                StepOutcome::Found(found)
            }
            Step::Store { cas, ttl } if outage != 0 => {
                let value = running.caller.machine.value().copied().unwrap();
                assert!(!running.is_anew, "it has no lease");
                let stored = server.store(*cas, value, *ttl);
                assert!(!(stored && *cas < self.set_anew), "an older maker's value replaces one that was made anew");
                self.counts[7] += usize::from(!stored && *cas < self.set_anew);
                assert!(!stored || self.fulfilled.insert(*cas), "two stores of one lease");
                self.counts[4] += usize::from(stored && running.is_behind && !running.has_failed);
                if stored && running.has_failed {
                    self.rest = Some((server.cas, server.now + RETRY_AFTER * 1000));
                    self.counts[1] += 1;
                }
                StepOutcome::Stored(stored)
            }
            Step::Set { ttl } => {
                assert!(
                    running.is_anew && !running.has_failed && !running.has_set,
                    "it is set once, by who made it anew"
                );
                running.has_set = true;
                if outage == 0 {
                    return StepOutcome::Failed { error: "down", is_outage: true };
                }
                server.set("made anew", *ttl);
                self.set_anew = server.cas;
                self.counts[6] += 1;
                StepOutcome::Stored(true)
            }
            Step::GiveBack(Request::GiveBack(win)) if outage != 0 => {
                server.give_back(*win);
                StepOutcome::Done
            }
            Step::Share => StepOutcome::Shared(("leader's", running.caller.machine.value().copied().unwrap())),
            Step::Copy((_, value)) => StepOutcome::Value(*value),
            _ => return StepOutcome::Failed { error: "down", is_outage: true },
        };
        // The answer of a server that has carried it out may be lost, too.
        match (outage, step) {
            (1, Step::Store { .. } | Step::Set { .. } | Step::GiveBack(_)) => {
                StepOutcome::Failed { error: "down", is_outage: true }
            }
            _ => outcome,
        }
    }

    fn check_make(&mut self, running: &Running) {
        self.counts[0] += 1;
        assert!(running.win.is_some() != running.is_anew, "whoever makes a value has won, or makes it anew");
    }

    /// Whether another caller has won what is there, and makes the value, is about to, or stores it.
    fn is_leased(&mut self) -> bool {
        let has_more_to_do = |at: &Doing| {
            matches!(
                at,
                Doing::Making(_)
                    | Doing::MakingWithin(..)
                    | Doing::Late(_)
                    | Doing::Step(Step::Share | Step::Make | Step::MakeWithin(_) | Step::Store { .. })
            )
        };
        let others = self.running.iter().flatten().filter(|other| has_more_to_do(&other.at));
        let wins: Vec<Win> = others.filter_map(|other| other.win).collect();
        wins.iter().any(|win| self.server.has(win.cas))
    }

    /// Whether what is there was stored again after a failure, and nobody is to try yet.
    fn is_resting(&mut self) -> bool {
        self.rest.is_some_and(|(cas, until)| self.server.has(cas) && self.server.now < until)
    }

    fn check_end(&mut self, running: Running) {
        let Doing::Step(end) = &running.at else { unreachable!("it is over") };
        let raises = matches!(end, Step::Raise("no database"));
        if running.is_anew {
            assert!(raises == running.has_failed && running.has_set != running.has_failed, "what its maker did counts");
            assert!(matches!(end, Step::Return("made anew") | Step::Raise(_)), "it never returns what others made");
        }
        assert!(!(raises && running.has_failed && running.beside_old), "raised beside an old value");
        self.counts[2] += usize::from(raises);
        self.counts[3] += usize::from(matches!(end, Step::Return(_)));
    }
}

#[test]
fn makers_that_fail_are_called_one_at_a_time_and_seldom() {
    let schedules = std::env::var("PINYON_SCHEDULES").ok().and_then(|number| number.parse().ok()).unwrap_or(300);
    let mut all = [0; 8];
    for seed in 0..schedules {
        let mut schedule = Schedule::new(seed);
        schedule.run();
        all.iter_mut().zip(schedule.counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(all.iter().all(|count| *count as u64 > schedules), "the schedules show little: {all:?}");
}
