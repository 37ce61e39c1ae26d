//! The rules on which the safety of a quorum rests. Tests break each of them, to see that the model notices.

/// A rule, and what it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A lock is held by a majority: two holders would share a server.
    Majority,
    /// A majority has stored the token before the lock is held: the next holder shares a server with it.
    StoredToken,
    /// A server that was started a short time ago has no vote: it may have forgotten a lock that is held.
    YoungHaveNoVote,
    /// A server that was connected again, and may have lost its counter, votes for no token that the others have passed.
    Floor,
    /// A vote counts until its own validity ends, not as long as nothing is heard.
    ValidVotes,
    /// The lock is valid as long as a majority of votes is, not as long as the longest of them.
    ValidMajority,
    /// All servers keep the same order: attempts would each be first somewhere, and wait for each other.
    OneOrder,
    /// Votes that are no majority go to an attempt that comes before: it would wait for attempts that wait for it.
    GiveWay,
    /// A vote that was lost is asked for again: servers that are restarted in turn would lose a lock.
    AskAgain,
    /// A lock is released on all members, also where its grant has not been heard of.
    ReleaseAll,
}

/// Whether the rule is kept.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn kept(_: Rule) -> bool {
    true
}

#[cfg(test)]
pub(super) use broken::kept;

#[cfg(test)]
pub(super) mod broken {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    pub(in crate::quorum) fn kept(rule: Rule) -> bool {
        BROKEN.get() != Some(rule)
    }

    /// Breaks a rule in this thread, or none.
    pub(in crate::quorum) fn break_rule(rule: Option<Rule>) {
        BROKEN.set(rule);
    }
}
