//! Waiting for sessions, with the host's lock released.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::Timer;
use crate::session::Session;
use pinyon_net::doorbell::{wait_for, Wake, LONGEST_SLEEP};
use pinyon_net::network::{Socket, Stream};

/// Sends what is unsent, and waits until the session received, sent or failed.
pub(super) fn wait(session: &mut Session, timer: &mut Timer) -> Wake {
    session.flush();
    let Some(timeout) = timer.unused.take() else { return wait_any(&mut [session], timer) };
    if session.has_unsent() || !session.is_ready() {
        return wait_any(&mut [session], timer);
    }
    let first = || (timeout / 2).min(LONGEST_SLEEP);
    let waits = session.stream().is_some_and(|stream| stream.let_wait(first).is_ok());
    if !waits {
        return wait_any(&mut [session], timer);
    }
    match session.fill_with(Socket::receive_waiting) {
        Ok(_) => arrived(session),
        Err(_) => Wake::Interrupted,
    }
}

/// Waits until the session may take more commands. No reply is needed for that: quiet commands have none.
pub(super) fn wait_for_room(session: &mut Session, timer: &mut Timer) -> Wake {
    session.flush();
    if session.accepts() {
        return Wake::Ready;
    }
    wait_any(&mut [session], timer)
}

/// Waits until any session can send or receive, then lets each continue.
pub(super) fn wait_any(sessions: &mut [&mut Session], timer: &mut Timer) -> Wake {
    timer.unused = None;
    if let [session] = sessions {
        if matches!(session.fill_with(Stream::receive), Ok(1..)) {
            return arrived(session);
        }
    }
    if sessions.iter().any(|session| session.failure().is_some()) {
        return Wake::Ready;
    }
    let connected_by =
        sessions.iter().filter(|session| !session.is_ready()).filter_map(|session| session.wants().until);
    let deadline = connected_by.fold(timer.deadline, Instant::min);
    let Some(mut descriptors) = sessions.iter().map(interest).collect::<Option<Vec<_>>>() else { return Wake::Ready };
    match wait_for(&mut descriptors, deadline) {
        Wake::Ready => {}
        wake => return wake,
    }
    let ready: Vec<bool> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
    let now = Instant::now();
    for (session, ready) in sessions.iter_mut().zip(ready) {
        if ready {
            session.poll(now);
        }
    }
    Wake::Ready
}

/// Something arrived. The clock is read only if time matters.
#[inline]
fn arrived(session: &mut Session) -> Wake {
    if session.is_timed() {
        session.arrived(Instant::now());
    }
    Wake::Ready
}

fn interest<'s>(session: &'s &mut Session) -> Option<PollFd<'s>> {
    let wants = session.wants();
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, wants.read);
    flags.set(PollFlags::OUT, wants.write);
    Some(PollFd::new(session.stream()?, flags))
}
