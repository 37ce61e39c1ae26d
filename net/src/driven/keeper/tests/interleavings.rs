//! The keeper's thread and those that plan for it, in many orders. No wait ends by itself here: what is not woken sleeps on.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::*;
use crate::sync::interleaved::{play, spawn};

/// The keeper's thread, with a machine that tells how many turns it has had, and what it waits for.
fn keep(plan: &Plan, turns: &AtomicUsize) {
    while plan.begin() {
        turns.fetch_add(1, Ordering::Relaxed);
        plan.sleep();
    }
}

fn keeper() -> (Keeper, Arc<AtomicUsize>, sync::interleaved::JoinHandle<()>) {
    let (plan, turns) = (Arc::new(Plan::new()), Arc::new(AtomicUsize::new(0)));
    let thread = {
        let (plan, turns) = (plan.clone(), turns.clone());
        spawn(move || keep(&plan, &turns))
    };
    (Keeper(plan), turns, thread)
}

#[test]
fn a_keeper_that_is_dropped_ends_its_thread() {
    play(|| {
        let (keeper, _, thread) = keeper();
        keeper.plan(None);
        drop(keeper);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_due_earlier_wakes_the_keeper_whenever_it_is_planned() {
    play(|| {
        let (keeper, turns, thread) = keeper();
        let keeper = Arc::new(keeper);
        let planning = [(); 2].map(|()| {
            let (keeper, turns) = (keeper.clone(), turns.clone());
            spawn(move || {
                let before = turns.load(Ordering::Relaxed);
                keeper.plan(Some(Instant::now()));
                while turns.load(Ordering::Relaxed) == before {
                    sync::interleaved::yield_now();
                }
            })
        });
        planning.into_iter().for_each(|thread| thread.join().unwrap());
        drop(keeper);
        thread.join().unwrap();
    });
}
