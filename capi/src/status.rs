//! The header's numbers: how calls went, and what replies have.

/// Defines an enum of the header, and the list of its variants. Where its numbers begin with 0, they are the places there.
macro_rules! numbered {
    ($(#[doc = $doc:literal])* $name:ident: $kind:ident { $($variant:ident = $number:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($kind)]
        pub enum $name {
            $($variant = $number,)*
        }

        impl $name {
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$variant),*];
        }
    };
}

pub(crate) use numbered;

numbered! {
    /// How a call went.
    Status: i32 {
        Done = 0,
        Miss = 1,
        NotStored = 2,
        Changed = 3,
        Won = 4,
        Stale = 5,
        Filling = 6,
        Make = 7,
        Taken = 8,
        NotHeld = 9,
        End = 10,
        Failed = -1,
        Interrupted = -2,
    }
}

impl Status {
    /// That of a reply. The numbers of a reply are those of its status.
    pub fn of(number: i32) -> Self {
        Self::ALL.into_iter().find(|status| *status as i32 == number).unwrap_or(Self::Failed)
    }
}

pub mod marks {
    pub const HAS_VALUE: u32 = 0x1;
    pub const HAS_CAS: u32 = 0x2;
    pub const HAS_STALE: u32 = 0x4;
    pub const HAS_TTL: u32 = 0x8;
    pub const HAS_LAST_ACCESS: u32 = 0x10;
    pub const FETCHED: u32 = 0x20;
    pub const IS_STALE: u32 = 0x40;
    pub const IS_WON: u32 = 0x80;
    pub const IS_FILLING: u32 = 0x100;
    pub const WAS_NOTIFIED: u32 = 0x200;
    pub const OF_OLD: u32 = 0x400;
    pub const HAS_TAGS: u32 = 0x800;
}
