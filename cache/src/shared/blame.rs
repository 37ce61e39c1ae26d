//! Decides whether a timeout is the server's fault, or that of an event loop which was blocked and looks late.

use std::time::{Duration, Instant};

use super::{Shared, Waiter};
use crate::fleet::Choice;
use crate::operations::Operation;
use pinyon_net::error::{Error, Kind};

/// A loop that looks so long after a deadline was blocked by other work. Requests and replies had to wait for it.
const LATE: Duration = Duration::from_millis(250);

/// The last late look.
#[derive(Clone, Copy)]
pub(super) struct HeldUp {
    at: Instant,
    by: Duration,
    /// Whether it was counted against the server already.
    counted: bool,
}

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// Notes that a deadline of this connection has passed, and that the loop looks now.
    pub(super) fn look_after(&mut self, lane: usize, deadline: Instant, now: Instant) {
        let (held_up, by) = (&mut self.lanes[lane].held_up, now.saturating_duration_since(deadline));
        if by >= LATE {
            // Several callbacks of the loop may notice the same delay.
            let counted = held_up.is_some_and(|last| last.counted && now.saturating_duration_since(last.at) < LATE);
            *held_up = Some(HeldUp { at: now, by, counted });
        }
    }

    /// Takes what has arrived, at a deadline of this connection. What only leaves now was held up by the loop.
    pub(super) fn poll_late(&mut self, lane: usize, now: Instant) {
        let lane = &mut self.lanes[lane];
        let unsent = lane.session.unsent();
        lane.session.poll(now);
        if lane.session.unsent() < unsent {
            lane.sent_late_at = Some(now);
        }
    }

    /// Completes the error of an exchange that failed at a deadline of this connection.
    pub(super) fn failed_at(&mut self, lane: usize, deadline: Instant, error: Error, now: Instant) -> Error {
        self.look_after(lane, deadline, now);
        self.explained(lane, error, now)
    }

    /// Adds to the error that the loop was blocked, if it was.
    pub(super) fn explained(&self, lane: usize, error: Error, now: Instant) -> Error {
        match self.lanes[lane].held_up {
            Some(HeldUp { at, by, .. }) if at == now && error.kind == Kind::Timeout => {
                let message =
                    format!("{}; the event loop was blocked and looked {:.1} s late", error.message, by.as_secs_f64());
                Error { message, ..error }
            }
            _ => error,
        }
    }

    /// Counts a failure against the server. One delay of the loop counts once, and does not mark the server down by
    /// itself: the server may be fine. Nor is it the server's fault that the loop is closed. A probe reports all the
    /// same, so that another caller may probe soon.
    pub(super) fn blame(&mut self, lane: usize, probe: bool, error: &Error, now: Instant) {
        if self.closed && !probe {
            return;
        }
        let times_out = error.kind == Kind::Timeout;
        if times_out && self.is_well(lane, now) {
            return self.fleet.succeeded(Choice { server: self.lanes[lane].server, probe });
        }
        let lane = &mut self.lanes[lane];
        if times_out && !probe && lane.sent_late_at == Some(now) {
            return;
        }
        match &mut lane.held_up {
            Some(held_up) if held_up.at == now && error.kind == Kind::Timeout && !probe => {
                if !std::mem::replace(&mut held_up.counted, true) {
                    self.fleet.doubted(lane.server, error);
                }
            }
            _ => self.fleet.failed(Choice { server: lane.server, probe }, error),
        }
    }
}
