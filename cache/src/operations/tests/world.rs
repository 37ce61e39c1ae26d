//! Processes, their operations and the servers that they share. Requests and replies travel when the test says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::stage::{greeted, take_arrived, AN_HOUR, META};
use crate::fleet::tests::made;
use crate::fleet::{Access, Fleet, Server};
use crate::operations::{AnyOperation, AsBytes, Ask, Asks, End, Next, Operation, OwnedKey, Sending};
use crate::session::tests::memcached::Memcached;
use crate::session::{Limits, Session, Ticket};
use pinyon_net::connection::peer::{Ending, Peer};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::fake_clock::clock;

pub const SERVERS: [&str; 2] = ["a", "b"];

pub type Any = AnyOperation<OwnedKey, Option<Vec<u8>>, AsBytes>;

/// The servers as a process sees them.
pub fn fleet(access: Access) -> Fleet {
    made(&SERVERS.join(","), &[], None, access)
}

/// An operation under way, with connections of its own.
pub struct Running {
    pub process: usize,
    pub operation: Any,
    links: Vec<Link>,
    begins_again: bool,
    /// Whether failures from now on leave time for a retry.
    in_time: bool,
}

struct Link {
    session: Session<Peer>,
    peer: Peer,
    flight: VecDeque<(Ticket, Ask)>,
    replies: Vec<u8>,
}

#[derive(Default)]
pub struct World {
    /// The servers as each process sees them.
    pub fleets: Vec<Fleet>,
    pub servers: [Memcached; 2],
    /// Whether the servers refuse connections.
    pub is_down: bool,
    /// Requests that arrive although their callers have given up.
    late: [Vec<u8>; 2],
}

impl World {
    pub fn new(fleets: Vec<Fleet>) -> Self {
        Self { fleets, ..Self::default() }
    }

    pub fn begin(&self, process: usize, operation: impl Into<Any>) -> Running {
        let links = self.fleets[process].servers().iter().map(Link::new).collect();
        let mut running = Running { process, operation: operation.into(), links, begins_again: true, in_time: true };
        self.go_on(&mut running);
        running
    }

    /// A server carries out what the operation has sent to it.
    pub fn serve(&mut self, running: &mut Running, server: usize) {
        let link = &mut running.links[server];
        if link.session.failure().is_none() {
            link.session.poll(Instant::now());
            let replies = self.servers[server].serve(&link.peer.take_received());
            link.replies.extend(replies);
        }
    }

    /// The replies of a server arrive.
    pub fn answer(&self, running: &mut Running, server: usize) {
        let link = &mut running.links[server];
        link.peer.reply(&std::mem::take(&mut link.replies));
        running.take(server);
        self.go_on(running);
    }

    /// What is on its way to an operation arrives; or else, what it has sent.
    pub fn advance(&mut self, running: &mut Running) {
        let is_answered = running.links.iter().any(|link| !link.replies.is_empty());
        for server in 0..SERVERS.len() {
            match is_answered {
                true => self.answer(running, server),
                false => self.serve(running, server),
            }
        }
    }

    /// The connection breaks: requests and replies on their way are lost.
    pub fn break_off(&self, running: &mut Running, server: usize) {
        let link = &mut running.links[server];
        link.replies.clear();
        link.peer.take_received();
        link.peer.end(Ending::Closed);
        running.take(server);
        running.links[server] = Link::new(&self.fleets[running.process].servers()[server]);
        self.go_on(running);
    }

    /// The time of an operation is over before its requests arrive. The servers [catch up](Self::catch_up) with them later.
    pub fn time_out(&mut self, running: &mut Running) {
        running.in_time = false;
        for (server, late) in self.late.iter_mut().enumerate() {
            let link = &mut running.links[server];
            link.session.poll(Instant::now());
            late.extend(link.peer.take_received());
            link.session.fail(Error::unanswered(&SERVERS[server].into()));
            running.take(server);
        }
        self.go_on(running);
    }

    pub fn catch_up(&mut self) {
        for (server, late) in self.servers.iter_mut().zip(&mut self.late) {
            server.serve(&std::mem::take(late));
        }
    }

    /// Runs an operation to its end.
    pub fn run(&mut self, process: usize, operation: impl Into<Any>) -> Any {
        let running = self.begin(process, operation);
        self.finish(running)
    }

    /// The same for one that has begun.
    pub fn finish(&mut self, mut running: Running) -> Any {
        for _ in 0..20 {
            for server in 0..SERVERS.len() {
                self.serve(&mut running, server);
                self.answer(&mut running, server);
            }
        }
        assert!(running.is_over(), "it has not ended");
        running.operation
    }

    /// How many commands all servers have carried out since the last question.
    pub fn commands(&mut self) -> usize {
        self.servers.iter_mut().map(|server| std::mem::take(&mut server.commands)).sum()
    }

    fn go_on(&self, running: &mut Running) {
        while std::mem::take(&mut running.begins_again) {
            let asks = match running.operation.begin(&self.fleets[running.process], clock()) {
                Asks::None => Vec::new(),
                Asks::One(ask) => vec![ask],
                Asks::Many(asks) => asks,
            };
            asks.into_iter().for_each(|ask| self.carry_out(running, ask));
        }
    }

    fn carry_out(&self, running: &mut Running, ask: Ask) {
        let name = SERVERS[ask.choice.server].into();
        if self.is_down {
            let error = Error::new(Kind::Connect, &name, "no connection").of(running.operation.name(), Sent::No);
            return running.over(ask, End::Failed { error, in_time: false });
        }
        let link = &mut running.links[ask.choice.server];
        let sending = Sending { is_shared: true, longest_ttl: None, deadline: Instant::now() + AN_HOUR };
        match running.operation.submit(ask.part, &mut link.session, sending) {
            Ok(ticket) => link.flight.push_back((ticket, ask)),
            Err(why) => {
                let error = why.into_error(&name, "").of("", Sent::No);
                running.over(ask, End::Failed { error, in_time: true });
            }
        }
    }
}

impl Running {
    pub fn is_over(&self) -> bool {
        !self.begins_again && self.links.iter().all(|link| link.flight.is_empty())
    }

    fn take(&mut self, server: usize) {
        let Link { session, flight, .. } = &mut self.links[server];
        for (ask, error) in take_arrived(&mut self.operation, session, flight) {
            let failed = |error| End::Failed { error, in_time: self.in_time };
            self.over(ask, error.map_or(End::Answered, failed));
        }
    }

    fn over(&mut self, ask: Ask, end: End) {
        self.begins_again |= self.operation.over(ask.part, end) == Next::Again;
    }
}

impl Link {
    fn new(server: &Arc<Server>) -> Self {
        let peer = Peer::default();
        let session = Session::new(server.name.clone(), peer.clone(), Limits::default());
        let session = session.in_manner(server.manner().clone());
        Self { session: greeted(session, &peer, META), peer, flight: VecDeque::new(), replies: Vec::new() }
    }
}
