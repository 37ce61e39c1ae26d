//! The words for what candidates do, are told and are, for languages that take them by name. C numbers steps and reports
//! by their places in these lists, so a new one comes last.

use std::ffi::CStr;

macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// Its word, also for C.
            pub fn as_c_str(self) -> &'static CStr {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            pub fn as_str(self) -> &'static str {
                self.as_c_str().to_str().unwrap_or_default()
            }

            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }
    };
}

words! {
    /// A [`Step`](super::Step), without what belongs to it.
    StepKind {
        Over = c"over",
        Ask = c"ask",
        Elected = c"elected",
        Lead = c"lead",
        Lost = c"lost",
        Release = c"release",
        Pause = c"pause",
        Warn = c"warn",
    }
}

words! {
    /// A [`Report`](super::Report), without what belongs to it.
    ReportKind {
        Done = c"done",
        Granted = c"granted",
        LockLost = c"lock_lost",
        Failed = c"failed",
        Closed = c"closed",
        Interrupted = c"interrupted",
    }
}

words! {
    /// What a candidate does now, for people and for those who wait until it leads.
    LeaderState {
        Candidate = c"candidate",
        Leader = c"leader",
        Resigning = c"resigning",
        Paused = c"paused",
        Stopped = c"stopped",
    }
}
