//! What threads meet at: locks, conditions, and atomic numbers.
//!
//! They are the standard library's. With the feature `interleavings` they are shuttle's, which decides at each of them which
//! thread goes on: `make interleavings` plays many orders of threads, and finds deadlocks, lost wake-ups and lost counts. Only
//! the places that these tests play import from here. Nothing waits for time then: a wait with a timeout ends when it is woken.

#[cfg(not(feature = "interleavings"))]
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};

#[cfg(feature = "interleavings")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};

/// Numbers that threads share.
pub mod atomic {
    #[cfg(not(feature = "interleavings"))]
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    #[cfg(feature = "interleavings")]
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// What tests of interleavings are made of.
#[cfg(feature = "interleavings")]
pub mod interleaved {
    pub use shuttle::thread::{spawn, yield_now, JoinHandle};

    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    use super::{Condvar, Mutex};

    /// A bell that one thread rings and another waits for, without a descriptor.
    #[derive(Debug, Default)]
    pub struct Bell(Mutex<bool>, Condvar);

    impl Bell {
        pub fn ring(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }

        pub fn silence(&self) {
            *self.0.lock().unwrap() = false;
        }

        pub fn wait(&self) {
            let rung = self.0.lock().unwrap();
            drop(self.1.wait_while(rung, |rung| !*rung).unwrap());
        }
    }

    /// How many orders of threads are played, by each way of choosing them.
    const ORDERS: usize = 500;

    /// How often a chosen order departs from that of the threads' priorities.
    const DEPARTURES: usize = 3;

    /// Plays a test in many orders of its threads, chosen at random: at each step, or by priorities that change a few times.
    /// A deadlock or a panic ends it, and prints the order, which shuttle can replay.
    pub fn play(test: impl Fn() + Send + Sync + Clone + 'static) {
        let config = || {
            let mut config = Config::new();
            config.stack_size = 1 << 20;
            config
        };
        Runner::new(RandomScheduler::new(ORDERS), config()).run(test.clone());
        Runner::new(PctScheduler::new(DEPARTURES, ORDERS), config()).run(test);
    }
}
