//! One connection to one server, as an event loop uses it.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use super::blame::HeldUp;
use crate::error::Error;
use crate::fleet::Fleet;
use crate::session::{Session, Ticket};

/// One connection and its operations, in order. There are as many to each server of the fleet, in the order of their
/// indexes.
pub(super) struct Lane {
    pub(super) server: usize,
    pub(super) session: Box<Session>,
    pub(super) resolving: bool,
    pub(super) flight: VecDeque<Entry>,
    /// Not taken by the session yet: it connects, or its queue is full.
    pub(super) waiting: VecDeque<Entry>,
    /// What failed with the connection and is to be tried again.
    pub(super) failed: Vec<(Entry, Error)>,
    /// When it is looked at before it is used again.
    pub(super) trusted_until: Option<Instant>,
    /// What the host was last told to watch.
    pub(super) watched: Option<(RawFd, bool)>,
    /// The host has been told to stop watching a broken connection, and may not have done so yet.
    pub(super) forgotten: bool,
    pub(super) held_up: Option<HeldUp>,
}

/// An ask of an operation that is under way.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    /// Which operation it is of, and which of its asks.
    pub(super) operation: usize,
    pub(super) part: u32,
    pub(super) deadline: Instant,
    /// It is the one that tries a server that is down.
    pub(super) probe: bool,
}

impl Lane {
    pub(super) fn new(fleet: &Fleet, server: usize) -> Self {
        Self {
            server,
            session: fleet.session(server),
            resolving: false,
            flight: VecDeque::new(),
            waiting: VecDeque::new(),
            failed: Vec::new(),
            trusted_until: None,
            watched: None,
            forgotten: false,
            held_up: None,
        }
    }

    /// Whether it is connected, with nothing in flight or to be sent.
    pub(super) fn is_at_rest(&self) -> bool {
        self.session.is_ready() && !self.session.is_busy() && self.waiting.is_empty()
    }

    /// All operations have the client's timeout, so the first of each queue is the first to expire.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let flight = self.flight.front().map(|entry| entry.deadline);
        let waiting = self.waiting.front().map(|entry| entry.deadline);
        [flight, waiting, self.session.connection_deadline()].into_iter().flatten().min()
    }
}

/// Replies come in order, so it is mostly the first.
pub(super) fn position(flight: &VecDeque<Entry>, ticket: Ticket) -> Option<usize> {
    match flight.front() {
        Some(first) if first.ticket == ticket => Some(0),
        _ => flight.binary_search_by_key(&ticket, |entry| entry.ticket).ok(),
    }
}

pub(super) fn take(flight: &mut VecDeque<Entry>, position: usize) -> Option<Entry> {
    match position {
        0 => flight.pop_front(),
        _ => flight.remove(position),
    }
}
