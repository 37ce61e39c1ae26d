//! The stage: servers, one connection to each, and an operation carried out step by step.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::KeyRules;

use crate::events::EventKind;
use crate::fleet::tests::made;
use crate::fleet::{Access, Choice, Fleet, Server};
use crate::near::Near;
use crate::operations::{Ask, Asks, End, Keys, Next, Operation, OwnedKey, Sending};
use crate::session::{Limits, Manner, Outcome, Protocol, Session, Ticket};
use pinyon_net::address::Address;
use pinyon_net::connection::peer::{Ending, Peer};
use pinyon_net::error::{Error, Kind, Sent};

pub const SECOND: Duration = Duration::from_secs(1);
/// A limit that no test meets, however long its machine keeps it from running.
pub const AN_HOUR: Duration = Duration::from_secs(3600);
pub const META: &str = "1.6.18";
/// The first version whose `mg` takes `C`.
pub const COMPARING: &str = "1.6.40";
pub const CLASSIC: &str = "1.4.15";

/// Carries out one operation, and begins it again as soon as it wants to. What it sends is reported as one line per
/// server: the server's name and the requests, with `|` for a line end and `*` for the opaques. Answers have the same
/// notation: each `O*` in them stands for the opaque of the next request.
pub struct Stage<O> {
    pub fleet: Fleet,
    pub operation: O,
    /// The time at which it begins, or begins again.
    pub now: Instant,
    /// Whether failures from now on leave time for a retry.
    pub in_time: bool,
    /// Whether other operations share the connections.
    pub is_shared: bool,
    /// Servers that refuse connections, and the error.
    pub unreachable: Vec<(&'static str, Kind)>,
    version: &'static str,
    connections: Vec<Connection>,
    begins_again: bool,
}

struct Connection {
    session: Session<Peer>,
    peer: Peer,
    flight: VecDeque<(Ticket, Ask)>,
    /// The opaques sent so far, in order.
    opaques: VecDeque<String>,
}

pub fn fleet(servers: &str, gutter: &[&str]) -> Fleet {
    made(servers, gutter, None, Access::default())
}

/// The same of a client that keeps hot keys in memory.
pub fn keeping(servers: &str, near: &Arc<Near>) -> Fleet {
    made(servers, &[], None, Access { near: Some(near.clone()), ..Access::default() })
}

/// Connects a session to a peer in memory, as a server of this version greets it.
pub fn greeted(mut session: Session<Peer>, peer: &Peer, version: &str) -> Session<Peer> {
    session.connect(vec![Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))], Instant::now(), AN_HOUR);
    for answer in [format!("VERSION {version}\r\n"), "MN\r\n".into()] {
        session.poll(Instant::now());
        peer.reply(answer.as_bytes());
    }
    session.poll(Instant::now());
    // As after an exchange.
    session.poll(Instant::now());
    peer.take_received();
    assert!(session.is_clean(), "{:?}", session.failure());
    session
}

/// Hands to an operation what has arrived on a session. Returns the asks that are over, with the error of each that failed.
pub fn take_arrived(
    operation: &mut impl Operation,
    session: &mut Session<Peer>,
    flight: &mut VecDeque<(Ticket, Ask)>,
) -> Vec<(Ask, Option<Error>)> {
    let mut over = Vec::new();
    for _ in 0..3 {
        session.poll(Instant::now());
        while let Some(completion) = session.next() {
            let Some(position) = flight.iter().position(|(ticket, _)| *ticket == completion.ticket) else { continue };
            let part = flight[position].1.part;
            let error = match completion.outcome {
                Outcome::Part(reply) => {
                    operation.reply(part, reply);
                    continue;
                }
                Outcome::Large { head, index } => {
                    let destination = operation.destination(part, index, &head);
                    session.receive_into(destination);
                    continue;
                }
                Outcome::Reply(reply) => {
                    operation.reply(part, reply);
                    None
                }
                Outcome::Failed(error) => Some(error),
            };
            over.extend(flight.remove(position).map(|(_, ask)| (ask, error)));
        }
    }
    over
}

