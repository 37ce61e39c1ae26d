//! Driving sessions from an event loop: the coroutines of a loop share one connection to each server.
//!
//! What is submitted in one turn of the loop leaves in one send at its end, and all replies that have arrived are
//! taken in one receive. Nothing here waits or calls the loop: after each call the host carries out the
//! [`Action`]s and resumes what has [`Finished`].

mod blame;
mod discovering;
mod lane;

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::Head;

use crate::address::Address;
use crate::directory::Directory;
use crate::driven::{Action, Driven};
use crate::error::{Error, Kind, Sent};
use crate::fleet::{Choice, Fleet};
use crate::pool::TRUSTED_REST;
use crate::session::{Completion, Destination, Outcome, Refused, Reply, Session, Ticket};
use lane::{position, take, Entry, Lane};

/// One request of one coroutine.
pub trait Operation {
    /// The protocol's name of its command, for messages.
    fn name(&self) -> &'static str;

    /// Which server it is for.
    fn route(&self) -> Route<'_>;

    /// It goes to a server whose items live so many seconds at most.
    fn expire_within(&mut self, most: i32);

    /// Submits it. It may be called again, when nothing of it was sent or it only reads.
    fn submit(&mut self, session: &mut Session, deadline: Instant) -> Result<Ticket, Refused>;

    fn reply(&mut self, reply: Reply<'_>);

    /// Where a large value is to be received.
    fn destination(&mut self, head: &Head) -> Box<dyn Destination>;

    /// Whether running it twice does what running it once does.
    fn is_idempotent(&self) -> bool;

    /// The server has failed one of several operations and does not say which. Whether to submit this one again, by
    /// itself then.
    fn insists(&mut self) -> bool;

    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
}

pub enum Route<'k> {
    /// The server that holds this key; with `failover` another one where that is down.
    Key { key: &'k [u8], failover: bool },
    /// This server and no other: it is not tried again.
    Server(Choice),
    /// Nowhere yet: it is over as soon as the servers are known.
    Known,
}

/// An operation that is over, successfully unless there is an error.
pub struct Finished<O> {
    pub operation: O,
    pub error: Option<Error>,
    pub deadline: Instant,
}

/// The connections of one event loop, and what its coroutines wait for.
pub struct Shared<O> {
    directory: Arc<Directory>,
    fleet: Arc<Fleet>,
    /// When to go on with a look for servers, while one is under way.
    look_at: Option<Instant>,
    /// Why there are no servers.
    undiscovered: Option<Error>,
    /// What waits for the servers to become known.
    unrouted: Vec<Entry<O>>,
    lanes: Vec<Lane<O>>,
    /// Connections to each server.
    connections: usize,
    measures: bool,
    turn_is_due: bool,
    closed: bool,
    actions: Vec<Action>,
    finished: Vec<Finished<O>>,
}

impl<O: Operation> Shared<O> {
    pub fn new(directory: Arc<Directory>, connections: usize) -> Self {
        let fleet = directory.known();
        let mut shared = Self {
            look_at: None,
            undiscovered: None,
            unrouted: Vec::new(),
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

    /// Begins an operation, to be over by `deadline`.
    pub fn start(&mut self, operation: O, deadline: Instant, now: Instant) {
        let entry = Entry { ticket: Ticket(0), operation, deadline, sent: Sent::No, probe: false };
        self.look(now);
        self.route(entry, now, None);
    }

    /// Begins what takes the place of an operation that failed with this. Returns whether there is a server for it; where
    /// there is none, it fails with what the other did.
    pub fn start_again(&mut self, operation: O, deadline: Instant, now: Instant, error: &Error) -> bool {
        let entry = Entry { ticket: Ticket(0), operation, deadline, sent: error.sent, probe: false };
        self.route(entry, now, Some(error))
    }
}

impl<O: Operation> Driven for Shared<O> {
    type Finished = Finished<O>;

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
                self.send(lane);
                self.settle(lane, now);
            }
        }
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
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
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
    }

    fn deadline(&self) -> Option<Instant> {
        let unrouted = self.unrouted.first().map(|entry| entry.deadline);
        self.lanes.iter().filter_map(Lane::deadline).chain(unrouted).chain(self.look_at).min()
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        self.lanes[lane].forgotten = false;
        self.lanes[lane].session.release();
        self.begin_connecting(lane, now);
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let watched = |(lane, of): (usize, &Lane<O>)| of.watched.map(|(fd, _)| (lane, fd));
        self.lanes.iter().enumerate().filter_map(watched)
    }

