//! Numbers for holders and waiters, unique among all threads and coroutines that the process ever has.

use std::sync::atomic::{AtomicU64, Ordering};

/// A new owner's number.
pub fn new_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number of the calling thread.
pub fn this_thread() -> u64 {
    thread_local!(static MINE: u64 = new_owner());
    MINE.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_number_that_no_other_gets() {
        let mine = this_thread();
        let other = std::thread::spawn(this_thread).join().unwrap();
        let coroutines = new_owner();
        assert_eq!(mine, this_thread());
        assert!(mine != other && other != coroutines && coroutines != mine);
        assert_ne!(std::thread::spawn(this_thread).join().unwrap(), other, "a thread that has ended keeps its number");
    }
}
