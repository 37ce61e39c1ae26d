//! Getting a session: from the pool, or by connecting.

use std::sync::Arc;
use std::time::Instant;

use super::wait::wait;
use super::{resolve, Failure, Host, Timer, Unresolved};
use crate::address::Address;
use crate::credentials::Question;
use crate::doorbell::{Doorbell, Wake};
use crate::error::{Error, Kind};
use crate::fleet::{Choice, Fleet};
use crate::pool::{Loan, Offer};
use crate::session::Session;

/// Borrows a session from the pool and waits until it is ready.
pub(super) fn open<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
) -> Result<Loan, Failure<H::Interrupt>> {
    let mut loan = begin(fleet, host, choice, now, timer)?;
    let Some(session) = loan.session() else { unreachable!("opening begins a session") };
    while !session.is_ready() {
        if let Some(error) = session.failure() {
            return Err(error.clone().into());
        }
        wait_connected(host, session, timer)?;
    }
    Ok(loan)
}

/// Borrows a session that is ready or still connecting.
#[inline(always)]
pub(super) fn begin<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
) -> Result<Loan, Failure<H::Interrupt>> {
    let server = choice.server;
    let mut loan = borrow(fleet, host, choice, now, timer)?;
    if loan.session().is_some() {
        return Ok(loan);
    }
    let addresses = addresses(fleet, host, server, timer)?;
    fleet.renew_certificates(server);
    timer.unused = None;
    let now = Instant::now();
    let timeout = fleet.options().connect_timeout.min(timer.deadline.saturating_duration_since(now));
    let mut session = fleet.session(server);
    session.connect(addresses, now, timeout);
    if let Some(question) = session.take_question() {
        await_credentials(host, &mut session, question, timer)?;
    }
    loan.hold(session);
    Ok(loan)
}

/// Waits until the host's function has returned credentials, and the session connects with them or has failed.
#[cold]
fn await_credentials<H: Host>(
    host: &H,
    session: &mut Session,
    question: Question,
    timer: &Timer,
) -> Result<(), Failure<H::Interrupt>> {
    let bell = Doorbell::new().map_err(|error| {
        Error::new(Kind::Credentials, session.server(), format!("cannot wait for credentials: {error}"))
    })?;
    let bell = Arc::new(bell);
    let ring = bell.clone();
    question.put(move || ring.ring());
    while session.is_asking() {
        host.asked().map_err(Failure::Interrupted)?;
        match host.unlocked(|| bell.wait(timer.deadline)).map_err(Failure::Interrupted)? {
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline if timer.is_over() => {
                session.poll(Instant::now());
                if session.is_asking() {
                    let late = session.late_credentials();
                    session.fail(late);
                }
            }
            Wake::Deadline => {}
        }
        session.poll(Instant::now());
    }
    Ok(())
}

#[inline(always)]
fn borrow<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
) -> Result<Loan, Failure<H::Interrupt>> {
    let name = &fleet.servers()[choice.server].name;
    let offer = fleet.pool(choice.server).lend(now);
    let turn = match offer.map_err(|error| Error::new(Kind::Connect, name, format!("cannot wait: {error}")))? {
        Offer::Loan(loan) => return Ok(loan),
        Offer::Wait(turn) => turn,
    };
    timer.unused = None;
    loop {
        if let Some(loan) = turn.take() {
            fleet.check_up(choice)?;
            return Ok(loan);
        }
        match host.unlocked(|| turn.wait(timer.deadline)).map_err(Failure::Interrupted)? {
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
            Wake::Deadline => {
                let limit = fleet.options().max_connections;
                let message = format!("all {limit} connections stayed in use (max_connections)");
                return Err(Error::new(Kind::Busy, name, message).into());
            }
        }
    }
}

fn wait_connected<H: Host>(host: &H, session: &mut Session, timer: &mut Timer) -> Result<(), Failure<H::Interrupt>> {
    match host.unlocked(|| wait(session, timer)).map_err(Failure::Interrupted)? {
        Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
        Wake::Deadline => {
            session.poll(Instant::now());
            if timer.is_over() && session.failure().is_none() {
                let unanswered = Error::unanswered(session.server());
                session.fail(unanswered);
            }
        }
    }
    Ok(())
}

fn addresses<H: Host>(
    fleet: &Fleet,
    host: &H,
    server: usize,
    timer: &Timer,
) -> Result<Vec<Address>, Failure<H::Interrupt>> {
    let server = &fleet.servers()[server];
    let (name, port) = match server.spec.addresses() {
        Ok(addresses) => return Ok(addresses),
        Err(unresolved) => unresolved,
    };
    match resolve(host, name, port, timer.deadline) {
        Ok(addresses) => Ok(addresses.into_iter().map(Address::Tcp).collect()),
        Err(Unresolved::Interrupted(interrupt)) => Err(Failure::Interrupted(interrupt)),
        Err(Unresolved::Failed(why)) => {
            let kind = if timer.is_over() { Kind::Timeout } else { Kind::Connect };
            Err(Error::unresolved(kind, &server.name, &why).into())
        }
    }
}
