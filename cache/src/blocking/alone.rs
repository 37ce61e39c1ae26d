//! One exchange with one server: the path of the most frequent operations.

use std::time::{Duration, Instant};

use super::late;
use super::open::open;
use super::wait::wait;
use super::{Failure, Listening, Timer};
use crate::fleet::Fleet;
use crate::operations::{Ask, End, Next, Operation, Sending};
use crate::pool::Loan;
use crate::session::{Outcome, Session};
use pinyon_net::doorbell::Wake;
use pinyon_net::error::Sent;
use pinyon_net::host::Host;

/// How long a caller that was interrupted waits at most for what it has won. Then a thread goes on with that.
const FAREWELL: Duration = Duration::from_millis(100);

/// Carries out the only ask of an operation.
#[inline]
pub(super) fn alone<H: Host>(
    fleet: &Fleet,
    host: &H,
    ask: Ask,
    now: Instant,
    timer: &mut Timer,
    operation: &mut impl Operation,
) -> Result<Next, H::Interrupt> {
    let mut listening = Listening::default();
    match exchange(fleet, host, ask, now, timer, &mut listening, operation) {
        Ok(()) => {
            fleet.succeeded(ask.choice);
            if fleet.measures() {
                fleet.took(ask.choice.server, operation.name_of(ask.part), now.elapsed());
            }
            Ok(operation.over(ask.part, End::Answered))
        }
        Err(Failure::Error(error)) => {
            fleet.judge(ask.choice, &error, || listening.heard(fleet.heard(ask.choice.server)));
            Ok(operation.over(ask.part, End::Failed { error, in_time: !timer.is_over() }))
        }
        Err(Failure::Interrupted(interrupt)) => Err(interrupt),
    }
}

fn exchange<H: Host>(
    fleet: &Fleet,
    host: &H,
    ask: Ask,
    now: Instant,
    timer: &mut Timer,
    listening: &mut Listening,
    operation: &mut impl Operation,
) -> Result<(), Failure<H::Interrupt>> {
    let server = ask.choice.server;
    let name = &fleet.servers()[server].name;
    let mut loan = match fleet.pool(server).lend_trusted(now) {
        Some(loan) => loan,
        None => match open(fleet, host, ask.choice, now, timer) {
            Err(Failure::Error(error)) => {
                fleet.unsubmitted(&error, operation.name_of(ask.part));
                return Err(error.of(operation.name_of(ask.part), Sent::No).into());
            }
            Err(interrupted) => {
                give_back(fleet, ask, operation);
                return Err(interrupted);
            }
            Ok(loan) => loan,
        },
    };
    let Some(session) = loan.session() else { unreachable!("an open loan has a session") };
    let sending = Sending { is_shared: false, longest_ttl: fleet.longest_ttl(server), deadline: timer.deadline };
    operation.submit(ask.part, session, sending).map_err(|why| why.into_error(name, operation.name_of(ask.part)))?;
    loop {
        let interrupted = match host.unlocked(|| wait(session, timer)) {
            Ok(Wake::Ready) => None,
            Ok(Wake::Interrupted) => {
                listening.still_waits(session);
                host.interrupted().err()
            }
            // What has arrived by now is taken. What has not is late.
            Ok(Wake::Deadline) => {
                session.poll(Instant::now());
                None
            }
            Err(interrupt) => Some(interrupt),
        };
        if let Some(interrupt) = interrupted {
            finish(fleet, loan, operation, ask);
            return Err(Failure::Interrupted(interrupt));
        }
        while let Some(completion) = session.next() {
            match completion.outcome {
                Outcome::Part(reply) => operation.reply(ask.part, reply),
                Outcome::Reply(reply) => {
                    operation.reply(ask.part, reply);
                    return Ok(());
                }
                Outcome::Large { head, index } => {
                    let destination = operation.destination(ask.part, index, &head);
                    session.receive_into(destination);
                }
                Outcome::Failed(error) => return Err(error.into()),
            }
        }
        listening.heard_part(session);
        // A signal that arrived in the meantime does not interrupt a wait that begins after it.
        if let Err(interrupt) = host.interrupted() {
            finish(fleet, loan, operation, ask);
            return Err(Failure::Interrupted(interrupt));
        }
    }
}

/// How an operation ended whose caller was interrupted.
enum Farewell {
    Over,
    Unanswered,
    /// Its connection broke first.
    Broken,
}

/// Ends an operation whose caller was interrupted, if others wait for what it decides, and gives back what it wins.
#[cold]
fn finish(fleet: &Fleet, mut loan: Loan, operation: &mut impl Operation, ask: Ask) {
    let (Some(lease), Some(session)) = (operation.late(ask.part), loan.session()) else { return };
    let until = late::matters_until(&lease);
    session.postpone(until);
    let mut timer = Timer { deadline: Instant::now() + FAREWELL, unused: None };
    let sending = Sending { is_shared: false, longest_ttl: None, deadline: until };
    match farewell(session, &mut timer, operation, ask.part, sending) {
        Farewell::Over => {}
        Farewell::Unanswered => go_on_late(fleet, loan, operation, ask, true),
        Farewell::Broken => give_back(fleet, ask, operation),
    }
}

fn farewell(
    session: &mut Session,
    timer: &mut Timer,
    operation: &mut impl Operation,
    part: u32,
    sending: Sending,
) -> Farewell {
    while wait(session, timer) != Wake::Deadline {
        while let Some(completion) = session.next() {
            match completion.outcome {
                Outcome::Part(reply) => operation.reply(part, reply),
                Outcome::Reply(reply) => {
                    operation.reply(part, reply);
                    let is_won = operation.may_win() && operation.give_back() == Next::Again;
                    if !is_won || operation.submit(part, session, sending).is_err() {
                        return Farewell::Over;
                    }
                }
                Outcome::Large { head, index } => session.receive_into(operation.destination(part, index, &head)),
                Outcome::Failed(_) => return Farewell::Broken,
            }
        }
    }
    Farewell::Unanswered
}

/// Has a lease given back although its caller was interrupted before there was a connection. A lease that was not asked
/// for yet is not asked for.
#[cold]
pub(super) fn give_back(fleet: &Fleet, ask: Ask, operation: &impl Operation) {
    if let Some(lease) = operation.late(ask.part).filter(|lease| !lease.may_win()) {
        late::give_back(fleet, ask.choice.server, lease);
    }
}

/// Leaves a lease and its connection to the thread that reads late replies. One that was not asked for yet is not asked
/// for.
fn go_on_late(fleet: &Fleet, mut loan: Loan, operation: &impl Operation, ask: Ask, is_submitted: bool) {
    let lease = operation.late(ask.part).filter(|lease| is_submitted || !lease.may_win());
    if let (Some(session), Some(lease)) = (loan.take(), lease) {
        late::go_on(fleet, ask.choice.server, session, vec![lease], usize::from(is_submitted));
    }
}
