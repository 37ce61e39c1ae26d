//! Locks that processes share, kept by a Redis or Valkey server. A lock takes all its names at once, first come, first
//! served. Taking it is one round trip, and so is handing it over.
//!
//! The server keeps the holders and waiters ([`library`]). A client keeps its own attempts ([`machine`]) and talks to
//! the server over one connection ([`client`]). Front ends use [`LockOperation`]s: an event loop drives a [`Front`],
//! and threads share [`ThreadLocks`].
//!
//! # For the author of a front end
//!
//! This continues the manual that begins with [`pinyon_net`].
//!
//! [`LockSettings`](settings::LockSettings) builds a [`Setup`]. Threads share one [`ThreadLocks`]. An event loop
//! drives a [`Front`] just as it drives `Shared`. Both carry out [`LockOperation`]s on [`Grant`]s. A grant is a lock
//! that was asked for; if the lock is lost, the grant knows why. A [`Keeper`](pinyon_net::driven::Keeper) renews the
//! locks of a `Polled` whose host may be held up. [`ByTag`] chooses the client of a hash tag, for clusters whose lock
//! names carry tags of their own.
//!
//! A language that has both keeps its loops in [`Drivers`], which finds the [`Driver`] of each caller. What users hold
//! is a [`Held`], whatever its driver is; a [`LoopDriver`] tells it how to reach the front of a loop.
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! use pinyon_net::host::NoHost;
//! use pinyon_locks::{names, owners, Grant, LockOperation, LockOutcome, LockRequest, Notes, Renewal, ThreadLocks};
//!
//! # fn lock(setup: pinyon_locks::Setup) -> Result<(), Box<dyn std::error::Error>> {
//! let notes = Arc::<Notes<&str>>::default(); // a thread of yours takes notes, and tells the listeners
//! let locks = ThreadLocks::new(setup, notes.clone());
//! let (names, ttl, wait) = (names(["report"])?, Duration::from_secs(10), Some(Duration::from_secs(5)));
//! let (owner, renewal) = (owners::this_thread(), Renewal::Always);
//! let request = LockRequest { names, owner, ttl, wait, renewal, reentrant: false, rare: None };
//! let grant = Grant::of(&request);
//! let Ok(outcome) = locks.station()?.run(&NoHost, LockOperation::Acquire { grant: grant.clone(), request });
//! if let LockOutcome::Held { .. } = outcome {
//!     let Ok(_) = locks.station()?.run(&NoHost, LockOperation::Release { grant, early: false });
//! }
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod branches;
mod clock;
mod drivers;
mod failure;
mod front;
mod grant;
mod handler;
mod held;
mod holding;
mod identity;
mod interview;
mod jitter;
mod lead;
mod leader;
mod limits;
mod loss;
mod notes;
mod observed;
pub mod owners;
mod pure;
mod quorum;
mod rate;
mod remark;
mod sequence;
pub mod settings;
mod shareable;
mod station;
mod status;
#[cfg(test)]
pub mod tests;
mod ticket;
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
pub mod names;
#[doc(hidden)]
pub mod redis;
#[doc(hidden)]
pub mod script;

pub use branches::ByTag;
pub use call::{Attempt, Holder, Inspected, Name, Names};
pub use client::{QuorumSetup, SentinelSetup, Setup, Slots, Voting};
pub use clock::boot_time;
pub use drivers::{Driver, Drivers, ThreadLocks};
pub use failure::LockFailure;
pub use front::{AwaitedLock, Front, GiveUp, LockFinished, LockOperation, LockOutcome};
pub use grant::Grant;
pub use handler::HandlerKind;
pub use held::{Held, LoopDriver};
pub use identity::{label, new_client, Who, LONGEST_LABEL};
pub use interview::{place, Asks};
pub use keys::{common_tag, SeveralTags};
pub use leader::{
    Candidate, LeaderState, Report as LeaderReport, ReportKind as LeaderReportKind, Step as LeaderStep,
    StepKind as LeaderStepKind,
};
pub use limits::{Limits, PermitsAsked};
pub use loss::Loss;
pub use machine::{Blocker, LockRequest, Renewal};
pub use names::{given, is_pool, names, pool, wanted, Mode, NameError, PermitsWanted};
pub use notes::{Note, Notes};
pub use observed::{LockEvent, LockEventKind, LockMetrics, Observed};
pub use pinyon_proto::resp::{Command as RedisCommand, Value as RedisValue};
pub use rate::{Rate, RateAnswer, RateQuestion};
pub use remark::LONGEST_NOTE;
pub use station::Station;
pub use status::{Asked, Known, StatusAnswer, StatusQuestion};
pub use ticket::Ticket;
