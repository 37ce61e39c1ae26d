//! Why a setting or an argument is refused.

use crate::error::kinds::ErrorKind;
use crate::shown::shown;
use pinyon_proto::KeyError;

/// Why a setting or an operation's argument is refused. A front end raises its own error class for the kind, with this
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument {
    pub kind: ErrorKind,
    pub message: String,
}

impl InvalidArgument {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::UsageError, message)
    }

    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A key that cannot be sent. The message names it.
    #[cold]
    pub fn key(error: &KeyError, given: &[u8]) -> Self {
        Self::new(ErrorKind::InvalidKey, error.about(&shown(given)))
    }
}

impl std::fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidArgument {}

impl From<KeyError> for InvalidArgument {
    fn from(error: KeyError) -> Self {
        Self::new(ErrorKind::InvalidKey, error.to_string())
    }
}

/// The choice with this name.
pub fn choose<T: Copy>(name: &str, chosen: &str, choices: &[(&str, T)]) -> Result<T, InvalidArgument> {
    if let Some((_, choice)) = choices.iter().find(|(known, _)| *known == chosen) {
        return Ok(*choice);
    }
    let known: Vec<_> = choices.iter().map(|(known, _)| format!("{known:?}")).collect();
    let known = match known.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => known.concat(),
    };
    Err(InvalidArgument::usage(format!("{name} must be {known}, not {chosen:?}")))
}
