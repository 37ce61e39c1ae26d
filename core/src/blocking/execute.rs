//! One command on one server: the operation whose cost everybody feels.

use std::time::Instant;

use pinyon_proto::Command;

use super::open::open;
use super::wait::wait;
use super::{Failure, Host, Receive, Timer};
use crate::doorbell::Wake;
use crate::error::{Error, Sent};
use crate::fleet::{Choice, Fleet};
use crate::session::{Data, Outcome};

/// Runs `command` on the server that holds `key`, and hands its replies to `receive`.
///
/// What was not sent, or only reads, is tried again when the connection fails: on the same server, then, once that
/// is marked down, on another one with `failover`; all within the client's timeout.
pub fn execute<H: Host>(
    fleet: &Fleet,
    host: &H,
    key: &[u8],
    failover: bool,
    command: &Command<'_>,
    data: &Data<'_>,
    receive: &mut impl Receive,
) -> Result<(), Failure<H::Interrupt>> {
    let mut now = Instant::now();
    let mut timer = Timer::start(now, fleet.options().timeout);
    let mut sent = Sent::No;
    let mut choice = fleet.choose(key, failover, now).map_err(|down| unsubmitted(fleet, down, command.name()))?;
    loop {
        let shorter;
        let command = match fleet.longest_ttl(choice.server) {
            None => command,
            Some(most) => {
                shorter = command.expiring_within(most);
                &shorter
            }
        };
        let error = match attempt(fleet, host, choice, now, &mut timer, command, data, receive) {
            Ok(()) => {
                fleet.succeeded(choice);
                if fleet.measures() {
                    fleet.took(choice.server, command.name(), now.elapsed());
                }
                return Ok(());
            }
            Err(Failure::Error(error)) => error,
            Err(interrupted) => return Err(interrupted),
        };
        let error = Error { sent: sent.max(error.sent), ..error };
        sent = error.sent;
        fleet.failed(choice, &error);
        let repeatable = error.sent == Sent::No || command.is_idempotent();
        if !repeatable || !error.may_pass() || timer.is_over() {
            return Err(error.into());
        }
        now = Instant::now();
        choice = match fleet.choose(key, failover, now) {
            Ok(choice) => choice,
            Err(_) => return Err(error.into()),
        };
        fleet.retrying(&error, command.name());
    }
}

#[allow(clippy::too_many_arguments)] // one step of `execute`, which is its only caller
fn attempt<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
    command: &Command<'_>,
    data: &Data<'_>,
    receive: &mut impl Receive,
) -> Result<(), Failure<H::Interrupt>> {
    let name = &fleet.servers()[choice.server].name;
    let mut lease = open(fleet, host, choice, now, timer).map_err(|failure| named(fleet, failure, command.name()))?;
    let Some(session) = lease.session() else { unreachable!("an open lease has a session") };
    session.submit(command, data.clone(), timer.deadline).map_err(|why| why.into_error(name, command.name()))?;
    loop {
        match host.unlocked(|| wait(session, timer)).map_err(Failure::Interrupted)? {
            Wake::Ready => {}
            Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline => session.fail(Error::unanswered(name)),
        }
        while let Some(completion) = session.next() {
            match completion.outcome {
                Outcome::Part(reply) => receive.reply(reply),
                Outcome::Reply(reply) => {
                    receive.reply(reply);
                    return Ok(());
                }
                Outcome::Large(head) => {
                    let destination = receive.destination(&head);
                    session.receive_into(destination);
                }
                Outcome::Failed(error) => return Err(error.into()),
            }
        }
        // A signal that came since interrupts no wait that begins after it.
        host.interrupted().map_err(Failure::Interrupted)?;
    }
}

fn named<I>(fleet: &Fleet, failure: Failure<I>, command: &'static str) -> Failure<I> {
    match failure {
        Failure::Error(error) => Failure::Error(unsubmitted(fleet, error, command)),
        interrupted => interrupted,
    }
}

fn unsubmitted(fleet: &Fleet, error: Error, command: &'static str) -> Error {
    fleet.unsubmitted(&error, command);
    error.of(command, Sent::No)
}
