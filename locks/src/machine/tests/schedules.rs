//! Random and exhaustive schedules.
//!
//! `PINYON_SCHEDULES=100000 cargo test --release -p pinyon-locks schedules` runs more of them. A failing schedule prints
//! its seed; `PINYON_SCHEDULE=<seed>` replays it and logs every step.
//!
//! They run the machine against the model, with cuts, late calls, names released by force, lost data and clocks that jump.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use super::faults::{Fault, Upgrades};
use super::world::World;
use crate::call::Mode;
use crate::machine::Fairness;
use crate::tests::chance::{Chance, Odometer, Seed};

const SETS: [&str; 7] = ["a", "b", "c", "ab", "bc", "ac", "abc"];
/// Capital letters are read.
const READ: [&str; 4] = ["A", "B", "aB", "AB"];
/// Digits are permits.
const SHARED: [&str; 10] = ["A", "a", "B", "AB", "Ab", "aB", "1", "2", "1A", "1b"];

/// A client asks for a lock, unless its owner waits for one.
fn want(world: &mut World, chance: &mut impl Chance, client: usize, sets: &[&str]) {
    let (owner, set) = (chance.below(3) as u64, sets[chance.below(sets.len())]);
    let busy = |(_, wanted): (&u64, &super::world::Wanted)| wanted.owner == owner;
    let of = &world.clients[client];
    if of.waiting.iter().any(busy) || of.parked.iter().any(busy) {
        return;
    }
    let ttl = [400, 401, 1000, 60][chance.below(4)];
    let wait = [None, Some(0), Some(300), Some(3000)][chance.below(4)];
    world.lock(client, owner, set, ttl, wait);
}

/// A client begins to upgrade what it reads. By single steps alone, few locks are held for long enough.
fn upgrade(world: &mut World, chance: &mut impl Chance) {
    let client = chance.below(world.clients.len());
    if world.clients[client].holding.is_empty() {
        want(world, chance, client, &READ);
    }
    while world.serve(client) && world.hear(client) {}
    if let Some(number) = any(world.clients[client].holding.keys(), chance) {
        world.change(client, number, Mode::Write, [0, 300, 3000][chance.below(3)]);
    }
}

/// One step of a world with faults. `gentle` leaves out the faults that excuse overlaps.
fn step(world: &mut World, chance: &mut impl Chance, gentle: bool, sets: &[&str]) {
    let client = chance.below(world.clients.len());
    match chance.below(if gentle { 25 } else { 28 }) {
        0..=2 => want(world, chance, client, sets),
        3..=5 => {
            let Some(number) = any(world.clients[client].holding.keys(), chance) else { return };
            let is_kept = world.clients[client].holding[&number].is_kept();
            match chance.below(16) {
                11.. if !is_kept => {
                    world.change(client, number, Mode::Write, [0, 300, 3000][chance.below(3)]);
                    // Otherwise few locks are held for long enough.
                    if chance.below(2) == 0 {
                        while world.serve(client) && world.hear(client) {}
                    }
                }
                7..=8 if !is_kept => world.change(client, number, Mode::Read, 0),
                9 => world.stop_changing(client, number),
                6 => world.hand_over(client, number),
                0 => world.extend(client, number),
                1 => world.park(client, number, [None, Some(100)][chance.below(2)]),
                2 => world.notify(client, number),
                _ => world.release(client, number),
            }
        }
        6 if chance.below(2) == 0 => {
            let (owner, tickets) = (10 + chance.below(3) as u64, world.ends.tickets.len());
            if tickets > 0 {
                // The same one again, now and then.
                world.adopt(client, owner, tickets - 1 - chance.below(tickets.min(2)));
            }
        }
        6 => {
            let of = &world.clients[client];
            let Some(number) = any(of.waiting.keys().chain(of.parked.keys()).chain(of.holding.keys()), chance) else {
                return;
            };
            world.cancel(client, number);
        }
        7..=10 => drop(world.serve(client)),
        11..=14 => drop(world.hear(client)),
        15..=16 => world.pass(Duration::from_millis([0, 1, 10, 50, 450, 3000][chance.below(6)])),
        17..=18 => world.wake(client),
        19 if world.clients[client].up => {
            let (arrive, astray, noticed) = (chance.below(3), chance.below(2) == 0, chance.below(2) == 0);
            world.cut(client, arrive, astray, noticed);
        }
        19..=20 if !world.clients[client].up => world.connect(client),
        21 => drop(world.serve_astray(client)),
        22..=23 => drop(world.refuse(client)),
        24 if chance.below(4) == 0 => world.force_release(["a", "b", "c", "1"][chance.below(4)]),
        25 => world.flush(),
        26 => world.delete(b"abc"[chance.below(3)]),
        27 => world.set_server_clock(Duration::from_secs(60)),
        _ => {}
    }
}

fn any<'n>(numbers: impl Iterator<Item = &'n u64>, chance: &mut impl Chance) -> Option<u64> {
    let numbers: Vec<u64> = numbers.copied().collect();
    (!numbers.is_empty()).then(|| numbers[chance.below(numbers.len())])
}

