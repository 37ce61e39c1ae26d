//! A driver for event loops that call back: it tells the loop what to do and when.
//!
//! The driver keeps the turn that is due, the alarm, the outcomes to hand out, and the end of a loop. A fork makes it
//! inert. It calls its host ([`LoopHost`]) only while the machine is not borrowed, and an error in one call does not
//! prevent the others.
//!
//! Some programs let a callback run the loop, as nest_asyncio does. If a resumed coroutine turns its loop into such a
//! loop, the next operation that it begins leaves the rest of the turn to the loop.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::lent::{InUse, Lent, LentMachine};
use super::turns::{Alarm, Answered, Turns};
use super::{some_addresses, Action, Actions, Driven};
use crate::address::Address;
use crate::credentials::Question;

/// An event loop of the host's language. `W` is a waiter in this loop, and `O` is the outcome that it receives.
///
/// The machine is not borrowed during these calls, so each of them may call the [`LoopMachine`]. An error does not keep
/// other waiters from resuming: it is returned when everything else is done.
pub trait LoopHost<M: Driven, W, O> {
    type Error;

    /// Call [`LoopMachine::turn`] soon, on the loop's thread.
    fn end_turn(&self) -> Result<(), Self::Error>;

    /// The same, but the caller may be in another thread.
    fn end_turn_from_outside(&self) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::ready`] when the descriptor is readable, and also when it is writable if `write`. This
    /// replaces the previous request for the descriptor.
    fn watch(&self, lane: usize, fd: RawFd, write: bool) -> Result<(), Self::Error>;

    /// Watch the descriptor by a new watch: the old one is being called and cannot be called again. Only for a loop that
    /// its own callbacks may run: see [`LoopMachine::leave_to_loop`].
    fn watch_anew(&self, _lane: usize, _fd: RawFd) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Stop watching the descriptor. It will be closed.
    fn forget(&self, lane: usize, fd: RawFd) -> Result<(), Self::Error>;

    /// The same in a forked child, where the loop may still share its watches with the parent's loop.
    fn forget_inherited(&self, lane: usize, fd: RawFd) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::resolved`] with the addresses of the name.
    fn resolve(&self, lane: usize, name: &str, port: u16) -> Result<(), Self::Error>;

    /// Have the question for credentials answered, then call [`LoopMachine::woken`] on the loop's thread.
    fn ask(&self, question: Question) -> Result<(), Self::Error>;

    /// Call [`LoopMachine::woken`] after this time. Wake-ups that were requested before may still come.
    fn wake_in(&self, time: Duration) -> Result<(), Self::Error>;

    /// Pass the outcomes to [`LoopMachine::answered`], and begin what follows from them.
    fn settle(&self, finished: Vec<M::Finished>) -> Result<(), Self::Error>;

    /// Events have happened: report them.
    fn report(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Give the waiter its outcome, and let it run until it waits again.
    fn resume(&self, waiter: W, outcome: O) -> Result<(), Self::Error>;

    /// Call `wait`, which sleeps until another thread gives the machine back. Give up the language's global lock meanwhile:
    /// the other thread may need it.
    fn unlocked(&self, wait: &(dyn Fn() + Sync));

    /// The error of a call that arrives while this thread has the machine: see [`InUse`].
    fn in_use(&self) -> Self::Error;
}

/// The machine of one event loop, with its pending work.
///
/// It belongs to the process that made it: in a forked child, it sends, receives and resumes nothing. Fork only while
/// no other thread is inside a call; an interpreter's global lock ensures this, and so does an interpreter without one
/// that stops its threads before a fork.
pub struct LoopMachine<M, W, O> {
    machine: LentMachine<M>,
    answered: Answered<W, O>,
    turns: Turns,
    alarm: Alarm,
    /// Whether it takes nothing new, and closes its connections as soon as it is idle.
    is_retired: AtomicBool,
}

/// The calls from the loop.
impl<M: Driven + Send, W, O> LoopMachine<M, W, O> {
    pub fn new(machine: M) -> Self {
        Self {
            machine: LentMachine::new(machine),
            answered: Answered::default(),
            turns: Turns::default(),
            alarm: Alarm::default(),
            is_retired: AtomicBool::default(),
        }
    }

    /// Begins an operation. If it fails at once, the failure is reported at the end of the turn.
    pub fn begin<H: LoopHost<M, W, O>, T>(
        &self,
        host: &H,
        begin: impl FnOnce(&mut M, Instant) -> T,
    ) -> Result<T, H::Error> {
        let (begun, actions) = {
            let (mut machine, now) = (self.borrow(host)?, Instant::now());
            (begin(&mut machine, now), machine.take_actions())
        };
        match actions {
            Some(actions) => self.carry_out(host, actions).map(|()| begun),
            None => Ok(begun),
        }
    }

