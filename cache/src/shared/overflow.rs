//! A connection that cannot be made while others work: what waits for it takes another, or waits a little longer.

use std::time::{Duration, Instant};

use super::lane::Entry;
use super::{Shared, Waiter};
use crate::operations::Operation;
use pinyon_net::error::{Error, Kind};

/// The pause before a connection is tried again, unless the server's pool knows better.
const PAUSE: Duration = Duration::from_millis(50);

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// The error of a connection that was never ready. It says nothing about the server if others work.
    pub(super) fn unconnected(&mut self, index: usize, error: Error) -> Error {
        let works = self.others_work(index);
        self.fleet.unconnected(self.lanes[index].server, error, works)
    }

    /// Whether other connections of this process work.
    pub(super) fn others_work(&self, index: usize) -> bool {
        let lane = &self.lanes[index];
        self.other_ready(index).is_some() || lane.session.heard() != lane.heard_before
    }

    /// Lets what waits for a connection that cannot be made take another one, or wait for the next try. Returns whether
    /// it does.
    pub(super) fn wait_for_another(&mut self, index: usize, error: &Error, now: Instant) -> bool {
        if error.kind != Kind::Crowded || self.closed {
            return false;
        }
        let pool = self.fleet.pool(self.lanes[index].server);
        let lane = &mut self.lanes[index];
        lane.open_at = Some(pool.pauses_until(now).unwrap_or(now + PAUSE));
        lane.is_refused = true;
        self.share_another(index, now);
        true
    }

    /// Passes what waits for this lane to one that is ready, if there is one.
    pub(super) fn share_another(&mut self, index: usize, now: Instant) {
        let Some(other) = self.other_ready(index) else { return };
        for entry in std::mem::take(&mut self.lanes[index].waiting) {
            self.pass_on(other, entry, now);
        }
    }

    /// Another lane of the same server that is ready.
    fn other_ready(&self, index: usize) -> Option<usize> {
        let relief = self.servers[self.lanes[index].server].relief;
        let mut lanes = self.assigned_of(index).chain(relief);
        lanes.find(|lane| *lane != index && self.lanes[*lane].session.is_ready())
    }

    /// Submits an ask to this lane, or lets it wait there.
    pub(super) fn pass_on(&mut self, index: usize, entry: Entry, now: Instant) {
        match self.lanes[index].waiting.is_empty() && self.lanes[index].session.accepts() {
            true => self.submit(index, entry, now),
            false => self.lanes[index].waiting.push_back(entry),
        }
        self.end_turn();
    }
}
