//! Driving sessions from an event loop: the coroutines of a loop share one connection to each server.
//!
//! Everything that is submitted during a turn of the loop leaves in one send at the end of the turn. One receive takes
//! all replies that have arrived. This module never waits and never calls the loop: after each call, the host carries
//! out the [`Action`](pinyon_net::driven::Action)s and resumes the waiters of what has [`Finished`].
//!
//! An operation whose coroutine has gone stays in the queue; its reply is read and dropped. A connection at rest is
//! checked before use if its last check is ten milliseconds old, because the loop may have been busy while the server
//! closed the connection.

mod batch;
mod blame;
mod connections;
mod discovery;
mod lane;
mod overflow;
mod progress;
mod relief;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use batch::{Batch, Left};
use slab::Slab;

use crate::directory::Directory;
use crate::fleet::Fleet;
use crate::operations::{Next, Operation};
use lane::{Entry, Lane, Lanes};
use pinyon_net::address::Address;
use pinyon_net::driven::{Actions, Driven};
use pinyon_net::error::Error;

/// The handle of a coroutine that waits for an operation.
pub trait Waiter {
    /// Whether the coroutine has stopped waiting, for example because it was cancelled.
    fn is_gone(&self) -> bool;
}

/// An operation that is over, and the handle of its coroutine.
pub struct Finished<O, W> {
    pub operation: O,
    pub waiter: W,
}

/// An operation that is under way.
struct Running<O, W> {
    operation: O,
    /// `None` if the operation only gives a lease back, which no coroutine waits for.
    waiter: Option<W>,
    deadline: Instant,
    /// The number of asks that are not over.
    open: usize,
    begins_again: bool,
    /// Whether a reply to it has begun to arrive.
    has_begun: bool,
    /// A number that is never reused, unlike the operation's index.
    serial: u64,
}

/// The connections of one event loop, and the operations of its coroutines.
pub struct Shared<O, W> {
    directory: Arc<Directory>,
    fleet: Arc<Fleet>,
    /// When to continue a look for servers, while one is under way.
    look_at: Option<Instant>,
    /// Why there are no servers.
    undiscovered: Option<Error>,
    running: Slab<Running<O, W>>,
    /// The number of operations started so far.
    started: u64,
    /// Operations that wait for the servers to become known.
    unrouted: Vec<usize>,
    /// Operations that begin again.
    again: Vec<usize>,
    lanes: Vec<Lane>,
    servers: Vec<Lanes>,
    /// Connections per server, without the relief.
    connections: usize,
    /// Half of the time that operations have.
    half: Duration,
    measures: bool,
    turn_is_due: bool,
    closed: bool,
    actions: Actions,
    finished: Vec<Finished<O, W>>,
}

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// `connections`: connections per server.
    pub fn new(directory: Arc<Directory>, connections: usize) -> Self {
        let fleet = directory.known();
        let mut shared = Self {
            look_at: None,
            undiscovered: None,
            running: Slab::new(),
            started: 0,
            unrouted: Vec::new(),
            again: Vec::new(),
            lanes: Vec::new(),
            servers: Vec::new(),
            connections,
            half: fleet.options().timeout / 2,
            measures: fleet.measures(),
            turn_is_due: false,
            closed: false,
            actions: Actions::default(),
            finished: Vec::new(),
            directory,
            fleet,
        };
        shared.add_lanes();
        shared
    }

    /// Begins an operation. It ends within the client's timeout.
    pub fn start(&mut self, operation: O, waiter: W, now: Instant) {
        self.look(now);
        let id = self.insert(operation, waiter, now);
        self.begin(id, now);
    }

    /// Takes back an operation that was handed out and that no coroutine wants any more. A lease that it has won is given
    /// back.
    pub fn take_back(&mut self, Finished { mut operation, .. }: Finished<O, W>, now: Instant) {
        if operation.may_win() && operation.give_back() == Next::Again {
            let id = self.insert_for(operation, None, now);
            self.begin(id, now);
        }
    }

    #[inline(always)]
    fn insert(&mut self, operation: O, waiter: W, now: Instant) -> usize {
        self.insert_for(operation, Some(waiter), now)
    }

    #[inline(always)]
    fn insert_for(&mut self, operation: O, waiter: Option<W>, now: Instant) -> usize {
        let deadline = now + self.fleet.options().timeout;
        self.started += 1;
        let serial = self.started;
        self.running.insert(Running {
            operation,
            waiter,
            deadline,
            open: 0,
            begins_again: false,
            has_begun: false,
            serial,
        })
    }
}

