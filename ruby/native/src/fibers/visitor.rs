//! Visitors: threads, and fibers of other schedulers, that use a scheduler's connections. They may do so while its fibers
//! run, or after it has ended.
//!
//! A visitor receives by itself while no fiber leads.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use magnus::value::ReprValue;
use magnus::{Error, Ruby};
use pinyon_net::driven::Poller;
use pinyon_net::host::Host;

use super::driver::{unusable, Connections, State};
use super::{view, Call, Scheduler, Serves};
use crate::host::RubyHost;

/// The longest time after which a visitor looks by itself: the leader that it relies on may be held up.
const LONGEST: Duration = Duration::from_millis(100);

/// The number of the connections' descriptor in a visitor's poller.
const CONNECTIONS: usize = 0;

impl<M: Serves> Connections<M> {
    /// Carries out an operation, which `begin` submits for the call.
    pub(super) fn visit(
        &self,
        ruby: &Ruby,
        begin: impl FnOnce(&mut M, Arc<Call<M::Outcome>>, Instant),
    ) -> Result<M::Outcome, Error> {
        let mut poller = Poller::new().map_err(|error| unusable(ruby, &error))?;
        let call = Call::of_a_visitor(ruby, poller.bell().clone());
        let begun = self.lock().and_then(|mut state| {
            state.polled.begin(|machine, now| begin(machine, call.clone(), now))?;
            state.admit();
            Ok(())
        });
        begun.map_err(|error| unusable(ruby, &error))?;
        let waited = self.wait_beside(ruby, &mut poller, &call);
        if waited.is_err() {
            self.dismiss(&call);
        }
        waited?;
        match call.take() {
            Some(outcome) => Ok(outcome),
            None => unreachable!("an operation has an outcome"),
        }
    }

    fn wait_beside(&self, ruby: &Ruby, poller: &mut Poller, call: &Call<M::Outcome>) -> Result<(), Error> {
        let scheduler = Scheduler::current(ruby)?;
        let io = view(ruby, poller)?.as_value();
        loop {
            self.prepare(poller).map_err(|error| unusable(ruby, &error))?;
            if call.is_done.get() {
                return Ok(());
            }
            let until = Instant::now() + LONGEST;
            match scheduler {
                Some(scheduler) => scheduler.io_wait(ruby, io, Some(until))?,
                None => {
                    let waited = RubyHost.unlocked(|| poller.wait(until, &mut Vec::new()).map(drop))?;
                    waited.map_err(|error| unusable(ruby, &error))?;
                    RubyHost.interrupted()?;
                }
            }
        }
    }

    /// Does what can be done without waiting. A visitor receives by itself while no fiber leads; otherwise the leader
    /// rings for it.
    fn prepare(&self, poller: &mut Poller) -> io::Result<()> {
        let mut state = self.lock()?;
        self.look_beside(&mut state)?;
        let descriptor = state.polled.as_fd().as_raw_fd();
        match state.is_led() {
            true => poller.forget(CONNECTIONS, descriptor),
            false => poller.watch(CONNECTIONS, descriptor, false)?,
        }
        Ok(())
    }

    /// Sends, receives and takes outcomes, not in a fiber of the scheduler. The fibers whose outcome is found are woken
    /// by one of the scheduler's.
    pub(super) fn look_beside(&self, state: &mut State<'_, M>) -> io::Result<()> {
        let looked = match state.is_led() {
            true => state.polled.tend(),
            // No fiber waits for the bell.
            false => state.receive().and_then(|()| state.polled.send()),
        };
        if state.keep_found() {
            self.bell().ring();
        }
        looked
    }

    fn dismiss(&self, call: &Call<M::Outcome>) {
        call.is_gone.set(true);
        if !call.is_done.get() {
            self.forget_one();
        }
    }
}
