//! What becomes of asks on their connections: they wait, are submitted and answered, and move when a connection breaks.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::lane::{position, take, Entry, Lane};
use super::{Shared, Waiter};
use crate::fleet::Choice;
use crate::operations::{Ask, End, Operation, Sending};
use crate::pool::TRUSTED_REST;
use crate::session::{Completion, Outcome, Refused, Ticket};
use pinyon_net::address::Address;
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind, Sent};

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// Passes an ask to its connection.
    #[inline]
    pub(super) fn carry_out(&mut self, id: usize, Ask { part, choice: Choice { server, probe } }: Ask, now: Instant) {
        let running = &self.running[id];
        let mut lane = self.servers[server].first + self.connection_of(running.operation.routed(part));
        let entry = Entry { ticket: Ticket(0), operation: id, part, deadline: running.deadline, probe };
        if self.lanes[lane].trusted_until.is_none_or(|until| until <= now) {
            lane = self.look_at(lane, id, part, now);
        }
        if self.lanes[lane].waiting.is_empty() && self.lanes[lane].session.accepts() {
            self.submit(lane, entry, now);
        } else {
            self.lanes[lane].waiting.push_back(entry);
            self.begin_connecting(lane, now);
            self.end_turn();
        }
    }

    /// The lanes that keys are assigned to, of the server of this one.
    pub(super) fn assigned_of(&self, lane: usize) -> Range<usize> {
        let first = self.servers[self.lanes[lane].server].first;
        first..first + self.connections
    }

    /// The connection for a key. It depends only on the key, so commands on one key keep their order.
    fn connection_of(&self, key: &[u8]) -> usize {
        match self.connections {
            1 => 0,
            connections => hash(key) % connections,
        }
    }

    /// Finds the connection for an ask whose own is crowded, and checks it if it is idle: the server may have closed it
    /// while the loop was busy or stopped.
    #[cold]
    fn look_at(&mut self, index: usize, id: usize, part: u32, now: Instant) -> usize {
        let index = match self.lanes[index].crowded_by {
            Some(_) => self.around_the_crowd(index, id, part, now),
            None => index,
        };
        if self.lanes[index].crowded_by.is_none() && self.lanes[index].trusted_until.is_none_or(|until| until <= now) {
            self.check_idle(index, now);
        }
        index
    }

    fn check_idle(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let rest = lane.trusted_until.map_or(Duration::ZERO, |until| now.saturating_duration_since(until));
        lane.trusted_until = Some(now + TRUSTED_REST);
        if lane.is_at_rest() {
            lane.session.poll(now);
            lane.session.ask_after(rest, now, self.fleet.options().timeout);
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
    pub(super) fn send(&mut self, lane: usize, now: Instant) {
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
    pub(super) fn submit(&mut self, index: usize, mut entry: Entry, now: Instant) {
        let lane = &mut self.lanes[index];
        let longest_ttl = self.fleet.longest_ttl(lane.server);
        let sending = Sending { is_shared: true, longest_ttl, deadline: entry.deadline };
        let operation = &mut self.running[entry.operation].operation;
        match operation.submit(entry.part, &mut lane.session, sending) {
            Ok(ticket) => {
                entry.ticket = ticket;
                if lane.flight.is_empty() {
                    lane.half_time = Some(entry.deadline - self.half);
                    lane.heard = None;
                }
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

    pub(super) fn end_turn(&mut self) {
        if !std::mem::replace(&mut self.turn_is_due, true) {
            self.actions.push(Action::EndTurn);
        }
    }

    /// Connects to the addresses of a name, or fails with the reason why there are none.
    pub(super) fn resolved(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
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
                self.lanes[lane].is_opening = true;
                self.lanes[lane].heard_before = self.lanes[lane].session.heard();
                self.lanes[lane].session.connect(addresses, now, options.connect_timeout.min(options.timeout));
            }
            Err(why) => {
                self.lanes[lane].is_opening = true;
                self.lanes[lane].heard_before = self.lanes[lane].session.heard();
                let session = &mut self.lanes[lane].session;
                session.fail(Error::unresolved(Kind::Connect, &session.server().clone(), &why));
            }
        }
        self.advance(lane, now);
    }

    pub(super) fn begin_connecting(&mut self, index: usize, now: Instant) {
        if self.lanes[index].waiting.is_empty() {
            return;
        }
        match self.lanes[index].open_at {
            Some(at) if at > now => self.share_another(index, now),
            _ => self.open(index, now),
        }
    }

    /// Begins to connect, unless it does so already.
    pub(super) fn open(&mut self, index: usize, now: Instant) {
        let lane = &self.lanes[index];
        let pauses = lane.open_at.is_some_and(|at| at > now);
        if pauses || lane.resolving || lane.forgotten || !lane.session.is_closed() {
            return;
        }
        if self.is_replaced(index) {
            let lane = &mut self.lanes[index];
            lane.session = self.fleet.session(lane.server);
        }
        let lane = &mut self.lanes[index];
        self.fleet.renew_certificates(lane.server);
        match self.fleet.servers()[lane.server].spec.addresses() {
            Ok(addresses) => self.resolved(index, Ok(addresses), now),
            Err((name, port)) => {
                lane.resolving = true;
                self.actions.push(Action::Resolve { lane: index, name: name.to_owned(), port });
            }
        }
    }

    /// Takes what has arrived, submits what waits, and repairs what broke.
    pub(super) fn advance(&mut self, lane: usize, now: Instant) {
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
            let running = &mut self.running[id];
            running.has_begun = true;
            match outcome {
                Outcome::Part(reply) => running.operation.reply(part, reply),
                Outcome::Large { head, index } => {
                    let destination = running.operation.destination(part, index, &head);
                    lane.session.receive_into(destination);
                }
                Outcome::Reply(reply) => {
                    running.operation.reply(part, reply);
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
    pub(super) fn settle(&mut self, index: usize, now: Instant) {
        if let Some(error) = self.lanes[index].session.failure().cloned() {
            return self.mend(index, error, now);
        }
        let lane = &mut self.lanes[index];
        if lane.is_opening && lane.session.is_ready() {
            self.opened(index, now);
        }
        let lane = &mut self.lanes[index];
        if lane.session.is_ready() && !lane.session.is_busy() {
            self.fleet.succeeded(Choice::regardless(lane.server));
        }
        let lane = &mut self.lanes[index];
        if lane.is_at_rest() && self.has_left(index) {
            return self.retire(index, now);
        }
        let lane = &mut self.lanes[index];
        let Some(stream) = lane.session.stream() else {
            self.actions.extend(lane.session.take_question().map(Action::Ask));
            return;
        };
        let wanted = (stream.as_fd().as_raw_fd(), lane.session.wants_to_write());
        if lane.watched != Some(wanted) {
            self.actions.extend(Action::watch_instead(index, lane.watched.replace(wanted), wanted));
        }
    }

    /// Takes note that a connection is ready.
    #[cold]
    fn opened(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        (lane.is_opening, lane.open_at, lane.is_refused) = (false, None, false);
        if self.is_relief(index) {
            self.use_relief(index, now);
        }
    }

    fn mend(&mut self, index: usize, mut error: Error, now: Instant) {
        self.let_go(index, now);
        if self.lanes[index].is_opening {
            error = self.unconnected(index, error);
        }
        if self.wait_for_another(index, &error, now) {
            let probe = self.lanes[index].waiting.iter_mut().any(|entry| std::mem::take(&mut entry.probe));
            return self.blame(index, probe, &error, now);
        }
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
    pub(super) fn let_go(&mut self, index: usize, now: Instant) {
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

    pub(super) fn expire_waiting(&mut self, lane: usize, now: Instant) {
        while self.lanes[lane].waiting.front().is_some_and(|entry| entry.deadline <= now) {
            let Some(entry) = self.lanes[lane].waiting.pop_front() else { return };
            let Lane { session, flight, .. } = &self.lanes[lane];
            let (is_ready, server) = (session.is_ready(), session.server());
            let late = |why| Error::new(Kind::Timeout, server, why);
            let error = match session.failure() {
                Some(error) if error.kind == Kind::Credentials => error.clone(),
                _ if session.is_asking() => session.late_credentials(),
                _ if self.lanes[lane].is_refused => {
                    Error::new(Kind::Crowded, server, self.fleet.pool(self.lanes[lane].server).refusal())
                }
                _ if flight.is_empty() => late("no connection was made in time"),
                _ => late("it was not sent in time: too many requests are in flight on this connection"),
            };
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
