//! The end of a client. What it waits for is given up in its last calls, whose answers nobody awaits: a grant that is on
//! its way would otherwise last until its ttl has passed, and a waiter would stay in the server's queue. What it holds is
//! not released, as its holders may still rely on it.

use super::changes::Change;
use super::entry::{Entry, Stage};
use super::{Awaited, Call, Machine, MachineEvent, MachineFailure, Moment};
use pinyon_net::error::Error;

impl Machine {
    /// Closes the client: nothing is awaited any more. Held locks are not renewed, and count as lost here.
    pub fn close(&mut self, error: &Error, now: Moment) {
        for (number, entry) in &self.entries {
            if let Some(awaited) = entry.awaited() {
                self.events.push_back(MachineEvent::failed(*number, awaited, MachineFailure::from(error.clone())));
            }
        }
        let (opened, mut last) = (self.opened, std::mem::take(&mut self.calls));
        last.retain(|(_, call)| matches!(call, Call::Unlock { .. } | Call::Remark { remark: None, .. }));
        self.end_flight(error, now);
        (self.opened, self.calls) = (opened, last);
        self.give_up_waits(now);
        self.flight.clear();
        self.entries.clear();
        self.releases.clear();
        self.holding.clear();
    }

    fn give_up_waits(&mut self, now: Moment) {
        let numbers: Vec<u64> = self.entries.keys().copied().collect();
        for number in numbers {
            let entry = &self.entries[&number];
            if entry.change().is_some() {
                self.stop_changing(number, now);
            } else if entry.awaited() == Some(Awaited::Grant) && !entry.is_unknown() {
                self.send_unlock(number, false, now);
            }
        }
    }
}

impl Entry {
    /// What its caller waits for.
    fn awaited(&self) -> Option<Awaited> {
        match self.stage {
            Stage::Lined | Stage::Asking(_) | Stage::Queued { .. } | Stage::Refused { .. } | Stage::Parked { .. } => {
                Some(Awaited::Grant)
            }
            Stage::Releasing { .. } => Some(Awaited::Release),
            Stage::Held(_) => self.change().filter(|change| Change::has_waiter(change)).map(|_| Awaited::Grant),
            Stage::Cancelling { .. } | Stage::Lost => None,
        }
    }
}