    /// Leaves to the loop what the end of this turn would do. Call it after a waiter that is
    /// [resumed here](Self::is_resuming_here) has begun something, if it may run the loop before it waits again. The
    /// loop then sends, receives and resumes inside this turn.
    #[cold]
    pub fn leave_to_loop<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        let watched: Vec<_> = self.borrow(host)?.watched().collect();
        watched.into_iter().try_for_each(|(lane, fd)| host.watch_anew(lane, fd))?;
        host.end_turn()
    }

    /// Call it at the end of the turn in which [`LoopHost::end_turn`] was called.
    pub fn turn<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        self.advance(host, M::turn)
    }

    /// Call it when a watched descriptor is ready.
    pub fn ready<H: LoopHost<M, W, O>>(&self, host: &H, lane: usize) -> Result<(), H::Error> {
        self.advance(host, |machine, now| machine.ready(lane, now))
    }

    /// Call it when the time of [`LoopHost::wake_in`] has passed.
    pub fn woken<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        self.alarm.clear();
        self.advance(host, M::expire)
    }

    /// Call it with the addresses of a name, or with the reason why there are none.
    pub fn resolved<H: LoopHost<M, W, O>>(
        &self,
        host: &H,
        lane: usize,
        addresses: Result<Vec<Address>, String>,
    ) -> Result<(), H::Error> {
        self.advance(host, |machine, now| machine.connect(lane, some_addresses(addresses), now))
    }

    /// Fails everything under way. The loop resumes the waiters.
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

    /// Takes nothing new from now on. The loop closes the connections as soon as everything under way is over.
    pub fn retire<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        self.is_retired.store(true, Ordering::Relaxed);
        host.end_turn_from_outside()
    }

    /// Closes the connections of a loop that has ended. Its waiters are never resumed. See [`Driven::discard`].
    pub fn discard<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<Vec<M::Finished>, InUse> {
        Ok(self.machine(host)?.discard())
    }

    /// In a forked child, has the loop stop watching the parent's connections.
    pub fn leave_watched<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        let watched: Vec<_> = self.borrow(host)?.watched().collect();
        watched.into_iter().try_for_each(|(lane, fd)| host.forget_inherited(lane, fd))
    }
}

impl<M: Driven + Send, W, O> LoopMachine<M, W, O> {
    /// The machine, to inspect it, or to begin operations while [`LoopHost::settle`] runs. Waits while another thread has
    /// it.
    pub fn machine<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<Lent<'_, M>, InUse> {
        self.machine.lend(|wait| host.unlocked(wait))
    }

    /// The waiters to resume. A host that switches between coroutines takes the next one from here.
    pub fn answered(&self) -> &Answered<W, O> {
        &self.answered
    }

    /// Whether the caller was resumed by this loop, inside a turn that still runs.
    #[inline]
    pub fn is_resuming_here(&self) -> bool {
        self.turns.is_here()
    }

    #[inline]
    pub fn is_of_this_process(&self) -> bool {
        self.machine.is_of_this_process()
    }

    /// How many connections to a server are established.
    pub fn open_connections<H: LoopHost<M, W, O>>(&self, host: &H, server: usize) -> Result<usize, InUse> {
        match self.is_of_this_process() {
            true => Ok(self.machine(host)?.open_connections(server)),
            false => Ok(0),
        }
    }

    /// The state in which a forked child finds it.
    #[cfg(test)]
    pub(super) fn inherited(self) -> Self {
        Self { machine: self.machine.inherited(), ..self }
    }

    fn borrow<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<Lent<'_, M>, H::Error> {
        self.machine(host).map_err(|InUse| host.in_use())
    }

    /// Handles an event of the loop: changes the machine, resumes the waiters whose outcome is known, and sends once at
    /// the end.
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
        if self.is_retired.load(Ordering::Relaxed) && self.machine(host).is_ok_and(|machine| machine.is_idle()) {
            self.is_retired.store(false, Ordering::Relaxed);
            self.change(host, M::close, &mut errors);
        }
        errors.into_result()
    }

    /// Resumes the waiters whose outcome is known. An error may end the loop, so the rest waits for the next turn.
    fn resume<H: LoopHost<M, W, O>>(&self, host: &H) -> Result<(), H::Error> {
        while let Some((waiter, outcome)) = self.answered.next() {
            host.resume(waiter, outcome)?;
        }
        Ok(())
    }

    /// Changes the machine and carries out the consequences.
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
                match (machine.take_actions(), machine.take_finished()) {
                    (None, finished) if finished.is_empty() => break machine.deadline(),
                    pending => pending,
                }
            };
            if let Some(actions) = actions {
                self.act(host, actions, errors);
            }
            if !finished.is_empty() {
                errors.note(host.settle(finished));
            }
        };
        errors.note(host.report());
        self.set_alarm(host, deadline, errors);
    }

    /// Carries out the consequences of a new operation, but leaves outcomes alone.
    fn carry_out<H: LoopHost<M, W, O>>(&self, host: &H, mut actions: Actions) -> Result<(), H::Error> {
        let mut errors = FirstError::default();
        let deadline = loop {
            self.act(host, actions, &mut errors);
            let mut machine = self.borrow(host)?;
            match machine.take_actions() {
                Some(more) => actions = more,
                None => break machine.deadline(),
            }
        };
        self.set_alarm(host, deadline, &mut errors);
        errors.into_result()
    }

    #[inline]
    fn act<H: LoopHost<M, W, O>>(&self, host: &H, mut actions: Actions, errors: &mut FirstError<H::Error>) {
        let ends_turn = actions.take_end_of_turn() && self.turns.is_left_to_host();
        if !actions.is_empty() {
            self.act_on_connections(host, actions, errors);
        }
        if ends_turn {
            errors.note(host.end_turn());
        }
    }

    #[cold]
    fn act_on_connections<H: LoopHost<M, W, O>>(&self, host: &H, actions: Actions, errors: &mut FirstError<H::Error>) {
        for action in actions {
            match action {
                Action::EndTurn => {}
                Action::Watch { lane, fd, write } => errors.note(host.watch(lane, fd, write)),
                Action::Resolve { lane, name, port } => errors.note(host.resolve(lane, &name, port)),
                Action::Ask(question) => errors.note(host.ask(question)),
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

/// Keeps the first error of several calls. All calls are made.
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
