//! Lets parked waiters queue up again.

use std::time::Duration;

use super::queue::{joined, ParkedMember};
use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn notify(&mut self, now: Duration, attempt: &Attempt, names: &Names, most: u32) -> ScriptAnswer {
        match self.holds(attempt, names) {
            true => ScriptAnswer::Notified { moved: Run::new(self, now, None).notify(names, most) },
            false => ScriptAnswer::NotHeld,
        }
    }
}

impl Run<'_> {
    /// Moves waiters parked on exactly these names into the queue. Returns how many.
    fn notify(&mut self, names: &Names, most: u32) -> u32 {
        let of = joined(names);
        let all: Vec<ParkedMember> =
            self.model.queue.parked.content.iter().filter(|member| member.names == of).cloned().collect();
        let mut moved = 0;
        for member in all {
            if most > 0 && moved == most {
                break;
            }
            moved += u32::from(self.move_parked(member, names));
        }
        self.model.queue.settle();
        moved
    }

    fn move_parked(&mut self, member: ParkedMember, names: &Names) -> bool {
        let waiter = self.model.queue.waiter(&member.attempt).cloned();
        let Some(mut waiter) = waiter.filter(|waiter| waiter.parked && waiter.ticket == member.ticket) else {
            self.model.queue.parked.content.remove(&member);
            return false;
        };
        if waiter.expiry <= self.now || !self.model.clients.contains(&waiter.attempt.client) {
            self.forget(&waiter.attempt);
            return false;
        }
        if waiter.names != *names {
            return false;
        }
        self.model.queue.parked.content.remove(&member);
        waiter.ticket = self.model.next_number(self.now);
        waiter.parked = false;
        let (now, keep) = (self.now, waiter.expiry - self.now);
        self.add_members(&waiter, keep);
        self.model.queue.save(&waiter, now, keep);
        true
    }
}
