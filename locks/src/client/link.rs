//! The link to the server: makes connections when they are needed, sends calls, and takes answers and pushes.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};

use super::lane::{earlier, pause, Lane, FIRST_PAUSE};
use super::{Client, MachineFailure, Now, Outcome, Platform, Report};
use crate::handler::Handler;
use crate::machine::LockRequest;
use crate::observed::LockEvent;
use crate::redis::{Refusal, RespEvent, RespRefused, RespSession, Ticket};
use crate::script::{Missing, ScriptError};
use crate::sequence::Sequence;
use pinyon_net::address::Endpoint;
use pinyon_net::error::{Error, Kind, Sent};

/// The connection for commands, and the one for pushes if one connection cannot carry both (RESP2).
pub(super) const COMMANDS: usize = 0;
pub(super) const PUSHES: usize = 1;

/// The pause before asking again for a slot that is moving.
pub(super) const MOVING: Duration = Duration::from_millis(20);

pub(super) struct Link<W, P: Platform> {
    pub(super) lanes: [Lane<P>; 2],
    pub(super) handler: Handler,
    pub(super) phase: Phase,
    /// Commands to send, in order. Some wait for a connection.
    outbox: VecDeque<Item<W>>,
    /// Commands that cannot be sent at all.
    refused: VecDeque<(About<W>, RespRefused)>,
    /// The subject of each exchange on the commands' connection, in order.
    flight: Sequence<About<W>>,
    /// When the first of the connection attempts failed that failed in a row.
    pub(super) down_since: Option<Instant>,
    pub(super) has_been_up: bool,
    /// The node that was connected last.
    pub(super) served_by: Option<Endpoint>,
    /// Whether it was reported that no connection can be made.
    pub(super) told_down: bool,
    /// The nodes of which it was reported that they cannot be reached, and when.
    pub(super) away: Vec<(Arc<str>, Instant)>,
    /// Whether the connection was given up for one to another node.
    pub(super) moved: bool,
    /// The number of redirections in a row that led to no node with the keys.
    redirections: u32,
    /// Whether something was submitted since the last send.
    pub(super) fresh: bool,
    /// When to repeat the calls that wait for a slot to move.
    again_at: Option<Instant>,
    /// Calls that the server refused because it only reads. The answer about its role decides what becomes of them.
    read_only: Vec<(u64, ScriptError)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Down,
    /// Connecting, or connected but not yet receiving pushes.
    Rising,
    Up,
}

struct Item<W> {
    command: Command,
    about: About<W>,
    deadline: Instant,
}

pub(super) enum About<W> {
    /// A command of a handler's job.
    Job(u64),
    /// A command of the user's.
    Command(W),
    /// The request for the server's information.
    Info,
    /// The question whether a cluster's node has the keys.
    Slot,
    /// The question for all nodes of a cluster.
    Nodes,
    /// The question which primary a replica has.
    Role,
    Subscription,
}

