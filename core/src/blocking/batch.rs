//! Quiet batches: commands sent without awaiting a reply to each, with a barrier at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::Status;

use super::open::open;
use super::wait::{wait, wait_for_room};
use super::{Failure, Host, Timer};
use crate::doorbell::Wake;
use crate::error::{Error, Kind, Sent};
use crate::fleet::{Choice, Fleet};
use crate::fork;
use crate::operations::{BorrowedKey, Request, SentKey};
use crate::pool::Lease;
use crate::session::{Data, Outcome, Session, Ticket};

/// Holds a connection to each server it has sent to, until it is finished or dropped. `T` is what the host knows a command
/// by.
pub struct Batch<T> {
    fleet: Arc<Fleet>,
    failover: bool,
    parts: Vec<Part<T>>,
    unsuccessful: Vec<Unsuccessful<T>>,
    generation: u64,
}

struct Part<T> {
    server: usize,
    lease: Lease,
    /// What was submitted and whose outcome is not known yet, in order.
    open: VecDeque<Submitted<T>>,
}

struct Submitted<T> {
    ticket: Ticket,
    command: &'static str,
    tag: T,
}

/// A command of a batch that was not carried out.
#[derive(Debug)]
pub struct Unsuccessful<T> {
    pub tag: T,
    pub command: &'static str,
    pub why: Broken,
}

/// Why a command of a batch was not carried out.
#[derive(Debug)]
pub enum Broken {
    /// The server said so.
    Refused(Status),
    Failed(Error),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Refused(Status::NotStored) => f.write_str("not stored"),
            Broken::Refused(Status::NotFound | Status::Miss) => f.write_str("not found"),
            Broken::Refused(Status::Exists) => f.write_str("changed meanwhile"),
            Broken::Refused(_) => f.write_str("refused"),
            Broken::Failed(error) => error.fmt(f),
        }
    }
}

impl<T> Batch<T> {
    /// With `failover`, the keys of a server that is down go to another one.
    pub fn new(fleet: Arc<Fleet>, failover: bool) -> Self {
        let (parts, unsuccessful) = (Vec::new(), Vec::new());
        Self { fleet, failover, parts, unsuccessful, generation: fork::generation() }
    }

    /// Submits a request to the server that holds its key. It waits only when the connection takes no more; each such wait
    /// has the client's whole timeout. Where the server is down or fails, that is told with the outcomes; an error says
    /// that the request cannot be sent at all.
    pub fn submit<H: Host>(
        &mut self,
        host: &H,
        key: &BorrowedKey<'_>,
        request: Request,
        data: &Data<'_>,
        tag: T,
    ) -> Result<(), Failure<H::Interrupt>> {
        self.check_process()?;
        let command = request.command(key.wire());
        let name = command.name();
        let mut timer = Timer::start(Instant::now(), self.fleet.options().timeout);
        let position = match self.choose(host, key.routed(), name, &mut timer) {
            Err(Failure::Error(error)) => {
                self.fleet.unsubmitted(&error, name);
                return self.not_submitted(error, name, tag);
            }
            chosen => chosen?,
        };
        let part = &mut self.parts[position];
        let server = part.server;
        while !part.session().accepts() {
            if let Some(error) = part.session().failure().cloned() {
                self.fleet.failed(Choice::regardless(server), &error);
                self.fleet.unsubmitted(&error, name);
                return self.not_submitted(error, name, tag);
            }
            part.advance(host, &mut timer, wait_for_room, &mut self.unsuccessful)?;
        }
        let shorter = self.fleet.longest_ttl(server).map(|most| command.expiring_within(most));
        let submitted = part.session().submit_quiet(shorter.as_ref().unwrap_or(&command), data.clone(), timer.deadline);
        match submitted {
            Ok(ticket) => {
                part.open.push_back(Submitted { ticket, command: name, tag });
                Ok(())
            }
            Err(why) => Err(why.into_error(&self.fleet.servers()[server].name, name).into()),
        }
    }

    /// Sends what is unsent, and does not wait for anything. What a connection does not take now, or what has not connected
    /// yet, is sent by a later call. Outcomes that have come are kept for [`Self::finish`].
    pub fn send(&mut self) -> Result<(), Error> {
        self.check_process()?;
        let now = Instant::now();
        for part in &mut self.parts {
            part.session().end_quiet_run(now + self.fleet.options().timeout);
            part.session().poll(now);
            part.take(&mut self.unsuccessful);
        }
        Ok(())
    }

