//! Names for clients, unique among all processes of all times.

use std::sync::Arc;

use pinyon_net::{fork, random};

/// A new name: random, with the process id for people to read.
pub fn new_client() -> Arc<str> {
    let random = u64::from_ne_bytes(random::bytes().expect("the kernel has random bytes for a name"));
    format!("{random:016x}.{:x}.{:x}", std::process::id(), fork::generation()).into()
}
