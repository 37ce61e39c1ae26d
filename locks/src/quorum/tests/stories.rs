//! What happens in turn, in worlds without chance.

use std::time::Duration;

use super::world::{Data, World, LONGEST_TTL};

const STEP: Duration = Duration::from_millis(20);

/// A world whose servers vote, with all clients connected.
pub(super) fn calm(clients: usize, skews: &[u64]) -> World {
    let mut world = World::new(clients, skews);
    world.pass(2 * LONGEST_TTL);
    world.connect_all();
    world.flow();
    world
}

/// Lets time pass, in which everything arrives at once.
fn live(world: &mut World, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        world.pass(STEP);
        (0..world.clients.len()).for_each(|client| world.wake(client));
        world.connect_all();
        world.flow();
    }
}

fn take(world: &mut World, client: usize, ttl: u64) -> u64 {
    let waiter = world.lock(client, 1, "a", ttl, Some(3000));
    world.flow();
    assert!(world.is_held(client, waiter), "nothing is in the way");
    waiter
}

/// Everything arrives between a client and these servers.
fn flow_between(world: &mut World, client: usize, servers: &[usize]) {
    for _ in 0..4 {
        for server in servers {
            world.serve_all(client, *server);
            while world.hear(client, *server) {}
        }
    }
}

/// The two clients have the votes of two servers each, and the fifth is down.
#[test]
pub(super) fn split_votes_are_resolved() {
    let mut world = calm(2, &[0; 5]);
    world.stop(4);
    let long = Some(600_000);
    let both = [world.lock(0, 1, "a", 400, long), world.lock(1, 1, "a", 400, long)];
    for (client, servers) in [(0, [0, 1]), (1, [2, 3]), (0, [2, 3]), (1, [0, 1])] {
        servers.into_iter().for_each(|server| world.serve_all(client, server));
    }
    live(&mut world, Duration::from_secs(2));
    let held = both.map(|waiter| (0..2).any(|client| world.is_held(client, waiter)));
    assert_ne!(held[0], held[1], "one of them has it: {held:?}");
}

#[test]
pub(super) fn servers_may_be_restarted_in_turn() {
    let mut world = calm(1, &[0; 5]);
    let held = take(&mut world, 0, 400);
    for server in 0..5 {
        world.stop(server);
        live(&mut world, STEP);
        world.start(server, Data::None);
        live(&mut world, 2 * LONGEST_TTL);
    }
    assert!(world.is_held(0, held), "a majority had it at any time");
    world.end();
}

/// The only server that two majorities share has lost its counter, and its clock is an hour behind the other's.
#[test]
pub(super) fn tokens_outlive_a_counter_that_was_lost() {
    let mut world = calm(2, &[3_600_000, 0, 0]);
    // Nothing is excused.
    world.spread = Duration::ZERO;
    world.stop(2);
    let first = take(&mut world, 0, 400);
    world.release(0, first);
    world.flow();
    world.stop(1);
    world.start(1, Data::None);
    world.start(2, Data::All);
    live(&mut world, 2 * LONGEST_TTL);
    world.stop(0);
    take(&mut world, 1, 400);
    assert_eq!(world.granted, 2);
}

#[test]
fn a_dead_minority_is_not_waited_for() {
    let mut world = calm(2, &[0; 5]);
    world.stop(0);
    world.stop(3);
    let held = take(&mut world, 0, 400);
    world.release(0, held);
    world.flow();
    assert!(world.clients[0].ending.is_empty(), "a majority has answered");
    let held = take(&mut world, 1, 400);
    live(&mut world, Duration::from_secs(5));
    assert!(world.is_held(1, held), "a majority renews it");
    world.stop(1);
    live(&mut world, Duration::from_secs(1));
    assert_eq!((world.is_held(1, held), world.lost), (false, 1));
    world.end();
}

