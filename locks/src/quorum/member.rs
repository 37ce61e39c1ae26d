//! One server of a quorum, as the quorum sees it: a client of that server, or in tests a machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Client, Platform, Report, Standing, Wish};
use crate::machine::{Moment, Renewal};
use pinyon_net::error::Error;

/// The time, by both clocks that clients use.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    pub moment: Moment,
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

/// A client of one server. Its locks have numbers of their own.
pub trait Member {
    /// Begins a wish, like [`Client::begin`].
    fn begin(&mut self, wish: Wish, ballot: Ballot, now: Now) -> Option<u64>;

    /// Gives up a lock, granted or not. No report follows.
    fn cancel(&mut self, number: u64, now: Now);

    fn forsake(&mut self, number: u64);

    fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Now);

    /// How long a granted lock still counts as held.
    fn held(&self, number: u64, now: Now) -> Option<Duration>;

    fn next_report(&mut self) -> Option<Report<Ballot>>;

    /// The next lock that an attempt which comes before it waits for. Take it after the reports.
    fn next_contested(&mut self) -> Option<u64>;

    /// Which process the server is and whether it may vote. `None` without a connection.
    fn standing(&self) -> Option<&Standing>;

    /// Why there is no connection, if one was tried for.
    fn trouble(&self) -> Option<&Error>;

    /// The server's name for messages.
    fn name(&self) -> &Arc<str>;
}

impl<P: Platform> Member for Client<Ballot, P> {
    fn begin(&mut self, wish: Wish, ballot: Ballot, now: Now) -> Option<u64> {
        Client::begin(self, wish, ballot, now.instant)
    }

    fn cancel(&mut self, number: u64, now: Now) {
        Client::cancel(self, number, now.instant);
    }

    fn forsake(&mut self, number: u64) {
        Client::forsake(self, number);
    }

    fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Now) {
        Client::set_renewal(self, number, renewal, now.moment);
    }

    fn held(&self, number: u64, now: Now) -> Option<Duration> {
        Client::held_at(self, number, now.moment).map(|(_, remaining)| remaining)
    }

    fn next_report(&mut self) -> Option<Report<Ballot>> {
        self.next_finished()
    }

    fn next_contested(&mut self) -> Option<u64> {
        Client::next_contested(self)
    }

    fn standing(&self) -> Option<&Standing> {
        Client::standing(self)
    }

    fn trouble(&self) -> Option<&Error> {
        Client::trouble(self)
    }

    fn name(&self) -> &Arc<str> {
        &self.settings().server
    }
}
