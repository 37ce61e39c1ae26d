//! `get_or_set`: who makes a value, who waits for it, and who takes the one there is.
//!
//! [`GetOrSet`] is the machine of one caller. It never waits and calls nothing of its host but [`Signal::wake`]: the host
//! does as each [`Step`] says, and tells the [`StepOutcome`]. [`Flights`] is what the callers of one process have in common.

mod flights;
mod get_or_set;
mod patience;
#[cfg(test)]
mod tests;

use std::time::Duration;

use pinyon_proto::Head;

use crate::invalid::InvalidArgument;
use crate::ttl::{limited, limited_or_none};

pub use flights::{Flights, Place};
pub use get_or_set::{GetOrSet, Refusal, Step, StepOutcome};

/// The end of a placeholder's life, which the server counts in whole seconds, and one more question after it.
const SLACK: Duration = Duration::from_secs(2);
/// memcached takes a larger number of seconds for a Unix time.
const MOST_RECACHE: i32 = 30 * 24 * 60 * 60;
/// In seconds; it fits every clock.
const LONGEST_WAIT: u64 = 1 << 31;

/// The types that a host's callers handle.
pub trait Host {
    type Value;
    /// What followers make values of their own from.
    type Shared: Clone;
    type Error: Clone;
    type Signal: Signal;
}

/// Wakes one caller that waits for another.
pub trait Signal {
    /// It must neither wait nor unwind.
    fn wake(self);
}

/// What a caller wants, in whole seconds where the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The item is stored with this ttl; 0 for no end.
    pub ttl: i64,
    /// How long one caller alone may make a value that is missing.
    pub lease: i32,
    /// One caller refreshes the value once it has fewer seconds left than this; 0 for never.
    pub recache: i32,
    /// How long to wait for a value that another caller makes.
    pub wait: Duration,
}

impl Terms {
    /// Terms for a value that is fresh for `ttl` seconds (0: for ever). For another `stale` seconds it is handed out while
    /// one caller refreshes it, and a caller may refresh it from `early` seconds before it is stale.
    ///
    /// Without `wait` (in seconds, too) a caller waits long enough for a maker that dies and for the next one.
    pub fn new(ttl: i64, stale: i64, early: i64, lease: i64, wait: Option<f64>) -> Result<Self, InvalidArgument> {
        let (stale, early) = (limited_or_none("stale", stale)?, limited_or_none("early", early)?);
        let lease = limited("lease", lease)?;
        if ttl < 0 {
            return Err(InvalidArgument::usage("ttl must be positive, or 0 for a value that never expires"));
        }
        if ttl == 0 && (stale > 0 || early > 0) {
            return Err(InvalidArgument::usage(
                "stale and early count from the end of a ttl; with ttl=0 there is none",
            ));
        }
        if early > 0 && i64::from(early) >= ttl {
            let why = "early must be less than ttl: otherwise callers refresh the value all the time";
            return Err(InvalidArgument::usage(why));
        }
        if stale + early > MOST_RECACHE {
            return Err(InvalidArgument::usage("stale and early together must be at most 30 days"));
        }
        let wait = match wait {
            Some(wait) => duration(wait)?,
            None => 2 * Duration::from_secs(lease as u64) + SLACK,
        };
        Ok(Self { ttl: ttl.saturating_add(stale.into()), lease, recache: stale + early, wait })
    }
}

fn duration(wait: f64) -> Result<Duration, InvalidArgument> {
    let wait = Duration::try_from_secs_f64(wait).ok().filter(|wait| wait.as_secs() < LONGEST_WAIT);
    wait.ok_or_else(|| InvalidArgument::usage("wait must be at least 0 and less than 2**31 seconds"))
}

/// What the server said of an item when a lease was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A fresh value.
    Hit,
    /// A value that is stale, or soon will be. Another caller refreshes it.
    Stale,
    /// The caller is to make the value.
    Won(Option<Win>),
    /// There is no value yet. Another caller makes it.
    Filling,
}

/// The right to store under a token. Without one a value may be made, and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    pub cas: u64,
    /// The item has a value already, which stays when the win is given back.
    pub keep: bool,
}

impl Finding {
    /// Of the reply to a [`Lease`](pinyon_proto::Command::Lease) that found an item or made a placeholder.
    pub fn of(head: &Head) -> Self {
        let is_placeholder = head.is_placeholder();
        match &head.item {
            item if item.won => Finding::Won(item.cas.map(|cas| Win { cas, keep: !is_placeholder })),
            _ if is_placeholder => Finding::Filling,
            item if item.already_won || item.stale => Finding::Stale,
            _ => Finding::Hit,
        }
    }
}
