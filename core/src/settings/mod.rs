//! The settings: names, defaults, checks and messages for every front end.
//!
//! A front end fills [`CacheSettings`] or [`LockSettings`], by fields or [by name](NamedSettings::set). Then `build`
//! returns the parts of a client, or an [`InvalidArgument`](crate::invalid::InvalidArgument).

mod cache;
mod checks;
mod compression;
mod elsewhere;
mod given;
mod lock;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod tls;
mod view;

pub use cache::{CacheParts, CacheSettings};
pub use checks::{seconds, waiting_time};
pub use compression::CompressionChoice;
pub use given::{Given, ServerTexts, UrlText};
pub use lock::{lock_ttl, LockParts, LockSettings, LockTerms, UsualLock};
pub use table::NamedSettings;
pub use tls::TlsChoice;
pub use view::ViewSettings;

pub use crate::credentials::{Password, Supplied};
pub use crate::dialect::{CompressionSettings, Dictionaries};
use crate::tls::TlsSettings;
pub use crate::words::{speak, Words};
use crate::{dialect::Dialect, json, ring::Rule, session::Protocol};
use pinyon_proto::KeyRule;

/// The names and defaults of all settings as JSON, for the tests and documents of front ends.
pub fn defaults() -> String {
    let tables = [
        ("Client", table::json_values(&CacheSettings::default())),
        ("View", table::json_values(&ViewSettings::default())),
        ("Locks", table::json_values(&LockSettings::default())),
        ("Tls", table::json_values(&TlsSettings::default())),
        ("Compression", table::json_values(&CompressionSettings::default())),
    ];
    json::object(tables)
}

/// What each setting of a client is for, as JSON: front ends write their documentation from it.
pub fn texts() -> String {
    json::object([
        ("Client", table::json_texts(CacheSettings::TEXTS)),
        ("View", table::json_texts(ViewSettings::TEXTS)),
        ("Locks", table::json_texts(LockSettings::TEXTS)),
    ])
}

/// The names that settings with a fixed choice can have, as JSON: front ends give them as types.
pub fn choices() -> String {
    fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
        json::list(names.map(json::text))
    }
    json::object([
        ("ring", names(Rule::names())),
        ("dialect", names(Dialect::ALL.iter().map(|dialect| dialect.name()))),
        ("key_rule", names(KeyRule::names())),
        ("protocol", names(Protocol::NAMES.iter().map(|(name, _)| *name))),
    ])
}
