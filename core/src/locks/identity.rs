//! Names for clients: no two of any processes have the same, ever.

use std::sync::Arc;

use crate::fork;

/// A new name: random, with the process's number for people to read.
pub fn new_client() -> Arc<str> {
    let mut random = [0; 8];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled.ok(), Some(random.len()), "the kernel has random bytes for a name");
    let random = u64::from_ne_bytes(random);
    format!("{random:016x}.{:x}.{:x}", std::process::id(), fork::generation()).into()
}
