//! One connection to one server, as an event loop uses it.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use super::blame::HeldUp;
use crate::fleet::Fleet;
use crate::session::{Session, Ticket};
use pinyon_net::error::Error;

/// The lanes of one server.
pub(super) struct Lanes {
    /// The first of those that keys are assigned to. The others of these follow it.
    pub(super) first: usize,
    /// See [`Shared::relief_of`](super::Shared::relief_of).
    pub(super) relief: Option<usize>,
}

/// One connection and its operations, in order.
pub(super) struct Lane {
    pub(super) server: usize,
    pub(super) session: Box<Session>,
    pub(super) resolving: bool,
    pub(super) flight: VecDeque<Entry>,
    /// Asks that the session has not taken yet, because it is connecting or its queue is full.
    pub(super) waiting: VecDeque<Entry>,
    /// Asks that failed with the connection and may be tried again.
    pub(super) failed: Vec<(Entry, Error)>,
    /// The time from which it must be looked at before the next use. `None` while it is crowded.
    pub(super) trusted_until: Option<Instant>,
    /// What the host was last told to watch.
    pub(super) watched: Option<(RawFd, bool)>,
    /// Whether the host was told to stop watching a broken connection, and has not confirmed it.
    pub(super) forgotten: bool,
    pub(super) held_up: Option<HeldUp>,
    /// The last look at which a request left that should have left long before. The server had no chance to answer.
    pub(super) sent_late_at: Option<Instant>,
    /// When the next operation in flight will have waited for half of its time. It only grows, so that hosts keep their
    /// alarms.
    pub(super) half_time: Option<Instant>,
    /// What was heard of the server since the flight began.
    pub(super) heard: Option<Heard>,
    /// The last request that waits behind others' replies.
    pub(super) crowded_by: Option<Ticket>,
    /// Whether it is connecting, and was not ready since it began to.
    pub(super) is_opening: bool,
    /// What had been heard of the server before that.
    pub(super) heard_before: u64,
    /// When to connect again, after a further connection was refused.
    pub(super) open_at: Option<Instant>,
    /// Whether the last attempt to connect was refused because there are too many connections.
    pub(super) is_refused: bool,
}

/// An ask of an operation that is under way.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    /// The operation, and the number of its ask.
    pub(super) operation: usize,
    pub(super) part: u32,
    pub(super) deadline: Instant,
    /// Whether this ask probes a server that is down.
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
            sent_late_at: None,
            half_time: None,
            heard: None,
            crowded_by: None,
            is_opening: false,
            heard_before: 0,
            open_at: None,
            is_refused: false,
        }
    }

    /// Whether it is connected, with nothing in flight and nothing to send.
    pub(super) fn is_at_rest(&self) -> bool {
        self.session.is_ready() && !self.session.is_busy() && self.waiting.is_empty()
    }

    /// The first deadline. All operations have the same timeout, so the first of each queue expires first.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        let in_flight =
            self.flight.front().map(|entry| self.half_time.map_or(entry.deadline, |at| at.min(entry.deadline)));
        match (self.waiting.front(), self.session.connection_deadline()) {
            (None, None) => in_flight,
            (waiting, connecting) => {
                let open_at = self.open_at.filter(|_| waiting.is_some());
                let waiting = waiting.map(|entry| entry.deadline);
                [in_flight, waiting, connecting, open_at].into_iter().flatten().min()
            }
        }
    }

    /// The ticket of the first operation in flight.
    pub(super) fn front(&self) -> Option<Ticket> {
        self.flight.front().map(|entry| entry.ticket)
    }
}

/// Replies arrive in order, so the first entry nearly always matches.
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

/// What a connection's lane has heard of its server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// The bytes of replies at the last look, on all connections of the process.
    pub(super) bytes: u64,
    /// The last look at which they had become more.
    pub(super) grew_at: Option<Instant>,
}
