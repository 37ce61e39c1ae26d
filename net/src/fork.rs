//! Detects forks: a child must not use its parent's connections.
//!
//! A handler registered with `pthread_atfork` counts forks. [`PerProcess`] gives each process pools of its own. It
//! does not touch the parent's pools, because threads that do not exist in the child may hold their locks. The child
//! closes inherited connections without sending anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCH: Once = Once::new();

/// A number that differs between a process and its forked children. Reading it takes no system call.
pub fn generation() -> u64 {
    WATCH.call_once(watch);
    #[cfg(any(test, feature = "testing"))]
    return GENERATION.load(Ordering::Relaxed) + pretended::FORKS.get();
    #[cfg(not(any(test, feature = "testing")))]
    GENERATION.load(Ordering::Relaxed)
}

/// Pretended forks that affect only one test's thread.
#[cfg(any(test, feature = "testing"))]
pub mod pretended {
    use std::cell::Cell;

    thread_local! {
        pub(super) static FORKS: Cell<u64> = const { Cell::new(0) };
    }

    pub fn fork() {
        FORKS.set(FORKS.get() + 1);
    }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[allow(unsafe_code)]
fn watch() {
    if cfg!(miri) {
        return; // it runs no forks, and knows no handlers of them
    }
    // SAFETY: the handler only increments an atomic, which is allowed between fork and exec. Registration fails only
    // without memory; then forks go unnoticed, and there is nothing to fall back to.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    assert_eq!(failed, 0, "no memory to register a fork handler");
}

/// A value for each process. A forked child makes its own at the first use.
///
/// The parent's value is left alone in the child: a thread that does not exist there may hold a lock inside it.
#[derive(Debug)]
pub struct PerProcess<T> {
    generation: u64,
    value: T,
    in_child: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub fn new(value: T) -> Self {
        Self { generation: generation(), value, in_child: OnceLock::new() }
    }

    /// This process's value. In a new process, `make` creates it from the parent's value.
    pub fn get(&self, make: impl Fn(&T) -> T) -> &T {
        let current = generation();
        let mut process = self;
        while process.generation != current {
            process = process.in_child.get_or_init(|| Box::new(Self::new(make(&process.value))));
        }
        &process.value
    }
}
