//! Locks that processes share, kept by a Redis or Valkey server: all names of a lock at once, first come, first served,
//! one round trip to take and one to hand over.
//!
//! The server keeps who holds and who waits ([`library`]); a client keeps its own attempts ([`machine`]) and speaks with
//! it over one connection ([`client`]). Front ends use it by [`front`]: an event loop drives it, and threads share it
//! ([`threads`]).

pub mod branches;
pub mod call;
pub mod client;
mod clock;
pub mod failure;
pub mod front;
pub mod grant;
mod handler;
mod identity;
mod keeper;
pub mod keys;
pub mod library;
pub mod loss;
pub mod machine;
#[cfg(test)]
pub mod model;
pub mod notes;
pub mod owners;
mod pure;
pub mod script;

mod sequence;
mod shareable;
mod station;
pub mod status;
pub mod threads;
mod token;

pub use branches::Branches;
pub use call::{Attempt, Holder, Inspected, Name, Names};
pub use client::Setup;
pub use clock::boot_time;
pub use failure::{LockFailure, LockFailureKind};
pub use front::{Front, LockFinished, LockOperation, LockOutcome};
pub use grant::Grant;
pub use handler::HandlerKind;
pub use identity::new_client;
pub use keys::{common_tag, names, NameError, SeveralTags};
pub use loss::Loss;
pub use machine::{Renewal, Request};
pub use notes::{Note, Notes};
pub use pinyon_proto::resp::{Command as RedisCommand, Value as RedisValue};
pub use status::{Asked, StatusAnswer, StatusQuestion};
pub use threads::{Station, ThreadLocks};

pub use crate::settings::UsualLock;
