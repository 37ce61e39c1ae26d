//! The connections of one client on one scheduler, and the fibers that wait for them.
//!
//! There is no fiber of its own, which would keep the scheduler from ending. The fibers that wait do the work:
//!
//! - The **leader** waits for the descriptor, receives for all, and wakes those whose operation is over. A leader that
//!   leaves wakes another fiber, which leads then.
//! - The **sender** lets the fibers of this turn submit first, then sends for all.
//!
//! The connections are a `Polled`. The scheduler keeps the driver in a variable, and the driver dies with it. A fiber
//! may be cancelled after it was woken and before it ran: it first takes the wake-up, which would end its next wait.
//! The driver's lock is never held while Ruby runs, because the garbage collector takes it to mark the fibers that
//! wait.
//!
//! Locks must be renewed while no fiber waits, and while one computes. So a `Keeper`, a thread of the core, looks at
//! the machine when it is due. The machine therefore has a lock of its own. The keeper may hold it during a fork, so a
//! child never takes it. A held lock keeps its connections, and so outlives its scheduler.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use magnus::value::ReprValue;
use magnus::{block::Proc, gc, Error, Ruby, Value};
use pinyon_net::driven::{Doorbell, Keeper, Polled};
use pinyon_net::fork;
use slab::Slab;

use super::scheduler::Scheduler;
use super::{Call, Serves};
use crate::errors::{exception, ErrorKind};

/// How often a fiber waits for a wake-up that is under way before it raises. See [`Connections::park`].
const PATIENCE: usize = 16;

/// The longest time without a fiber that waits, after which the next one first looks at what has come meanwhile.
const UNSEEN: Duration = Duration::from_millis(1);

/// A deadline that is so little earlier is the same one, read again.
const SAME: Duration = Duration::from_millis(1);

/// No lock is held while Ruby runs or allocates: the garbage collector takes that of the fibers, to mark them.
pub(crate) struct Connections<M: Serves> {
    /// A keeper uses it, too. In a forked child it may stay locked by a thread that does not exist there.
    machine: Arc<Mutex<Polled<M>>>,
    /// Only the holder of the VM lock uses it.
    fibers: Mutex<Fibers<M::Outcome>>,
    bell: Arc<Doorbell>,
    keeper: OnceLock<Keeper>,
    generation: u64,
    /// The Ruby thread, as a number.
    pub(super) thread: usize,
}

/// Those that wait.
struct Fibers<O> {
    waiting: Slab<Arc<Call<O>>>,
    /// Those that wait until nothing is under way.
    attending: Vec<Arc<Call<O>>>,
    /// Those whose outcome a visitor found. A fiber of the scheduler has to wake them.
    found: Vec<Arc<Call<O>>>,
    /// How many of those that wait have no outcome.
    open: usize,
    has_leader: bool,
    /// The time until which the leader waits at most.
    led_until: Option<Instant>,
    has_sender: bool,
    /// When it was last looked at what has come.
    received: Instant,
    is_closed: bool,
}

/// Both locked.
pub(super) struct State<'c, M: Serves> {
    pub(super) polled: MutexGuard<'c, Polled<M>>,
    fibers: MutexGuard<'c, Fibers<M::Outcome>>,
    keeper: Option<&'c Keeper>,
}

/// What a fiber does next.
enum Role {
    /// It sends. `alone`: no other fiber of this turn has anything to send.
    Sender {
        alone: bool,
    },
    Leader {
        until: Option<Instant>,
    },
    Follower,
}

/// A fiber that waits on a scheduler. `io`: the descriptor, also Ruby's reason why the fiber is parked. `ready`: what lets
/// fibers go on, if it is not the scheduler.
#[derive(Clone, Copy)]
pub(super) struct Parking<'r> {
    pub(super) ruby: &'r Ruby,
    pub(super) scheduler: Scheduler,
    pub(super) io: Value,
    pub(super) ready: Option<Value>,
}

impl Parking<'_> {
    /// Lets a parked fiber continue in the scheduler's next turn.
    fn go_on(self, fiber: Value) -> Result<(), Error> {
        self.scheduler.go_on(self.ruby, self.ready, self.io, fiber)
    }
}

impl<M: Serves> Connections<M> {
    pub(super) fn new(polled: Polled<M>, thread: usize) -> Self {
        let fibers = Fibers {
            waiting: Slab::new(),
            attending: Vec::new(),
            found: Vec::new(),
            open: 0,
            has_leader: false,
            led_until: None,
            has_sender: false,
            received: Instant::now(),
            is_closed: false,
        };
        Self {
            bell: polled.bell().clone(),
            machine: Arc::new(polled.into()),
            fibers: fibers.into(),
            keeper: OnceLock::new(),
            generation: fork::generation(),
            thread,
        }
    }

