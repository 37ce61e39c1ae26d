//! The settings: names, defaults, checks and messages for every front end.
//!
//! A front end fills [`CacheSettings`] or [`LockSettings`], by fields or [by name](NamedSettings::set). Then `build`
//! returns the parts of a client, or an [`InvalidArgument`](crate::invalid::InvalidArgument).

mod cache;
mod checks;
mod compression;
mod given;
mod lock;
mod policy;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use cache::{CacheParts, CacheSettings};
pub(crate) use checks::choose;
pub use checks::{seconds, waiting_time};
pub use compression::CompressionChoice;
pub use given::{Given, ServerTexts, TlsChoice, UrlText};
pub use lock::{lock_ttl, LockParts, LockSettings, LockTerms, UsualLock};
pub use policy::{Policy, ViewSettings};
pub use table::NamedSettings;

pub use crate::dialect::{CompressionSettings, Dictionaries};
pub use crate::login::Password;
use crate::tls::TlsSettings;

/// The names and defaults of all settings as JSON, for the tests and documents of front ends.
pub fn defaults() -> String {
    let tables = [
        ("Client", table::json(&CacheSettings::default())),
        ("View", table::json(&ViewSettings::default())),
        ("Locks", table::json(&LockSettings::default())),
        ("Tls", table::json(&TlsSettings::default())),
        ("Compression", table::json(&CompressionSettings::default())),
    ];
    let tables = tables.map(|(name, settings)| format!("{name:?}: {settings}"));
    format!("{{{}}}", tables.join(", "))
}
