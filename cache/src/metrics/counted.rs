//! The commands that have counters of their own.

use pinyon_proto::{Command, Direction, Flag, MetaCommand, Mode, Verb};

/// A command. Reading many keys counts as that many gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counted {
    Get,
    GetAndTouch,
    Lease,
    Touch,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    CompareAndSwap,
    Delete,
    Increment,
    Decrement,
    Metadata,
    Version,
    Stats,
    FlushAll,
    GetMany,
    NoOp,
    ClusterConfig,
}

/// The subject of a command, which decides what its answers mean.
pub(super) enum Purpose {
    /// It finds an item.
    Item,
    Store,
    /// It concerns no item.
    Server,
}

impl Counted {
    pub const ALL: [Self; 20] = [
        Self::Get,
        Self::GetAndTouch,
        Self::Lease,
        Self::Touch,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::CompareAndSwap,
        Self::Delete,
        Self::Increment,
        Self::Decrement,
        Self::Metadata,
        Self::Version,
        Self::Stats,
        Self::FlushAll,
        Self::GetMany,
        Self::NoOp,
        Self::ClusterConfig,
    ];

    /// The commands that metrics report.
    pub(crate) fn apart() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|of| !matches!(of, Self::GetMany | Self::NoOp | Self::ClusterConfig))
    }

    pub(super) fn purpose(self) -> Purpose {
        match self {
            Self::Get | Self::GetAndTouch | Self::GetMany | Self::Lease | Self::Touch | Self::Metadata => Purpose::Item,
            Self::Delete | Self::Increment | Self::Decrement => Purpose::Item,
            Self::Set | Self::Add | Self::Replace | Self::Append | Self::Prepend => Purpose::Store,
            Self::CompareAndSwap => Purpose::Store,
            Self::Version | Self::Stats | Self::FlushAll | Self::NoOp | Self::ClusterConfig => Purpose::Server,
        }
    }

    /// The position of its counters.
    #[inline]
    pub(crate) fn place(self) -> usize {
        match self {
            Self::GetMany => Self::Get as usize,
            other => other as usize,
        }
    }

    #[inline]
    pub(crate) fn of(command: &Command<'_>) -> Self {
        match command {
            Command::Get { .. } => Self::Get,
            Command::GetMany { ttl: None, .. } => Self::GetMany,
            Command::GetMany { .. } => Self::GetAndTouch,
            Command::GetAndTouch { .. } => Self::GetAndTouch,
            Command::Touch { .. } => Self::Touch,
            Command::Store(store) if store.cas.is_some() => Self::CompareAndSwap,
            Command::Store(store) => match store.mode {
                Mode::Set => Self::Set,
                Mode::Add => Self::Add,
                Mode::Replace => Self::Replace,
                Mode::Append => Self::Append,
                Mode::Prepend => Self::Prepend,
            },
            Command::Lease(_) => Self::Lease,
            Command::Delete { .. } | Command::DeleteIf { .. } | Command::MarkStale(_) => Self::Delete,
            Command::Arithmetic(arithmetic) => match arithmetic.direction {
                Direction::Increment => Self::Increment,
                Direction::Decrement => Self::Decrement,
            },
            // A get of a value that may be in memory.
            Command::Meta(MetaCommand { verb: Verb::Get, flags: [Flag::CompareCas(_), ..], .. }) => Self::Get,
            Command::Meta(_) => Self::Metadata,
            Command::Version => Self::Version,
            Command::Stats(_) => Self::Stats,
            Command::FlushAll { .. } => Self::FlushAll,
            Command::NoOp => Self::NoOp,
            Command::ClusterConfig => Self::ClusterConfig,
        }
    }

    /// The command with the name in an error. The name may be that of an operation on many keys.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "get_many" | "gets_many" => Self::GetMany,
            _ => {
                let of_each = name.strip_suffix("_many").unwrap_or(name);
                Self::ALL.into_iter().find(|of| of.as_str() == of_each).unwrap_or(Self::NoOp)
            }
        }
    }

    /// Whether it changes nothing on the server, whatever its flags.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Self::Get | Self::GetMany | Self::Version | Self::Stats | Self::NoOp | Self::ClusterConfig)
    }

    /// The command's name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetAndTouch => "gat",
            Self::Lease => "lease",
            Self::Touch => "touch",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::CompareAndSwap => "cas",
            Self::Delete => "delete",
            Self::Increment => "incr",
            Self::Decrement => "decr",
            Self::Metadata => "meta",
            Self::Version => "version",
            Self::Stats => "stats",
            Self::FlushAll => "flush_all",
            Self::GetMany => "get_many",
            Self::NoOp => "mn",
            Self::ClusterConfig => "config get cluster",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_its_name() {
        for (place, of) in Counted::ALL.into_iter().enumerate() {
            assert_eq!(of as usize, place);
            assert_eq!(Counted::named(of.as_str()), of);
        }
    }
}
