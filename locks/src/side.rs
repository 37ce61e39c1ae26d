//! Where the locks of a front are kept: on one server, or on a quorum of them.
//!
//! With several URLs, a side has a quorum of clients instead of one.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Client, InTime, Platform, Report, Setup, Voting, Wish};
use crate::failure::Unreleased;
use crate::quorum::Servers;
use pinyon_net::address::Address;
use pinyon_net::driven::{Action, Actions, Driven};
use pinyon_net::network::System;

/// A client of one server, or of several. The quorum is boxed, since nearly all clients have one server.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and each process has few")]
pub(super) enum Side<W, P: Platform = System> {
    Single(Client<W, P>),
    Several(Box<Servers<W, P>>),
}

macro_rules! each {
    ($side:expr, $it:ident => $call:expr) => {
        match $side {
            Side::Single($it) => $call,
            Side::Several($it) => $call,
        }
    };
}

impl<W, P: Platform> Side<W, P> {
    pub(super) fn new(platform: P, settings: Setup, client: Arc<str>) -> Self {
        match settings.voting.clone() {
            Voting::Quorum(quorum) => Self::Several(Servers::on(platform, settings, &quorum, client).into()),
            Voting::Alone | Voting::Member { .. } => Self::Single(Client::on(platform, settings, client)),
        }
    }

    pub(super) fn begin(&mut self, wish: Wish, waiter: W, now: Instant) -> Option<u64> {
        each!(self, side => side.begin(wish, waiter, now))
    }

    pub(super) fn cancel(&mut self, number: u64, now: Instant) {
        each!(self, side => side.cancel(number, now));
    }

    pub(super) fn forsake(&mut self, number: u64) {
        each!(self, side => side.forsake(number));
    }

    pub(super) fn drop_hold(&mut self, number: u64) {
        each!(self, side => side.drop_hold(number));
    }

    /// What becomes of a lock whose release failed.
    pub(super) fn unreleased(&self, number: u64) -> Unreleased {
        each!(self, side => side.unreleased(number))
    }

    pub(super) fn held(&self, number: u64) -> Option<(u64, Duration)> {
        each!(self, side => side.held(number))
    }

    pub(super) fn next_finished(&mut self) -> Option<Report<W>> {
        each!(self, side => side.next_finished())
    }

    pub(super) fn settings(&self) -> &Setup {
        each!(self, side => side.settings())
    }

    pub(super) fn is_quiet(&self) -> bool {
        each!(self, side => side.is_quiet())
    }

    pub(super) fn end_turn(&mut self) {
        each!(self, side => side.end_turn());
    }
}

impl<W, P: Platform> Driven for Side<W, P> {
    type Finished = Report<W>;

    fn take_actions(&mut self) -> Option<Actions> {
        each!(self, side => side.take_actions())
    }

    fn take_finished(&mut self) -> Vec<Report<W>> {
        each!(self, side => side.take_finished())
    }

    fn open_connections(&self, server: usize) -> usize {
        each!(self, side => side.open_connections(server))
    }

    fn turn(&mut self, now: Instant) {
        each!(self, side => side.turn(now));
    }

    fn ready(&mut self, lane: usize, now: Instant) {
        each!(self, side => side.ready(lane, now));
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        each!(self, side => side.connect(lane, resolved, now));
    }

    fn expire(&mut self, now: Instant) {
        each!(self, side => side.expire(now));
    }

    fn deadline(&self) -> Option<Instant> {
        each!(self, side => side.deadline())
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        each!(self, side => side.forgotten(lane, now));
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let (one, several) = match self {
            Self::Single(client) => (Some(client.watched()), None),
            Self::Several(servers) => (None, Some(servers.watched())),
        };
        one.into_iter().flatten().chain(several.into_iter().flatten())
    }

    fn is_idle(&self) -> bool {
        each!(self, side => side.is_idle())
    }

    fn discard(&mut self) -> Vec<Report<W>> {
        each!(self, side => side.discard())
    }

    fn close(&mut self, now: Instant) {
        each!(self, side => side.close(now));
    }
}

/// For threads that wait by themselves.
impl<W> Side<W> {
    pub(super) fn in_time(&self, now: Instant, time: Duration) -> InTime {
        each!(self, side => side.in_time(now, time))
    }

    pub(super) fn is_due_before(&self, end: InTime) -> bool {
        each!(self, side => side.is_due_before(end))
    }

    pub(super) fn next_action(&mut self) -> Option<Action> {
        each!(self, side => side.next_action())
    }

    pub(super) fn descriptors(&self) -> Vec<(usize, Arc<OwnedFd>, bool)> {
        each!(self, side => side.descriptors())
    }

    /// The only thing to wait for. A quorum has several.
    pub(super) fn only_descriptor(&self, now: Instant, timeout: Duration) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Single(client) => client.only_descriptor(now, timeout),
            Self::Several(_) => None,
        }
    }

    pub(super) fn received(&mut self, fd: &Arc<OwnedFd>, received: io::Result<&[u8]>, now: Instant) {
        if let Self::Single(client) = self {
            client.received(fd, received, now);
        }
    }
}
