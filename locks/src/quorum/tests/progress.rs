//! Split votes are decided by order: within a few rounds somebody has the lock, however many contend.
//!
//! In a round, whatever is under way at its beginning arrives, in any order. No time passes and nothing is due, so nothing
//! can be decided by luck or by a clock.

use std::collections::BTreeSet;

use super::schedules::setting;
use super::stories::calm;
use super::world::World;
use crate::tests::chance::{Chance, Odometer, Seed};

/// Ask, tell the holder, give way, grant, raise the token, answer.
const ROUNDS: usize = 6;
const LONG: Option<u64> = Some(600_000);

/// The owners of those that wait, and of those that do not.
const PATIENT: u64 = 1;
const IMPATIENT: u64 = 2;

/// Lets everything arrive that is under way. The frozen servers read nothing.
fn round(world: &mut World, frozen: &BTreeSet<usize>, chance: &mut impl Chance) {
    let mut under_way = Vec::new();
    for (client, of) in world.clients.iter().enumerate() {
        for (server, member) in of.members.iter().enumerate() {
            let read = if frozen.contains(&server) { 0 } else { member.to_server.len() };
            under_way.extend(std::iter::repeat_n((client, server, true), read));
            under_way.extend(std::iter::repeat_n((client, server, false), member.to_client.len()));
        }
    }
    while !under_way.is_empty() {
        let (client, server, is_call) = under_way.swap_remove(chance.below(under_way.len()));
        match is_call {
            true => world.serve(client, server),
            false => world.hear(client, server),
        };
    }
}

fn release_all(world: &mut World) {
    for client in 0..world.clients.len() {
        while let Some(held) = world.clients[client].holding.keys().next().copied() {
            world.release(client, held);
        }
    }
}

/// Lets all who wait have their turn. Returns the most rounds that one of them took.
fn decide(world: &mut World, frozen: &BTreeSet<usize>, chance: &mut impl Chance) -> usize {
    let mut most = 0;
    let anyone_waits =
        |world: &World| world.clients.iter().any(|of| of.waiting.values().any(|wanted| wanted.owner == PATIENT));
    while anyone_waits(world) {
        release_all(world);
        let before = world.granted;
        let mut rounds = 0;
        while world.granted == before && anyone_waits(world) {
            assert!(rounds < ROUNDS, "nobody has a majority after {rounds} rounds");
            round(world, frozen, chance);
            rounds += 1;
        }
        most = most.max(rounds);
    }
    release_all(world);
    most
}

/// Many clients ask, are granted and release in whatever order, while some servers of a minority are away. Returns how
/// many rounds the slowest decision took after that.
fn contend(seed: u64) -> usize {
    let mut chance = Seed(seed);
    let servers = [3, 5][chance.below(2)];
    let clients = 2 + chance.below(9);
    let mut world = calm(clients, &vec![0; servers]);
    let mut frozen = BTreeSet::new();
    for server in 0..chance.below(servers / 2 + 1) {
        match chance.below(2) {
            0 => world.stop(server),
            _ => drop(frozen.insert(server)),
        }
    }
    let sets = [&["a"][..], &["a", "a", "ab", "b"]][chance.below(2)];
    for _ in 0..chance.below(60) * clients {
        let (client, server) = (chance.below(clients), chance.below(servers));
        match chance.below(8) {
            0 if world.clients[client].waiting.is_empty() && world.clients[client].holding.is_empty() => {
                // Now and then one that does not wait.
                let (owner, wait) = if chance.below(8) == 0 { (IMPATIENT, None) } else { (PATIENT, LONG) };
                world.lock(client, owner, sets[chance.below(sets.len())], 1000, wait);
            }
            1..=3 if !frozen.contains(&server) => drop(world.serve(client, server)),
            4..=6 => drop(world.hear(client, server)),
            7 => {
                let held = world.clients[client].holding.keys().next().copied();
                held.into_iter().for_each(|held| world.release(client, held));
            }
            _ => {}
        }
    }
    let most = decide(&mut world, &frozen, &mut chance);
    world.end();
    most
}

#[test]
pub(super) fn whatever_happened_somebody_has_the_lock_within_a_few_rounds() {
    let seeds = setting("PINYON_SCHEDULES").unwrap_or(300);
    let most = (0..seeds).map(contend).max();
    assert_eq!(most, Some(ROUNDS), "the bound is not the least one");
}

/// Three clients ask three servers, each of which reads them in any order; some hear of it before others, and one server
/// may be dead.
#[test]
pub(super) fn in_every_order_of_asking_somebody_has_the_lock_within_a_few_rounds() {
    let mut odometer = Odometer::default();
    let mut orders = 0;
    loop {
        let mut world = calm(3, &[0; 3]);
        if let dead @ 0..=2 = odometer.below(4) {
            world.stop(dead);
        }
        (0..3).for_each(|client| {
            world.lock(client, PATIENT, "a", 1000, LONG);
        });
        for server in 0..3 {
            let mut left = vec![0, 1, 2];
            while !left.is_empty() {
                let client = left.remove(odometer.below(left.len()));
                world.serve_all(client, server);
            }
        }
        for client in 0..3 {
            let all = [0, 1, 2];
            all[..[0, 2, 3][odometer.below(3)]].iter().for_each(|server| while world.hear(client, *server) {});
        }
        decide(&mut world, &BTreeSet::new(), &mut Seed(orders));
        world.end();
        orders += 1;
        if !odometer.turn() {
            break;
        }
    }
    assert_eq!(orders, 4 * 6 * 6 * 6 * 27);
}
