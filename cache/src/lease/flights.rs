//! The flights of one process: for each value, the first caller leads, and the others follow.
//!
//! The first answer stands. If a flight ends without one, another caller leads. Each process has its own table of
//! flights. A child only tries the lock of an inherited flight, so no fork leaves a lock held.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;

use super::{LeaseTypes, Signal};
use crate::operations::Policy;
use pinyon_net::fork::{generation, PerProcess};
use pinyon_net::sync::{Mutex, MutexGuard, PoisonError};

/// Identifies the callers that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey {
    /// Callers of the same scope can wake each other: the threads of a process, or the tasks of one event loop.
    pub scope: usize,
    pub key: Box<[u8]>,
    pub policy: Policy,
}

/// The flights of one client and its views. Each process has its own table, so a fork cannot leave its mutex locked.
pub struct Flights<H: LeaseTypes> {
    table: PerProcess<Mutex<Table<H>>>,
}

type Table<H> = HashMap<FlightKey, Arc<Flight<H>>>;

/// A caller's role in a flight.
pub(super) enum Part<H: LeaseTypes> {
    Leads(Arc<Flight<H>>),
    Follows(Arc<Flight<H>>),
    /// The caller already leads this flight, and would wait for itself.
    Recurs,
}

impl<H: LeaseTypes> Default for Flights<H> {
    fn default() -> Self {
        Self { table: PerProcess::new(Mutex::default()) }
    }
}

impl<H: LeaseTypes> Flights<H> {
    /// For each flight, how many callers have registered to follow.
    pub fn followers(&self) -> Vec<usize> {
        self.table().values().map(|flight| flight.followers()).collect()
    }

    pub(super) fn join(&self, flight_key: &FlightKey, caller: usize) -> Part<H> {
        match self.table().entry(flight_key.clone()) {
            Entry::Vacant(vacant) => Part::Leads(vacant.insert(Arc::new(Flight::new(caller))).clone()),
            Entry::Occupied(flight) if flight.get().leader == caller => Part::Recurs,
            Entry::Occupied(flight) => Part::Follows(flight.get().clone()),
        }
    }

    /// Ends a flight. Followers without an answer continue by themselves.
    pub(super) fn end(&self, flight_key: &FlightKey, flight: &Arc<Flight<H>>) {
        let mut table = self.table();
        if table.get(flight_key).is_some_and(|there| Arc::ptr_eq(there, flight)) {
            table.remove(flight_key);
        }
        drop(table);
        flight.end();
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table<H>> {
        let table = self.table.get(|_| Mutex::default());
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What followers get: something to make a value from, or an error.
pub(super) type Told<H> = Result<<H as LeaseTypes>::Shared, <H as LeaseTypes>::Error>;

/// A value that one caller requests or makes, and that other callers of the process want too.
pub(super) struct Flight<H: LeaseTypes> {
    leader: usize,
    generation: u64,
    state: Mutex<FlightState<H>>,
}

pub(super) struct FlightState<H: LeaseTypes> {
    followers: Vec<H::Signal>,
    told: Option<Told<H>>,
    is_over: bool,
}

/// What a follower finds.
pub(super) enum Progress<H: LeaseTypes> {
    UnderWay,
    Told(Told<H>),
    /// The flight ended without an answer.
    Over,
}

impl<H: LeaseTypes> Flight<H> {
    fn new(leader: usize) -> Self {
        let state = FlightState { followers: Vec::new(), told: None, is_over: false };
        Self { leader, generation: generation(), state: Mutex::new(state) }
    }

    pub(super) fn followers(&self) -> usize {
        self.state().map_or(0, |state| state.followers.len())
    }

    pub(super) fn progress(&self) -> Progress<H> {
        let Some(state) = self.state() else { return Progress::Over };
        match &state.told {
            Some(told) => Progress::Told(told.clone()),
            None if state.is_over => Progress::Over,
            None => Progress::UnderWay,
        }
    }

    /// Registers a follower. Returns whether it must wait until its signal wakes it.
    pub(super) fn follow(&self, signal: H::Signal) -> bool {
        match self.state() {
            Some(mut state) if state.told.is_none() && !state.is_over => {
                state.followers.push(signal);
                true
            }
            _ => false,
        }
    }

    /// Gives the answer to all present and future followers. Only the first answer counts.
    pub(super) fn tell(&self, told: Told<H>) {
        self.change(|state| match state.told {
            None => state.told.replace(told),
            Some(_) => Some(told),
        });
    }

    fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    /// Makes a change, then wakes all followers. The host's objects are dropped outside the mutex.
    fn change<R>(&self, change: impl FnOnce(&mut FlightState<H>) -> R) {
        let Some(mut state) = self.state() else { return };
        let dropped = change(&mut state);
        let followers = std::mem::take(&mut state.followers);
        drop(state);
        drop(dropped);
        followers.into_iter().for_each(Signal::wake);
    }

    /// `None` if this process was forked while another thread held the mutex. No thread of this process needs the state
    /// then: the leader and the followers are threads of the parent.
    pub(super) fn state(&self) -> Option<MutexGuard<'_, FlightState<H>>> {
        match self.generation == generation() {
            true => Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)),
            false => self.state.try_lock().ok(),
        }
    }
}
