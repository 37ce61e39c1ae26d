//! What users set: names, defaults, checks and their messages, for every front end.

mod policy;

pub use policy::Policy;

/// Why settings cannot be used. A front end raises its own error for each kind, with this message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    pub kind: InvalidKind,
    pub message: String,
}

/// What kind of error it is. A front end maps each of them to an error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKind {
    /// A setting, or two together, make no sense.
    Usage,
    /// A server list or URL that cannot be read.
    Servers,
    /// A namespace that no key can begin with.
    Key,
    /// A value of the wrong type.
    Type,
}

impl InvalidSetting {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: InvalidKind::Usage, message: message.into() }
    }
}

impl std::fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidSetting {}
