//! For whom a member of a quorum does something.

/// Either a caller, who waits for the outcome, or the quorum, which counts it.
#[derive(Clone, Copy, Debug)]
pub enum Waiter<W> {
    Caller(W),
    Quorum(Ballot),
}

/// What a member's answer is about.
#[derive(Clone, Copy, Debug)]
pub enum Ballot {
    /// The grant of a lock.
    Grant { lock: u64 },
    /// The raised counter of its server.
    Raise { lock: u64, floor: u64 },
    /// One of the answers to a question that all members were asked.
    Answer { poll: u64 },
}
