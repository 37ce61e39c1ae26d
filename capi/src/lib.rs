//! The C interface of Pinyon. `include/pinyon.h` is its manual: what a function does, and who owns what, is said there.
//!
//! A function here checks its pointers, converts, and calls a safe function of its module. A panic ends the call and
//! poisons the handle, never the process.
//!
//! C has no exceptions, and hosts of other languages may jump out of a callback. So the library calls the host back
//! for two things only: where to put a value, and whether to go on. The host asks for everything else. One request
//! struct and one reply struct serve threads and event loops, and the same code converts them (`requests`, `replies`).
//!
//! Many gets at once are one operation, which reports each key's failure (`many/reading.rs`, `loops/reading.rs`).
//! Other requests at once are [`Several`](pinyon_cache::operations::Several) single ones, which the session joins.

pub mod answers;
pub mod batch;
pub mod client;
pub mod credentials;
pub mod errors;
pub mod events;
pub mod guard;
pub mod host;
pub mod locks;
pub mod loops;
pub mod making;
pub mod many;
mod metrics;
pub mod migrating;
pub mod options;
pub mod placing;
pub mod replies;
pub mod requests;
pub mod run;
pub mod structs;
pub mod values;

use std::ffi::{c_char, CStr};

/// The number of this interface.
pub const ABI: u32 = 1;

#[no_mangle]
pub extern "C" fn pinyon_abi() -> u32 {
    ABI
}

#[no_mangle]
pub extern "C" fn pinyon_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };
    VERSION.as_ptr()
}
