//! Random and exhaustive schedules.
//!
//! `PINYON_SCHEDULES=100000 cargo test --release -p pinyon-locks quorum` runs more of them. A failing schedule prints its
//! seed; `PINYON_SCHEDULE=<seed>` replays it and logs every step.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use super::world::{Data, World};
use crate::tests::chance::{Chance, Odometer, Seed};

/// The faults of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Faults {
    /// Messages are lost, late and repeated.
    Wires,
    /// Servers end, too, and start with their data or without.
    Servers,
    /// Servers' clocks jump, too.
    Clocks,
}

const SETS: [&str; 4] = ["a", "b", "ab", "a"];

fn step(world: &mut World, chance: &mut impl Chance, faults: Faults) {
    let (client, server) = (chance.below(world.clients.len()), chance.below(world.servers.len()));
    match chance.below(36) {
        0..=2 => {
            let (owner, set) = (chance.below(3) as u64, SETS[chance.below(SETS.len())]);
            if world.clients[client].waiting.values().any(|wanted| wanted.owner == owner) {
                return;
            }
            let ttl = [400, 401, 1000, 61][chance.below(4)];
            let wait = [None, Some(0), Some(300), Some(3000)][chance.below(4)];
            world.lock(client, owner, set, ttl, wait);
        }
        3..=4 => {
            let Some(held) = any(world.clients[client].holding.keys(), chance) else { return };
            match chance.below(5) {
                0 => world.extend(client, held),
                _ => world.release(client, held),
            }
        }
        5 => {
            let of = &world.clients[client];
            let Some(waiter) = any(of.waiting.keys().chain(of.holding.keys()), chance) else { return };
            world.cancel(client, waiter);
        }
        6..=11 => drop((0..3).map(|at| world.serve(client, (server + at) % 5 % world.servers.len())).count()),
        12..=17 => drop((0..3).map(|at| world.hear(client, (server + at) % 5 % world.servers.len())).count()),
        18 => world.flow(),
        19..=21 => world.pass(Duration::from_millis([0, 1, 5, 20, 50, 200, 450, 1100][chance.below(8)])),
        22..=25 => world.wake(client),
        26 if world.clients[client].members[server].is_up() => {
            world.cut(client, server, chance.below(3), chance.below(2) == 0);
        }
        27..=28 if world.clients[client].members[server].is_up() => {}
        26..=28 => world.connect(client, server),
        29 => world.connect_all(),
        30 => drop(world.serve_astray(client, server)),
        31 if faults >= Faults::Servers => match world.servers[server].up {
            // Tokens are safe as long as a majority has its data, or is told of the others'.
            true if world.may_lose(server) => world.stop(server),
            true => {}
            false => world.start(server, [Data::All, Data::Saved, Data::None][chance.below(3)]),
        },
        32 if faults >= Faults::Servers => world.save(server),
        33 if faults >= Faults::Clocks && chance.below(4) == 0 => {
            world.set_clock(server, Duration::from_millis([100, 5000][chance.below(2)]));
        }
        _ => {}
    }
}

fn any<'n>(numbers: impl Iterator<Item = &'n u64>, chance: &mut impl Chance) -> Option<u64> {
    let numbers: Vec<u64> = numbers.copied().collect();
    (!numbers.is_empty()).then(|| numbers[chance.below(numbers.len())])
}

/// Runs one schedule. Returns how many locks were granted.
pub(super) fn run(seed: u64, show: bool) -> usize {
    let mut chance = Seed(seed);
    let skews: Vec<u64> =
        (0..[3, 5][chance.below(2)]).map(|_| if seed % 8 < 4 { 0 } else { [0, 1, 60_000][chance.below(3)] }).collect();
    let mut world = World::new(1 + chance.below(3), &skews);
    world.log = show.then(Vec::new);
    let faults = [Faults::Wires, Faults::Servers, Faults::Servers, Faults::Clocks][(seed % 4) as usize];
    let ended = catch_unwind(AssertUnwindSafe(|| {
        world.connect_all();
        if chance.below(4) > 0 {
            world.pass(Duration::from_secs(2));
        }
        for _ in 0..300 + chance.below(300) {
            step(&mut world, &mut chance, faults);
        }
        world.end();
    }));
    if let Some(log) = &world.log {
        println!("{}", log.join("\n"));
    }
    if let Err(panic) = ended {
        if show || super::breaking::is_whole() {
            println!(
                "to see it again: PINYON_SCHEDULE={seed} cargo test -p pinyon-locks --lib two_never_hold -- --nocapture"
            );
        }
        std::panic::resume_unwind(panic);
    }
    world.granted
}

pub(super) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_happens_two_never_hold_a_lock_and_tokens_grow() {
    if let Some(seed) = setting("PINYON_SCHEDULE") {
        run(seed, true);
        return;
    }
    let granted: usize = (0..setting("PINYON_SCHEDULES").unwrap_or(400)).map(|seed| run(seed, false)).sum();
    assert!(granted > 400, "hardly anything was granted: {granted}");
}

/// Two clients that want the same lock of three servers, one cut, and every possible order.
#[test]
fn every_order_of_few_steps_is_safe() {
    let depth = setting("PINYON_DEPTH").unwrap_or(5);
    let mut odometer = Odometer::default();
    let mut schedules = 0;
    loop {
        let mut world = World::new(2, &[0, 0, 60_000]);
        world.pass(Duration::from_secs(2));
        world.connect_all();
        world.flow();
        let mut cut = false;
        let first = world.lock(0, 1, "a", 401, Some(3000));
        world.lock(1, 1, "a", 401, Some(3000));
        for _ in 0..depth {
            match odometer.below(6) {
                // The first client has two servers near, and the second one the other way round.
                0 => [(0, 0), (0, 1), (1, 2)].into_iter().for_each(|(client, server)| world.serve_all(client, server)),
                1 => [(1, 1), (1, 0), (0, 2)].into_iter().for_each(|(client, server)| world.serve_all(client, server)),
                2 => drop((0..3).map(|server| world.hear(0, server)).count()),
                3 => drop((0..3).map(|server| world.hear(1, server)).count()),
                4 if !std::mem::replace(&mut cut, true) => {
                    let server = odometer.below(3);
                    world.cut(0, server, odometer.below(2), odometer.below(2) == 0);
                    world.connect(0, server);
                }
                4 => match world.is_held(0, first) {
                    true => world.release(0, first),
                    false => drop((0..3).map(|server| world.serve_astray(0, server)).count()),
                },
                5 => {
                    world.pass(Duration::from_millis(150));
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
