//! A connection for reads that wait behind a large reply.
//!
//! Replies come in the order of the requests, so a small read waits for everything before it. One that has waited for half
//! of its time, while the server sends others' replies, is asked again on a second connection. That one is closed when
//! the first is free again.
//!
//! A read that moves may overtake a write of the same caller that was not awaited.

use std::time::Instant;

use super::lane::{Entry, Heard, Lane};
use super::{Shared, Waiter};
use crate::operations::Operation;

impl<O: Operation, W: Waiter> Shared<O, W> {
    pub(super) fn is_relief(&self, lane: usize) -> bool {
        self.servers[self.lanes[lane].server].relief == Some(lane)
    }

    /// The relief of a server. Few servers ever need one, so it is made when it is first asked for.
    fn relief_of(&mut self, server: usize) -> usize {
        if let Some(relief) = self.servers[server].relief {
            return relief;
        }
        let relief = self.lanes.len();
        self.lanes.push(Lane::new(&self.fleet, server));
        self.servers[server].relief = Some(relief);
        relief
    }

    /// Looks after what has waited for half of its time: notes whether the server sends anything, and has reads behind
    /// others' replies asked again elsewhere.
    #[cold]
    pub(super) fn look_at_half_time(&mut self, index: usize, now: Instant) {
        let half = self.half;
        self.hear(index, now);
        let lane = &mut self.lanes[index];
        let late = lane.flight.partition_point(|entry| entry.deadline - half <= now);
        let next = lane.flight.get(late).map(|entry| entry.deadline - half);
        lane.half_time = next.map(|next| next.max(now + half / 8));
        if late > 0 && self.is_held_up_by_others(index) {
            self.relieve(index, now);
        }
    }

    /// Compares what the process has heard of the server with the last look.
    fn hear(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let bytes = lane.session.heard();
        lane.heard = Some(match lane.heard {
            Some(Heard { bytes: before, grew_at }) if before == bytes => Heard { bytes, grew_at },
            Some(_) => Heard { bytes, grew_at: Some(now) },
            None => Heard { bytes, grew_at: None },
        });
    }

    /// Whether the server works, although it did not answer on this lane in time.
    #[cold]
    pub(super) fn is_well(&mut self, index: usize, now: Instant) -> bool {
        match self.lanes[index].is_opening {
            true => self.others_work(index),
            false => self.has_heard(index, now),
        }
    }

    /// Whether the server has sent replies while the oldest operation of this lane waited.
    fn has_heard(&mut self, index: usize, now: Instant) -> bool {
        if self.lanes[index].heard.is_none() {
            return self.lanes[index].session.is_in_reply();
        }
        self.hear(index, now);
        let since = now.checked_sub(self.fleet.options().timeout);
        let grew_at = self.lanes[index].heard.and_then(|heard| heard.grew_at);
        grew_at.is_some_and(|at| since.is_none_or(|since| at >= since))
    }

    fn is_held_up_by_others(&self, index: usize) -> bool {
        let Lane { session, heard, .. } = &self.lanes[index];
        session.is_in_reply() || heard.is_some_and(|heard| heard.grew_at.is_some())
    }

    /// Moves reads that are late to the relief, and opens it first if necessary.
    fn relieve(&mut self, index: usize, now: Instant) {
        let late = self.late_reads(index, now);
        if late.is_empty() || self.is_relief(index) {
            return;
        }
        let relief = self.relief_of(self.lanes[index].server);
        if !self.lanes[relief].session.is_ready() {
            return self.open(relief, now);
        }
        let lane = &mut self.lanes[index];
        lane.crowded_by = lane.flight.back().map(|entry| entry.ticket);
        lane.trusted_until = None;
        late.iter().for_each(|entry| lane.session.abandon(entry.ticket));
        lane.flight.retain(|entry| late.iter().all(|moved| moved.ticket != entry.ticket));
        for entry in late {
            self.pass_on(relief, entry, now);
        }
    }

    /// Reads that wait behind others: nothing of their replies has arrived, and the server need not have seen them.
    fn late_reads(&self, index: usize, now: Instant) -> Vec<Entry> {
        let half = self.half;
        let is_late = |entry: &&Entry| entry.deadline - half <= now && entry.deadline > now;
        let may_move = |entry: &&Entry| {
            let running = &self.running[entry.operation];
            !entry.probe && !running.has_begun && running.operation.only_reads(entry.part)
        };
        let behind = usize::from(self.lanes[index].session.is_in_reply_to(self.lanes[index].front()));
        self.lanes[index].flight.iter().skip(behind).filter(is_late).filter(may_move).copied().collect()
    }

    /// Takes up what waits, once the relief is ready, or closes it if nothing needs it any more.
    pub(super) fn use_relief(&mut self, relief: usize, now: Instant) {
        for lane in self.assigned_of(relief) {
            self.relieve(lane, now);
        }
        let is_needed = self.assigned_of(relief).any(|lane| self.is_crowded(lane));
        if self.lanes[relief].is_at_rest() && !is_needed {
            self.retire(relief, now);
        }
    }

    /// Whether replies to others still hold up what comes after them.
    fn is_crowded(&self, index: usize) -> bool {
        let Lane { session, crowded_by, .. } = &self.lanes[index];
        crowded_by.is_some_and(|last| session.first_in_flight().is_some_and(|first| first <= last))
    }

    /// The lane for an ask whose own is crowded: reads take the relief.
    pub(super) fn around_the_crowd(&mut self, index: usize, id: usize, part: u32, now: Instant) -> usize {
        let relief = self.relief_of(self.lanes[index].server);
        if !self.is_crowded(index) {
            self.lanes[index].crowded_by = None;
            self.use_relief(relief, now);
            return index;
        }
        match self.lanes[relief].session.is_ready() && self.running[id].operation.only_reads(part) {
            true => relief,
            false => index,
        }
    }
}
