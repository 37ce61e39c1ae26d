//! A driver for hosts that wait for one descriptor, and take outcomes when they like.
//!
//! It watches its connections by epoll or kqueue, and offers one descriptor. A thread resolves names and wakes it. It
//! needs no end of a turn: it sends what was begun before its host waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;
use std::vec;

use super::{some_addresses, Action, Driven, Poller};
use crate::address::Address;
use crate::doorbell::{Doorbell, Wake};
use crate::resolver::Resolving;

/// Drives a machine on its own: it watches the connections, resolves names, keeps deadlines, and never calls the host.
/// The host only waits for it.
///
/// A host without an event loop begins any number of operations, calls [`Self::wait`], and takes the outcomes:
///
/// ```no_run
/// # use pinyon_net::driven::{Driven, Polled, Wake};
/// # fn run<M: Driven>(machine: M, submit: impl Fn(&mut M), until: std::time::Instant) -> std::io::Result<()> {
/// let mut polled = Polled::new(machine)?;
/// polled.begin(|machine, _now| submit(machine))?;
/// while !polled.is_idle() && polled.wait(until)? != Wake::Deadline {
///     while let Some(finished) = polled.next_finished() {
///         drop(finished); // resume its waiter
///     }
/// }
/// polled.close()
/// # }
/// ```
///
/// A host with an event loop calls [`Self::send`] before it waits. It waits for the descriptor ([`AsFd`]) to become
/// readable, until [`Self::deadline`] at most, and calls [`Self::receive`]. After every call it takes the outcomes.
///
/// Everything begun before a wait leaves in one send, so the host need not report the end of a turn.
///
/// It belongs to the process that made it. In a forked child it refuses every call, and dropping it there closes the
/// child's copies of the descriptors without sending anything.
pub struct Polled<M: Driven> {
    machine: M,
    poller: Poller,
    resolving: Vec<(usize, Resolving)>,
    finished: vec::IntoIter<M::Finished>,
    is_unsent: bool,
    /// A buffer for the lanes that are ready.
    ready: Vec<usize>,
}

impl<M: Driven> Polled<M> {
    /// # Errors
    /// The process has too many open descriptors.
    pub fn new(machine: M) -> io::Result<Self> {
        Ok(Self {
            machine,
            poller: Poller::new()?,
            resolving: Vec::new(),
            finished: Vec::new().into_iter(),
            is_unsent: false,
            ready: Vec::new(),
        })
    }

    /// The machine, for inspection.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Begins something. It is sent when the host waits, or by [`Self::send`].
    ///
    /// # Errors The connections belong to a parent process. Every other call fails in the same way then.
    pub fn begin<T>(&mut self, begin: impl FnOnce(&mut M, Instant) -> T) -> io::Result<T> {
        self.check_process()?;
        let begun = begin(&mut self.machine, Instant::now());
        self.act()?;
        Ok(begun)
    }

    /// Sends what is unsent, waits until something happens or `until`, and does what is due. It returns at once if an
    /// outcome is ready already.
    ///
    /// # Errors The system refuses to watch a connection.
    pub fn wait(&mut self, until: Instant) -> io::Result<Wake> {
        self.send()?;
        if self.finished.len() > 0 {
            return Ok(Wake::Ready);
        }
        let until_due = self.machine.deadline().map_or(until, |due| due.min(until));
        let wake = self.look(until_due)?;
        let is_over = wake == Wake::Deadline && until_due < until;
        Ok(if is_over || self.finished.len() > 0 { Wake::Ready } else { wake })
    }

    /// The next outcome, in the order in which the operations ended.
    pub fn next_finished(&mut self) -> Option<M::Finished> {
        self.finished.next()
    }

    /// Fails everything under way and closes all connections. Take these outcomes as always.
    ///
    /// # Errors Those of [`Self::begin`].
    pub fn close(&mut self) -> io::Result<()> {
        self.check_process()?;
        self.machine.close(Instant::now());
        self.act()?;
        self.take_finished();
        Ok(())
    }
}

/// For hosts with an event loop.
impl<M: Driven> Polled<M> {
    /// Whether [`Self::send`] has something to send.
    pub fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Sends what is unsent.
    ///
    /// # Errors Those of [`Self::wait`].
    pub fn send(&mut self) -> io::Result<()> {
        self.check_process()?;
        while std::mem::take(&mut self.is_unsent) {
            self.machine.turn(Instant::now());
            self.act()?;
        }
        self.take_finished();
        Ok(())
    }

