//! The course of an operation: its asks begin, fail and are over, until its waiter has the outcome.

use std::time::Instant;

use super::{Entry, Finished, Running, Shared, Waiter};
use crate::operations::{Asks, End, Next, Operation};
use pinyon_net::error::{Error, Kind};

impl<O: Operation, W: Waiter> Shared<O, W> {
    /// Carries out the asks of an operation.
    pub(super) fn begin(&mut self, id: usize, now: Instant) {
        if self.closed {
            return self.fail(id, Error::new(Kind::Closed, &"".into(), "the client was closed"), now);
        }
        if !self.fleet.is_known() {
            return self.await_servers(id, now);
        }
        let running = &mut self.running[id];
        match running.operation.begin(&self.fleet, now) {
            Asks::None if running.open > 0 => {}
            Asks::None => {
                self.end_turn();
                self.complete(id, now);
            }
            Asks::One(ask) => {
                running.open += 1;
                self.carry_out(id, ask, now);
            }
            Asks::Many(asks) => {
                running.open += asks.len();
                asks.into_iter().for_each(|ask| self.carry_out(id, ask, now));
            }
        }
    }

    /// Begins operations again, in the order of submission, so that commands on one key keep their order.
    #[inline]
    pub(super) fn begin_again(&mut self, now: Instant) {
        while !self.again.is_empty() {
            for id in std::mem::take(&mut self.again) {
                self.running[id].begins_again = false;
                self.begin(id, now);
            }
        }
    }

    /// Fails an operation that cannot begin.
    pub(super) fn fail(&mut self, id: usize, error: Error, now: Instant) {
        let running = &mut self.running[id];
        running.operation.fail(error);
        if running.open == 0 {
            self.end_turn();
            self.complete(id, now);
        }
    }

    /// Takes the end of an ask.
    #[inline]
    pub(super) fn over(&mut self, id: usize, part: u32, end: End, now: Instant) {
        let running = &mut self.running[id];
        running.open -= 1;
        match running.operation.over(part, end) {
            Next::Again if running.begins_again => {}
            Next::Again => {
                running.begins_again = true;
                self.again.push(id);
            }
            Next::Nothing if running.open == 0 && !running.begins_again => self.complete(id, now),
            Next::Nothing => {}
        }
    }

    /// Takes the failure of an ask, with the error that the caller would see. The operation is tried again if its time
    /// allows.
    #[cold]
    pub(super) fn failed(&mut self, entry: Entry, error: Error, now: Instant) {
        let in_time = entry.deadline > now && !self.is_abandoned(entry.operation);
        self.over(entry.operation, entry.part, End::Failed { error, in_time }, now);
        self.end_turn();
    }

    #[inline]
    fn complete(&mut self, id: usize, now: Instant) {
        if self.running[id].operation.may_win() && self.gives_back(id, now) {
            return;
        }
        let Running { operation, waiter, .. } = self.running.remove(id);
        self.finished.extend(waiter.map(|waiter| Finished { operation, waiter }));
    }

    /// Gives back the lease of an operation whose coroutine is gone. Returns whether there was one to give back.
    #[cold]
    fn gives_back(&mut self, id: usize, now: Instant) -> bool {
        let gives_back = self.is_abandoned(id) && self.running[id].operation.give_back() == Next::Again;
        if gives_back {
            let running = &mut self.running[id];
            running.waiter = None;
            running.deadline = now + self.fleet.options().timeout;
            running.begins_again = true;
            self.again.push(id);
        }
        gives_back
    }

    pub(super) fn is_abandoned(&self, id: usize) -> bool {
        self.running[id].waiter.as_ref().is_some_and(W::is_gone)
    }
}
