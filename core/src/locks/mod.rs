//! Locks that processes share, kept by a Redis or Valkey server: all names of a lock at once, first come, first served,
//! one round trip to take and one to hand over.
//!
//! The server keeps who holds and who waits ([`scripts`]); a client keeps its own attempts ([`machine`]) and speaks with
//! it over one connection ([`client`]). Threads share a client by a [`station`].

pub mod call;
pub mod client;
mod clock;
mod handler;
mod identity;
pub mod keys;
pub mod machine;
#[cfg(test)]
pub mod model;
mod pure;
pub mod script;
pub mod scripts;
mod sequence;
pub mod station;
mod token;

pub use clock::boot_time;
pub use handler::HandlerKind;
pub use identity::new_client;
