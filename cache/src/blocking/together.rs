//! Several exchanges at once: requests go to all servers before any reply is read.
//!
//! What waits for the servers is compiled once, for all operations. What reads and submits is compiled for each.

use std::collections::VecDeque;
use std::time::Instant;

use super::alone::give_back;
use super::late;
use super::open::begin;
use super::wait::{wait, wait_any};
use super::{Failure, Listening, Timer};
use crate::fleet::{Choice, Fleet};
use crate::operations::{Ask, Asks, End, Next, Operation, Sending};
use crate::pool::Loan;
use crate::session::{Outcome, Refused, Session, Ticket};
use crate::spare::SpareVector;
use pinyon_net::doorbell::Wake;
use pinyon_net::error::{Error, Sent};
use pinyon_net::host::Host;

/// The asks for one server, and the connection that carries them.
struct Part {
    choice: Choice,
    begun: Instant,
    loan: Loan,
    /// The asks that the session has not taken yet.
    unsubmitted: VecDeque<u32>,
    flight: VecDeque<(Ticket, u32)>,
    /// Whether its connection was ever ready.
    connected: bool,
    listening: Listening,
    /// Whether its time was over at the last look.
    is_late: bool,
}

thread_local! {
    static FLIGHT: SpareVector<(Ticket, u32)> = const { SpareVector::new() };
}

/// An operation that is asked of several servers.
trait Running {
    fn name(&self) -> &'static str;

    /// Takes what has arrived for a part, and submits as much as fits.
    fn advance(&mut self, part: &mut Part, fleet: &Fleet, timer: &Timer);

    /// Fails asks that were never submitted because their connection failed first.
    fn not_submitted(&mut self, fleet: &Fleet, error: &Error, asks: VecDeque<u32>);

    /// Gives back an ask of an interrupted caller.
    fn give_back(&self, fleet: &Fleet, ask: Ask);

    /// Leaves the asks of an interrupted caller.
    fn leave(&self, fleet: &Fleet, part: Part);

    /// Reports failures to the operation, now that the servers' health is up to date.
    fn told(&mut self, timer: &Timer) -> Next;
}

/// An operation, and its asks that failed.
struct Failures<'o, O> {
    operation: &'o mut O,
    failed: Vec<(u32, Error)>,
    next: Next,
}

/// Carries out all asks of an operation at once.
pub(super) fn together<H: Host, O: Operation>(
    fleet: &Fleet,
    host: &H,
    asks: Vec<Ask>,
    timer: &mut Timer,
    operation: &mut O,
) -> Result<Next, H::Interrupt> {
    run(fleet, host, asks, timer, &mut Failures { operation, failed: Vec::new(), next: Next::Nothing })
}

fn run<H: Host>(
    fleet: &Fleet,
    host: &H,
    asks: Vec<Ask>,
    timer: &mut Timer,
    running: &mut dyn Running,
) -> Result<Next, H::Interrupt> {
    let mut servers_failed = Vec::new();
    let mut parts = Vec::new();
    for (choice, asks) in by_server(asks) {
        let begun = Instant::now();
        match begin(fleet, host, choice, begun, timer) {
            Ok(loan) => {
                let flight = VecDeque::from(SpareVector::take(&FLIGHT));
                parts.push(Part {
                    choice,
                    begun,
                    loan,
                    unsubmitted: asks,
                    flight,
                    connected: false,
                    listening: Listening::default(),
                    is_late: false,
                });
            }
            Err(Failure::Error(error)) => {
                running.not_submitted(fleet, &error, asks);
                servers_failed.push((choice, error, false));
            }
            Err(Failure::Interrupted(interrupt)) => {
                asks.iter().for_each(|part| running.give_back(fleet, Ask { part: *part, choice }));
                return Err(interrupt);
            }
        }
    }
    loop {
        for part in &mut parts {
            running.advance(part, fleet, timer);
        }
        parts.retain_mut(|part| match part.is_over() {
            None => true,
            Some(Ok(())) => {
                SpareVector::give(&FLIGHT, std::mem::take(&mut part.flight).into());
                fleet.succeeded(part.choice);
                if fleet.measures() {
                    fleet.took(part.choice.server, running.name(), part.begun.elapsed());
                }
                false
            }
            Some(Err(error)) => {
                let error = part.explained(fleet, error);
                running.not_submitted(fleet, &error, std::mem::take(&mut part.unsubmitted));
                servers_failed.push((part.choice, error, part.is_no_evidence(fleet)));
                false
            }
        });
        if parts.is_empty() {
            servers_failed.iter().for_each(|(choice, error, heard)| fleet.judge(*choice, error, || *heard));
            return Ok(running.told(timer));
        }
        let waited = host.unlocked(|| wait_for_parts(&mut parts, timer)).and_then(|wake| match wake {
            Wake::Ready => host.interrupted(),
            Wake::Interrupted => {
                parts.iter_mut().for_each(|part| part.listening.still_waits(session_of(&mut part.loan)));
                host.interrupted()
            }
            Wake::Deadline => {
                parts.iter_mut().for_each(|part| part.time_out(fleet, timer));
                Ok(())
            }
        });
        if let Err(interrupt) = waited {
            parts.into_iter().for_each(|part| running.leave(fleet, part));
            return Err(interrupt);
        }
    }
}