impl<O: Operation> Stage<O> {
    /// `servers`: their names, one letter each. All have this version.
    pub fn new(servers: &str, version: &'static str, operation: O) -> Self {
        Self::with(fleet(servers, &[]), version, operation)
    }

    pub fn with(fleet: Fleet, version: &'static str, operation: O) -> Self {
        let connection = |server: &Arc<Server>| Connection::new(&fleet, &server.name, version);
        let connections = fleet.servers().iter().map(connection).collect();
        let (now, in_time, is_shared, begins_again) = (Instant::now(), true, true, false);
        let unreachable = Vec::new();
        Self { fleet, operation, now, in_time, is_shared, unreachable, version, connections, begins_again }
    }

    /// Begins the operation. Returns what is sent.
    pub fn begin(&mut self) -> Vec<String> {
        self.begins_again = true;
        self.go_on()
    }

    /// A server answers. Returns what is sent next.
    pub fn answer(&mut self, server: &str, text: &str) -> Vec<String> {
        let index = self.index(server);
        self.connections[index].reply(text);
        self.take(index);
        self.go_on()
    }

    /// A server closes the connection. Returns what is sent next.
    pub fn close(&mut self, server: &str) -> Vec<String> {
        let index = self.index(server);
        self.connections[index].peer.end(Ending::Closed);
        self.take(index);
        self.go_on()
    }

    /// The asks of a server time out. Returns what is sent next.
    pub fn time_out(&mut self, server: &str) -> Vec<String> {
        let index = self.index(server);
        let error = Error::unanswered(&self.fleet.servers()[index].name);
        self.connections[index].session.fail(error);
        self.take(index);
        self.go_on()
    }

    /// A server leaves before its request was sent. Returns what is sent next.
    pub fn withdraw(&mut self, server: &str) -> Vec<String> {
        let index = self.index(server);
        for (_, ask) in std::mem::take(&mut self.connections[index].flight) {
            self.over(ask, End::Withdrawn);
        }
        self.go_on()
    }

    /// The events of the servers: kind and server of each, and the command if it has one.
    pub fn events(&self) -> Vec<String> {
        let told = |event: crate::events::Event| match event.kind {
            EventKind::Retry => format!("retry {} on {}", event.command, letter(&event.server)),
            kind => format!("{} {}", kind.as_str(), letter(&event.server)),
        };
        self.fleet.take_events().into_iter().map(told).collect()
    }

    pub fn is_over(&self) -> bool {
        !self.begins_again && self.connections.iter().all(|connection| connection.flight.is_empty())
    }

    fn index(&self, server: &str) -> usize {
        self.fleet.servers().iter().position(|of| letter(&of.name) == server).expect("a server of this name")
    }