    pub(super) fn mark(&self, marker: &gc::Marker) {
        self.fibers().waiting.iter().for_each(|(_, call)| call.mark(marker));
    }

    /// Whether the scheduler's fibers can use it.
    pub(super) fn is_usable(&self) -> bool {
        self.is_of_this_process() && !self.fibers().is_closed
    }

    /// Whether no fiber waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.fibers().waiting.is_empty()
    }

    /// Whether it can be closed without a loss.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && self.lock().is_ok_and(|state| state.polled.machine().is_unused())
    }

    /// Closes the connections. The leader hands out the failures of what is under way.
    pub(super) fn close(&self) {
        self.fibers().is_closed = true;
        // In a forked child, there is nothing to close, and the bell is the parent's.
        if self.lock().is_ok_and(|mut state| state.polled.close().is_ok()) {
            self.bell.ring();
        }
    }

    /// From now on, what is due is done even if no fiber waits, or the reactor is held up.
    pub(super) fn start_keeper(&self) -> io::Result<()> {
        if self.keeper.get().is_none() {
            let keeper = Keeper::start(&self.machine)?;
            self.keeper.get_or_init(|| keeper);
        }
        Ok(())
    }

    /// Carries out an operation, which `begin` submits for the call.
    pub(super) fn carry_out(
        &self,
        parking: Parking<'_>,
        begin: impl FnOnce(&mut M, Arc<Call<M::Outcome>>, Instant),
    ) -> Result<M::Outcome, Error> {
        self.catch_up(parking)?;
        let call = Call::of_this_fiber(parking.ruby);
        let begun = self.lock().and_then(|mut state| {
            state.polled.begin(|machine, now| begin(machine, call.clone(), now)).map(|()| state.fibers.enter(&call))
        });
        let number = begun.map_err(|error| unusable(parking.ruby, &error))?;
        match self.outcome(parking, &call, number)? {
            Some(outcome) => Ok(outcome),
            None => unreachable!("an operation has an outcome"),
        }
    }

    /// Begins something that no fiber waits for yet. `wait` then tells whether this fiber must wait, as a call.
    pub(super) fn begin<T>(
        &self,
        parking: Parking<'_>,
        begin: impl FnOnce(&mut M, Instant) -> T,
        wait: impl FnOnce(&Arc<Call<M::Outcome>>) -> bool,
    ) -> Result<(T, Option<M::Outcome>), Error> {
        self.catch_up(parking)?;
        let call = Call::of_this_fiber(parking.ruby);
        let begun = self.lock().and_then(|mut state| {
            state.polled.begin(begin).map(|begun| (begun, wait(&call).then(|| state.fibers.enter(&call))))
        });
        let (begun, number) = begun.map_err(|error| unusable(parking.ruby, &error))?;
        let outcome = number.map(|number| self.outcome(parking, &call, number)).transpose()?;
        Ok((begun, outcome.flatten()))
    }

    /// Sends at the end of this turn, from a fiber that was started for it, and sees to it until nothing is under way:
    /// the batch's own fiber may be waiting for something else.
    pub(super) fn attend(&self, parking: Parking<'_>) -> Result<(), Error> {
        let call = Call::of_this_fiber(parking.ruby);
        let number = self.fibers().enter(&call);
        let passed = self.pass_turn(parking, &call);
        self.fibers().attending.push(call.clone());
        let sent = self.send(parking);
        match passed.and(sent) {
            Ok(()) => self.outcome(parking, &call, number).map(drop),
            Err(raised) => {
                call.is_gone.set(true);
                self.leave(parking, number).and(Err(raised))
            }
        }
    }

    /// Whether something is unsent and nobody would send it. The caller has it sent then.
    pub(super) fn lacks_sender(&self, parking: Parking<'_>) -> Result<bool, Error> {
        let mut state = self.state(parking)?;
        Ok(state.polled.is_unsent() && !std::mem::replace(&mut state.fibers.has_sender, true))
    }

    /// Has what is unsent sent at the end of this turn, by a fiber that ends when nothing is under way.
    pub(super) fn start_sender(&self, parking: Parking<'_>, driver: Value) -> Result<(), Error> {
        let started = driver
            .funcall::<_, _, Value>("method", ("attend",))
            .and_then(|method| method.funcall::<_, _, Proc>("to_proc", ()))
            .and_then(|attend| parking.scheduler.start(attend));
        if started.is_err() {
            self.fibers().has_sender = false;
        }
        started
    }

    /// Looks at what came while no fiber waited: late replies, or the end of a connection.
    #[inline]
    fn catch_up(&self, parking: Parking<'_>) -> Result<(), Error> {
        let mut state = self.state(parking)?;
        if !state.fibers.waiting.is_empty() || state.fibers.received.elapsed() < UNSEEN {
            return Ok(());
        }
        let (received, over) = (state.receive(), state.take_over());
        drop(state);
        self.hand_out(parking, over)?;
        received.map_err(|error| unusable(parking.ruby, &error))
    }

    /// Waits for the outcome of a call, and does its part of the work meanwhile.
    fn outcome(
        &self,
        parking: Parking<'_>,
        call: &Arc<Call<M::Outcome>>,
        number: usize,
    ) -> Result<Option<M::Outcome>, Error> {
        let waited = self.wait(parking, call);
        let mut given_back = Ok(());
        if waited.is_err() {
            call.is_gone.set(true);
            given_back = self.give_back(parking, call);
        }
        let left = self.leave(parking, number);
        waited.and(given_back).and(left)?;
        Ok(call.take())
    }

    /// Gives back what a fiber that is gone has won, such as a lease. The core does so as long as the operation is under
    /// way.
    #[cold]
    fn give_back(&self, parking: Parking<'_>, call: &Call<M::Outcome>) -> Result<(), Error> {
        let Some(outcome) = call.take() else { return Ok(()) };
        let begun = self.state(parking)?.polled.begin(|machine, now| machine.give_back(outcome, now));
        match begun.map_err(|error| unusable(parking.ruby, &error))? {
            true => self.send(parking),
            false => Ok(()),
        }
    }

    fn leave(&self, parking: Parking<'_>, number: usize) -> Result<(), Error> {
        let woken = self.fibers().leave(number);
        self.hand_out(parking, woken)
    }

    fn wait(&self, parking: Parking<'_>, call: &Call<M::Outcome>) -> Result<(), Error> {
        while !call.is_done.get() {
            let role = self.state(parking)?.role();
            match role {
                Role::Sender { alone: true } => self.send(parking)?,
                Role::Sender { alone: false } => {
                    let passed = self.pass_turn(parking, call);
                    // The other fibers rely on it, even if this one was cancelled.
                    let sent = self.send(parking);
                    passed.and(sent)?;
                }
                Role::Leader { until } => self.lead(parking, call, until)?,
                Role::Follower => self.park(parking, call)?,
            }
        }
        Ok(())
    }

    /// Lets the other fibers of this turn run.
    fn pass_turn(&self, parking: Parking<'_>, call: &Call<M::Outcome>) -> Result<(), Error> {
        call.is_woken.set(true);
        if let Err(raised) = parking.go_on(call.fiber(parking.ruby)) {
            call.is_woken.set(false);
            return Err(raised);
        }
        self.park(parking, call)
    }

    /// Waits to be woken. If something else ends the wait while a wake-up is under way, that is awaited nevertheless:
    /// else it would end the fiber's next wait, whatever it is for.
    fn park(&self, parking: Parking<'_>, call: &Call<M::Outcome>) -> Result<(), Error> {
        call.is_parked.set(true);
        let parked = parking.scheduler.block(parking.io);
        call.is_parked.set(false);
        if parked.is_err() && call.is_woken.get() {
            (0..PATIENCE).find(|_| parking.scheduler.block(parking.io).is_ok());
        }
        call.is_woken.set(false);
        parked
    }

    /// Sends what is unsent.
    pub(super) fn send(&self, parking: Parking<'_>) -> Result<(), Error> {
        let (sent, over) = {
            let mut state = self.state(parking)?;
            state.fibers.has_sender = false;
            let sent = state.polled.send();
            if sent.is_ok() && state.plan() {
                self.bell.ring();
            }
            (sent, state.take_over())
        };
        self.hand_out(parking, over)?;
        sent.map_err(|error| unusable(parking.ruby, &error))
    }

    fn lead(&self, parking: Parking<'_>, call: &Call<M::Outcome>, until: Option<Instant>) -> Result<(), Error> {
        call.leads.set(true);
        let waited = parking.scheduler.io_wait(parking.ruby, parking.io, until);
        call.leads.set(false);
        let (received, over) = {
            let mut state = self.state(parking)?;
            (state.fibers.has_leader, state.fibers.led_until) = (false, None);
            (state.receive(), state.take_over())
        };
        let handed_out = self.hand_out(parking, over);
        waited.and(handed_out)?;
        received.map_err(|error| unusable(parking.ruby, &error))
    }

    /// Wakes the fibers, all of them, even if one cannot be woken.
    fn hand_out(&self, parking: Parking<'_>, over: Vec<Arc<Call<M::Outcome>>>) -> Result<(), Error> {
        let mut handed_out = Ok(());
        for call in over.into_iter().filter(|call| !call.is_a_visitors()) {
            handed_out = handed_out.and(self.wake(parking, &call));
        }
        handed_out
    }

    fn wake(&self, parking: Parking<'_>, call: &Call<M::Outcome>) -> Result<(), Error> {
        if call.leads.get() {
            self.bell.ring();
            return Ok(());
        }
        if !call.is_parked.get() || call.is_woken.get() {
            return Ok(());
        }
        call.is_woken.set(true);
        parking.go_on(call.fiber(parking.ruby))
    }

    pub(super) fn bell(&self) -> &Doorbell {
        &self.bell
    }

    /// Stops counting a visitor that has left without its outcome.
    pub(super) fn forget_one(&self) {
        self.fibers().open -= 1;
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    fn state(&self, parking: Parking<'_>) -> Result<State<'_, M>, Error> {
        self.lock().map_err(|error| unusable(parking.ruby, &error))
    }

    pub(super) fn lock(&self) -> io::Result<State<'_, M>> {
        if !self.is_of_this_process() {
            return Err(io::Error::other(
                "these connections belong to the parent process: a forked child makes its own",
            ));
        }
        let polled = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(State { polled, fibers: self.fibers(), keeper: self.keeper.get() })
    }

    fn fibers(&self) -> MutexGuard<'_, Fibers<M::Outcome>> {
        self.fibers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O> Fibers<O> {
    /// Registers a fiber that is about to wait.
    fn enter(&mut self, call: &Arc<Call<O>>) -> usize {
        self.open += 1;
        self.waiting.insert(call.clone())
    }

    /// Removes a fiber that waits no longer. Returns those to wake: one that has to lead, and those with an outcome.
    fn leave(&mut self, number: usize) -> Vec<Arc<Call<O>>> {
        let call = self.waiting.remove(number);
        if !call.is_done.get() {
            self.open -= 1;
        }
        let mut woken = std::mem::take(&mut self.found);
        if !self.has_leader && !self.has_sender && self.open > 0 {
            let next = self.waiting.iter().map(|(_, call)| call).find(|call| !call.is_done.get());
            woken.extend(next.cloned());
        }
        woken
    }

    fn finish(&mut self, over: &mut Vec<Arc<Call<O>>>, call: Arc<Call<O>>, outcome: Option<O>) {
        if call.is_gone.get() {
            return;
        }
        self.open -= 1;
        call.finish(outcome);
        over.push(call);
    }
}

impl<M: Serves> State<'_, M> {
    /// Counts a visitor.
    pub(super) fn admit(&mut self) {
        self.fibers.open += 1;
    }

    pub(super) fn is_led(&self) -> bool {
        self.fibers.has_leader
    }

    /// Whether nothing has been received for so long.
    pub(super) fn has_rested(&self, time: Duration) -> bool {
        self.fibers.received.elapsed() > time
    }

    /// Gives each outcome to its call. Returns whether a fiber of the scheduler is needed, to wake others or to lead
    /// until a time that is new.
    pub(super) fn keep_found(&mut self) -> bool {
        let over = self.take_over();
        self.fibers.found.extend(over.into_iter().filter(|call| !call.is_a_visitors()));
        self.plan() || !self.fibers.found.is_empty()
    }

    pub(super) fn receive(&mut self) -> io::Result<()> {
        self.fibers.received = Instant::now();
        let received = self.polled.receive();
        self.plan();
        received
    }

    fn role(&mut self) -> Role {
        let fibers = &mut *self.fibers;
        if self.polled.is_unsent() && !fibers.has_sender {
            let alone = fibers.waiting.len() == 1;
            fibers.has_sender = true;
            return Role::Sender { alone };
        }
        if fibers.has_leader {
            return Role::Follower;
        }
        fibers.has_leader = true;
        fibers.led_until = self.polled.deadline();
        Role::Leader { until: fibers.led_until }
    }

    /// Tells the keeper of the deadline. Returns whether the leader would miss it.
    fn plan(&self) -> bool {
        let due = self.polled.deadline();
        if let Some(keeper) = self.keeper {
            keeper.plan(due);
        }
        let led_until = self.fibers.led_until;
        self.fibers.has_leader && due.is_some_and(|due| led_until.is_none_or(|until| due + SAME < until))
    }

    /// Gives each outcome to its call. Returns the calls to wake.
    fn take_over(&mut self) -> Vec<Arc<Call<M::Outcome>>> {
        let fibers = &mut *self.fibers;
        let mut over = std::mem::take(&mut fibers.found);
        while let Some(finished) = self.polled.next_finished() {
            M::hand_out(finished, |call, outcome| fibers.finish(&mut over, call, Some(outcome)));
        }
        if !fibers.attending.is_empty() && self.polled.is_idle() {
            let attending = std::mem::take(&mut fibers.attending);
            attending.into_iter().for_each(|call| fibers.finish(&mut over, call, None));
        }
        over
    }
}

/// A driver that the system, or a fork, has made unusable.
#[cold]
pub(crate) fn unusable(ruby: &Ruby, error: &io::Error) -> Error {
    exception(ruby, ErrorKind::ConnectError, &error.to_string())
}
