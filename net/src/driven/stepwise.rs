//! A driver for hosts that watch descriptors themselves, but are not called: they ask what to do, one order at a time.
//!
//! Hosts in C use it. A thread resolves names; its bell is one more descriptor to watch.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alarm::HostAlarm;
use super::{some_addresses, Action, Actions, Driven};
use crate::address::Address;
use crate::doorbell::Doorbell;
use crate::fork;
use crate::resolver::Resolving;

/// The lane of the bell. The machine's lanes follow it.
const BELL: usize = 0;

/// An order to the host of a [`Stepwise`] machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Call [`Stepwise::ready`] when the descriptor is readable, and also when it is writable if `write`. This replaces
    /// the previous order for the lane.
    Watch { lane: usize, fd: RawFd, write: bool },
    /// Stop watching the descriptor. The next call closes it.
    Forget { lane: usize, fd: RawFd },
    /// Call [`Stepwise::turn`] before the loop waits again.
    EndTurn,
    /// Call [`Stepwise::expire`] after this time. This replaces the previous alarm. A host that asks for
    /// [`Stepwise::deadline`] before each wait ignores it.
    Alarm(Duration),
}

/// A machine whose host takes and carries out orders, then takes outcomes. It calls nothing of the host's, and names
/// are resolved inside: a thread rings a bell, whose descriptor the host watches like any other.
///
/// After every call, take all orders, then all outcomes. Outcomes of what was begun come only after [`Self::turn`],
/// [`Self::ready`] or [`Self::expire`], so that a host is never resumed from the middle of its own work.
///
/// It belongs to the process that made it. In a forked child, it begins nothing and has no orders. Dropping it there
/// closes the child's copies of the descriptors without sending anything.
pub struct Stepwise<M: Driven> {
    machine: M,
    orders: VecDeque<Order>,
    finished: VecDeque<M::Finished>,
    /// The lane whose descriptor the host was told to forget by the last order.
    forgotten: Option<usize>,
    alarm: HostAlarm,
    bell: Option<Arc<Doorbell>>,
    /// A bell that the host is told to forget.
    last_bell: Option<Arc<Doorbell>>,
    resolving: Vec<(usize, Resolving)>,
    generation: u64,
}

impl<M: Driven> Stepwise<M> {
    pub fn new(machine: M) -> Self {
        Self {
            machine,
            orders: VecDeque::new(),
            finished: VecDeque::new(),
            forgotten: None,
            alarm: HostAlarm::default(),
            bell: None,
            last_bell: None,
            resolving: Vec::new(),
            generation: fork::generation(),
        }
    }

    /// The machine, for inspection.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Begins something. It is sent at the end of the turn.
    ///
    /// # Errors The connections belong to a parent process.
    pub fn begin<T>(&mut self, begin: impl FnOnce(&mut M, Instant) -> T) -> io::Result<T> {
        if !self.is_of_this_process() {
            let message = "this event loop's connections belong to the parent process: a forked child makes its own";
            return Err(io::Error::other(message));
        }
        let now = Instant::now();
        self.close_forgotten(now);
        let begun = begin(&mut self.machine, now);
        self.take_orders(now);
        Ok(begun)
    }

    /// The next order to carry out.
    #[inline(always)]
    pub fn next_order(&mut self) -> Option<Order> {
        if !self.is_of_this_process() {
            return None;
        }
        if self.forgotten.is_some() {
            self.close_forgotten(Instant::now());
        }
        match self.orders.pop_front() {
            Some(order) => {
                if let Order::Forget { lane, .. } = order {
                    self.forgotten = Some(lane);
                }
                Some(order)
            }
            None => self.alarm.next_order(|| self.machine.deadline()),
        }
    }

    /// The next outcome, in the order in which the operations ended.
    pub fn next_finished(&mut self) -> Option<M::Finished> {
        self.finished.pop_front()
    }

    /// Sends what was begun in this turn.
    #[inline(always)]
    pub fn turn(&mut self) {
        self.advance(M::turn);
    }

    /// Receives and sends on a connection that is ready for it. An unknown lane does no harm.
    #[inline(always)]
    pub fn ready(&mut self, lane: usize) {
        match lane {
            BELL => {
                self.bell.iter().for_each(|bell| bell.silence());
                self.advance(Self::heard);
            }
            lane => self.advance(|machine, now| machine.ready(lane - 1, now)),
        }
    }

