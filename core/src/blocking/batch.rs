//! Quiet batches: commands sent without awaiting a reply to each, with a barrier at the end.

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::Command;

use super::open::open;
use super::wait::{wait, wait_for_room};
use super::{Failure, Host, Timer};
use crate::doorbell::Wake;
use crate::error::{Error, Kind, Sent};
use crate::fleet::{Choice, Fleet};
use crate::fork;
use crate::pool::Lease;
use crate::session::{Data, Outcome, Reply, Session, Ticket};

/// Holds a connection to each server it has sent to, until it is finished or dropped.
pub struct Batch {
    fleet: Arc<Fleet>,
    failover: bool,
    parts: Vec<Part>,
    generation: u64,
}

struct Part {
    server: usize,
    lease: Lease,
}

/// Takes the outcomes of a batch's commands, as they become known: each command's, in no order across servers.
pub trait Outcomes {
    fn reply(&mut self, server: usize, ticket: Ticket, reply: Reply<'_>);
    fn failed(&mut self, server: usize, ticket: Ticket, error: Error);
}

impl Batch {
    /// With `failover`, the keys of a server that is down go to another one.
    pub fn new(fleet: Arc<Fleet>, failover: bool) -> Self {
        Self { fleet, failover, parts: Vec::new(), generation: fork::generation() }
    }

    /// Submits a command to the server that holds `key`, and returns that server and the ticket. It waits only
    /// when the connection takes no more; each such wait has the client's whole timeout.
    pub fn submit<H: Host>(
        &mut self,
        host: &H,
        key: &[u8],
        command: &Command<'_>,
        data: &Data<'_>,
        outcomes: &mut impl Outcomes,
    ) -> Result<(usize, Ticket), Failure<H::Interrupt>> {
        self.check_process()?;
        let mut timer = Timer::start(Instant::now(), self.fleet.options().timeout);
        let (server, position) = match self.choose(host, key, command.name(), &mut timer, outcomes) {
            Err(Failure::Error(error)) => {
                self.fleet.unsubmitted(&error, command.name());
                return Err(error.of(command.name(), Sent::No).into());
            }
            chosen => chosen?,
        };
        let part = &mut self.parts[position];
        while !part.session().accepts() {
            if let Some(error) = part.session().failure() {
                self.fleet.failed(Choice::regardless(server), error);
                self.fleet.unsubmitted(error, command.name());
                return Err(error.clone().of(command.name(), Sent::No).into());
            }
            part.advance(host, &mut timer, wait_for_room, outcomes)?;
        }
        let shorter = self.fleet.longest_ttl(server).map(|most| command.expiring_within(most));
        let command = shorter.as_ref().unwrap_or(command);
        let submitted = part.session().submit_quiet(command, data.clone(), timer.deadline);
        match submitted {
            Ok(ticket) => Ok((server, ticket)),
            Err(why) => Err(why.into_error(&self.fleet.servers()[server].name, command.name()).into()),
        }
    }

    /// Sends what is unsent and waits until the outcome of every command is known.
    pub fn finish<H: Host>(&mut self, host: &H, outcomes: &mut impl Outcomes) -> Result<(), Failure<H::Interrupt>> {
        self.check_process()?;
        let mut timer = Timer::start(Instant::now(), self.fleet.options().timeout);
        for part in &mut self.parts {
            part.session().end_quiet_run(timer.deadline);
            part.session().flush();
        }
        for part in &mut self.parts {
            while part.session().is_busy() {
                part.advance(host, &mut timer, wait, outcomes)?;
            }
            let server = Choice::regardless(part.server);
            match part.session().failure() {
                Some(error) => self.fleet.failed(server, error),
                None => self.fleet.succeeded(server),
            }
        }
        self.parts.clear();
        Ok(())
    }

    /// A forked child drops the parent's connections without a word on them.
    fn check_process(&mut self) -> Result<(), Error> {
        if self.generation == fork::generation() {
            return Ok(());
        }
        self.parts.clear();
        let message = "this batch was begun before the process was forked; begin another in the child";
        Err(Error::new(Kind::Usage, &"".into(), message))
    }

    /// The server for a key, with a connection to it; one whose connection fails is given up for another, where
    /// failover is on. A server that was down is trusted once the connection stands: the outcomes may be long in coming.
    fn choose<H: Host>(
        &mut self,
        host: &H,
        key: &[u8],
        command: &'static str,
        timer: &mut Timer,
        outcomes: &mut impl Outcomes,
    ) -> Result<(usize, usize), Failure<H::Interrupt>> {
        let mut now = Instant::now();
        let mut choice = self.fleet.choose(key, self.failover, now)?;
        loop {
            let error = match self.part(host, choice, now, timer, outcomes) {
                Err(Failure::Error(error)) => error,
                part => {
                    let position = part?;
                    if choice.probe {
                        self.fleet.succeeded(choice);
                    }
                    return Ok((choice.server, position));
                }
            };
            self.fleet.failed(choice, &error);
            if !error.may_pass() || timer.is_over() {
                return Err(error.into());
            }
            now = Instant::now();
            choice = match self.fleet.choose(key, self.failover, now) {
                Ok(choice) => choice,
                Err(_) => return Err(error.into()),
            };
            self.fleet.retrying(&error, command);
        }
    }

    /// The position of the part for a server.
    fn part<H: Host>(
        &mut self,
        host: &H,
        choice: Choice,
        now: Instant,
        timer: &mut Timer,
        outcomes: &mut impl Outcomes,
    ) -> Result<usize, Failure<H::Interrupt>> {
        let server = choice.server;
        if let Some(position) = self.parts.iter().position(|part| part.server == server) {
            if self.parts[position].session().failure().is_none() {
                return Ok(position);
            }
            self.parts.swap_remove(position);
        }
        let (open_connections, idle) = self.fleet.pool(server).open_and_idle();
        if open_connections >= self.fleet.options().max_connections && idle == 0 {
            // Two batches that each wait for a connection of the other's would wait in vain.
            self.finish(host, outcomes)?;
        }
        let lease = open(&self.fleet, host, choice, now, timer)?;
        self.parts.push(Part { server, lease });
        Ok(self.parts.len() - 1)
    }
}

impl Part {
    fn session(&mut self) -> &mut Session {
        let Some(session) = self.lease.session() else { unreachable!("an open lease has a session") };
        session
    }

    /// Waits once, in this way, and takes what has come.
    fn advance<H: Host>(
        &mut self,
        host: &H,
        timer: &mut Timer,
        wait: fn(&mut Session, &mut Timer) -> Wake,
        outcomes: &mut impl Outcomes,
    ) -> Result<(), Failure<H::Interrupt>> {
        let server = self.server;
        let session = self.session();
        match host.unlocked(|| wait(session, timer)).map_err(Failure::Interrupted)? {
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline => {
                let error = Error::unanswered(session.server());
                session.fail(error);
            }
        }
        while let Some(completion) = session.next() {
            match completion.outcome {
                Outcome::Part(reply) | Outcome::Reply(reply) => outcomes.reply(server, completion.ticket, reply),
                Outcome::Failed(error) => outcomes.failed(server, completion.ticket, error),
                Outcome::Large(_) => {}
            }
        }
        Ok(())
    }
}
