//! Noticing that the process was forked: a child must not use its parent's connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCH: Once = Once::new();

/// A number that differs between a process and the children it forks. Reading it costs no system call.
pub fn generation() -> u64 {
    WATCH.call_once(watch);
    #[cfg(test)]
    return GENERATION.load(Ordering::Relaxed) + pretended::FORKS.get();
    #[cfg(not(test))]
    GENERATION.load(Ordering::Relaxed)
}

/// Forks of one test's thread alone, which end no other test's objects.
#[cfg(test)]
pub(crate) mod pretended {
    use std::cell::Cell;

    thread_local! {
        pub(super) static FORKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn fork() {
        FORKS.set(FORKS.get() + 1);
    }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[allow(unsafe_code)]
fn watch() {
    // SAFETY: the handler only adds to an atomic, which is allowed between fork and exec. Registration can fail
    // for want of memory alone, and then a forked child is not told apart: nothing to recover to.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    assert_eq!(failed, 0, "no memory to register a fork handler");
}

/// A value of which each process has its own: made anew in a forked child when it is first asked for there.
///
/// The parent's value is left as it is in the child, where a lock inside it may be held by a thread that is not there.
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

    /// This process's value; `make` is called with the parent's when the process is a new one.
    pub fn get(&self, make: impl Fn(&T) -> T) -> &T {
        let current = generation();
        let mut process = self;
        while process.generation != current {
            process = process.in_child.get_or_init(|| Box::new(Self::new(make(&process.value))));
        }
        &process.value
    }
}
