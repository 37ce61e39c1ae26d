//! The connections of one client on one scheduler, and the fibers that wait for them.
//!
//! There is no fiber of its own, which would keep the scheduler from ending. The fibers that wait do the work:
//!
//! - The **leader** waits for the descriptor, receives for all, and wakes those whose operation is over. A leader that
//!   leaves wakes another fiber, which leads then.
//! - The **sender** lets the fibers of this turn submit first, then sends for all.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use magnus::value::ReprValue;
use magnus::{block::Proc, gc, Error, Ruby, Value};
use pinyon_core::driven::{Doorbell, Polled};
use pinyon_core::operations::{Next, Operation as _};
use pinyon_core::shared::Finished;
use slab::Slab;

use super::call::{Awaiting, Call, Outcome};
use super::scheduler::Scheduler;
use super::{Machine, Operation};
use crate::errors::{exception, ErrorKind};

/// How often a fiber waits for a wake-up that is under way before it raises. See [`Connections::park`].
const PATIENCE: usize = 16;

/// The longest time without a fiber that waits, after which the next one first looks at what has come meanwhile.
const UNSEEN: Duration = Duration::from_millis(1);

/// The lock is never held while Ruby runs or allocates: the garbage collector takes it, to mark the fibers.
pub(super) struct Connections {
    state: Mutex<State>,
    bell: Arc<Doorbell>,
    /// The Ruby thread, as a number.
    pub(super) thread: usize,
}

struct State {
    polled: Polled<Machine>,
    waiting: Slab<Arc<Call>>,
    /// Those that wait until nothing is under way.
    attending: Vec<Arc<Call>>,
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

/// A fiber that waits on a scheduler. `io`: the descriptor, also Ruby's reason why the fiber is parked.
#[derive(Clone, Copy)]
pub(super) struct Place<'r> {
    pub(super) ruby: &'r Ruby,
    pub(super) scheduler: Scheduler,
    pub(super) io: Value,
}

impl Connections {
    pub(super) fn new(polled: Polled<Machine>, thread: usize) -> Self {
        let bell = polled.bell().clone();
        let state = State {
            polled,
            waiting: Slab::new(),
            attending: Vec::new(),
            open: 0,
            has_leader: false,
            led_until: None,
            has_sender: false,
            received: Instant::now(),
            is_closed: false,
        };
        Self { state: state.into(), bell, thread }
    }

    pub(super) fn mark(&self, marker: &gc::Marker) {
        self.lock().waiting.iter().for_each(|(_, call)| call.mark(marker));
    }

    /// Whether the scheduler's fibers can use it.
    pub(super) fn is_usable(&self) -> bool {
        let state = self.lock();
        !state.is_closed && state.polled.is_of_this_process()
    }