impl<W, P: Platform> Link<W, P> {
    pub(super) fn new(handler: Handler, [commands, pushes]: [RespSession<P>; 2]) -> Self {
        Self {
            lanes: [Lane::new(COMMANDS, commands), Lane::new(PUSHES, pushes)],
            handler,
            phase: Phase::Down,
            outbox: VecDeque::new(),
            refused: VecDeque::new(),
            flight: Sequence::default(),
            down_since: None,
            has_been_up: false,
            served_by: None,
            told_down: false,
            away: Vec::new(),
            moved: false,
            redirections: 0,
            fresh: false,
            again_at: None,
            read_only: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, command: Command, about: About<W>, deadline: Instant) {
        self.fresh = true;
        self.outbox.push_back(Item { command, about, deadline });
    }

    pub(super) fn is_down(&self) -> bool {
        self.phase == Phase::Down
    }

    /// Whether no answer is awaited.
    pub(super) fn is_quiet(&self) -> bool {
        self.flight.is_empty() && self.outbox.is_empty() && self.phase != Phase::Rising
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lanes.iter().any(|lane| lane.session.failure().is_some())
    }

    pub(super) fn has_been_up(&self) -> bool {
        self.has_been_up
    }

    /// Whether commands wait to be sent.
    pub(super) fn has_waiting(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether a connection for commands is being made.
    pub(super) fn is_connecting(&self) -> bool {
        self.lanes[COMMANDS].is_connecting() || self.lanes[PUSHES].waits_for_host()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let mut due = self.again_at;
        for lane in &self.lanes {
            due = earlier(due, lane.deadline());
        }
        for item in self.outbox.iter().filter(|item| matches!(item.about, About::Command(_))) {
            due = earlier(due, Some(item.deadline));
        }
        due
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        self.lanes.iter().filter_map(Lane::watched)
    }

    /// Submits commands in order, until the connection takes no more.
    fn submit(&mut self) {
        while self.is_up() && self.lanes[COMMANDS].session.accepts() {
            let Some(Item { command, about, deadline }) = self.outbox.pop_front() else { return };
            match self.lanes[COMMANDS].session.submit_command(&command, deadline) {
                Ok(Ticket(ticket)) => self.flight.insert(ticket, about),
                Err(RespRefused::Full) => return self.outbox.push_front(Item { command, about, deadline }),
                Err(refused) => self.refused.push_back((about, refused)),
            }
            self.handler.reuse(command);
        }
    }

    /// Submits a command on a new connection, ahead of the outbox.
    pub(super) fn submit_first(&mut self, parts: &[&[u8]], about: About<W>, deadline: Instant) {
        let submitted = self.lanes[COMMANDS].session.submit(parts, deadline);
        let Ticket(ticket) = submitted.expect("a new connection has room");
        self.flight.insert(ticket, about);
        self.fresh = true;
    }

    /// Whether a send would achieve more than the last one. Bytes that the socket refused wait for the socket.
    fn has_something_to_send(&self) -> bool {
        let takes_more = !self.outbox.is_empty() && self.lanes[COMMANDS].session.accepts();
        self.fresh || self.is_up() && takes_more
    }

    pub(super) fn flush(&mut self) {
        self.fresh = false;
        loop {
            self.submit();
            for lane in &mut self.lanes {
                lane.session.flush();
            }
            let commands = &self.lanes[COMMANDS].session;
            if self.outbox.is_empty() || !self.is_up() || commands.has_unsent() || !commands.accepts() {
                return;
            }
        }
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Takes what has arrived, acts on it, and repairs what broke.
    pub(super) fn advance(&mut self, now: Instant) {
        for lane in [COMMANDS, PUSHES] {
            if !self.link.lanes[lane].session.is_closed() {
                self.take_from(lane, now);
            }
        }
        self.pump(now);
        self.sent(now);
        self.take_events();
        if self.replicas.is_some() {
            self.confirm_grants(now);
        }
        if self.link.has_something_to_send() {
            self.end_turn();
        }
    }

    /// Reports the user's commands that no connection takes. The handlers' own calls always fit.
    fn tell_refused(&mut self) {
        while let Some((about, refused)) = self.link.refused.pop_front() {
            let About::Command(waiter) = about else { continue };
            let error = refused.into_error(&self.settings.server, "");
            self.finish(waiter, Outcome::Failed(MachineFailure::from(error)));
        }
    }

    /// Repairs a connection that broke while sending.
    pub(super) fn sent(&mut self, now: Instant) {
        self.tell_refused();
        match self.link.lanes.iter().find_map(|lane| lane.session.failure()) {
            Some(error) => self.mend(error.clone(), now),
            None => self.watch(),
        }
    }

    fn take_from(&mut self, lane: usize, now: Instant) {
        while let Some(event) = self.link.lanes[lane].session.next() {
            match event {
                RespEvent::Ready => self.greeted(lane, now),
                RespEvent::Pushed(message) => self.pushed(&message),
                RespEvent::Reply(_, reply) if lane == PUSHES => self.subscribed(PUSHES, reply, now),
                RespEvent::Reply(Ticket(ticket), reply) => self.replied(ticket, reply, now),
                RespEvent::Failed(_, error) if lane == PUSHES => self.link.lanes[PUSHES].session.fail(error),
                RespEvent::Failed(Ticket(ticket), error) => self.failed(ticket, error),
                RespEvent::Troubled(error) => self.report_trouble(&error),
            }
        }
    }

    fn replied(&mut self, ticket: u64, reply: Value, now: Instant) {
        match self.link.flight.remove(ticket) {
            Some(About::Job(job)) => {
                self.link.handler.reply(job, reply);
                self.take_answers();
            }
            Some(About::Command(waiter)) => {
                let outcome = match reply {
                    Value::Error(refusal) => {
                        let error = Error::new(Kind::Server, &self.settings.server, refusal.to_string());
                        Outcome::Failed(MachineFailure::from(error.of("", Sent::Yes)))
                    }
                    reply => Outcome::Value(reply),
                };
                self.finish(waiter, outcome);
            }
            Some(About::Info) => self.informed(&reply),
            Some(About::Slot) => self.told_slot(reply, now),
            Some(About::Nodes) => self.told_nodes(&reply, now),
            Some(About::Role) => self.told_role(&reply, now),
            Some(About::Subscription) => self.subscribed(COMMANDS, reply, now),
            None => {}
        }
    }

    /// Handles a failed exchange. A user's command fails alone; a call without an answer means that the connection is
    /// broken.
    fn failed(&mut self, ticket: u64, error: Error) {
        match self.link.flight.remove(ticket) {
            Some(About::Command(waiter)) => self.finish(waiter, Outcome::Failed(MachineFailure::from(error))),
            Some(About::Job(_) | About::Slot | About::Role | About::Subscription)
                if self.link.lanes[COMMANDS].session.failure().is_none() =>
            {
                self.link.lanes[COMMANDS].session.fail(error);
            }
            _ => {}
        }
    }

    fn take_answers(&mut self) {
        while let Some((call, answer)) = self.link.handler.next_answer() {
            if let Some(redirection) = self.link.handler.take_redirection() {
                return self.sent_on(redirection);
            }
            if let Err(error @ ScriptError::ClusterDown(_)) = &answer {
                return self.not_served(error.to_string());
            }
            if let Err(ScriptError::Unexpected(_)) = &answer {
                let message = "the server's answer does not fit the request";
                let error = Error::new(Kind::Protocol, &self.settings.server, message);
                self.link.lanes[COMMANDS].session.fail(error);
                self.link.lanes[COMMANDS].retry_at = Some(self.platform.now() + FIRST_PAUSE);
            }
            let answer = match answer {
                Err(error) if error.is_of_replica() => {
                    self.ask_for_role(call, error);
                    continue;
                }
                answer => answer,
            };
            self.link.redirections = 0;
            let answer = answer.map_err(|error| self.explain(&error));
            self.machine.answer(call, answer, self.platform.boot_time());
        }
        if let Some(warning) = self.link.handler.take_warning() {
            self.finished.push_back(Report::Warning(format!("{}: {warning}", self.settings.server)));
        }
    }

    /// Repeats the calls that wait for a slot to move.
    pub(super) fn try_again(&mut self, now: Instant) {
        if self.link.again_at.is_some_and(|at| at <= now) {
            self.link.again_at = None;
            self.link.handler.try_again();
            self.pump(now);
        }
    }

    /// The error with the server's words, and advice.
    fn explain(&self, error: &ScriptError) -> Error {
        let remedy = match error {
            ScriptError::ReadOnly(_) => "; it is a replica: name the primary",
            ScriptError::OutOfMemory(_) => "; raise its maxmemory, or keep locks on a server of their own",
            ScriptError::Forbidden { missing: Missing::Keys, .. } => {
                &format!("; permit the keys ~{}*", self.settings.keys.prefix().escape_ascii())
            }
            ScriptError::Forbidden { missing: Missing::Channels, .. } => &format!(
                "; permit PUBLISH, SUBSCRIBE and the channels &{}*",
                self.settings.keys.prefix().escape_ascii()
            ),
            ScriptError::Forbidden { missing: Missing::Database, .. } => {
                "; permit this database (db=), or name another in the URL"
            }
            ScriptError::Other(error) if &*error.code == "WRONGTYPE" => &format!(
                "; another program has written a value of another type to {0}#f, {0}#q, {0}#w, {0}#n, {0}#p or the key of \
                 a name: find it with TYPE, and delete it",
                self.settings.keys.prefix().escape_ascii()
            ),
            ScriptError::Forbidden { .. } => "; see the permissions that locks need in the documentation",
            ScriptError::NotLoaded => {
                "; a proxy may send the commands that load and call them to different servers: connect to the server \
                 itself, or set handler to \"pure\""
            }
            _ => "",
        };
        let kind = if error.class() == Refusal::Passing { Kind::NotNow } else { Kind::Server };
        Error::new(kind, &self.settings.server, format!("{error}{remedy}")).of("", Sent::Yes)
    }

    /// Asks the server whether it has become a replica, once for all calls that it refuses.
    fn ask_for_role(&mut self, call: u64, refused: ScriptError) {
        if self.link.read_only.is_empty() {
            let deadline = self.platform.now() + self.settings.options.patience;
            self.link.push(Command::of(["ROLE"]), About::Role, deadline);
        }
        self.link.read_only.push((call, refused));
    }

    /// Asks the server whether it has become a replica, as it has refused what another connection sent.
    pub(super) fn ask_for_role_alone(&mut self) {
        if self.link.read_only.is_empty() {
            let deadline = self.platform.now() + self.settings.options.patience;
            self.link.push(Command::of(["ROLE"]), About::Role, deadline);
            self.end_turn();
        }
    }

    /// Fails the calls that the server refused, although it is no replica, or names no primary.
    pub(super) fn refuse_read_only(&mut self) {
        for (call, error) in std::mem::take(&mut self.link.read_only) {
            let error = self.explain(&error);
            self.machine.answer(call, Err(error), self.platform.boot_time());
        }
    }

    /// Moves from a replica to its primary. Calls under way are repeated there.
    pub(super) fn follow(&mut self, primary: Endpoint) {
        let message = format!("{} is a replica of {primary}", self.endpoint);
        self.endpoint = primary;
        self.moved(message);
    }

    /// Moves to another server. Calls under way are repeated there.
    pub(super) fn moved(&mut self, message: String) {
        self.link.moved = true;
        self.link.redirections = self.link.redirections.saturating_add(1);
        self.link.lanes[COMMANDS].session.fail(Error::new(Kind::Closed, &self.settings.server, message));
    }

    /// Turns the machine's calls into commands.
    pub(super) fn pump(&mut self, now: Instant) {
        if !self.link.is_up() {
            return;
        }
        let deadline = now + self.settings.options.patience;
        loop {
            while let Some((id, call)) = self.machine.next_call() {
                self.link.handler.begin(id, call);
            }
            while let Some((job, command)) = self.link.handler.next_command() {
                self.link.push(command, About::Job(job), deadline);
            }
            self.take_answers();
            if !self.machine.has_calls() {
                break;
            }
        }
        if self.link.handler.is_waiting() && self.link.again_at.is_none() {
            self.link.again_at = Some(now + MOVING);
        }
    }

    /// Replaces a broken connection, together with the other one. Calls under way are repeated on the next connection.
    fn mend(&mut self, error: Error, now: Instant) {
        let was_up = self.link.is_up();
        self.link.phase = Phase::Down;
        for lane in [COMMANDS, PUSHES] {
            self.link.lanes[lane].session.fail(error.clone());
            self.take_from(lane, now);
            self.link.lanes[lane].put_away(&mut self.actions);
        }
        self.standing = None;
        self.end_confirmations(&error);
        self.link.flight.clear();
        self.link.read_only.clear();
        self.link.handler.reset();
        self.link.outbox.retain(|item| matches!(item.about, About::Command(_)));
        self.link.down_since.get_or_insert(now);
        if was_up && !self.link.moved && !self.closed {
            self.report(LockEvent::disconnected(&self.node(), &error));
        }
        let moved = std::mem::take(&mut self.link.moved);
        let is_refused = !moved && (!was_up || self.nodes.is_refused_by(&self.endpoint));
        self.nodes.leave();
        if was_up && !is_refused {
            self.nodes.restart();
            if error.kind == Kind::Timeout {
                self.nodes.doubt(&self.endpoint, &error);
            }
        }
        if is_refused {
            self.report_node_away(&error, now);
        }
        let (error, goes_on, patiently) = match &self.sentinels {
            _ if !is_refused => (error, moved, false),
            Some(_) => (self.naming_node(error), false, false),
            None => self.ask_next_node(error),
        };
        self.machine.disconnected(&error, goes_on || patiently, self.platform.boot_time());
        if is_refused && !goes_on {
            self.unreachable(&error, patiently, now);
        }
        if moved && self.link.redirections > 1 {
            // Nodes that redirect a client to each other have not agreed yet.
            self.link.lanes[COMMANDS].retry_at = Some(now + pause(self.link.redirections - 1));
        }
        self.take_events();
        if !self.link.lanes.iter().any(Lane::is_forgotten) {
            self.connect_if_wanted(now);
        }
    }

    /// Adds the server to the error, if another one sent the client there.
    pub(super) fn naming_node(&self, error: Error) -> Error {
        if self.endpoint == self.settings.endpoint {
            return error;
        }
        let which = match self.link.handler.mode() {
            _ if self.sentinels.is_some() => "the primary that its Sentinels name",
            "cluster" => "the node of the cluster that has the locks",
            _ => "the primary of this replica",
        };
        let message = format!("{} (on {}, {which})", error.message, self.endpoint);
        Error { message, ..error }
    }

    /// Handles a failed attempt to connect. A server that has answered before gets some time to return; one that never
    /// did is reported at once. While Sentinels watch a primary, they are about to name another one.
    ///
    /// `patiently`: a cluster is about to serve the slot again. Whoever waits for it does so within its own time.
    fn unreachable(&mut self, error: &Error, patiently: bool, now: Instant) {
        let (link, steadily) = (&mut self.link, self.nodes.steady_pause());
        let lane = &mut link.lanes[COMMANDS];
        match steadily {
            Some(pause) => (lane.failures, lane.retry_at) = (0, Some(now + pause)),
            None => lane.failed(now),
        }
        if !std::mem::replace(&mut link.told_down, true) && !self.closed {
            self.report(LockEvent::down(&self.settings.server.clone(), error));
        }
        if patiently || self.may_return(now) {
            return;
        }
        self.machine.unreachable(error, self.platform.boot_time());
        self.fail_commands(error);
    }

    /// Whether a server that has answered before may be back soon.
    fn may_return(&self, now: Instant) -> bool {
        let down_for = self.link.down_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let is_watched = || self.sentinels.as_ref().is_some_and(|sentinels| sentinels.agree());
        self.link.has_been_up && (is_watched() || down_for < self.settings.options.patience)
    }

    /// Why the server is away, for a caller that goes on without its lock. Only one caller waits for each attempt to
    /// connect.
    pub(super) fn known_away(&self, request: &LockRequest, now: Now) -> Option<Error> {
        let is_due = || self.link.lanes[COMMANDS].retry_at.is_none_or(|at| at <= now.instant);
        if !request.proceeds() || is_due() || self.may_return(now.instant) {
            return None;
        }
        self.machine.trouble().cloned()
    }

    /// Fails the user's commands that wait for a connection.
    pub(super) fn fail_commands(&mut self, error: &Error) {
        for item in std::mem::take(&mut self.link.outbox) {
            if let About::Command(waiter) = item.about {
                self.finish(waiter, Outcome::Failed(MachineFailure::from(error.clone())));
            }
        }
    }

    /// Fails the user's commands that no connection took in time.
    pub(super) fn expire_commands(&mut self, now: Instant) {
        let (kind, why) = match self.nodes.verdict() {
            Some(verdict) => (verdict.kind, &*verdict.message.clone()),
            None if self.link.is_up() => (Kind::Timeout, "the connection accepted no more commands in time"),
            None => (Kind::Timeout, "no connection was made in time"),
        };
        let is_late = |item: &Item<W>| item.deadline <= now && matches!(item.about, About::Command(_));
        let (late, waiting): (_, VecDeque<_>) = std::mem::take(&mut self.link.outbox).into_iter().partition(is_late);
        self.link.outbox = waiting;
        let late: VecDeque<Item<W>> = late;
        for item in late {
            let About::Command(waiter) = item.about else { continue };
            let error = Error::new(kind, &self.settings.server, why);
            self.finish(waiter, Outcome::Failed(MachineFailure::from(error)));
        }
    }

    /// Updates what the host watches.
    fn watch(&mut self) {
        self.link.lanes.iter_mut().for_each(|lane| lane.watch(&mut self.actions));
    }
}
