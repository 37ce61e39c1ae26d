//! The tables of settings, with one line for each setting: name, type and default.

use super::Given;
use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;
use crate::json;

/// The names that other clients have for a setting, and what to write here instead.
pub type Elsewhere = &'static [(&'static [&'static str], &'static str)];

/// Settings that a front end may fill by name.
pub trait NamedSettings: Default {
    const NAMES: &'static [&'static str];
    /// The names of settings that front ends read themselves. They are suggested for misspelled names, too.
    const OF_HOSTS: &'static [&'static str];
    /// What other clients call these settings.
    const ELSEWHERE: Elsewhere = &[];

    /// Sets one setting. Fails if there is no such setting, or if the value has the wrong type. Other checks follow
    /// once all settings are known.
    fn set(&mut self, name: &str, given: Given<'_>) -> Result<(), InvalidArgument>;

    /// Whether a setting has this name.
    fn has(name: &str) -> bool {
        Self::NAMES.iter().chain(Self::OF_HOSTS).any(|known| *known == name)
    }

    /// Refuses a name that no setting has, and suggests the closest one.
    fn check_name(name: &str) -> Result<(), InvalidArgument> {
        match Self::has(name) {
            true => Ok(()),
            false => Err(unknown::<Self>(name)),
        }
    }

    /// All current values.
    fn values(&self) -> Vec<(&'static str, Given<'_>)>;
}

/// Defines a struct of settings with defaults that a front end can fill by name.
#[doc(hidden)]
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $settings:ident $(beside [$($of_host:literal),*])? $(elsewhere $elsewhere:path)? {
            $($(#[doc = $doc:literal])* $name:ident: $kind:ty = $default:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub struct $settings {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl $settings {
            /// What each setting is for, as its documentation says.
            pub const TEXTS: &'static [(&'static str, &'static str)] = &[$((stringify!($name), concat!($($doc),*)),)*];
        }

        impl Default for $settings {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        $crate::named!($settings $(beside [$($of_host),*])? $(elsewhere $elsewhere)? { $($name),* });
    };
}

/// Lets a front end fill a struct by the names of its fields.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($settings:ident $(beside [$($of_host:literal),*])? $(elsewhere $elsewhere:path)? { $($name:ident),* $(,)? }) => {
        impl $crate::settings::NamedSettings for $settings {
            const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];
            const OF_HOSTS: &'static [&'static str] = &[$($($of_host),*)?];
            $(const ELSEWHERE: $crate::settings::Elsewhere = $elsewhere;)?

            fn set(
                &mut self,
                name: &str,
                given: $crate::settings::Given<'_>,
            ) -> Result<(), $crate::invalid::InvalidArgument> {
                match name {
                    $(stringify!($name) => self.$name = $crate::settings::Setting::read(name, given)?,)*
                    _ => return Err($crate::settings::unknown::<Self>(name)),
                }
                Ok(())
            }

            fn values(&self) -> Vec<(&'static str, $crate::settings::Given<'_>)> {
                vec![$((stringify!($name), $crate::settings::Setting::given(&self.$name)),)*]
            }
        }
    };
}

/// Names and values as JSON, for a table of defaults.
pub fn json_values(settings: &impl NamedSettings) -> String {
    let written = |value: Given<'_>| match value {
        Given::Flag(flag) => flag.to_string(),
        Given::Whole(number) => number.to_string(),
        Given::Number(number) => format!("{number:?}"),
        Given::Text(text) => json::text(text),
        _ => "null".to_owned(),
    };
    json::object(settings.values().into_iter().map(|(name, value)| (name, written(value))))
}

/// Names and texts as JSON.
pub fn json_texts(texts: &[(&str, &str)]) -> String {
    json::object(texts.iter().map(|(name, text)| (name, json::text(text.trim()))))
}

/// The error for an unknown name.
pub fn unknown<S: NamedSettings>(name: &str) -> InvalidArgument {
    if let Some(hint) = S::ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| *hint) {
        return InvalidArgument::new(ErrorKind::UsageError, format!("there is no setting {name:?}: {hint}"));
    }
    let known = S::NAMES.iter().chain(S::OF_HOSTS);
    let closest = known.map(|known| (edits(name, known), known)).min();
    let hint = match closest {
        Some((edits, known)) if edits * 3 <= known.len() => format!("; did you mean {known:?}?"),
        _ => String::new(),
    };
    InvalidArgument::new(ErrorKind::UsageError, format!("there is no setting {name:?}{hint}"))
}

/// The number of letters to insert, delete or replace to turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, wanted) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