    /// Sends what is unsent, waits until the outcome of every command is known, and returns those that were not carried out.
    pub fn finish<H: Host>(&mut self, host: &H) -> Result<Vec<Unsuccessful<T>>, Failure<H::Interrupt>> {
        self.check_process()?;
        self.settle(host)?;
        Ok(std::mem::take(&mut self.unsuccessful))
    }

    fn settle<H: Host>(&mut self, host: &H) -> Result<(), Failure<H::Interrupt>> {
        let mut timer = Timer::start(Instant::now(), self.fleet.options().timeout);
        for part in &mut self.parts {
            part.session().end_quiet_run(timer.deadline);
            part.session().flush();
        }
        for part in &mut self.parts {
            while part.session().is_busy() {
                part.advance(host, &mut timer, wait, &mut self.unsuccessful)?;
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

    fn not_submitted<I>(&mut self, error: Error, command: &'static str, tag: T) -> Result<(), Failure<I>> {
        let error = error.of(command, Sent::No);
        if !error.is_outage() {
            return Err(error.into());
        }
        self.unsuccessful.push(Unsuccessful { tag, command, why: Broken::Failed(error) });
        Ok(())
    }

    /// The part of the server for a key, with a connection to it. One whose connection fails is given up for another, where
    /// failover is on. A server that was down is trusted once the connection stands: the outcomes may be long in coming.
    fn choose<H: Host>(
        &mut self,
        host: &H,
        key: &[u8],
        command: &'static str,
        timer: &mut Timer,
    ) -> Result<usize, Failure<H::Interrupt>> {
        let mut now = Instant::now();
        let mut choice = self.fleet.choose(key, self.failover, now)?;
        loop {
            let error = match self.part(host, choice, now, timer) {
                Err(Failure::Error(error)) => error,
                part => {
                    let position = part?;
                    if choice.probe {
                        self.fleet.succeeded(choice);
                    }
                    return Ok(position);
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
    ) -> Result<usize, Failure<H::Interrupt>> {
        let server = choice.server;
        if let Some(position) = self.parts.iter().position(|part| part.server == server) {
            if self.parts[position].session().failure().is_none() {
                return Ok(position);
            }
            self.parts.swap_remove(position).take(&mut self.unsuccessful);
        }
        let (open_connections, idle) = self.fleet.pool(server).open_and_idle();
        if open_connections >= self.fleet.options().max_connections && idle == 0 {
            // Two batches that each wait for a connection of the other's would wait in vain.
            self.settle(host)?;
        }
        let lease = open(&self.fleet, host, choice, now, timer)?;
        self.parts.push(Part { server, lease, open: VecDeque::new() });
        Ok(self.parts.len() - 1)
    }
}

impl<T> Part<T> {
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
        unsuccessful: &mut Vec<Unsuccessful<T>>,
    ) -> Result<(), Failure<H::Interrupt>> {
        let session = self.session();
        match host.unlocked(|| wait(session, timer)).map_err(Failure::Interrupted)? {
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline => {
                let error = Error::unanswered(session.server());
                session.fail(error);
            }
        }
        self.take(unsuccessful);
        Ok(())
    }

    fn take(&mut self, unsuccessful: &mut Vec<Unsuccessful<T>>) {
        let Some(session) = self.lease.session() else { return };
        while let Some(completion) = session.next() {
            let position = self.open.iter().position(|submitted| submitted.ticket == completion.ticket);
            let Some(position) = position else { continue };
            let why = match completion.outcome {
                Outcome::Reply(reply) if matches!(reply.head.status, Status::Done | Status::Hit) => None,
                Outcome::Reply(reply) => Some(Broken::Refused(reply.head.status)),
                Outcome::Failed(error) => Some(Broken::Failed(error)),
                Outcome::Part(_) | Outcome::Large(_) => continue,
            };
            let submitted = self.open.remove(position);
            if let (Some(Submitted { command, tag, .. }), Some(why)) = (submitted, why) {
                unsuccessful.push(Unsuccessful { tag, command, why });
            }
        }
    }
}
