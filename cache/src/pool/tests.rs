//! Which sessions a pool lends, and when it lets callers open further ones.

#[cfg(feature = "interleavings")]
mod interleavings;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// What a caller gets.
enum Got {
    Loan(Loan),
    Turn(Turn),
}

fn lend(pool: &Arc<Pool>, now: Instant) -> Got {
    match pool.lend(now) {
        Offer::Loan(loan, _) => Got::Loan(loan),
        Offer::Wait(turn) => Got::Turn(turn),
    }
}

fn loan(pool: &Arc<Pool>, now: Instant) -> Loan {
    match lend(pool, now) {
        Got::Loan(loan) => loan,
        Got::Turn(_) => panic!("the caller waits"),
    }
}

fn turn(pool: &Arc<Pool>, now: Instant) -> Turn {
    match lend(pool, now) {
        Got::Turn(turn) => turn,
        Got::Loan(_) => panic!("the caller need not wait"),
    }
}

/// A loan whose session has served before.
fn proven(pool: &Arc<Pool>, now: Instant) -> Loan {
    let mut loan = loan(pool, now);
    loan.is_fresh = false;
    pool.lock().fresh -= 1;
    loan
}

#[test]
fn after_a_refusal_callers_share_the_sessions_that_work() {
    let (pool, now) = (Arc::new(Pool::new(8)), Instant::now());
    let works = proven(&pool, now);
    let refused = loan(&pool, now);
    assert!(pool.refused("no more", now));
    drop(refused);
    let turn = turn(&pool, now);
    assert!(turn.take().is_none());
    drop(works); // it broke, so no session works any more
    assert!(turn.take().is_some_and(|loan| loan.is_fresh), "somebody must try");
}

#[test]
fn it_grows_again_after_a_pause() {
    let (pool, now) = (Arc::new(Pool::new(8)), Instant::now());
    let _works = proven(&pool, now);
    drop(loan(&pool, now));
    pool.refused("no more", now);
    drop(turn(&pool, now));
    let later = pool.pauses_until(now).unwrap();
    assert!(loan(&pool, later).is_fresh);
}

#[test]
fn without_any_session_one_caller_tries_and_the_others_wait() {
    let (pool, now) = (Arc::new(Pool::new(8)), Instant::now());
    let refused = loan(&pool, now);
    pool.refused("no more", now);
    let turns = [turn(&pool, now), turn(&pool, now)];
    drop(refused);
    let next = turns[0].take().expect("the first in the queue is next to try");
    assert!(next.is_fresh && turns[1].take().is_none());
    drop(next);
    assert!(turns[1].take().is_some());
}

#[test]
fn the_pause_is_short_while_there_is_no_session_at_all() {
    let (pool, mut now) = (Arc::new(Pool::new(8)), Instant::now());
    for _ in 0..20 {
        drop(loan(&pool, now));
        pool.refused("no more", now);
        let until = pool.pauses_until(now).unwrap();
        assert!(until <= now + SECOND / 10);
        now = until;
    }
}

#[test]
fn a_pool_with_several_sessions_makes_room_for_another_process() {
    let (pool, now) = (Arc::new(Pool::new(8)), Instant::now());
    let loans = [proven(&pool, now), proven(&pool, now)];
    pool.refused("no more", now);
    assert!(pool.lock().makes_room);
    drop(loans);
    let (pool, now) = (Arc::new(Pool::new(8)), Instant::now());
    let _only = proven(&pool, now);
    pool.refused("no more", now);
    assert!(!pool.lock().makes_room);
}

#[test]
fn a_caller_that_leaves_the_queue_does_not_keep_what_it_was_given() {
    let (pool, now) = (Arc::new(Pool::new(1)), Instant::now());
    let first = loan(&pool, now);
    let [second, third] = [turn(&pool, now), turn(&pool, now)];
    drop(first);
    drop(second);
    assert!(third.take().is_some());
    assert_eq!(pool.open_and_idle(), (0, 0));
}
