//! A connection that is wanted: its lane, the name that is resolved for it, what the host was told to watch, and the
//! pauses after failures.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Platform;
use crate::redis::RespSession;
use pinyon_net::address::{Address, Endpoint};
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::System;

/// The pause before reconnecting after a failure. It doubles with each further failure.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Lane<P: Platform> {
    number: usize,
    pub(super) session: RespSession<P>,
    /// What the host was last told to watch.
    watched: Option<(RawFd, bool)>,
    /// Whether the host was told to stop watching a broken connection, and has not confirmed it.
    forgotten: bool,
    /// Whether the host resolves the server's name.
    resolving: bool,
    /// The number of connection attempts that failed in a row.
    pub(super) failures: u32,
    /// When to try again.
    pub(super) retry_at: Option<Instant>,
}

impl<P: Platform> Lane<P> {
    /// `number`: what the host calls it.
    pub(super) fn new(number: usize, session: RespSession<P>) -> Self {
        Self { number, session, watched: None, forgotten: false, resolving: false, failures: 0, retry_at: None }
    }

    /// The descriptor that the host watches, with the number of the lane.
    pub(super) fn watched(&self) -> Option<(usize, RawFd)> {
        self.watched.map(|(fd, _)| (self.number, fd))
    }

    /// Whether the host may still watch the descriptor of a broken connection.
    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Whether it must wait for the host before it connects.
    pub(super) fn waits_for_host(&self) -> bool {
        self.resolving || self.forgotten
    }

    /// Whether it is connected, or will be without another attempt.
    pub(super) fn is_connecting(&self) -> bool {
        self.waits_for_host() || !self.session.is_closed()
    }

    /// Whether the pause after a failure is over.
    pub(super) fn may_try(&mut self, now: Instant) -> bool {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        self.retry_at.is_none()
    }

    /// When it needs attention.
    pub(super) fn deadline(&self) -> Option<Instant> {
        earlier(self.session.deadline(), self.retry_at)
    }

    /// Looks after the connection when its time has come. Returns whether it had.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let is_due = self.session.deadline().is_some_and(|until| until <= now);
        if is_due {
            self.session.poll(now);
        }
        is_due
    }

    /// The addresses of a server; or none, and the host resolves its name.
    pub(super) fn look_up(&mut self, server: &Endpoint, actions: &mut VecDeque<Action>) -> Option<Vec<Address>> {
        match server.addresses() {
            Ok(addresses) => Some(addresses),
            Err((name, port)) => {
                self.resolving = true;
                actions.push_back(Action::Resolve { lane: self.number, name: name.to_owned(), port });
                None
            }
        }
    }

    /// Notes that the host has resolved the name. Returns whether to connect.
    pub(super) fn resolved(&mut self) -> bool {
        self.resolving = false;
        self.session.is_closed()
    }

    /// Connects to the addresses, or fails for the reason why there are none.
    pub(super) fn connect(&mut self, found: Result<Vec<Address>, String>, now: Instant, timeout: Duration) {
        match found {
            Ok(addresses) => self.session.connect(addresses, now, timeout),
            Err(why) => self.session.fail(Error::unresolved(Kind::Connect, self.session.name(), &why)),
        }
    }

    /// Notes one more failed attempt: the next one comes after a longer pause.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures += 1;
        self.retry_at = Some(now + pause(self.failures));
    }

    /// Updates what the host watches.
    pub(super) fn watch(&mut self, actions: &mut VecDeque<Action>) {
        if self.session.has_question() {
            actions.extend(self.session.take_question().map(Action::Ask));
        }
        let Some(stream) = self.session.stream() else { return };
        let wanted = (stream.as_raw_fd(), self.session.wants_to_write());
        if self.watched != Some(wanted) {
            actions.extend(Action::watch_instead(self.number, self.watched.replace(wanted), wanted));
        }
    }

    /// Puts a broken connection away. Whatever was in flight has been taken.
    pub(super) fn put_away(&mut self, actions: &mut VecDeque<Action>) {
        self.session.take_failure();
        match self.watched.take() {
            None => self.session.release(),
            Some((fd, _)) => {
                self.forgotten = true;
                actions.push_back(Action::Forget { lane: self.number, fd });
            }
        }
    }

    /// Closes a broken connection, which the host no longer watches.
    pub(super) fn release(&mut self) {
        self.forgotten = false;
        self.session.release();
    }

    /// Fails the connection, and puts it away with what was in flight.
    pub(super) fn give_up(&mut self, error: &Error, actions: &mut VecDeque<Action>) {
        self.session.fail(error.clone());
        while self.session.next().is_some() {}
        self.put_away(actions);
    }

    /// Closes the connection of an event loop that has ended.
    pub(super) fn discard(&mut self) {
        self.session.close();
        while self.session.next().is_some() {}
        self.session.take_failure();
        self.session.release();
    }
}

impl Lane<System> {
    /// Its number and descriptor, and whether it waits to be writable.
    pub(super) fn descriptor(&self) -> Option<(usize, Arc<OwnedFd>, bool)> {
        Some((self.number, self.session.stream()?.descriptor(), self.session.wants_to_write()))
    }
}

/// The earlier of two times, as far as there are any.
pub(super) fn earlier<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
    let Some(other) = other else { return one };
    Some(one.map_or(other, |one| one.min(other)))
}

/// The pause before the next attempt to connect, after so many failures in a row.
pub(super) fn pause(failures: u32) -> Duration {
    let pause = FIRST_PAUSE * 2u32.saturating_pow(failures.saturating_sub(1).min(8));
    pause.min(LONGEST_PAUSE)
}