    fn is_idle(&self) -> bool {
        let rests = |lane: &Lane<O>| lane.flight.is_empty() && lane.waiting.is_empty() && lane.failed.is_empty();
        self.unrouted.is_empty() && self.finished.is_empty() && self.lanes.iter().all(rests)
    }

    fn discard(&mut self) {
        self.closed = true;
        self.lanes.clear();
    }

    fn close(&mut self, now: Instant) {
        self.closed = true;
        self.route_unrouted(now);
        for lane in 0..self.lanes.len() {
            self.lanes[lane].session.close();
            self.advance(lane, now);
        }
    }
}

impl<O: Operation> Shared<O> {
    /// Tries an operation once more.
    fn route_again(&mut self, entry: Entry<O>, now: Instant, error: &Error) {
        let name = entry.operation.name();
        if self.route(entry, now, Some(error)) {
            self.fleet.retrying(error, name);
        }
    }

    /// Gives an operation to the connection it belongs to now. Returns whether there is one; where there is none it fails,
    /// with the error of an earlier try if there is that.
    fn route(&mut self, mut entry: Entry<O>, now: Instant, earlier: Option<&Error>) -> bool {
        if self.closed {
            let error = Error::new(Kind::Closed, &"".into(), "the client was closed");
            self.fail(entry, error);
            return false;
        }
        if !self.fleet.is_known() {
            self.await_servers(entry);
            return true;
        }
        let (Choice { server, probe }, connection) = match entry.operation.route() {
            Route::Server(choice) => (choice, 0),
            Route::Known => {
                self.finished.push(Finished { operation: entry.operation, error: None, deadline: entry.deadline });
                self.end_turn();
                return true;
            }
            Route::Key { key, failover } => match self.fleet.choose(key, failover, now) {
                Ok(choice) => (choice, self.connection_of(key)),
                Err(down) => {
                    if earlier.is_none() {
                        self.fleet.unsubmitted(&down, entry.operation.name());
                    }
                    self.fail(entry, earlier.cloned().unwrap_or(down));
                    return false;
                }
            },
        };
        entry.probe = probe;
        if let Some(most) = self.fleet.longest_ttl(server) {
            entry.operation.expire_within(most);
        }
        let lane = server * self.connections + connection;
        if self.lanes[lane].trusted_until.is_none_or(|until| until <= now) {
            self.look_at(lane, now);
        }
        if self.lanes[lane].waiting.is_empty() && self.lanes[lane].session.accepts() {
            self.submit(lane, entry);
        } else {
            self.lanes[lane].waiting.push_back(entry);
            self.begin_connecting(lane, now);
            self.end_turn();
        }
        true
    }

    /// Commands on one key keep their order: they go over one connection.
    fn connection_of(&self, key: &[u8]) -> usize {
        match self.connections {
            1 => 0,
            connections => hash(key) % connections,
        }
    }

    /// The server may have closed a connection at rest while the loop was away, with other work or not running at all.
    #[cold]
    fn look_at(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        lane.trusted_until = Some(now + TRUSTED_REST);
        if lane.is_at_rest() {
            lane.session.poll(now);
            self.settle(index, now);
        }
    }

    /// Submits what waits, in order, as far as the session takes it.
    fn submit_waiting(&mut self, lane: usize) {
        while self.lanes[lane].session.accepts() {
            let Some(entry) = self.lanes[lane].waiting.pop_front() else { return };
            if !entry.operation.is_abandoned() {
                self.submit(lane, entry);
            } else if entry.probe {
                self.fleet.succeeded(Choice { server: self.lanes[lane].server, probe: true });
            }
        }
    }

    /// Sends as far as the socket takes it: what is sent makes room for what waits.
    fn send(&mut self, lane: usize) {
        loop {
            self.lanes[lane].session.flush();
            let Lane { session, waiting, .. } = &self.lanes[lane];
            if session.has_unsent() || waiting.is_empty() || !session.accepts() {
                return;
            }
            self.submit_waiting(lane);
        }
    }

    /// Submits what the session has room for.
    fn submit(&mut self, lane: usize, mut entry: Entry<O>) {
        let Lane { session, flight, waiting, .. } = &mut self.lanes[lane];
        match entry.operation.submit(session, entry.deadline) {
            Ok(ticket) => {
                entry.ticket = ticket;
                flight.push_back(entry);
                self.end_turn();
            }
            Err(Refused::Full) => waiting.push_front(entry),
            Err(why) => {
                let error = why.into_error(session.server(), entry.operation.name());
                self.fleet.failed(Choice { server: self.lanes[lane].server, probe: entry.probe }, &error);
                self.fail(entry, error);
            }
        }
    }