/// Groups asks by server, in ascending order. With the same order in every thread, threads that each need several
/// connections cannot deadlock.
fn by_server(mut asks: Vec<Ask>) -> Vec<(Choice, VecDeque<u32>)> {
    let mut servers: Vec<(Choice, VecDeque<u32>)> = Vec::new();
    // There may be no other server than the first.
    let mut room = asks.len();
    for Ask { part, choice } in asks.drain(..) {
        match servers.iter_mut().find(|(of, _)| of.server == choice.server) {
            Some((of, parts)) => {
                of.probe |= choice.probe;
                parts.push_back(part);
            }
            None => {
                let mut parts = VecDeque::with_capacity(std::mem::take(&mut room));
                parts.push_back(part);
                servers.push((choice, parts));
            }
        }
    }
    Asks::keep(asks);
    servers.sort_unstable_by_key(|(choice, _)| choice.server);
    servers
}

impl<O: Operation> Running for Failures<'_, O> {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn advance(&mut self, part: &mut Part, fleet: &Fleet, timer: &Timer) {
        part.advance(fleet, timer, self);
    }

    #[cold]
    fn not_submitted(&mut self, fleet: &Fleet, error: &Error, asks: VecDeque<u32>) {
        if asks.is_empty() {
            return;
        }
        fleet.unsubmitted(error, self.operation.name());
        let error = Error { sent: Sent::No, ..error.clone() };
        self.failed.extend(asks.into_iter().map(|part| (part, error.clone())));
    }

    #[cold]
    fn give_back(&self, fleet: &Fleet, ask: Ask) {
        give_back(fleet, ask, self.operation);
    }

    #[cold]
    fn leave(&self, fleet: &Fleet, part: Part) {
        part.leave(fleet, self.operation);
    }

    fn told(&mut self, timer: &Timer) -> Next {
        let in_time = !timer.is_over();
        for (part, error) in std::mem::take(&mut self.failed) {
            self.over(part, End::Failed { error, in_time });
        }
        self.next
    }
}

impl<O: Operation> Failures<'_, O> {
    fn over(&mut self, part: u32, end: End) {
        if self.operation.over(part, end) == Next::Again {
            self.next = Next::Again;
        }
    }
}

impl Part {
    fn session(&mut self) -> &mut Session {
        session_of(&mut self.loan)
    }

    /// Takes what has arrived, and submits as much as fits.
    fn advance(&mut self, fleet: &Fleet, timer: &Timer, running: &mut Failures<'_, impl Operation>) {
        while let Some(completion) = session_of(&mut self.loan).next() {
            let Some(position) = position(&self.flight, completion.ticket) else { continue };
            let (_, part) = self.flight[position];
            self.listening.heard_own(matches!(completion.outcome, Outcome::Part(_) | Outcome::Reply(_)));
            match completion.outcome {
                Outcome::Part(reply) => running.operation.reply(part, reply),
                Outcome::Reply(reply) => {
                    running.operation.reply(part, reply);
                    self.flight.remove(position);
                    running.over(part, End::Answered);
                }
                Outcome::Failed(error) => {
                    self.flight.remove(position);
                    running.failed.push((part, error));
                }
                Outcome::Large { head, index } => {
                    let destination = running.operation.destination(part, index, &head);
                    self.session().receive_into(destination);
                }
            }
        }
        if self.session().is_ready() {
            self.connected = true;
            self.submit(fleet, timer, running);
        }
    }

