//! Threads that borrow from one pool at the same time, in many orders.

use std::sync::atomic::{AtomicUsize, Ordering};

use pinyon_net::sync::interleaved::{play, spawn, yield_now};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// The loan of a caller that waits for its turn, if it has to.
fn borrow(pool: &Arc<Pool>) -> Loan {
    match lend(pool, Instant::now()) {
        Got::Loan(loan) => loan,
        Got::Turn(turn) => {
            turn.wait(Instant::now() + HOUR);
            turn.take().expect("the bell rings for a loan")
        }
    }
}

/// Threads that borrow from a pool of this size, twice each, and check that never too many have a loan. `leaves`: whether a
/// thread leaves the queue, as one that is interrupted does, and only then borrows.
fn share(limit: usize, leaves: [bool; 3]) {
    let (pool, lent) = (Arc::new(Pool::new(limit)), Arc::new(AtomicUsize::new(0)));
    let threads = leaves.map(|leaves| {
        let (pool, lent) = (pool.clone(), lent.clone());
        spawn(move || {
            for _ in 0..2 {
                if leaves {
                    drop(lend(&pool, Instant::now()));
                }
                let loan = borrow(&pool);
                assert!(lent.fetch_add(1, Ordering::Relaxed) < limit, "no more are lent than the pool has");
                yield_now();
                lent.fetch_sub(1, Ordering::Relaxed);
                drop(loan);
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(pool.open_and_idle(), (0, 0));
    let sessions = pool.lock();
    assert_eq!((sessions.fresh, sessions.waiting.len()), (0, 0));
}

#[test]
fn every_thread_that_waits_gets_a_loan() {
    play(|| share(1, [false; 3]));
    play(|| share(2, [false; 3]));
}

#[test]
fn what_is_handed_to_a_caller_that_leaves_goes_to_the_next() {
    play(|| share(1, [true, false, true]));
}

#[test]
fn callers_share_the_loans_when_further_ones_are_refused() {
    play(|| {
        let pool = Arc::new(Pool::new(2));
        let threads = [true, false, false].map(|is_refused| {
            let pool = pool.clone();
            spawn(move || {
                let loan = borrow(&pool);
                if is_refused {
                    pool.refused("no more", Instant::now());
                }
                drop(loan);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.open_and_idle(), (0, 0));
        assert!(pool.lock().waiting.is_empty());
    });
}
