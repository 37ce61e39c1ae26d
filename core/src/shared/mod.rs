//! Driving sessions from an event loop: the coroutines of a loop share one connection to each server.
//!
//! Everything that is submitted during a turn of the loop leaves in one send at the end of the turn. One receive takes
//! all replies that have arrived. This module never waits and never calls the loop: after each call, the host carries
//! out the [`Action`]s and resumes the waiters of what has [`Finished`].

mod batch;
mod blame;
mod discovering;
mod lane;

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

pub use batch::{Batch, Left};
use slab::Slab;

use crate::address::Address;
use crate::directory::Directory;
use crate::driven::{Action, Driven};
use crate::error::{Error, Kind, Sent};
use crate::fleet::{Choice, Fleet};
use crate::operations::{Ask, Asks, End, Next, Operation, Sending};
use crate::pool::TRUSTED_REST;
use crate::session::{Completion, Outcome, Refused, Ticket};
use lane::{position, take, Entry, Lane};

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
    /// Connections per server.
    connections: usize,
    measures: bool,
    turn_is_due: bool,
    closed: bool,
    actions: Vec<Action>,
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
            connections,
            measures: fleet.measures(),
            turn_is_due: false,
            closed: false,
            actions: Vec::new(),
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
        self.running.insert(Running { operation, waiter, deadline, open: 0, begins_again: false, serial })
    }
}

impl<O: Operation, W: Waiter> Driven for Shared<O, W> {
    type Finished = Finished<O, W>;

    fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
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
            if let Some(deadline) = self.lanes[lane].deadline().filter(|deadline| *deadline <= now) {
                self.look_after(lane, deadline, now);
                self.lanes[lane].session.poll(now);
                self.expire_waiting(lane, now);
                self.advance(lane, now);
            }
        }
        self.begin_again(now);
    }

    fn deadline(&self) -> Option<Instant> {
        let unrouted = self.unrouted.first().map(|id| self.running[*id].deadline);
        self.lanes.iter().filter_map(Lane::deadline).chain(unrouted).chain(self.look_at).min()
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

/// The course of an operation.
impl<O: Operation, W: Waiter> Shared<O, W> {
    /// Carries out the asks of an operation.
    fn begin(&mut self, id: usize, now: Instant) {
        if self.closed {
            return self.fail(id, Error::new(Kind::Closed, &"".into(), "the client was closed"), now);
        }
        if !self.fleet.is_known() {
            return self.await_servers(id, now);
        }
        let running = &mut self.running[id];
        match running.operation.begin(&self.fleet, now) {
            Asks::None if running.open > 0 => {}
            Asks::None => {
                self.end_turn();
                self.complete(id, now);
            }
            Asks::One(ask) => {
                running.open += 1;
                self.carry_out(id, ask, now);
            }
            Asks::Many(asks) => {
                running.open += asks.len();
                asks.into_iter().for_each(|ask| self.carry_out(id, ask, now));
            }
        }
    }

    /// Begins operations again, in the order of submission, so that commands on one key keep their order.
    #[inline]
    fn begin_again(&mut self, now: Instant) {
        while !self.again.is_empty() {
            for id in std::mem::take(&mut self.again) {
                self.running[id].begins_again = false;
                self.begin(id, now);
            }
        }
    }

    /// Fails an operation that cannot begin.
    fn fail(&mut self, id: usize, error: Error, now: Instant) {
        let running = &mut self.running[id];
        running.operation.fail(error);
        if running.open == 0 {
            self.end_turn();
            self.complete(id, now);
        }
    }

    /// Takes the end of an ask.
    #[inline]
    fn over(&mut self, id: usize, part: u32, end: End, now: Instant) {
        let running = &mut self.running[id];
        running.open -= 1;
        match running.operation.over(part, end) {
            Next::Again if running.begins_again => {}
            Next::Again => {
                running.begins_again = true;
                self.again.push(id);
            }
            Next::Nothing if running.open == 0 && !running.begins_again => self.complete(id, now),
            Next::Nothing => {}
        }
    }

    /// Takes the failure of an ask, with the error that the caller would see. The operation is tried again if its time
    /// allows.
    #[cold]
    fn failed(&mut self, entry: Entry, error: Error, now: Instant) {
        let in_time = entry.deadline > now && !self.is_abandoned(entry.operation);
        self.over(entry.operation, entry.part, End::Failed { error, in_time }, now);
        self.end_turn();
    }

    #[inline]
    fn complete(&mut self, id: usize, now: Instant) {
        if self.running[id].operation.may_win() && self.gives_back(id, now) {
            return;
        }
        let Running { operation, waiter, .. } = self.running.remove(id);
        self.finished.extend(waiter.map(|waiter| Finished { operation, waiter }));
    }

    /// Gives back the lease of an operation whose coroutine is gone. Returns whether there was one to give back.
    #[cold]
    fn gives_back(&mut self, id: usize, now: Instant) -> bool {
        let gives_back = self.is_abandoned(id) && self.running[id].operation.give_back() == Next::Again;
        if gives_back {
            let running = &mut self.running[id];
            running.waiter = None;
            running.deadline = now + self.fleet.options().timeout;
            running.begins_again = true;
            self.again.push(id);
        }
        gives_back
    }

    fn is_abandoned(&self, id: usize) -> bool {
        self.running[id].waiter.as_ref().is_some_and(W::is_gone)
    }

    /// Passes an ask to its connection.
    #[inline]
    fn carry_out(&mut self, id: usize, Ask { part, choice: Choice { server, probe } }: Ask, now: Instant) {
        let running = &self.running[id];
        let lane = server * self.connections + self.connection_of(running.operation.routed(part));
        let entry = Entry { ticket: Ticket(0), operation: id, part, deadline: running.deadline, probe };
        if self.lanes[lane].trusted_until.is_none_or(|until| until <= now) {
            self.look_at(lane, now);
        }
        if self.lanes[lane].waiting.is_empty() && self.lanes[lane].session.accepts() {
            self.submit(lane, entry, now);
        } else {
            self.lanes[lane].waiting.push_back(entry);
            self.begin_connecting(lane, now);
            self.end_turn();
        }
    }

    /// The connection for a key. It depends only on the key, so commands on one key keep their order.
    fn connection_of(&self, key: &[u8]) -> usize {
        match self.connections {
            1 => 0,
            connections => hash(key) % connections,
        }
    }

    /// Checks an idle connection: the server may have closed it while the loop was busy or stopped.
    #[cold]
    fn look_at(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        lane.trusted_until = Some(now + TRUSTED_REST);
        if lane.is_at_rest() {
            lane.session.poll(now);
            self.settle(index, now);
        }
    }

    /// Submits waiting asks, in order, until the session takes no more.
    fn submit_waiting(&mut self, lane: usize, now: Instant) {
        while self.lanes[lane].session.accepts() {
            let Some(entry) = self.lanes[lane].waiting.pop_front() else { return };
            if !self.is_abandoned(entry.operation) {
                self.submit(lane, entry, now);
                continue;
            }
            if entry.probe {
                self.fleet.succeeded(Choice { server: self.lanes[lane].server, probe: true });
            }
            let error = Error::new(Kind::Timeout, self.lanes[lane].session.server(), "its caller no longer waits");
            self.failed(entry, error, now);
        }
    }

    /// Sends what the socket takes, which makes room for waiting asks.
    fn send(&mut self, lane: usize, now: Instant) {
        loop {
            self.lanes[lane].session.flush();
            let Lane { session, waiting, .. } = &self.lanes[lane];
            if session.has_unsent() || waiting.is_empty() || !session.accepts() {
                return;
            }
            self.submit_waiting(lane, now);
        }
    }

    /// Submits an ask, or lets it wait until the session has room.
    #[inline]
    fn submit(&mut self, index: usize, mut entry: Entry, now: Instant) {
        let lane = &mut self.lanes[index];
        let longest_ttl = self.fleet.longest_ttl(lane.server);
        let sending = Sending { is_shared: true, longest_ttl, deadline: entry.deadline };
        let operation = &mut self.running[entry.operation].operation;
        match operation.submit(entry.part, &mut lane.session, sending) {
            Ok(ticket) => {
                entry.ticket = ticket;
                lane.flight.push_back(entry);
                self.end_turn();
            }
            Err(Refused::Full) => lane.waiting.push_front(entry),
            Err(why) => {
                let error = why.into_error(lane.session.server(), operation.name_of(entry.part));
                self.fleet.failed(Choice { server: lane.server, probe: entry.probe }, &error);
                self.failed(entry, error, now);
            }
        }
    }

    fn end_turn(&mut self) {
        if !std::mem::replace(&mut self.turn_is_due, true) {
            self.actions.push(Action::EndTurn);
        }
    }

    /// Connects to the addresses of a name, or fails with the reason why there are none.
    fn resolved(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        self.lanes[lane].resolving = false;
        if !self.lanes[lane].session.is_closed() {
            return;
        }
        if self.is_replaced(lane) {
            return self.begin_connecting(lane, now);
        }
        match resolved {
            Ok(addresses) => {
                let options = self.fleet.options();
                self.lanes[lane].session.connect(addresses, now, options.connect_timeout.min(options.timeout));
            }
            Err(why) => {
                let session = &mut self.lanes[lane].session;
                session.fail(Error::unresolved(Kind::Connect, &session.server().clone(), &why));
            }
        }
        self.advance(lane, now);
    }

    fn begin_connecting(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        if lane.waiting.is_empty() || lane.resolving || lane.forgotten || !lane.session.is_closed() {
            return;
        }
        if self.is_replaced(index) {
            let lane = &mut self.lanes[index];
            lane.session = self.fleet.session(lane.server);
        }
        let lane = &mut self.lanes[index];
        match self.fleet.servers()[lane.server].spec.addresses() {
            Ok(addresses) => self.resolved(index, Ok(addresses), now),
            Err((name, port)) => {
                lane.resolving = true;
                self.actions.push(Action::Resolve { lane: index, name: name.to_owned(), port });
            }
        }
    }

    /// Takes what has arrived, submits what waits, and repairs what broke.
    fn advance(&mut self, lane: usize, now: Instant) {
        self.take_completions(lane, now);
        if !self.lanes[lane].waiting.is_empty() {
            self.submit_waiting(lane, now);
            self.send(lane, now);
        }
        self.settle(lane, now);
    }

    fn take_completions(&mut self, index: usize, now: Instant) {
        loop {
            let lane = &mut self.lanes[index];
            let Some(Completion { ticket, outcome }) = lane.session.next() else { return };
            let Some(position) = position(&lane.flight, ticket) else { continue };
            let Entry { operation: id, part, .. } = lane.flight[position];
            match outcome {
                Outcome::Part(reply) => self.running[id].operation.reply(part, reply),
                Outcome::Large { head, index } => {
                    let destination = self.running[id].operation.destination(part, index, &head);
                    lane.session.receive_into(destination);
                }
                Outcome::Reply(reply) => {
                    self.running[id].operation.reply(part, reply);
                    let Some(entry) = take(&mut lane.flight, position) else { continue };
                    if entry.probe || self.measures {
                        self.answered(index, &entry, now);
                    }
                    self.over(id, part, End::Answered, now);
                }
                Outcome::Failed(error) => {
                    let Some(entry) = take(&mut lane.flight, position) else { continue };
                    self.failed_in_flight(index, entry, error, now);
                }
            }
        }
    }

    #[cold]
    fn answered(&self, lane: usize, entry: &Entry, now: Instant) {
        let (server, timeout) = (self.lanes[lane].server, self.fleet.options().timeout);
        if entry.probe {
            self.fleet.succeeded(Choice { server, probe: true });
        }
        let took = timeout.saturating_sub(entry.deadline.saturating_duration_since(now));
        self.fleet.took(server, self.running[entry.operation].operation.name_of(entry.part), took);
    }

    /// Keeps an ask that failed with its connection until the server's health is up to date. Then the operation can
    /// move to another server.
    fn failed_in_flight(&mut self, lane: usize, mut entry: Entry, error: Error, now: Instant) {
        let error = self.failed_at(lane, entry.deadline, error, now);
        let broken = self.lanes[lane].session.failure().is_some();
        if entry.probe || !broken {
            self.blame(lane, std::mem::take(&mut entry.probe), &error, now);
        }
        match broken {
            true => self.lanes[lane].failed.push((entry, error)),
            false => self.failed(entry, error, now),
        }
    }

    /// Updates what the host watches, and moves asks that wait for a broken connection to where they belong now.
    fn settle(&mut self, index: usize, now: Instant) {
        if let Some(error) = self.lanes[index].session.failure().cloned() {
            return self.mend(index, error, now);
        }
        let lane = &mut self.lanes[index];
        if lane.session.is_ready() && !lane.session.is_busy() {
            self.fleet.succeeded(Choice::regardless(lane.server));
        }
        if lane.is_at_rest() && self.has_left(index) {
            return self.retire(index, now);
        }
        let lane = &mut self.lanes[index];
        let Some(stream) = lane.session.stream() else { return };
        let wanted = (stream.as_fd().as_raw_fd(), lane.session.wants_to_write());
        if lane.watched != Some(wanted) {
            self.actions.extend(Action::watch_instead(index, lane.watched.replace(wanted), wanted));
        }
    }

    fn mend(&mut self, index: usize, error: Error, now: Instant) {
        self.let_go(index, now);
        let error = self.explained(index, error, now);
        let lane = &mut self.lanes[index];
        let probe = lane.waiting.iter_mut().any(|entry| std::mem::take(&mut entry.probe));
        let (failed, waiting) = (std::mem::take(&mut lane.failed), std::mem::take(&mut lane.waiting));
        self.blame(index, probe, &error, now);
        for (entry, error) in failed {
            self.failed(entry, error, now);
        }
        for entry in waiting {
            self.fleet.unsubmitted(&error, self.running[entry.operation].operation.name_of(entry.part));
            self.failed(entry, Error { sent: Sent::No, ..error.clone() }, now);
        }
    }

    /// Reports the outcomes of a broken connection, and has the host stop watching it.
    fn let_go(&mut self, index: usize, now: Instant) {
        self.take_completions(index, now);
        let lane = &mut self.lanes[index];
        lane.session.take_failure();
        match lane.watched.take() {
            None => lane.session.release(),
            Some((fd, _)) => {
                lane.forgotten = true;
                self.actions.push(Action::Forget { lane: index, fd });
            }
        }
    }

    fn expire_waiting(&mut self, lane: usize, now: Instant) {
        while self.lanes[lane].waiting.front().is_some_and(|entry| entry.deadline <= now) {
            let Some(entry) = self.lanes[lane].waiting.pop_front() else { return };
            let Lane { session, flight, .. } = &self.lanes[lane];
            let (is_ready, server) = (session.is_ready(), session.server());
            let why = match flight.is_empty() {
                false => "it was not sent in time: too many requests are in flight on this connection",
                true => "no connection was made in time",
            };
            let error = Error::new(Kind::Timeout, server, why);
            let error = self.failed_at(lane, entry.deadline, error, now);
            self.fleet.unsubmitted(&error, self.running[entry.operation].operation.name_of(entry.part));
            if !is_ready {
                self.blame(lane, entry.probe, &error, now);
            }
            self.failed(entry, error, now);
        }
    }
}

/// The FNV-1a hash.
fn hash(key: &[u8]) -> usize {
    key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)) as usize
}