    fn submit(&mut self, fleet: &Fleet, timer: &Timer, running: &mut Failures<'_, impl Operation>) {
        let server = self.choice.server;
        let sending = Sending { is_shared: false, longest_ttl: fleet.longest_ttl(server), deadline: timer.deadline };
        while let Some(part) = self.unsubmitted.front().copied().filter(|_| self.session().accepts()) {
            match running.operation.submit(part, self.session(), sending) {
                Ok(ticket) => self.flight.push_back((ticket, part)),
                Err(Refused::Full) => return,
                Err(why) => {
                    let error = why.into_error(&fleet.servers()[server].name, running.operation.name_of(part));
                    running.failed.push((part, error));
                }
            }
            self.unsubmitted.pop_front();
        }
    }

    fn is_over(&mut self) -> Option<Result<(), Error>> {
        if let Some(error) = self.session().failure() {
            return Some(Err(error.clone()));
        }
        (self.unsubmitted.is_empty() && !self.session().is_busy()).then_some(Ok(()))
    }

    /// The error of its connection. One that could not be made says nothing about the server if others work.
    #[cold]
    fn explained(&mut self, fleet: &Fleet, error: Error) -> Error {
        self.listening.heard_part(session_of(&mut self.loan));
        match self.connected {
            true => error,
            false => fleet.unconnected(self.choice.server, error, fleet.heard(self.choice.server) != self.loan.heard()),
        }
    }

    /// Whether a timeout says nothing about the server: it sends replies, or had little time to.
    #[cold]
    fn is_no_evidence(&self, fleet: &Fleet) -> bool {
        let is_heard = self.listening.heard(fleet.heard(self.choice.server));
        is_heard || !self.choice.probe && !fleet.is_enough(self.begun.elapsed())
    }

    /// Leaves the asks of an interrupted caller to the thread that reads late replies, if they must reach their end. A
    /// lease that was not asked for yet is not asked for.
    #[cold]
    fn leave(self, fleet: &Fleet, operation: &impl Operation) {
        let Self { choice, mut loan, unsubmitted, flight, .. } = self;
        let mut leases: Vec<_> = flight.iter().map_while(|(_, part)| operation.late(*part)).collect();
        let submitted = leases.len();
        if submitted == flight.len() {
            let late = unsubmitted.iter().filter_map(|part| operation.late(*part));
            leases.extend(late.filter(|lease| !lease.may_win()));
        }
        if leases.is_empty() {
            return;
        }
        if let Some(session) = loan.take() {
            late::go_on(fleet, choice.server, session, leases, submitted);
        }
    }

    /// Takes what has arrived by the deadline. What has not is late.
    fn time_out(&mut self, fleet: &Fleet, timer: &Timer) {
        self.session().poll(Instant::now());
        if std::mem::replace(&mut self.is_late, timer.is_over()) {
            let name = &fleet.servers()[self.choice.server].name;
            self.session().fail(Error::unanswered(name));
        }
    }
}

/// Replies arrive in order, so the first entry nearly always matches.
fn position(flight: &VecDeque<(Ticket, u32)>, ticket: Ticket) -> Option<usize> {
    match flight.front() {
        Some((first, _)) if *first == ticket => Some(0),
        _ => flight.binary_search_by_key(&ticket, |(of, _)| *of).ok(),
    }
}

pub(super) fn session_of(loan: &mut Loan) -> &mut Session {
    let Some(session) = loan.session() else { unreachable!("a loan that was begun has a session") };
    session
}

fn wait_for_parts(parts: &mut [Part], timer: &mut Timer) -> Wake {
    parts.iter_mut().for_each(|part| part.session().flush());
    if parts.iter_mut().any(|part| !part.unsubmitted.is_empty() && part.session().accepts()) {
        return Wake::Ready;
    }
    if let [part] = parts {
        return wait(part.session(), timer);
    }
    let mut sessions: Vec<&mut Session> = parts.iter_mut().map(Part::session).collect();
    wait_any(&mut sessions, timer)
}
