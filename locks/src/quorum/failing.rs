//! What an operation fails with when too many members fail: each is named, with what it said.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Member;
use crate::machine::MachineFailure;
use pinyon_net::error::{Error, Kind, Sent};

/// What stands between one member and its vote.
pub(super) struct Why {
    kind: Kind,
    sent: Sent,
    text: String,
}

impl Why {
    /// The failure of a server. Other failures are not about servers.
    pub(super) fn of(server: &Arc<str>, failure: &MachineFailure) -> Option<Self> {
        let MachineFailure::Server(error) = failure else { return None };
        Some(Self { kind: error.kind, sent: error.sent, text: format!("{server}: {}", error.message) })
    }

    /// The connection broke while the server was asked.
    pub(super) fn gone(server: &Arc<str>) -> Self {
        let text = format!("{server}: the connection broke, and it cannot be reached");
        Self { kind: Kind::Closed, sent: Sent::Maybe, text }
    }

    /// The server was started a short time ago. `left`: until it may vote; unknown without `INFO`.
    pub(super) fn young(server: &Arc<str>, left: Option<Duration>) -> Self {
        let text = match left {
            Some(left) => {
                let seconds = left.as_secs_f64().ceil().max(1.0);
                format!("{server}: it was started a short time ago, may have forgotten locks, and has a vote in {seconds} s")
            }
            None => format!("{server}: it has not said when it was started, so it has no vote; permit INFO"),
        };
        Self { kind: Kind::Down, sent: Sent::Yes, text }
    }
}

/// The failure for these reasons. The first gives its kind; one that will pass by itself only if there is no other.
pub(super) fn failed<M: Member>(members: &[M], why: impl Iterator<Item = Why>, what: &str) -> MachineFailure {
    let why: Vec<Why> = why.collect();
    let of_servers = why.iter().find(|why| why.kind != Kind::Down).or(why.first());
    let kind = of_servers.map_or(Kind::Timeout, |why| why.kind);
    let sent = why.iter().map(|why| why.sent).max().unwrap_or(Sent::Maybe);
    let texts: Vec<String> = why.into_iter().map(|why| why.text).collect();
    let message = format!("{what} ({} of {} failed): {}", texts.len(), members.len(), texts.join("; "));
    MachineFailure::from(Error { sent, ..Error::new(kind, &"".into(), message) })
}
