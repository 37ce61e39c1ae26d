//! Locks that processes share, kept by a Redis or Valkey server. A lock takes all its names at once, first come, first
//! served. Taking it is one round trip, and so is handing it over.
//!
//! The server keeps the holders and waiters ([`library`]). A client keeps its own attempts ([`machine`]) and talks to
//! the server over one connection ([`client`]). Front ends use [`LockOperation`]s: an event loop drives a [`Front`],
//! and threads share [`ThreadLocks`].

mod branches;
mod clock;
mod failure;
mod front;
mod grant;
mod handler;
mod holding;
mod identity;
mod interview;
mod jitter;
mod loss;
mod notes;
mod observed;
pub mod owners;
mod pure;
mod quorum;
mod sequence;
mod shareable;
mod side;
mod station;
mod status;
#[cfg(test)]
pub mod tests;
mod threads;
mod token;
mod value;

// For this crate's own tests and fuzz targets only; front ends do not use these.
#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod claim;
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod keys;
#[doc(hidden)]
pub mod library;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod script;

pub use branches::Branches;
pub use call::{Attempt, Holder, Inspected, Name, Names};
pub use client::{QuorumSetup, SentinelSetup, Setup, Slots, Voting};
pub use clock::boot_time;
pub use failure::LockFailure;
pub use front::{Front, LockFinished, LockOperation, LockOutcome};
pub use grant::Grant;
pub use handler::HandlerKind;
pub use identity::new_client;
pub use interview::{place, Asks};
pub use keys::{common_tag, names, NameError, SeveralTags};
pub use loss::Loss;
pub use machine::{LockRequest, Renewal};
pub use notes::{Note, Notes};
pub use observed::{LockEvent, LockEventKind, LockMetrics, Observed};
pub use pinyon_proto::resp::{Command as RedisCommand, Value as RedisValue};
pub use status::{Asked, StatusAnswer, StatusQuestion};
pub use threads::{Station, ThreadLocks};
