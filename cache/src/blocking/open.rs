//! Getting a session: from the pool, or by connecting.

use std::sync::Arc;
use std::time::Instant;

use super::wait::wait;
use super::{Failure, Timer};
use crate::fleet::{Choice, Fleet, Server};
use crate::pool::{Loan, Offer};
use crate::session::Session;
use pinyon_net::address::Address;
use pinyon_net::credentials::Question;
use pinyon_net::doorbell::{wait_for, Doorbell, Wake};
use pinyon_net::error::{Error, Kind};
use pinyon_net::host::{resolve, Host, Unresolved};

/// Borrows a session from the pool and waits until it is ready.
pub(super) fn open<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
) -> Result<Loan, Failure<H::Interrupt>> {
    let mut loan = begin(fleet, host, choice, now, timer)?;
    let heard = loan.heard();
    let Some(session) = loan.session() else { unreachable!("opening begins a session") };
    while !session.is_ready() {
        if let Some(error) = session.failure() {
            let works = session.heard() != heard;
            return Err(fleet.unconnected(choice.server, error.clone(), works).into());
        }
        wait_connected(host, session, timer)?;
    }
    if session.connected_since().is_none() {
        session.note_connected(Instant::now());
    }
    Ok(loan)
}

/// Borrows a session that is ready, or will be once the server has answered its greeting.
#[inline(always)]
pub(super) fn begin<H: Host>(
    fleet: &Fleet,
    host: &H,
    choice: Choice,
    now: Instant,
    timer: &mut Timer,
) -> Result<Loan, Failure<H::Interrupt>> {
    let server = choice.server;
    let name = &fleet.servers()[server].name;
    let mut loan = borrow(fleet, host, choice, now, timer)?;
    if loan.session().is_some() {
        return Ok(loan);
    }
    timer.unused = None;
    pause(host, name, &loan, timer)?;
    let addresses = match addresses(&fleet.servers()[server], host, timer) {
        Err(Failure::Error(error)) => return Err(fleet.unconnected(server, error, false).into()),
        addresses => addresses?,
    };
    fleet.renew_certificates(server);
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
    let turn = match fleet.pool(choice.server).lend(now) {
        Offer::Loan(mut loan, rest) => {
            if let Some(session) = loan.session() {
                session.ask_after(rest, now, fleet.options().timeout);
            }
            return Ok(loan);
        }
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
                let message = match fleet.pool(choice.server).open_and_idle() {
                    (open, _) if open < fleet.options().max_connections => {
                        let why = fleet.pool(choice.server).refusal();
                        format!("all {open} connections stayed in use, and no further one could be made: {why}")
                    }
                    (open, _) => format!("all {open} connections stayed in use (max_connections)"),
                };
                return Err(Error::new(Kind::Busy, name, message).into());
            }
        }
    }
}

/// Waits before the next attempt to connect, if the last one was refused because there are too many connections.
#[cold]
fn pause<H: Host>(host: &H, name: &Arc<str>, loan: &Loan, timer: &Timer) -> Result<(), Failure<H::Interrupt>> {
    while let Some(until) = loan.pool().pauses_until(Instant::now()) {
        if until >= timer.deadline {
            return Err(Error::new(Kind::Crowded, name, loan.pool().refusal()).into());
        }
        match host.unlocked(|| wait_for(&mut [], until)).map_err(Failure::Interrupted)? {
            Wake::Deadline => return Ok(()),
            Wake::Ready | Wake::Interrupted => host.interrupted().map_err(Failure::Interrupted)?,
        }
    }
    Ok(())
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

/// The addresses of a server, which the system's resolver may have to find.
pub(super) fn addresses<H: Host>(
    server: &Server,
    host: &H,
    timer: &Timer,
) -> Result<Vec<Address>, Failure<H::Interrupt>> {
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
