//! A front end in plain Rust. It does everything that a front end does with the core, and shows how; its tests play it.
//!
//! - [`cache`], [`locks`]: what its users see. They make operations and convert the outcomes.
//! - [`making`], [`migrating`]: calls that the core leads through several operations.
//! - [`ways`]: how it waits, in threads and in an event loop of its own.
//! - [`raised`]: its errors.

pub mod cache;
pub mod locks;
pub mod making;
pub mod migrating;
pub mod raised;
pub mod ways;
