//! What a caller that asks for a lease finds, and the right to make a value.

use pinyon_proto::{Head, Item};

use crate::session::NO_TOKEN;

/// So often a caller has a value made anew that it cannot read. Then it makes one itself: others keep storing what it
/// cannot read.
pub const RENEWALS: u32 = 2;

/// The state of an item when a lease was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A fresh value.
    Hit,
    /// A value that is stale or will be soon. Another caller refreshes it.
    Stale,
    /// This caller must make the value.
    Won(Option<Win>),
    /// There is no value yet. Another caller is making it.
    Filling,
    /// There is a value, but this caller cannot read it, and [renews](crate::operations::Request::Renew) it.
    Unreadable,
}

/// The right to store under a token. A caller without a token may make a value, but cannot store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// The item's token, or [`Self::NO_TOKEN`].
    pub cas: u64,
    /// Whether the item already has a value. It stays when the lease is given back.
    pub keep: bool,
}

impl Win {
    /// The token of a lease on a server without CAS tokens. Under it, a value is stored and a lease is given back
    /// without a comparison.
    pub const NO_TOKEN: u64 = NO_TOKEN;

    fn of(item: &Item, keep: bool) -> Option<Self> {
        Some(Self { cas: Self::token(item.cas?), keep })
    }

    /// The token of an item, or [`Self::NO_TOKEN`]: a server without tokens says 0.
    pub(crate) fn token(cas: u64) -> u64 {
        if cas == 0 {
            return Self::NO_TOKEN;
        }
        cas
    }

    /// The token to compare, if the server has tokens.
    #[inline]
    pub(crate) fn compared(cas: u64) -> Option<u64> {
        (cas != Self::NO_TOKEN).then_some(cas)
    }
}

impl Finding {
    /// From the reply to a [`Lease`](pinyon_proto::Command::Lease) that found an item or made a placeholder.
    pub fn of(head: &Head) -> Self {
        let is_placeholder = head.is_placeholder();
        match &head.item {
            item if item.won => Finding::Won(Win::of(item, !is_placeholder)),
            _ if is_placeholder => Finding::Filling,
            item if item.already_won || item.stale => Finding::Stale,
            _ => Finding::Hit,
        }
    }

    /// The same for a value that the caller could read, or could not.
    pub(crate) fn with(self, is_readable: bool) -> Self {
        match self {
            Finding::Hit if !is_readable => Finding::Unreadable,
            // Another caller makes a new one.
            Finding::Stale if !is_readable => Finding::Filling,
            _ => self,
        }
    }

    /// The state in a word, for hosts that pass it on. A caller that renewed a value in vain may make one.
    pub fn word(&self) -> &'static str {
        match self {
            Finding::Hit => "hit",
            Finding::Stale => "stale",
            Finding::Won(_) | Finding::Unreadable => "won",
            Finding::Filling => "filling",
        }
    }
}
