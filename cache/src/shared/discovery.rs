//! Server discovery in an event loop: operations wait until servers are known, and move when the servers change.

use std::sync::Arc;
use std::time::Instant;

use super::lane::{Lane, Lanes};
use super::{Shared, Waiter};
use crate::directory::LOOK_AGAIN;
use crate::fleet::Fleet;
use crate::operations::{End, Operation};

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// Adopts the servers that are known now, and continues a look that is due.
    #[inline]
    pub(super) fn look(&mut self, now: Instant) {
        if self.directory.as_fixed().is_none() && !self.closed {
            self.discover(now);
        }
    }

    #[cold]
    fn discover(&mut self, now: Instant) {
        let sight = self.directory.look(now);
        self.look_at = sight.is_looking.then(|| now + LOOK_AGAIN);
        self.undiscovered = sight.failure.filter(|_| !sight.is_looking);
        if !Arc::ptr_eq(&sight.fleet, &self.fleet) {
            self.adopt(sight.fleet, now);
        }
        if self.fleet.is_known() || self.undiscovered.is_some() {
            self.route_unrouted(now);
        }
    }

    /// Lets an operation wait until the servers are known.
    pub(super) fn await_servers(&mut self, id: usize, now: Instant) {
        match self.undiscovered.clone() {
            Some(why) => self.fail(id, why, now),
            None => {
                self.unrouted.push(id);
                self.end_turn();
            }
        }
    }

    pub(super) fn route_unrouted(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.unrouted) {
            self.begin(id, now);
        }
    }

    /// Continues a look that is under way.
    pub(super) fn look_again(&mut self, now: Instant) {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(now);
        }
    }

    pub(super) fn expire_unrouted(&mut self, now: Instant) {
        let expired = self.unrouted.iter().take_while(|id| self.running[**id].deadline <= now).count();
        for id in self.unrouted.drain(..expired).collect::<Vec<_>>() {
            let why = self.directory.no_servers();
            self.fail(id, why, now);
        }
    }

    /// Adds connections for new servers.
    pub(super) fn add_lanes(&mut self) {
        for server in self.servers.len()..self.fleet.servers().len() {
            self.servers.push(Lanes { first: self.lanes.len(), relief: None });
            self.lanes.extend((0..self.connections).map(|_| Lane::new(&self.fleet, server)));
        }
    }

    fn adopt(&mut self, fleet: Arc<Fleet>, now: Instant) {
        self.fleet = fleet;
        self.add_lanes();
        for lane in 0..self.lanes.len() {
            let replaced = self.is_replaced(lane);
            if replaced || self.has_left(lane) {
                self.leave(lane, replaced, now);
            }
        }
    }

    /// Moves the operations that wait for a server which has left. Operations in flight there may finish, unless a new
    /// server has taken its place.
    fn leave(&mut self, lane: usize, replaced: bool, now: Instant) {
        for entry in std::mem::take(&mut self.lanes[lane].waiting) {
            self.over(entry.operation, entry.part, End::Withdrawn, now);
        }
        if replaced || self.lanes[lane].is_at_rest() {
            self.retire(lane, now);
        }
    }

    /// Whether another server has taken the place of this connection's server.
    pub(super) fn is_replaced(&self, lane: usize) -> bool {
        let Lane { server, session, .. } = &self.lanes[lane];
        !Arc::ptr_eq(session.server(), &self.fleet.servers()[*server].name)
    }

    pub(super) fn has_left(&self, lane: usize) -> bool {
        self.directory.as_fixed().is_none() && self.fleet.has_left(self.lanes[lane].server)
    }

    /// Closes a connection that nothing needs any more.
    pub(super) fn retire(&mut self, lane: usize, now: Instant) {
        if self.lanes[lane].session.is_closed() {
            return;
        }
        self.lanes[lane].session.close();
        self.let_go(lane, now);
        for (entry, error) in std::mem::take(&mut self.lanes[lane].failed) {
            self.failed(entry, error, now);
        }
    }
}
