//! The words for what candidates do, are told and are, for languages that take them by name. C numbers steps and reports
//! by their places in these lists, so a new one comes last.

use pinyon_net::worded;

worded! {
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

    /// A [`Report`](super::Report), without what belongs to it.
    ReportKind {
        Done = c"done",
        Granted = c"granted",
        LockLost = c"lock_lost",
        Failed = c"failed",
        Closed = c"closed",
        Interrupted = c"interrupted",
    }

    /// What a candidate does now, for people and for those who wait until it leads.
    LeaderState {
        Candidate = c"candidate",
        Leader = c"leader",
        Resigning = c"resigning",
        Paused = c"paused",
        Stopped = c"stopped",
    }
}