    /// Whether no fiber waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Closes the connections. The leader hands out the failures of what is under way.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        // In a forked child, there is nothing to close, and the bell is the parent's.
        if state.polled.close().is_ok() {
            self.bell.ring();
        }
    }

    /// Carries out an operation.
    pub(super) fn carry_out(&self, place: Place<'_>, operation: Operation) -> Result<Operation, Error> {
        self.catch_up(place)?;
        let call = Call::of_this_fiber(place.ruby);
        let begun = {
            let mut state = self.lock();
            let awaiting = Awaiting::Call(call.clone());
            let begin = |machine: &mut Machine, now| machine.start(operation, awaiting, now);
            state.polled.begin(begin).map(|()| state.enter(&call))
        };
        let number = begun.map_err(|error| unusable(place.ruby, &error))?;
        match self.outcome(place, &call, number)? {
            Some(Outcome::Operation(operation)) => Ok(operation),
            _ => unreachable!("an operation ends as an operation"),
        }
    }

    /// Begins something that no fiber waits for yet. `wait` then tells whether this fiber must wait, as a call.
    pub(super) fn begin<T>(
        &self,
        place: Place<'_>,
        begin: impl FnOnce(&mut Machine, Instant) -> T,
        wait: impl FnOnce(&Arc<Call>) -> bool,
    ) -> Result<(T, Option<Outcome>), Error> {
        self.catch_up(place)?;
        let call = Call::of_this_fiber(place.ruby);
        let begun = {
            let mut state = self.lock();
            state.polled.begin(begin).map(|begun| (begun, wait(&call).then(|| state.enter(&call))))
        };
        let (begun, number) = begun.map_err(|error| unusable(place.ruby, &error))?;
        let outcome = number.map(|number| self.outcome(place, &call, number)).transpose()?;
        Ok((begun, outcome.flatten()))
    }

    /// Sends at the end of this turn, from a fiber that was started for it, and sees to it until nothing is under way:
    /// the batch's own fiber may be waiting for something else.
    pub(super) fn attend(&self, place: Place<'_>) -> Result<(), Error> {
        let call = Call::of_this_fiber(place.ruby);
        let number = self.lock().enter(&call);
        let passed = self.pass_turn(place, &call);
        self.lock().attending.push(call.clone());
        let sent = self.send(place);
        match passed.and(sent) {
            Ok(()) => self.outcome(place, &call, number).map(drop),
            Err(raised) => {
                call.is_gone.set(true);
                self.leave(place, number).and(Err(raised))
            }
        }
    }

    /// Whether something is unsent and nobody would send it. The caller has it sent then.
    pub(super) fn lacks_sender(&self) -> bool {
        let mut state = self.lock();
        state.polled.is_unsent() && !std::mem::replace(&mut state.has_sender, true)
    }

    /// Has what is unsent sent at the end of this turn, by a fiber that ends when nothing is under way.
    pub(super) fn start_sender(&self, place: Place<'_>, driver: Value) -> Result<(), Error> {
        let started = driver
            .funcall::<_, _, Value>("method", ("attend",))
            .and_then(|method| method.funcall::<_, _, Proc>("to_proc", ()))
            .and_then(|attend| place.scheduler.start(attend));
        if started.is_err() {
            self.lock().has_sender = false;
        }
        started
    }

    /// Looks at what came while no fiber waited: late replies, or the end of a connection.
    #[inline]
    fn catch_up(&self, place: Place<'_>) -> Result<(), Error> {
        let mut state = self.lock();
        if !state.waiting.is_empty() || state.received.elapsed() < UNSEEN {
            return Ok(());
        }
        let (received, over) = (state.receive(), state.take_over());
        drop(state);
        self.hand_out(place, over)?;
        received.map_err(|error| unusable(place.ruby, &error))
    }

    /// Waits for the outcome of a call, and does its part of the work meanwhile.
    fn outcome(&self, place: Place<'_>, call: &Arc<Call>, number: usize) -> Result<Option<Outcome>, Error> {
        let waited = self.wait(place, call);
        let mut given_back = Ok(());
        if waited.is_err() {
            call.is_gone.set(true);
            given_back = self.give_back(place, call);
        }
        let left = self.leave(place, number);
        waited.and(given_back).and(left)?;
        Ok(call.take())
    }

    /// Gives back a lease whose fiber is gone. The core does so as long as the operation is under way.
    #[cold]
    fn give_back(&self, place: Place<'_>, call: &Call) -> Result<(), Error> {
        let Some(Outcome::Operation(mut operation)) = call.take() else { return Ok(()) };
        if !operation.may_win() || operation.give_back() != Next::Again {
            return Ok(());
        }
        let begin = |machine: &mut Machine, now| machine.start(operation, Awaiting::Nobody, now);
        let begun = self.lock().polled.begin(begin);
        begun.map_err(|error| unusable(place.ruby, &error))?;
        self.send(place)
    }

    fn leave(&self, place: Place<'_>, number: usize) -> Result<(), Error> {
        let next = self.lock().leave(number);
        next.map_or(Ok(()), |next| self.wake(place, &next))
    }

    fn wait(&self, place: Place<'_>, call: &Arc<Call>) -> Result<(), Error> {
        while !call.is_done.get() {
            let role = self.lock().role();
            match role {
                Role::Sender { alone: true } => self.send(place)?,
                Role::Sender { alone: false } => {
                    let passed = self.pass_turn(place, call);
                    // The other fibers rely on it, even if this one was cancelled.
                    let sent = self.send(place);
                    passed.and(sent)?;
                }
                Role::Leader { until } => self.lead(place, call, until)?,
                Role::Follower => self.park(place, call)?,
            }
        }
        Ok(())
    }

    /// Lets the other fibers of this turn run.
    fn pass_turn(&self, place: Place<'_>, call: &Call) -> Result<(), Error> {
        call.is_woken.set(true);
        if let Err(raised) = place.scheduler.unblock(place.io, call.fiber(place.ruby)) {
            call.is_woken.set(false);
            return Err(raised);
        }
        self.park(place, call)
    }

    /// Waits to be woken. If something else ends the wait while a wake-up is under way, that is awaited nevertheless:
    /// else it would end the fiber's next wait, whatever it is for.
    fn park(&self, place: Place<'_>, call: &Call) -> Result<(), Error> {
        call.is_parked.set(true);
        let parked = place.scheduler.block(place.io);
        call.is_parked.set(false);
        if parked.is_err() && call.is_woken.get() {
            (0..PATIENCE).find(|_| place.scheduler.block(place.io).is_ok());
        }
        call.is_woken.set(false);
        parked
    }

    /// Sends what is unsent.
    pub(super) fn send(&self, place: Place<'_>) -> Result<(), Error> {
        let (sent, over) = {
            let mut state = self.lock();
            state.has_sender = false;
            let sent = state.polled.send();
            if sent.is_ok() && state.is_led_too_long() {
                self.bell.ring();
            }
            (sent, state.take_over())
        };
        self.hand_out(place, over)?;
        sent.map_err(|error| unusable(place.ruby, &error))
    }

    fn lead(&self, place: Place<'_>, call: &Call, until: Option<Instant>) -> Result<(), Error> {
        call.leads.set(true);
        let waited = place.scheduler.io_wait(place.ruby, place.io, until);
        call.leads.set(false);
        let (received, over) = {
            let mut state = self.lock();
            (state.has_leader, state.led_until) = (false, None);
            (state.receive(), state.take_over())
        };
        let handed_out = self.hand_out(place, over);
        waited.and(handed_out)?;
        received.map_err(|error| unusable(place.ruby, &error))
    }

    /// Wakes the fibers, all of them, even if one cannot be woken.
    fn hand_out(&self, place: Place<'_>, over: Vec<Arc<Call>>) -> Result<(), Error> {
        let mut handed_out = Ok(());
        for call in over {
            handed_out = handed_out.and(self.wake(place, &call));
        }
        handed_out
    }

    fn wake(&self, place: Place<'_>, call: &Call) -> Result<(), Error> {
        if call.leads.get() {
            self.bell.ring();
            return Ok(());
        }
        if !call.is_parked.get() || call.is_woken.get() {
            return Ok(());
        }
        call.is_woken.set(true);
        place.scheduler.unblock(place.io, call.fiber(place.ruby))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Registers a fiber that is about to wait.
    fn enter(&mut self, call: &Arc<Call>) -> usize {
        self.open += 1;
        self.waiting.insert(call.clone())
    }

    /// Removes a fiber that waits no longer. Returns one that has to wake up and lead.
    fn leave(&mut self, number: usize) -> Option<Arc<Call>> {
        let call = self.waiting.remove(number);
        if !call.is_done.get() {
            self.open -= 1;
        }
        if self.has_leader || self.has_sender || self.open == 0 {
            return None;
        }
        self.waiting.iter().map(|(_, call)| call).find(|call| !call.is_done.get()).cloned()
    }

    fn receive(&mut self) -> io::Result<()> {
        self.received = Instant::now();
        self.polled.receive()
    }

    fn role(&mut self) -> Role {
        if self.polled.is_unsent() && !self.has_sender {
            let alone = self.waiting.len() == 1;
            self.has_sender = true;
            return Role::Sender { alone };
        }
        if self.has_leader {
            return Role::Follower;
        }
        self.has_leader = true;
        self.led_until = self.polled.deadline();
        Role::Leader { until: self.led_until }
    }

    /// Whether the leader would miss a deadline that is new.
    fn is_led_too_long(&self) -> bool {
        let due = self.polled.deadline();
        self.has_leader && due.is_some_and(|due| self.led_until.is_none_or(|until| due < until))
    }

    /// Gives each finished operation to its call. Returns the calls that have their outcome now.
    fn take_over(&mut self) -> Vec<Arc<Call>> {
        let mut over = Vec::new();
        while let Some(Finished { operation, waiter }) = self.polled.next_finished() {
            match waiter {
                Awaiting::Call(call) => self.finish(&mut over, call, Outcome::Operation(operation)),
                Awaiting::Nobody => {}
                Awaiting::Batch(batch) => {
                    let Operation::Quiet(run) = operation else { unreachable!("a batch consists of runs") };
                    let (have_room, left) = batch.lock().unwrap_or_else(PoisonError::into_inner).over(*run);
                    have_room.into_iter().for_each(|call| self.finish(&mut over, call, Outcome::Room));
                    if let Some((call, unsuccessful)) = left {
                        self.finish(&mut over, call, Outcome::Left(unsuccessful));
                    }
                }
            }
        }
        if !self.attending.is_empty() && self.polled.is_idle() {
            let attending = std::mem::take(&mut self.attending);
            attending.into_iter().for_each(|call| self.finish(&mut over, call, Outcome::Idle));
        }
        over
    }

    fn finish(&mut self, over: &mut Vec<Arc<Call>>, call: Arc<Call>, outcome: Outcome) {
        if call.is_gone.get() {
            return;
        }
        self.open -= 1;
        call.finish(outcome);
        over.push(call);
    }
}

/// A driver that the system, or a fork, has made unusable.
#[cold]
pub(super) fn unusable(ruby: &Ruby, error: &io::Error) -> Error {
    exception(ruby, ErrorKind::ConnectError, &error.to_string())
}