impl<O: Operation, W: Waiter> Driven for Shared<O, W> {
    type Finished = Finished<O, W>;

    #[inline]
    fn take_actions(&mut self) -> Option<Actions> {
        self.actions.take()
    }

    fn take_finished(&mut self) -> Vec<Self::Finished> {
        if self.finished.is_empty() {
            return Vec::new();
        }
        let room_for_as_many = Vec::with_capacity(self.finished.len());
        std::mem::replace(&mut self.finished, room_for_as_many)
    }

    fn open_connections(&self, server: usize) -> usize {
        self.lanes.iter().filter(|lane| lane.server == server && lane.session.is_ready()).count()
    }

    fn turn(&mut self, now: Instant) {
        self.turn_is_due = false;
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].session.has_unsent() {
                self.send(lane, now);
                self.settle(lane, now);
            }
        }
        self.begin_again(now);
    }

    fn ready(&mut self, lane: usize, now: Instant) {
        if lane >= self.lanes.len() {
            return;
        }
        if let Some(deadline) = self.lanes[lane].session.connection_deadline() {
            self.look_after(lane, deadline, now);
        }
        self.lanes[lane].session.poll(now);
        self.advance(lane, now);
        self.begin_again(now);
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        self.resolved(lane, resolved, now);
        self.begin_again(now);
    }

    fn expire(&mut self, now: Instant) {
        self.look_again(now);
        self.expire_unrouted(now);
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].half_time.is_some_and(|at| at <= now) {
                self.look_at_half_time(lane, now);
            }
            if self.lanes[lane].open_at.is_some_and(|at| at <= now) {
                self.lanes[lane].open_at = None;
                self.begin_connecting(lane, now);
            }
            if let Some(deadline) = self.lanes[lane].deadline().filter(|deadline| *deadline <= now) {
                self.look_after(lane, deadline, now);
                self.poll_late(lane, now);
                self.expire_waiting(lane, now);
                self.advance(lane, now);
            }
        }
        self.begin_again(now);
    }

    fn deadline(&self) -> Option<Instant> {
        let unrouted = self.unrouted.first().map(|id| self.running[*id].deadline);
        let mut first = [unrouted, self.look_at].into_iter().flatten().min();
        for lane in &self.lanes {
            if let Some(at) = lane.deadline() {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        }
        first
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        self.lanes[lane].forgotten = false;
        self.lanes[lane].session.release();
        self.begin_connecting(lane, now);
        self.begin_again(now);
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let watched = |(lane, of): (usize, &Lane)| of.watched.map(|(fd, _)| (lane, fd));
        self.lanes.iter().enumerate().filter_map(watched)
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.finished.is_empty()
    }

    fn discard(&mut self) -> Vec<Finished<O, W>> {
        self.closed = true;
        self.lanes.clear();
        self.unrouted.clear();
        let unfinished = self.running.drain();
        unfinished
            .filter_map(|Running { operation, waiter, .. }| Some(Finished { operation, waiter: waiter? }))
            .collect()
    }

    fn close(&mut self, now: Instant) {
        self.closed = true;
        self.route_unrouted(now);
        for lane in 0..self.lanes.len() {
            self.lanes[lane].session.close();
            self.advance(lane, now);
        }
        self.begin_again(now);
    }
}
