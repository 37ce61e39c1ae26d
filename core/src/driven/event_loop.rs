//! A machine in an event loop that calls back: what the loop is told to do, and when.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::turns::{Alarm, Answered, Turns};
use super::{some_addresses, Action, Driven};
use crate::address::Address;
use crate::fork;

/// An event loop of the host's language, and those who wait in it: `W` waits, `O` is what it is given.
///
/// The machine is never borrowed while one of these is called, so each may come back to the [`LoopMachine`] at once. An
/// error does not keep other waiters from their turn: it is returned when everything else is done.
pub trait LoopHost<M: Driven, W, O> {
    type Error;

    /// Call [`LoopMachine::turn`] soon.
    fn end_turn(&self) -> Result<(), Self::Error>;

    /// The same, where the caller may be in another thread than the loop's.
    fn end_turn_from_outside(&self) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::ready`] when the descriptor is readable, or writable where `write` asks for that. This replaces
    /// what was asked for the descriptor before.
    fn watch(&self, lane: usize, fd: RawFd, write: bool) -> Result<(), Self::Error>;

    /// Stop watching the descriptor. It is closed afterwards.
    fn forget(&self, lane: usize, fd: RawFd) -> Result<(), Self::Error>;

    /// The same in a forked child, where the loop may still share its watching with the parent's.
    fn forget_inherited(&self, lane: usize, fd: RawFd) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::resolved`] with the addresses of the name.
    fn resolve(&self, lane: usize, name: &str, port: u16) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::woken`] after this time. Calls that were asked for before may come as well.
    fn wake_in(&self, time: Duration) -> Result<(), Self::Error>;

    /// Answers those who waited for what is over ([`LoopMachine::answered`]), and begins what follows from it.
    fn settle(&self, finished: Vec<M::Finished>) -> Result<(), Self::Error>;

    /// Something has happened: tell whoever watches.
    fn report(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Give the waiter its outcome, and let it run until it waits again.
    fn resume(&self, waiter: W, outcome: O) -> Result<(), Self::Error>;

    /// The error of a call that came while the machine was borrowed: see [`InUse`].
    fn in_use(&self) -> Self::Error;
}

/// The machine is borrowed further up in this thread, or by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// The machine of one event loop, and what is due in it.
///
/// It belongs to the process that made it. In a forked child nothing is sent, received or resumed. Fork while no other
/// thread is inside a call, as an interpreter's global lock ensures.
pub struct LoopMachine<M, W, O> {
    machine: Mutex<M>,
    answered: Answered<W, O>,
    turns: Turns,
    alarm: Alarm,
    /// Nothing can be begun any more: the connections are closed once nothing is on its way.
    is_retired: AtomicBool,
    generation: u64,
}

/// What the loop calls.
impl<M: Driven, W, O> LoopMachine<M, W, O> {
    pub fn new(machine: M) -> Self {
        Self {
            machine: Mutex::new(machine),
            answered: Answered::default(),
            turns: Turns::default(),
            alarm: Alarm::default(),
            is_retired: AtomicBool::default(),
            generation: fork::generation(),
        }
    }

    /// Begins something. What fails at once is left for the end of the turn.
    pub fn begin<H: LoopHost<M, W, O>, T>(
        &self,
        host: &H,
        begin: impl FnOnce(&mut M, Instant) -> T,
    ) -> Result<T, H::Error> {
        let (begun, actions) = {
            let (mut machine, now) = (self.borrow(host)?, Instant::now());
            (begin(&mut machine, now), machine.take_actions())
        };
        if !actions.is_empty() {
            self.carry_out(host, actions)?;
        }
        Ok(begun)
    }

    /// The turn is over that [`LoopHost::end_turn`] was called in.
    pub fn turn<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        self.advance(host, M::turn)
    }

    /// A watched descriptor is ready.
    pub fn ready<H: LoopHost<M, W, O>>(&self, host: &H, lane: usize) -> Result<(), H::Error> {
        self.advance(host, |machine, now| machine.ready(lane, now))
    }

    /// The time has passed that [`LoopHost::wake_in`] was called with.
    pub fn woken<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        self.alarm.clear();
        self.advance(host, M::expire)
    }

    /// The addresses of a name, or why there are none.
    pub fn resolved<H: LoopHost<M, W, O>>(
        &self,
        host: &H,
        lane: usize,
        addresses: Result<Vec<Address>, String>,
    ) -> Result<(), H::Error> {
        self.advance(host, |machine, now| machine.connect(lane, some_addresses(addresses), now))
    }

    /// Fails everything on its way. The loop resumes those who waited for it.
    pub fn shut<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        let mut errors = FirstError::default();
        self.change(host, M::close, &mut errors);
        if !self.answered.is_empty() {
            errors.note(host.end_turn_from_outside());
        }
        errors.into_result()
    }

    /// Nothing can be begun any more: the loop closes the connections once nothing is on its way.
    pub fn retire<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        self.is_retired.store(true, Ordering::Relaxed);
        host.end_turn_from_outside()
    }

    /// Closes the connections of a loop that is over. Those who waited in it are never resumed.
    pub fn discard(&self) -> Result<(), InUse> {
        self.machine()?.discard();
        Ok(())
    }

    /// In a forked child: has the loop forget the parent's connections.
    pub fn leave_watched<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        let watched: Vec<_> = self.borrow(host)?.watched().collect();
        watched.into_iter().try_for_each(|(lane, fd)| host.forget_inherited(lane, fd))
    }
}

impl<M: Driven, W, O> LoopMachine<M, W, O> {
    /// The machine, to look at it or to begin things while [`LoopHost::settle`] runs.
    pub fn machine(&self) -> Result<MutexGuard<'_, M>, InUse> {
        match self.machine.try_lock() {
            Ok(machine) => Ok(machine),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(InUse),
        }
    }

    /// Those who are to be resumed. A host that switches between coroutines takes the next one from here.
    pub fn answered(&self) -> &Answered<W, O> {
        &self.answered
    }

    /// Whether the caller runs inside a turn of this loop: it was resumed by it.
    #[inline]
    pub fn is_resuming_here(&self) -> bool {
        self.turns.is_here()
    }

    #[inline]
    pub fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// How many connections to a server are established.
    pub fn open_connections(&self, server: usize) -> Result<usize, InUse> {
        match self.is_of_this_process() {
            true => Ok(self.machine()?.open_connections(server)),
            false => Ok(0),
        }
    }

    /// As a forked child finds it.
    #[cfg(test)]
    pub(super) fn inherited(self) -> Self {
        Self { generation: self.generation.wrapping_sub(1), ..self }
    }

    fn borrow<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<MutexGuard<'_, M>, H::Error> {
        self.machine().map_err(|InUse| host.in_use())
    }

    /// Something has happened in the loop. Those whose outcome is known go on; what they submit is sent at the end, once.
    fn advance<H: LoopHost<M, W, O>>(&self, host: &H, change: impl FnOnce(&mut M, Instant)) -> Result<(), H::Error> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        let mut errors = FirstError::default();
        {
            let _running = self.turns.begin();
            self.change(host, change, &mut errors);
            errors.note(self.resume(host));
        }
        if self.turns.take_due() {
            self.change(host, M::turn, &mut errors);
        }
        if !self.answered.is_empty() {
            errors.note(host.end_turn());
        }
        if self.is_retired.load(Ordering::Relaxed) && self.machine().is_ok_and(|machine| machine.is_idle()) {
            self.is_retired.store(false, Ordering::Relaxed);
            self.change(host, M::close, &mut errors);
        }
        errors.into_result()
    }

    /// Resumes those whose outcome is known. An error may end the loop, so it ends this at once; the others are resumed in
    /// the next turn.
    fn resume<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        while let Some((waiter, outcome)) = self.answered.next() {
            host.resume(waiter, outcome)?;
        }
        Ok(())
    }

    /// Changes the machine, then does what follows from that.
    fn change<H: LoopHost<M, W, O>>(
        &self,
        host: &H,
        change: impl FnOnce(&mut M, Instant),
        errors: &mut FirstError<H::Error>,
    ) {
        let mut change = Some(change);
        let deadline = loop {
            let (actions, finished) = {
                let mut machine = match self.borrow(host) {
                    Ok(machine) => machine,
                    Err(in_use) => return errors.note(Err(in_use)),
                };
                if let Some(change) = change.take() {
                    change(&mut machine, Instant::now());
                }
                let (actions, finished) = (machine.take_actions(), machine.take_finished());
                if actions.is_empty() && finished.is_empty() {
                    break machine.deadline();
                }
                (actions, finished)
            };
            self.act(host, actions, errors);
            if !finished.is_empty() {
                errors.note(host.settle(finished));
            }
        };
        errors.note(host.report());
        self.set_alarm(host, deadline, errors);
    }

    /// Does what follows from a beginning. Outcomes are left where they are.
    fn carry_out<H: LoopHost<M, W, O>>(&self, host: &H, mut actions: Vec<Action>) -> Result<(), H::Error> {
        let mut errors = FirstError::default();
        let deadline = loop {
            self.act(host, actions, &mut errors);
            let mut machine = self.borrow(host)?;
            actions = machine.take_actions();
            if actions.is_empty() {
                break machine.deadline();
            }
        };
        self.set_alarm(host, deadline, &mut errors);
        errors.into_result()
    }

    fn act<H: LoopHost<M, W, O>>(&self, host: &H, actions: Vec<Action>, errors: &mut FirstError<H::Error>) {
        for action in actions {
            match action {
                Action::EndTurn if self.turns.is_left_to_host() => errors.note(host.end_turn()),
                Action::EndTurn => {}
                Action::Watch { lane, fd, write } => errors.note(host.watch(lane, fd, write)),
                Action::Resolve { lane, name, port } => errors.note(host.resolve(lane, &name, port)),
                Action::Forget { lane, fd } => {
                    errors.note(host.forget(lane, fd));
                    errors.note(self.borrow(host).map(|mut machine| machine.forgotten(lane, Instant::now())));
                }
            }
        }
    }

    fn set_alarm<H: LoopHost<M, W, O>>(&self, host: &H, deadline: Option<Instant>, errors: &mut FirstError<H::Error>) {
        let Some(deadline) = deadline.filter(|deadline| self.alarm.set(*deadline)) else { return };
        let told = host.wake_in(deadline.saturating_duration_since(Instant::now()));
        if told.is_err() {
            self.alarm.clear();
        }
        errors.note(told);
    }
}

/// The first error of several calls, all of which are made.
struct FirstError<E>(Option<E>);

impl<E> FirstError<E> {
    #[inline]
    fn note(&mut self, done: Result<(), E>) {
        if let Err(error) = done {
            self.0.get_or_insert(error);
        }
    }

    fn into_result(self) -> Result<(), E> {
        self.0.map_or(Ok(()), Err)
    }
}

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        Self(None)
    }
}