    /// Does what is due.
    pub fn expire(&mut self) {
        self.alarm.went_off();
        self.advance(M::expire);
    }

    /// When [`Self::expire`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match self.is_of_this_process() {
            true => self.machine.deadline(),
            false => None,
        }
    }

    /// Fails everything under way and closes all connections. Take orders and outcomes as always.
    pub fn close(&mut self) {
        self.advance(M::close);
        self.resolving.clear();
        if let Some(bell) = self.bell.take() {
            self.orders.push_back(Order::Forget { lane: BELL, fd: bell.as_fd().as_raw_fd() });
            self.last_bell = Some(bell);
        }
    }

    /// Whether nothing is under way, and every outcome has been taken.
    pub fn is_idle(&self) -> bool {
        self.machine.is_idle() && self.finished.is_empty()
    }

    /// Whether this process made it.
    pub fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    #[inline(always)]
    fn advance(&mut self, change: impl FnOnce(&mut M, Instant)) {
        if !self.is_of_this_process() {
            return;
        }
        let now = Instant::now();
        self.close_forgotten(now);
        change(&mut self.machine, now);
        self.take_resolved(now);
        self.take_orders(now);
        self.finished.extend(self.machine.take_finished());
        self.alarm.outdate();
    }

    /// Closes the descriptor that the host has stopped watching.
    #[inline]
    fn close_forgotten(&mut self, now: Instant) {
        if let Some(lane) = self.forgotten.take() {
            self.close_connection(lane, now);
        }
    }

    #[cold]
    fn close_connection(&mut self, lane: usize, now: Instant) {
        if lane == BELL {
            self.last_bell = None;
            return;
        }
        self.machine.forgotten(lane - 1, now);
        self.take_orders(now);
    }

    #[inline]
    fn take_orders(&mut self, now: Instant) {
        while let Some(actions) = self.machine.take_actions() {
            self.alarm.outdate();
            self.order(actions, now);
        }
    }

    fn order(&mut self, actions: Actions, now: Instant) {
        for action in actions {
            match action {
                Action::EndTurn => self.orders.push_back(Order::EndTurn),
                Action::Watch { lane, fd, write } => {
                    self.orders.push_back(Order::Watch { lane: lane + 1, fd, write });
                }
                Action::Forget { lane, fd } => self.orders.push_back(Order::Forget { lane: lane + 1, fd }),
                Action::Resolve { lane, name, port } => match self.resolve(&name, port) {
                    Ok(resolving) => self.resolving.push((lane, resolving)),
                    Err(error) => self.machine.connect(lane, Err(error.to_string()), now),
                },
                // Without a bell it is dropped, and so fails.
                Action::Ask(question) => {
                    if let Ok(bell) = self.bell() {
                        question.put(move || bell.ring());
                    }
                }
            }
        }
    }

    fn resolve(&mut self, name: &str, port: u16) -> io::Result<Resolving> {
        Resolving::begin_ringing(name, port, self.bell()?)
    }

    fn bell(&mut self) -> io::Result<Arc<Doorbell>> {
        if let Some(bell) = &self.bell {
            return Ok(bell.clone());
        }
        let bell = Arc::new(Doorbell::new()?);
        self.orders.push_back(Order::Watch { lane: BELL, fd: bell.as_fd().as_raw_fd(), write: false });
        Ok(self.bell.insert(bell).clone())
    }

    /// Looks for an answer that the bell may have told of.
    fn heard(machine: &mut M, now: Instant) {
        if machine.deadline().is_some_and(|deadline| deadline <= now) {
            machine.expire(now);
        }
    }

    fn take_resolved(&mut self, now: Instant) {
        if self.resolving.is_empty() {
            return;
        }
        let machine = &mut self.machine;
        self.resolving.retain(|(lane, resolving)| {
            let Some(answer) = resolving.take() else { return true };
            let addresses = answer.map(|found| found.into_iter().map(Address::Tcp).collect());
            machine.connect(*lane, some_addresses(addresses.map_err(|error| error.to_string())), now);
            false
        });
    }
}
