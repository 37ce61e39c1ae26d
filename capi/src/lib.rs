//! The C interface of Pinyon. `include/pinyon.h` is its manual: what a function does, and who owns what, is said there.
//!
//! A function here checks its pointers, converts, and calls a safe function of its module. A panic ends the call and
//! poisons the handle, never the process.

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
