//! Commands for many keys: everything is sent to all servers before anything is read from any.

use std::time::Instant;

use pinyon_proto::Head;

use super::open::begin;
use super::wait::{wait, wait_any};
use super::{Failure, Host, Timer};
use crate::doorbell::Wake;
use crate::error::{Error, Sent};
use crate::fleet::{Choice, Fleet};
use crate::pool::Lease;
use crate::session::{Destination, Outcome, Refused, Reply, Session, Ticket};

/// What is to be done on several servers.
pub trait Work {
    /// Submits what is still to be asked of a server until the session takes no more, which is
    /// [`Refused::Full`]; done when all is submitted.
    fn submit(&mut self, server: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused>;

    fn reply(&mut self, server: usize, ticket: Ticket, reply: Reply<'_>);

    /// One command failed, as all in flight do when their connection breaks.
    fn failed(&mut self, server: usize, ticket: Ticket, error: Error);

    /// Where a large value is to be received.
    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }
}

struct Part {
    choice: Choice,
    begun: Instant,
    lease: Lease,
    submitted: bool,
    /// Whether anything of it may have been executed, should it fail.
    sent: Sent,
}

/// Does the work on all of `servers` (ascending) at once; `name` is the command's, for events. Returns the servers
/// whose connection failed, and why.
pub fn scatter<H: Host>(
    fleet: &Fleet,
    host: &H,
    servers: &[Choice],
    name: &'static str,
    timer: &mut Timer,
    work: &mut impl Work,
) -> Result<Vec<(usize, Error)>, Failure<H::Interrupt>> {
    let mut failures = Vec::new();
    let mut parts = Vec::new();
    for choice in servers.iter().copied() {
        let begun = Instant::now();
        match begin(fleet, host, choice, begun, timer) {
            Ok(lease) => parts.push(Part { choice, begun, lease, submitted: false, sent: Sent::No }),
            Err(Failure::Error(error)) => {
                fleet.unsubmitted(&error, name);
                failures.push((choice, error));
            }
            Err(interrupted) => return Err(interrupted),
        }
    }
    loop {
        for part in &mut parts {
            part.advance(fleet, timer, work)?;
        }
        parts.retain_mut(|part| match part.is_over() {
            None => true,
            Some(Ok(())) => {
                fleet.succeeded(part.choice);
                if fleet.measures() {
                    fleet.took(part.choice.server, name, part.begun.elapsed());
                }
                false
            }
            Some(Err(error)) => {
                if !part.submitted {
                    fleet.unsubmitted(&error, name);
                }
                failures.push((part.choice, error));
                false
            }
        });
        if parts.is_empty() {
            failures.iter().for_each(|(choice, error)| fleet.failed(*choice, error));
            return Ok(failures.into_iter().map(|(choice, error)| (choice.server, error)).collect());
        }
        match host.unlocked(|| wait_for_parts(&mut parts, timer)).map_err(Failure::Interrupted)? {
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline => parts.iter_mut().for_each(|part| part.time_out(fleet, timer)),
        }
    }
}

impl Part {
    fn session(&mut self) -> &mut Session {
        session_of(&mut self.lease)
    }

    /// Takes what has come, and submits what can be.
    fn advance(&mut self, fleet: &Fleet, timer: &Timer, work: &mut impl Work) -> Result<(), Error> {
        let server = self.choice.server;
        while let Some(completion) = session_of(&mut self.lease).next() {
            let ticket = completion.ticket;
            match completion.outcome {
                Outcome::Part(reply) | Outcome::Reply(reply) => work.reply(server, ticket, reply),
                Outcome::Failed(error) => {
                    self.sent = self.sent.max(error.sent);
                    work.failed(server, ticket, error);
                }
                Outcome::Large(head) => {
                    let destination = work.destination(&head);
                    self.session().receive_into(destination);
                }
            }
        }
        if self.submitted || !self.session().is_ready() {
            return Ok(());
        }
        while self.session().accepts() {
            match work.submit(server, self.session(), timer.deadline) {
                Ok(()) => {
                    self.submitted = true;
                    break;
                }
                Err(Refused::Full) => self.session().flush(),
                Err(why) => return Err(why.into_error(&fleet.servers()[server].name, "")),
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> Option<Result<(), Error>> {
        let submitted = self.submitted;
        let session = self.session();
        if let Some(error) = session.failure() {
            let error = error.clone();
            return Some(Err(Error { sent: self.sent, ..error }));
        }
        (submitted && !session.is_busy()).then_some(Ok(()))
    }

    fn time_out(&mut self, fleet: &Fleet, timer: &Timer) {
        self.session().poll(Instant::now());
        if timer.is_over() {
            let name = &fleet.servers()[self.choice.server].name;
            self.session().fail(Error::unanswered(name));
        }
    }
}

fn session_of(lease: &mut Lease) -> &mut Session {
    let Some(session) = lease.session() else { unreachable!("a begun lease has a session") };
    session
}

fn wait_for_parts(parts: &mut [Part], timer: &mut Timer) -> Wake {
    parts.iter_mut().for_each(|part| part.session().flush());
    if parts.iter_mut().any(|part| !part.submitted && part.session().accepts()) {
        return Wake::Ready;
    }
    if let [part] = parts {
        return wait(part.session(), timer);
    }
    let mut sessions: Vec<&mut Session> = parts.iter_mut().map(Part::session).collect();
    wait_any(&mut sessions, timer)
}
