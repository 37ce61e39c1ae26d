//! Settings that front ends fill by name: their tables, and how each type of setting is read.
//!
//! The crates above define their settings with the macro `settings!`: a line for each, with its documentation, its type
//! and its default.
//!
//! Rust fills a struct of settings by its fields, and every other language by names and values. If a host has no
//! types, its text is read as the type of the setting. The crates export names, defaults, texts and choices as JSON
//! for tools; `tools/signatures.py` writes Python's arguments and docstrings from it. A front end reads by itself only
//! what is its own, such as a serializer or a callback.

mod checks;
mod given;
mod json;
mod table;
#[cfg(test)]
mod tests;
mod tls;
#[cfg(any(test, feature = "testing"))]
pub mod trial;

pub use checks::{keepalive, positive, seconds, seconds_from, up_to, waiting_time};
pub use given::{refused, wrong, Given, ServerTexts, Setting, UrlText};
pub use json::{described, names, Described};
pub use table::{json_texts, json_values, unknown, Elsewhere, NamedSettings};
pub use tls::TlsChoice;

pub use crate::credentials::{Password, Supplied};
pub use crate::words::{speak, Words};