/// Both servers of a majority refuse connections for longer than an answer may take.
#[test]
fn a_majority_that_is_away_is_waited_for() {
    let mut world = calm(2, &[0; 3]);
    take(&mut world, 1, 1000);
    let queued = world.lock(0, 1, "a", 1000, Some(9000));
    world.flow();
    (1..3).for_each(|server| world.stop(server));
    let new = world.lock(0, 2, "b", 1000, Some(9000));
    for _ in 0..6 {
        live(&mut world, Duration::from_millis(500));
        (1..3).for_each(|server| world.connect(0, server));
    }
    let waiting = &world.clients[0].waiting;
    assert!(waiting.contains_key(&queued) && waiting.contains_key(&new), "their time is not up");
    (1..3).for_each(|server| world.start(server, Data::All));
    live(&mut world, 2 * LONGEST_TTL);
    assert!(world.is_held(0, queued) && world.is_held(0, new));
    world.end();
}

/// The vote of servers that have just been started comes when the time is up.
#[test]
fn what_may_wait_for_the_vote_of_fresh_servers_gets_it() {
    let mut world = World::new(2, &[0; 3]);
    world.connect_all();
    let patient = [0, 1].map(|client| world.lock(client, 1, "a", 400, Some(1000)));
    let short = world.lock(0, 2, "b", 400, Some(900));
    world.flow();
    live(&mut world, Duration::from_millis(1100));
    assert!(!world.clients[0].waiting.contains_key(&short), "its time is over before they vote");
    let first = usize::from(!world.is_held(0, patient[0]));
    assert!(world.is_held(first, patient[first]));
    world.release(first, patient[first]);
    world.flow();
    assert!(world.is_held(1 - first, patient[1 - first]), "it has waited, too");
    world.end();
}

/// Two servers have not answered yet when the lock is released.
#[test]
pub(super) fn what_is_released_is_free_everywhere() {
    let mut world = calm(1, &[0; 5]);
    let held = world.lock(0, 1, "a", 1000, Some(3000));
    flow_between(&mut world, 0, &[0, 1, 2]);
    assert!(world.is_held(0, held));
    world.release(0, held);
    world.flow();
    let name = "client0".into();
    assert_eq!(world.servers.iter().map(|server| server.model.holding_of(&name)).sum::<usize>(), 0);
}

/// The holder does not know yet that one of its two servers has forgotten its lock.
#[test]
pub(super) fn a_server_that_has_forgotten_a_lock_does_not_vote_for_another() {
    let mut world = calm(2, &[0; 3]);
    let held = world.lock(0, 1, "a", 1000, Some(3000));
    flow_between(&mut world, 0, &[0, 1]);
    assert!(world.is_held(0, held));
    world.stop(1);
    world.start(1, Data::None);
    world.connect(1, 1);
    let other = world.lock(1, 1, "a", 1000, Some(3000));
    flow_between(&mut world, 1, &[0, 1, 2]);
    assert!(world.is_held(0, held) && !world.is_held(1, other));
    world.end();
}

/// The client has been granted one vote, another grant is on its way, and the third server has not been asked yet.
#[test]
fn a_client_that_is_closed_gives_up_what_it_waits_for_on_all_servers() {
    let mut world = calm(2, &[0; 3]);
    world.lock(0, 1, "a", 400, Some(3000));
    flow_between(&mut world, 0, &[0]);
    world.serve_all(0, 1);
    world.close(0);
    assert!(world.clients[0].waiting.is_empty(), "its caller has been told");
    (0..3).for_each(|server| world.serve_all(0, server));
    world.stop(2);
    take(&mut world, 1, 400);
}

#[test]
fn a_client_that_is_closed_does_not_release_what_it_holds() {
    let mut world = calm(2, &[0; 3]);
    take(&mut world, 0, 400);
    world.close(0);
    (0..3).for_each(|server| world.serve_all(0, server));
    let waiter = world.lock(1, 1, "a", 400, Some(3000));
    world.flow();
    assert!(!world.is_held(1, waiter), "it may still rely on it");
    live(&mut world, Duration::from_secs(1));
    assert!(world.is_held(1, waiter), "its ttl has passed");
}
