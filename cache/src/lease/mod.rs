//! `get_or_set`: decides which caller makes a value, which ones wait for it, and which ones take the existing one.
//!
//! [`GetOrSet`] is the machine of one caller. It never waits, and calls nothing of its host but [`Signal::wake`]. The
//! host carries out each [`Step`] and reports the [`StepOutcome`]. The callers of one process share [`Flights`].
//! [`GetOrSetMany`] leads a caller to the values of many keys: one such machine for each, whose steps it carries out together.
//!
//! memcached itself decides which caller makes a value. `mg` with `N` turns a miss into a placeholder, and tells one
//! caller that it has won (`W`) and all others that another caller has (`Z`). `R` does the same for an item that is
//! about to expire. The winner stores under the placeholder's CAS token, so a late caller overwrites nothing. To give
//! a win back, the client deletes the placeholder, or marks the value stale (`md` with `C` and `I`), if it still has
//! that token.
//!
//! While an old value exists, a caller may wait for its maker only so long. Then it gets the old value and is done, and its
//! machine goes on behind it with the maker. The other callers have the old value already.
//!
//! A caller may also make a value at once and store it in place of whatever is there. It takes no lease and leads no flight, so
//! others get what is stored meanwhile. The store changes the token, so it invalidates every lease that was won before it.
//!
//! If a maker fails while an old value exists, its caller may keep that value: it stores it again under the same token,
//! with a ttl after which the next caller wins. A win has no end of its own; a new item has none.

mod flights;
mod get_or_set;
mod many;
mod patience;
mod steps;
mod terms;
#[cfg(test)]
mod tests;

pub use flights::{FlightKey, Flights};
pub use get_or_set::GetOrSet;
pub use many::{Ended, GetOrSetMany, LeftOut, ManyOutcome, ManyStep, Storing};
pub use steps::{Refusal, Step, StepOutcome};
pub use terms::{Behind, Made, Terms};

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
