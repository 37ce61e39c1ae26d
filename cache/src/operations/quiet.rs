//! The commands of a quiet batch in an event loop. Nothing waits for their replies one by one.

use std::time::Instant;

use pinyon_proto::Status;
use slab::Slab;

use super::account::{Account, Unsuccessful};
use super::route::{choose, may_go_on, told};
use super::values::{SentData, SentKey};
use super::{Ask, Asks, End, Next, Operation, Request, Sending};
use crate::fleet::Fleet;
use crate::session::{Refused, Reply, Session, Ticket};
use pinyon_net::error::{Error, Sent};
use pinyon_net::network::Network;

/// A run of a quiet batch. Commands are added while others are under way. Each is forgotten once it is carried out.
pub struct Quiet<K, D> {
    failover: bool,
    /// The commands whose outcome is still unknown.
    commands: Slab<Command<K, D>>,
    /// The commands to ask for in the next `begin`.
    wanted: Vec<u32>,
    /// The total size of the values in `commands`.
    held: usize,
    account: Account<K>,
}

struct Command<K, D> {
    number: usize,
    key: K,
    data: D,
    request: Request,
    /// Whether to send it alone: the server failed one of several joined commands and did not say which one.
    alone: bool,
    status: Option<Status>,
    /// Its last failure, if it is tried again.
    failure: Option<Box<Error>>,
    /// The most that any of its tries may have sent.
    sent: Sent,
}

impl<K: SentKey, D: SentData> Quiet<K, D> {
    /// `first`: the number of the first command. With `failover`, keys of a server that is down go to another server.
    pub(crate) fn new(failover: bool, first: usize) -> Self {
        let (commands, account) = (Slab::new(), Account::from(first));
        Self { failover, commands, wanted: Vec::new(), held: 0, account }
    }

    /// Adds a command, to be asked for in the next `begin`.
    pub(crate) fn push(&mut self, key: K, request: Request, data: D) {
        self.held += request.size();
        let number = self.account.next_number();
        let command = Command { number, key, data, request, alone: false, status: None, failure: None, sent: Sent::No };
        let part = self.commands.insert(command);
        self.wanted.push(part as u32);
    }

    /// The total size of the values it keeps. It keeps them because their commands may have to be sent again.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The commands that were not carried out.
    pub(crate) fn finish(mut self) -> Vec<Unsuccessful<K>> {
        self.account.take_unsuccessful()
    }

    #[inline]
    fn ask(&mut self, part: u32, fleet: &Fleet, now: Instant) -> Option<Ask> {
        let command = &self.commands[part as usize];
        command.request.forget_changed(fleet, command.key.wire());
        match choose(fleet, command.key.routed(), self.failover, now, || command.name(), command.failure.as_deref()) {
            Ok(choice) => Some(Ask { part, choice }),
            Err(error) => {
                self.end(part, Err(*error));
                None
            }
        }
    }

    /// Takes the outcome of a command: the server's status, or the error that prevented an answer.
    fn end(&mut self, part: u32, outcome: Result<Status, Error>) {
        let ended = self.commands.remove(part as usize);
        self.held -= ended.request.size();
        let command = ended.name();
        self.account.note(ended.number, command, ended.key, outcome);
    }

    #[cold]
    fn failed(&mut self, part: u32, error: Error, in_time: bool) {
        let command = &self.commands[part as usize];
        let error = told(error, command.name(), command.sent);
        let is_in_doubt = in_time && error.is_unattributed() && self.may_be_insisted_on(part);
        let goes_on = is_in_doubt || in_time && may_go_on(&error, false);
        if !goes_on {
            return self.end(part, Err(error));
        }
        let command = &mut self.commands[part as usize];
        command.alone |= is_in_doubt;
        command.sent = error.sent;
        command.failure = (!is_in_doubt).then(|| error.into());
        self.wanted.push(part);
    }

    /// Whether a command that may have run can be sent again by itself. It must not undo a later command.
    fn may_be_insisted_on(&self, part: u32) -> bool {
        let command = &self.commands[part as usize];
        let is_later = |other: &Command<K, D>| {
            other.number > command.number && other.key.wire().wire() == command.key.wire().wire()
        };
        command.request.may_be_joined() && !command.alone && !self.commands.iter().any(|(_, other)| is_later(other))
    }
}

impl<K: SentKey, D> Command<K, D> {
    fn name(&self) -> &'static str {
        self.request.name()
    }
}

impl<K: SentKey, D: SentData> Operation for Quiet<K, D> {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn name_of(&self, part: u32) -> &'static str {
        self.commands[part as usize].name()
    }

    #[inline]
    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        if let [part] = self.wanted[..] {
            self.wanted.clear();
            return self.ask(part, fleet, now).map_or(Asks::None, Asks::One);
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable_by_key(|part| self.commands[*part as usize].number);
        Asks::of(wanted.into_iter().filter_map(|part| self.ask(part, fleet, now)).collect())
    }

    fn routed(&self, part: u32) -> &[u8] {
        self.commands[part as usize].key.routed()
    }

    #[inline]
    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        let Command { key, data, request, alone, .. } = &self.commands[part as usize];
        let command = request.command(key.wire());
        let command = sending.longest_ttl.map_or(command, |most| command.expiring_within(most));
        match !alone && request.may_be_joined() {
            true => session.submit_joined(&command, data.data(), sending.deadline),
            false => session.submit(&command, data.data(), sending.deadline),
        }
    }

    #[inline]
    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        self.commands[part as usize].status = Some(reply.head.status);
    }

    #[inline]
    fn over(&mut self, part: u32, end: End) -> Next {
        match end {
            End::Answered => {
                let status = self.commands[part as usize].status.take();
                self.end(part, Ok(status.unwrap_or(Status::Done)));
            }
            End::Withdrawn => self.wanted.push(part),
            End::Failed { error, in_time } => self.failed(part, error, in_time),
        }
        match self.wanted.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn fail(&mut self, error: Error) {
        for part in std::mem::take(&mut self.wanted) {
            let command = &self.commands[part as usize];
            let error = told(error.clone(), command.name(), command.sent);
            self.end(part, Err(error));
        }
    }
}
