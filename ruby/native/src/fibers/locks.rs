//! What fibers ask of locks.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use magnus::typed_data::Obj;
use magnus::{Error, Ruby};
use pinyon_locks::{
    AwaitedLock, Front, GiveUp, Grant, LockFinished, LockOperation, LockOutcome, LoopDriver, Notes, Setup,
};
use pinyon_net::driven::Driven;

use super::driver::{unusable, Connections};
use super::{Call, Driver, Drivers, Scheduler, Serves, Shares};
use crate::events::Listener;

/// A client of locks. All fibers of a scheduler share it.
pub(crate) type Machine = Front<Arc<Call<LockOutcome>>, Listener>;

pub(crate) type LockConnections = Connections<Machine>;

/// How long nothing may have been read when a lock is looked at: a loss must be noticed.
const REST: Duration = Duration::from_millis(10);

impl Serves for Machine {
    type Outcome = LockOutcome;

    fn hand_out(finished: Self::Finished, mut finish: impl FnMut(Arc<Call<LockOutcome>>, LockOutcome)) {
        match finished {
            LockFinished::Done { waiter, outcome, .. } => finish(waiter, outcome),
            LockFinished::Note(_) => unreachable!("the machine leaves its notes"),
        }
    }

    fn of(driver: &Driver) -> Option<&Arc<Connections<Self>>> {
        match &driver.shares {
            Shares::Locks(connections) => Some(connections),
            Shares::Caches(_) => None,
        }
    }

    fn shared(connections: Arc<Connections<Self>>) -> Shares {
        Shares::Locks(connections)
    }

    /// Whoever waited for a lock cancels its grant.
    fn give_back(&mut self, _: LockOutcome, _: Instant) -> bool {
        false
    }

    fn is_unused(&self) -> bool {
        self.is_idle()
    }
}

impl Drivers<Machine> {
    pub(crate) fn of_locks(settings: Setup, notes: Arc<Notes<Listener>>) -> Self {
        Self::new(move || Front::with_notes(settings.clone(), notes.clone()))
    }

    /// The connections of the fibers of a scheduler.
    pub(crate) fn connections(&self, ruby: &Ruby, scheduler: Scheduler) -> Result<Arc<LockConnections>, Error> {
        Ok(Machine::of_its_client(&*self.on(ruby, scheduler)?).clone())
    }
}

impl LockConnections {
    /// Carries out an operation. Whatever ends the wait early gives up the lock that was waited for. A release goes on
    /// without its caller.
    pub(crate) fn run(&self, ruby: &Ruby, operation: LockOperation<Listener>) -> Result<LockOutcome, Error> {
        if let Some(outcome) = operation.outcome_if_inherited() {
            return Ok(outcome);
        }
        let awaited = operation.awaited();
        if awaited.is_some() {
            self.start_keeper().map_err(|error| unusable(ruby, &error))?;
        }
        let mut operation = Some(operation);
        let begin = |machine: &mut Machine, call, now| {
            if let Some(operation) = operation.take() {
                machine.begin(operation, call, now);
            }
        };
        let outcome = match self.home(ruby)? {
            Some((driver, scheduler)) => self.carry_out(driver.parking(ruby, scheduler), begin),
            None => self.visit(ruby, begin),
        };
        // The reason for the end of the wait is raised, rather than a failure to tell the server.
        let _ = match (&outcome, &operation, &awaited) {
            (Err(_), Some(LockOperation::Release { grant, .. }), _) => self.give_up(grant, GiveUp::Hold),
            (Err(_), _, Some(AwaitedLock { grant, gives_up })) => self.give_up(grant, *gives_up),
            _ => Ok(()),
        };
        outcome
    }

    /// The driver of the calling fiber's scheduler, if these connections are that scheduler's.
    fn home(&self, ruby: &Ruby) -> Result<Option<(Obj<Driver>, Scheduler)>, Error> {
        let Some(scheduler) = Scheduler::current(ruby)? else { return Ok(None) };
        let Some(known) = scheduler.drivers(ruby)? else { return Ok(None) };
        let is_this = |driver: &Driver| Machine::of(driver).is_some_and(|known| std::ptr::eq(&**known, self));
        Ok(known.any(ruby, is_this).map(|driver| (driver, scheduler)))
    }
}

impl LoopDriver<Listener> for LockConnections {
    type Error = io::Error;

    fn remaining(&self, grant: &Arc<Grant<Listener>>) -> io::Result<Option<Duration>> {
        let mut state = self.lock()?;
        if state.has_rested(REST) {
            self.look_beside(&mut state)?;
        }
        Ok(state.polled.machine().remaining(grant))
    }

    fn give_up(&self, grant: &Arc<Grant<Listener>>, what: GiveUp) -> io::Result<()> {
        let mut state = self.lock()?;
        state.polled.begin(|machine, now| machine.give_up(grant, what, now))?;
        self.look_beside(&mut state)
    }

    fn forsake(&self, grant: &Arc<Grant<Listener>>) {
        if let Ok(mut state) = self.lock() {
            // It fails in a forked child only, which does not hold the lock.
            let _ = state.polled.begin(|machine, _| machine.forsake(grant));
        }
    }
}
