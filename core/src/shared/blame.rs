//! Who is to blame for a timeout: the server, or the event loop, which was held up and looks late.

use std::time::{Duration, Instant};

use super::{Shared, Waiter};
use crate::error::{Error, Kind};
use crate::fleet::Choice;
use crate::operations::Operation;

/// A loop that looks so long after a deadline was held up by other work: what a server has sent, or was to be sent, has
/// waited for it.
const LATE: Duration = Duration::from_millis(250);

/// The last look that came late.
#[derive(Clone, Copy)]
pub(super) struct HeldUp {
    at: Instant,
    by: Duration,
    /// It has been counted against the server.
    counted: bool,
}

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// A deadline of this connection has passed, and it is looked now.
    pub(super) fn look_after(&mut self, lane: usize, deadline: Instant, now: Instant) {
        let (held_up, by) = (&mut self.lanes[lane].held_up, now.saturating_duration_since(deadline));
        if by >= LATE {
            // Several callbacks of the loop find the same delay.
            let counted = held_up.is_some_and(|last| last.counted && now.saturating_duration_since(last.at) < LATE);
            *held_up = Some(HeldUp { at: now, by, counted });
        }
    }

    /// What failed at a deadline of this connection, as it is told.
    pub(super) fn failed_at(&mut self, lane: usize, deadline: Instant, error: Error, now: Instant) -> Error {
        self.look_after(lane, deadline, now);
        self.explained(lane, error, now)
    }

    /// The error, and that the loop had a part in it.
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

    /// Something has failed, which counts against the server. A delay of the loop's counts once, and does not mark it
    /// down by itself: it may be well.
    pub(super) fn blame(&mut self, lane: usize, probe: bool, error: &Error, now: Instant) {
        let lane = &mut self.lanes[lane];
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
