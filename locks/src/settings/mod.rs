//! The settings of locks: names, defaults, checks and messages for every front end.
//!
//! A front end fills [`LockSettings`], by fields or [by name](pinyon_net::settings::NamedSettings::set). Then `build`
//! returns the parts of a client, or an [`InvalidArgument`](pinyon_net::invalid::InvalidArgument).

mod elsewhere;
mod lock;
#[cfg(test)]
mod tests;

use pinyon_net::settings::{json_texts, json_values, Described};

pub use lock::{lock_ttl, LockParts, LockSettings, LockTerms, OnFailure, UsualLock};

/// The table of these settings as JSON.
pub fn described() -> Described {
    Described {
        defaults: vec![("Locks", json_values(&LockSettings::default()))],
        texts: vec![("Locks", json_texts(LockSettings::TEXTS))],
        ..Described::default()
    }
}