    fn end_turn(&mut self) {
        if !std::mem::replace(&mut self.turn_is_due, true) {
            self.actions.push(Action::EndTurn);
        }
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
            Ok(addresses) => self.connect(index, Ok(addresses), now),
            Err((name, port)) => {
                lane.resolving = true;
                self.actions.push(Action::Resolve { lane: index, name: name.to_owned(), port });
            }
        }
    }

    /// Takes what came, submits what waits, and mends what broke.
    fn advance(&mut self, lane: usize, now: Instant) {
        self.take_completions(lane, now);
        if !self.lanes[lane].waiting.is_empty() {
            self.submit_waiting(lane);
            self.send(lane);
        }
        self.settle(lane, now);
    }

    fn take_completions(&mut self, index: usize, now: Instant) {
        loop {
            let lane = &mut self.lanes[index];
            let Some(Completion { ticket, outcome }) = lane.session.next() else { return };
            let Some(position) = position(&lane.flight, ticket) else { continue };
            match outcome {
                Outcome::Part(reply) => lane.flight[position].operation.reply(reply),
                Outcome::Large(head) => {
                    let destination = lane.flight[position].operation.destination(&head);
                    lane.session.receive_into(destination);
                }
                Outcome::Reply(reply) => {
                    lane.flight[position].operation.reply(reply);
                    let Some(entry) = take(&mut lane.flight, position) else { continue };
                    if entry.probe || self.measures {
                        self.answered(index, &entry, now);
                    }
                    let Entry { operation, deadline, .. } = entry;
                    self.finished.push(Finished { operation, error: None, deadline });
                }
                Outcome::Failed(error) => {
                    let Some(entry) = take(&mut lane.flight, position) else { continue };
                    self.retry(index, entry, error, now);
                }
            }
        }
    }

    #[cold]
    fn answered(&self, lane: usize, entry: &Entry<O>, now: Instant) {
        let (server, timeout) = (self.lanes[lane].server, self.fleet.options().timeout);
        if entry.probe {
            self.fleet.succeeded(Choice { server, probe: true });
        }
        let took = timeout.saturating_sub(entry.deadline.saturating_duration_since(now));
        self.fleet.took(server, entry.operation.name(), took);
    }

    /// Tries again what was not sent or only reads, within its deadline.
    fn retry(&mut self, lane: usize, mut entry: Entry<O>, error: Error, now: Instant) {
        entry.sent = entry.sent.max(error.sent);
        let error = self.failed_at(lane, entry.deadline, error, now);
        if error.is_unattributed() && entry.deadline > now && entry.operation.insists() {
            return self.lanes[lane].waiting.push_back(entry);
        }
        let repeatable = error.sent == Sent::No || entry.operation.is_idempotent();
        let broken = self.lanes[lane].session.failure().is_some();
        if entry.probe || !broken {
            let probe = std::mem::take(&mut entry.probe);
            self.blame(lane, probe, &error, now);
        }
        let hopeless = !error.may_pass() || entry.deadline <= now;
        let bound = matches!(entry.operation.route(), Route::Server(_) | Route::Known);
        if entry.operation.is_abandoned() || bound || !repeatable || hopeless || !broken {
            return self.fail(entry, error);
        }
        self.lanes[lane].failed.push((entry, error));
    }

    /// Keeps the host's watch on a connection up to date, and moves what waits for a broken one to where it belongs
    /// now.
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
            self.route_again(entry, now, &error);
        }
        for entry in waiting {
            self.fleet.unsubmitted(&error, entry.operation.name());
            match entry.operation.route() {
                Route::Server(_) | Route::Known => self.fail(entry, error.clone()),
                Route::Key { .. } => self.route_again(entry, now, &error),
            }
        }
    }

    /// Hands out what came of a broken connection, and lets the host forget it.
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
                false => "its turn did not come in time: too much is in flight on this connection",
                true => "no connection stood in time",
            };
            let error = Error::new(Kind::Timeout, server, why);
            let error = self.failed_at(lane, entry.deadline, error, now);
            self.fleet.unsubmitted(&error, entry.operation.name());
            if !is_ready {
                self.blame(lane, entry.probe, &error, now);
            }
            self.fail(entry, error);
        }
    }

    fn fail(&mut self, entry: Entry<O>, error: Error) {
        let error = match error.command {
            "" => error.of(entry.operation.name(), entry.sent),
            name => {
                let sent = error.sent.max(entry.sent);
                error.of(name, sent)
            }
        };
        self.finished.push(Finished { operation: entry.operation, error: Some(error), deadline: entry.deadline });
        self.end_turn();
    }
}

/// FNV-1a.
fn hash(key: &[u8]) -> usize {
    key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)) as usize
}
