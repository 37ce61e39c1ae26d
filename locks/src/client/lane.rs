//! A connection of a client, and what the host was told about it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::Platform;
use crate::redis::RespSession;
use pinyon_net::driven::Action;
use pinyon_net::network::System;

pub(super) struct Lane<P: Platform> {
    pub(super) session: RespSession<P>,
    /// What the host was last told to watch.
    watched: Option<(RawFd, bool)>,
    /// Whether the host was told to stop watching a broken connection, and has not confirmed it.
    forgotten: bool,
}

impl<P: Platform> Lane<P> {
    pub(super) fn new(session: RespSession<P>) -> Self {
        Self { session, watched: None, forgotten: false }
    }

    /// The descriptor that the host watches.
    pub(super) fn watched(&self) -> Option<RawFd> {
        self.watched.map(|(fd, _)| fd)
    }

    /// Whether the host may still watch the descriptor of a broken connection.
    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Updates what the host watches.
    pub(super) fn watch(&mut self, index: usize, actions: &mut VecDeque<Action>) {
        if self.session.has_question() {
            actions.extend(self.session.take_question().map(Action::Ask));
        }
        let Some(stream) = self.session.stream() else { return };
        let wanted = (stream.as_raw_fd(), self.session.wants_to_write());
        if self.watched != Some(wanted) {
            actions.extend(Action::watch_instead(index, self.watched.replace(wanted), wanted));
        }
    }

    /// Puts a broken connection away. Whatever was in flight has been taken.
    pub(super) fn put_away(&mut self, index: usize, actions: &mut VecDeque<Action>) {
        self.session.take_failure();
        match self.watched.take() {
            None => self.session.release(),
            Some((fd, _)) => {
                self.forgotten = true;
                actions.push_back(Action::Forget { lane: index, fd });
            }
        }
    }

    /// Closes a broken connection, which the host no longer watches.
    pub(super) fn release(&mut self) {
        self.forgotten = false;
        self.session.release();
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
    /// Its descriptor, and whether it waits to be writable.
    pub(super) fn descriptor(&self) -> Option<(Arc<OwnedFd>, bool)> {
        Some((self.session.stream()?.descriptor(), self.session.wants_to_write()))
    }
}