    fn go_on(&mut self) -> Vec<String> {
        while std::mem::take(&mut self.begins_again) {
            match self.operation.begin(&self.fleet, self.now) {
                Asks::None => {}
                Asks::One(ask) => self.carry_out(ask),
                Asks::Many(asks) => asks.into_iter().for_each(|ask| self.carry_out(ask)),
            }
        }
        let sent = self.fleet.servers().iter().zip(&mut self.connections);
        let sent = sent.map(|(server, connection)| (letter(&server.name), connection.sent()));
        sent.filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}: {text}")).collect()
    }

    fn carry_out(&mut self, ask: Ask) {
        let Choice { server, .. } = ask.choice;
        let name = self.fleet.servers()[server].name.clone();
        if let Some((_, kind)) = self.unreachable.iter().find(|(of, _)| *of == letter(&name)) {
            return self
                .failed(ask, Error::new(*kind, &name, "no connection").of(self.operation.name_of(ask.part), Sent::No));
        }
        if self.connections[server].session.failure().is_some() {
            self.connections[server] = Connection::new(&self.fleet, &name, self.version);
        }
        let connection = &mut self.connections[server];
        let (longest_ttl, deadline) = (self.fleet.longest_ttl(server), Instant::now() + AN_HOUR);
        let sending = Sending { is_shared: self.is_shared, longest_ttl, deadline };
        match self.operation.submit(ask.part, &mut connection.session, sending) {
            Ok(ticket) => connection.flight.push_back((ticket, ask)),
            Err(why) => self.failed(ask, why.into_error(&name, self.operation.name_of(ask.part))),
        }
    }

    /// Takes what a server's session has, failures last.
    fn take(&mut self, index: usize) {
        let Connection { session, flight, .. } = &mut self.connections[index];
        let mut failed = Vec::new();
        for (ask, error) in take_arrived(&mut self.operation, session, flight) {
            match error {
                None => {
                    self.fleet.succeeded(ask.choice);
                    self.over(ask, End::Answered);
                }
                Some(error) => failed.push((ask, error)),
            }
        }
        failed.iter().for_each(|(ask, error)| self.fleet.failed(ask.choice, error));
        for (ask, error) in failed {
            self.over(ask, End::Failed { error, in_time: self.in_time });
        }
    }

    fn failed(&mut self, ask: Ask, error: Error) {
        self.fleet.failed(ask.choice, &error);
        self.over(ask, End::Failed { error, in_time: self.in_time });
    }

    fn over(&mut self, ask: Ask, end: End) {
        self.begins_again |= self.operation.over(ask.part, end) == Next::Again;
    }
}

impl Connection {
    fn new(fleet: &Fleet, server: &str, version: &str) -> Self {
        let peer = Peer::default();
        let session = Session::new(server.into(), peer.clone(), Limits::default());
        let session = session.in_manner(Manner::new(Protocol::Auto, None).keeping(fleet.near()).into());
        Self { session: greeted(session, &peer, version), peer, flight: VecDeque::new(), opaques: VecDeque::new() }
    }

    /// What was sent since the last call.
    fn sent(&mut self) -> String {
        if self.session.failure().is_some() {
            return String::new();
        }
        self.session.poll(Instant::now());
        let sent = String::from_utf8(self.peer.take_received()).unwrap();
        let lines = sent.split_terminator("\r\n").map(|line| self.note_opaque(line)).collect::<Vec<_>>();
        lines.join("|")
    }

    fn note_opaque(&mut self, line: &str) -> String {
        let words = line.split(' ').enumerate().map(|(number, word)| match word.strip_prefix('O') {
            Some(opaque) if number > 1 => {
                // A quiet command has no reply.
                self.opaques.extend((!line.ends_with(" q")).then(|| opaque.to_owned()));
                "O*".to_owned()
            }
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn reply(&mut self, text: &str) {
        for line in text.split('|') {
            let answers = line.contains("O*") || line.contains("ERROR");
            let opaque = answers.then(|| self.opaques.pop_front()).flatten().unwrap_or_default();
            self.peer.reply(format!("{}\r\n", line.replace('*', &opaque)).as_bytes());
        }
    }
}

/// A server's name without its port.
pub fn letter(server: &str) -> &str {
    server.split(':').next().unwrap_or_default()
}

/// The `number`th key that belongs to this server.
pub fn key_of(fleet: &Fleet, server: &str, number: usize) -> String {
    let is_of = |key: &String| {
        let choice = fleet.choose(key.as_bytes(), false, Instant::now());
        choice.is_ok_and(|choice| letter(&fleet.servers()[choice.server].name) == server)
    };
    (0..).map(|index| format!("{server}{index}")).filter(is_of).nth(number).unwrap()
}

pub fn owned(key: &str) -> OwnedKey {
    OwnedKey::new(&KeyRules::default(), key.as_bytes()).unwrap()
}

pub fn keys(names: &[&str]) -> Keys {
    let mut keys = Keys::default();
    names.iter().for_each(|name| keys.push(&KeyRules::default(), name.as_bytes()).unwrap());
    keys
}
