//! `get_or_set`: decides which caller makes a value, which ones wait for it, and which ones take the existing one.
//!
//! [`GetOrSet`] is the machine of one caller. It never waits, and calls nothing of its host but [`Signal::wake`]. The
//! host carries out each [`Step`] and reports the [`StepOutcome`]. The callers of one process share [`Flights`].
//!
//! memcached itself decides which caller makes a value. `mg` with `N` turns a miss into a placeholder, and tells one
//! caller that it has won (`W`) and all others that another caller has (`Z`). `R` does the same for an item that is
//! about to expire. The winner stores under the placeholder's CAS token, so a late caller overwrites nothing. To give
//! a win back, the client deletes the placeholder, or marks the value stale (`md` with `C` and `I`), if it still has
//! that token.

mod flights;
mod get_or_set;
mod patience;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::ttl::{limited, limited_or_none};
use pinyon_net::invalid::InvalidArgument;

pub use flights::{FlightKey, Flights};
pub use get_or_set::{GetOrSet, Refusal, Step, StepOutcome};

/// Additional time to wait. The server counts a placeholder's life in whole seconds, and one more question follows.
const SLACK: Duration = Duration::from_secs(2);
/// memcached takes larger numbers for Unix times.
const MOST_RECACHE: i32 = 30 * 24 * 60 * 60;
/// In seconds. It fits every clock.
const LONGEST_WAIT: u64 = 1 << 31;

/// The types of a host.
pub trait LeaseTypes {
    type Value;
    /// What the leader shares. Followers make their own values from it.
    type Shared: Clone;
    type Error: Clone;
    type Signal: Signal;
}

/// Wakes a caller that waits for another.
pub trait Signal {
    /// It must neither wait nor unwind.
    fn wake(self);
}

/// A caller's terms. Times that the server counts are in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The ttl of the stored item; 0 means that it never expires.
    pub ttl: i64,
    /// How long one caller has the exclusive right to make a missing value.
    pub lease: i32,
    /// One caller refreshes a value that has fewer seconds left than this; 0 for never.
    pub recache: i32,
    /// How long to wait for a value that another caller makes.
    pub wait: Duration,
}

impl Terms {
    /// Terms for a value that is fresh for `ttl` seconds (0: forever). For another `stale` seconds, callers get the old
    /// value while one of them refreshes it. From `early` seconds before it becomes stale, one caller may refresh it.
    ///
    /// `wait` is in seconds, too. Without it, a caller waits long enough for a maker that dies, and for the next one.
    pub fn new(ttl: i64, stale: i64, early: i64, lease: i64, wait: Option<f64>) -> Result<Self, InvalidArgument> {
        let (stale, early) = (limited_or_none("stale", stale)?, limited_or_none("early", early)?);
        let lease = limited("lease", lease)?;
        if ttl < 0 {
            return Err(InvalidArgument::usage("ttl must be positive, or 0 for a value that never expires"));
        }
        if ttl == 0 && (stale > 0 || early > 0) {
            return Err(InvalidArgument::usage(
                "stale and early count from the end of a ttl; with a ttl of 0 there is none",
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
