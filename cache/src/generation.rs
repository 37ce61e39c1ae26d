//! New generations of namespaces and of tags.

use std::time::{SystemTime, UNIX_EPOCH};

use pinyon_proto::Generation;

/// A generation that was never there. `before`: the one to come after, if this process knows of one.
pub(crate) fn new_generation(before: Option<Generation>) -> Generation {
    let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Generation::new(milliseconds as u64, chance(), before)
}

#[cfg(not(test))]
fn chance() -> u64 {
    u64::from_ne_bytes(pinyon_net::random::bytes().expect("the kernel has random bytes for a generation"))
}

/// Tests make thousands of generations within a millisecond. By chance, two of them would be the same now and then.
#[cfg(test)]
fn chance() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MADE: AtomicU64 = AtomicU64::new(0);
    MADE.fetch_add(1, Ordering::Relaxed)
}