    /// Receives what has arrived, and does what is due. It never waits.
    ///
    /// # Errors Those of [`Self::wait`].
    pub fn receive(&mut self) -> io::Result<()> {
        self.check_process()?;
        // A host calls it when something has arrived. With one connection, it is known where: to ask costs a system call.
        if let Some(lane) = self.poller.only() {
            let mut ready = std::mem::take(&mut self.ready);
            ready.push(lane);
            self.handle(ready)?;
            if self.finished.len() > 0 {
                return Ok(());
            }
        }
        self.look(Instant::now()).map(drop)
    }

    /// Receives, does what is due and sends, in another thread than the one that waits for the descriptor. That one is
    /// woken if there are outcomes to take.
    ///
    /// # Errors Those of [`Self::wait`].
    pub fn tend(&mut self) -> io::Result<()> {
        self.check_process()?;
        let mut ready = std::mem::take(&mut self.ready);
        let looked = self.poller.look(&mut ready);
        let tended = self.handle(ready).and(looked).and_then(|()| self.send());
        if self.finished.len() > 0 {
            self.bell().ring();
        }
        tended
    }

    /// When to call [`Self::receive`] even if nothing has arrived.
    pub fn deadline(&self) -> Option<Instant> {
        self.machine.deadline()
    }

    /// The bell that ends a wait. Any thread may ring it.
    pub fn bell(&self) -> &Arc<Doorbell> {
        self.poller.bell()
    }

    /// Whether nothing is under way, and every outcome has been taken.
    pub fn is_idle(&self) -> bool {
        self.machine.is_idle() && self.finished.len() == 0 && !self.is_unsent
    }

    /// How many connections to a server are established.
    pub fn open_connections(&self, server: usize) -> usize {
        self.machine.open_connections(server)
    }

    /// Whether this process made it. Otherwise the process was forked, and it may not be used.
    pub fn is_of_this_process(&self) -> bool {
        self.poller.is_of_this_process()
    }

    pub(super) fn check_process(&self) -> io::Result<()> {
        match self.is_of_this_process() {
            true => Ok(()),
            false => {
                Err(io::Error::other("these connections belong to the parent process: a forked child makes its own"))
            }
        }
    }

    /// Handles arrived bytes, resolved names and passed deadlines.
    fn look(&mut self, until: Instant) -> io::Result<Wake> {
        let mut ready = std::mem::take(&mut self.ready);
        let looked = self.poller.wait(until, &mut ready);
        self.handle(ready).and(looked)
    }

    fn handle(&mut self, mut ready: Vec<usize>) -> io::Result<()> {
        let now = Instant::now();
        ready.drain(..).for_each(|lane| self.machine.ready(lane, now));
        self.ready = ready;
        self.take_resolved(now);
        if self.machine.deadline().is_some_and(|deadline| deadline <= now) {
            self.machine.expire(now);
        }
        let acted = self.act();
        self.take_finished();
        acted
    }

    fn take_resolved(&mut self, now: Instant) {
        let machine = &mut self.machine;
        self.resolving.retain(|(lane, resolving)| {
            let Some(answer) = resolving.take() else { return true };
            let addresses = answer.map(|found| found.into_iter().map(Address::Tcp).collect());
            let addresses = some_addresses(addresses.map_err(|error| error.to_string()));
            machine.connect(*lane, addresses, now);
            false
        });
    }

    /// Carries out the machine's orders, all of them, even if one fails.
    fn act(&mut self) -> io::Result<()> {
        let mut acted = Ok(());
        loop {
            let Some(actions) = self.machine.take_actions() else { return acted };
            for action in actions {
                match action {
                    Action::EndTurn => self.is_unsent = true,
                    Action::Watch { lane, fd, write } => acted = acted.and(self.poller.watch(lane, fd, write)),
                    Action::Forget { lane, fd } => {
                        self.poller.forget(lane, fd);
                        self.machine.forgotten(lane, Instant::now());
                    }
                    Action::Resolve { lane, name, port } => self.resolve(lane, &name, port),
                    Action::Ask(question) => {
                        let bell = self.poller.bell().clone();
                        question.put(move || bell.ring());
                    }
                }
            }
        }
    }

    fn resolve(&mut self, lane: usize, name: &str, port: u16) {
        match Resolving::begin_ringing(name, port, self.poller.bell().clone()) {
            Ok(resolving) => self.resolving.push((lane, resolving)),
            Err(error) => self.machine.connect(lane, Err(error.to_string()), Instant::now()),
        }
    }

    fn take_finished(&mut self) {
        let finished = self.machine.take_finished();
        if self.finished.len() == 0 {
            self.finished = finished.into_iter();
        } else if !finished.is_empty() {
            self.finished = self.finished.by_ref().chain(finished).collect::<Vec<_>>().into_iter();
        }
    }
}

impl<M: Driven> AsFd for Polled<M> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
