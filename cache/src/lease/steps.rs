//! What a caller of `get_or_set` does next, and what comes of it.

use std::convert::Infallible;
use std::time::Duration;

#[cfg(doc)]
use super::GetOrSet;
use super::LeaseTypes;
use crate::operations::{Found, Request};
use pinyon_net::error::kinds::ErrorKind;

/// The next step for the host, with the [`StepOutcome`] to report. Every step may fail: [`StepOutcome::Failed`].
///
/// `N`: what stands for a value that a maker has left out. The maker of one value leaves nothing out.
pub enum Step<H: LeaseTypes, N = Infallible> {
    /// Send the request for a lease ([`Request::Lease`] or [`Request::Renew`]): [`StepOutcome::Found`].
    Ask(Request),
    /// Send the same request with [`Tagging::Alone`](crate::operations::Tagging::Alone), which asks for tags and for no lease:
    /// [`StepOutcome::Found`].
    ReadTags(Request),
    /// Wait for this time: [`StepOutcome::Done`].
    Pause(Duration),
    /// Make a signal and register it with [`GetOrSet::follow`]. If that returns true, wait until the signal wakes this
    /// caller, for at most this time: [`StepOutcome::Done`].
    Follow(Duration),
    /// Call the user's function that makes the value, pass on what it says about storing the value to
    /// [`GetOrSet::made_with`]: [`StepOutcome::Value`].
    Make,
    /// Begin the same beside this caller, and wait for it at most this time: as after [`Step::Make`], or else
    /// [`StepOutcome::Late`].
    MakeWithin(Duration),
    /// Return [`GetOrSet::value`] to the caller, which is done. Go on with the maker behind it, and with the steps that follow
    /// its outcome. The last of them is for nobody.
    ReturnOld,
    /// Turn [`GetOrSet::value`] into something that followers make their own values from: [`StepOutcome::Shared`].
    Share,
    /// Store [`GetOrSet::value`] with a ttl in seconds, if the item still has this token: [`StepOutcome::Stored`].
    Store { cas: u64, ttl: i64 },
    /// Store it with a ttl in seconds in place of whatever is stored: [`StepOutcome::Stored`].
    Set { ttl: i64 },
    /// Send the request that lets others make the value: [`StepOutcome::Done`].
    GiveBack(Request),
    /// Make a value from what the leader shared: [`StepOutcome::Value`].
    Copy(H::Shared),
    /// The end: return this value.
    Return(H::Value),
    /// The end: there is no value, as its maker left it out.
    Nothing(N),
    /// The end: raise this error.
    Raise(H::Error),
    /// The end: there is no value, for a reason of the core's.
    Refuse(Refusal),
}

/// The outcome of a [`Step`].
pub enum StepOutcome<H: LeaseTypes, N = Infallible> {
    Found(Found<H::Value>),
    Value(H::Value),
    /// The function that makes the value has left it out.
    Nothing(N),
    Shared(H::Shared),
    Done,
    /// The maker is not done yet.
    Late,
    /// Whether the value was stored. Another caller may have changed the item, or the policy reports failures so.
    Stored(bool),
    /// `is_outage`: [`ErrorKind::is_outage`] of the error's kind.
    Failed {
        error: H::Error,
        is_outage: bool,
    },
}

/// Why the core refuses to return a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another caller is still making it, and this caller's time to wait is up.
    StillBeingMade,
    /// The caller would wait for itself.
    Recursion,
}

impl Refusal {
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::StillBeingMade => ErrorKind::LeaseTimeout,
            Self::Recursion => ErrorKind::UsageError,
        }
    }

    /// `key`: in the notation of the host's language.
    pub fn message(self, key: &str) -> String {
        match self {
            Self::StillBeingMade => {
                format!("the value of {key} is still being made by another caller; to wait for it longer, raise wait")
            }
            Self::Recursion => {
                format!("what makes the value of {key} asks for this value, and would wait for itself")
            }
        }
    }
}
