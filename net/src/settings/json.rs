//! The tables of settings as JSON. Front ends write their documentation and types from it, and test themselves with it.

use super::table::json_values;
use crate::json;
use crate::tls::TlsSettings;

/// What is known of the settings of one crate: JSON by the name of its table.
#[derive(Default)]
pub struct Described {
    /// The names and defaults.
    pub defaults: Vec<(&'static str, String)>,
    /// What each setting is for.
    pub texts: Vec<(&'static str, String)>,
    /// The names that a setting with a fixed choice can have.
    pub choices: Vec<(&'static str, String)>,
}

impl Described {
    /// The settings of several crates: defaults, texts and choices, a JSON object each.
    pub fn joined(crates: impl IntoIterator<Item = Self>) -> [String; 3] {
        let mut all = Self::default();
        for each in crates {
            all.defaults.extend(each.defaults);
            all.texts.extend(each.texts);
            all.choices.extend(each.choices);
        }
        [all.defaults, all.texts, all.choices].map(json::object)
    }
}

/// The settings of this crate.
pub fn described() -> Described {
    Described { defaults: vec![("Tls", json_values(&TlsSettings::default()))], ..Described::default() }
}

/// Names as a JSON list.
pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    json::list(names.map(json::text))
}
