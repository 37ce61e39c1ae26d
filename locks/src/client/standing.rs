//! A server's part in a quorum, and since when it may take it.

use std::sync::Arc;
use std::time::Duration;

use super::{Client, Platform, Setup};
use crate::machine::Moment;

/// Whether a client's locks are held by its server alone.
#[derive(Clone, Debug, Default)]
pub enum Voting {
    #[default]
    Alone,
    /// The server is one of a quorum. `longest_ttl`: the longest ttl that any client gives a lock.
    Member { longest_ttl: Duration },
    /// The locks are held by a majority of these.
    Quorum(Arc<QuorumSetup>),
}

#[derive(Clone, Debug)]
pub struct QuorumSetup {
    pub members: Vec<Setup>,
    pub longest_ttl: Duration,
}

/// What a server has told about itself on this connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The name of its process.
    pub run: Box<str>,
    /// From when on it votes: it has been running for so long that all locks which it may have forgotten have ended.
    pub votes_from: Moment,
}

impl Standing {
    /// Reads the answer to `INFO server`, which came at `now`.
    fn read(info: &str, longest_ttl: Duration, now: Moment) -> Option<Self> {
        let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let uptime: u64 = value("uptime_in_seconds")?.trim().parse().ok()?;
        // The server counts whole seconds, from a beginning that it rounded down.
        let running = Duration::from_secs(uptime.saturating_sub(1));
        let votes_from = now + longest_ttl.saturating_sub(running);
        Some(Self { run: value("run_id")?.trim().into(), votes_from })
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Takes the answer to `INFO server`.
    pub(super) fn told_standing(&mut self, info: &str) {
        if let Voting::Member { longest_ttl } = self.settings.voting {
            self.standing = Standing::read(info, longest_ttl, self.platform.boot_time()).or(self.standing.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_votes_when_what_it_may_have_forgotten_has_ended() {
        let longest = Duration::from_secs(10);
        let read = |uptime: &str| {
            let info = format!("# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\nuptime_in_seconds:{uptime}\r\n");
            Standing::read(&info, longest, Moment(Duration::from_secs(100)))
        };
        for (uptime, after) in [("0", 110), ("1", 110), ("4", 107), ("11", 100), ("5000", 100)] {
            let standing = read(uptime).unwrap();
            assert_eq!((&*standing.run, standing.votes_from), ("0a1b", Moment(Duration::from_secs(after))));
        }
        assert_eq!(read("soon"), None);
        assert_eq!(Standing::read("run_id:0a1b\r\n", longest, Moment(Duration::ZERO)), None);
    }
}