fn run(seed: u64, show: bool) -> (usize, Upgrades) {
    let mut chance = Seed(seed);
    let fairness = if seed % 4 == 3 { Fairness::Throughput } else { Fairness::Fifo };
    let mut world = World::new(1 + chance.below(3), fairness);
    world.log = show.then(Vec::new);
    let gentle = seed % 3 != 0;
    let sets = [&SHARED[..], &SHARED, &READ, &SETS, &SETS][(seed % 5) as usize];
    let upgrades = seed % 5 == 2;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for client in 0..world.clients.len() {
            world.connect(client);
        }
        for _ in 0..200 + chance.below(200) {
            if upgrades && chance.below(8) == 0 {
                upgrade(&mut world, &mut chance);
            }
            step(&mut world, &mut chance, gentle, sets);
        }
        world.end();
    }));
    if let Some(log) = &world.log {
        println!("{}", log.join("\n"));
    }
    if let Err(panic) = ended {
        println!(
            "to see it again: PINYON_SCHEDULE={seed} cargo test -p pinyon-locks --lib whatever_happens_nobody -- --nocapture"
        );
        std::panic::resume_unwind(panic);
    }
    (world.granted, world.upgrades)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_happens_nobody_believes_in_anothers_lock_and_nothing_is_left() {
    if let Some(seed) = setting("PINYON_SCHEDULE") {
        run(seed, true);
        return;
    }
    let runs = (0..setting("PINYON_SCHEDULES").unwrap_or(3000)).map(|seed| run(seed, false));
    let (mut granted, mut upgrades) = (0, Upgrades::default());
    for (more, of) in runs {
        granted += more;
        upgrades.add(&of);
    }
    let upgraded = upgrades.granted;
    assert!(granted > 1000 && upgraded > 100, "hardly anything was granted: {granted}, {upgraded} upgrades");
    for fault in [Fault::CutOff, Fault::Refused, Fault::Lost, Fault::Forced] {
        assert!(upgrades.met.get(&fault) > Some(&100), "hardly any upgrade met {fault:?}: {:?}", upgrades.met);
    }
    for fault in [Fault::CutOff, Fault::Refused] {
        let survived = upgrades.survived.get(&fault);
        assert!(survived > Some(&10), "hardly any upgrade survived {fault:?}: {:?}", upgrades.survived);
    }
}

/// Two clients that want the same lock, one cut, and every possible order.
#[test]
fn every_order_of_few_steps_is_safe() {
    let depth = setting("PINYON_DEPTH").unwrap_or(5);
    let mut odometer = Odometer::default();
    let mut schedules = 0;
    loop {
        let mut world = World::new(2, Fairness::Fifo);
        world.connect(0);
        world.connect(1);
        let mut cut = false;
        let first = world.lock(0, 1, "ab", 401, Some(3000));
        world.lock(1, 1, "b", 401, Some(3000));
        for _ in 0..depth {
            match odometer.below(7) {
                0 => drop(world.serve(0)),
                1 => drop(world.serve(1)),
                2 => drop(world.hear(0)),
                3 => drop(world.hear(1)),
                4 if !std::mem::replace(&mut cut, true) => {
                    world.cut(0, odometer.below(2), true, odometer.below(2) == 0);
                    world.connect(0);
                }
                5 => match first.filter(|first| world.clients[0].holding.contains_key(first)) {
                    Some(first) => world.release(0, first),
                    None => drop(world.serve_astray(0)),
                },
                6 => {
                    world.pass(Duration::from_millis(250));
                    world.wake(0);
                    world.wake(1);
                }
                _ => {}
            }
        }
        world.end();
        schedules += 1;
        if !odometer.turn() {
            break;
        }
    }
    assert!(schedules > 5_000, "{schedules}");
}

/// Two clients that read the same name, of which one or both are to write it, one cut, and every possible order.
#[test]
fn every_order_of_few_steps_upgrades_safely() {
    let depth = setting("PINYON_DEPTH").unwrap_or(4);
    let mut odometer = Odometer::default();
    let mut schedules = [0; 2];
    loop {
        let mut world = World::new(2, Fairness::Fifo);
        let held = [0, 1].map(|client| {
            world.connect(client);
            let number = world.lock(client, 1, "A", 401, Some(3000)).expect("it begins");
            while world.serve(client) && world.hear(client) {}
            number
        });
        let mut cut = false;
        world.change(0, held[0], Mode::Write, 100);
        for _ in 0..depth {
            match odometer.below(8) {
                0 => drop(world.serve(0)),
                1 => drop(world.serve(1)),
                2 => drop(world.hear(0)),
                3 => drop(world.hear(1)),
                4 if !std::mem::replace(&mut cut, true) => {
                    world.cut(0, odometer.below(2), true, odometer.below(2) == 0);
                    world.connect(0);
                }
                5 => match world.clients[1].holding.contains_key(&held[1]) {
                    true => world.release(1, held[1]),
                    false => drop(world.serve_astray(0)),
                },
                6 if world.clients[0].holding.contains_key(&held[0]) => {
                    let (mode, wait) = [(Mode::Read, 0), (Mode::Write, 0), (Mode::Write, 100)][odometer.below(3)];
                    world.change(0, held[0], mode, wait);
                }
                7 => {
                    world.pass(Duration::from_millis(110));
                    world.wake(0);
                    world.wake(1);
                }
                _ => {}
            }
        }
        world.end();
        schedules = [schedules[0] + 1, schedules[1] + world.upgrades.granted];
        if !odometer.turn() {
            break;
        }
    }
    assert!(schedules[0] > 5_000 && schedules[1] > 200, "{schedules:?}");
}
