//! The settings of a client for caches, and of its values: names, defaults, checks and messages for every front end.
//!
//! A front end fills [`CacheSettings`], by fields or [by name](pinyon_net::settings::NamedSettings::set). Then `build`
//! returns the parts of a client, or an [`InvalidArgument`](pinyon_net::invalid::InvalidArgument).

mod cache;
mod compression;
mod elsewhere;
mod near;
mod terms;
#[cfg(test)]
mod tests;
mod view;

use pinyon_net::settings::{json_texts, json_values, names, Described};
use pinyon_proto::KeyRule;

pub use cache::{CacheParts, CacheSettings};
pub use compression::CompressionChoice;
pub use near::{NearChoice, NearSettings};
pub use terms::{TagTexts, TermsSettings};
pub use view::ViewSettings;

use crate::dialect::Dialect;
pub use crate::dialect::{CompressionSettings, Dictionaries};
use crate::ring::Rule;
use crate::session::Protocol;

/// The tables of these settings as JSON.
pub fn described() -> Described {
    Described {
        defaults: vec![
            ("Client", json_values(&CacheSettings::default())),
            ("View", json_values(&ViewSettings::default())),
            ("Terms", json_values(&TermsSettings::default())),
            ("Compression", json_values(&CompressionSettings::default())),
            ("Near", json_values(&NearSettings::default())),
        ],
        texts: vec![
            ("Client", json_texts(CacheSettings::TEXTS)),
            ("View", json_texts(ViewSettings::TEXTS)),
            ("Terms", json_texts(TermsSettings::TEXTS)),
            ("Near", json_texts(NearSettings::TEXTS)),
        ],
        choices: vec![
            ("ring", names(Rule::names())),
            ("dialect", names(Dialect::ALL.iter().map(|dialect| dialect.name()))),
            ("key_rule", names(KeyRule::names())),
            ("protocol", names(Protocol::NAMES.iter().map(|(name, _)| *name))),
        ],
    }
}
