//! Threads that share a client's locks: one of those that wait receives for all, the others sleep until it hands them
//! what is theirs.
//!
//! Nobody waits for what happens while no thread does: renewals, and locks that are lost. For that a thread of the
//! host's own, the keeper, calls [`Station::keep`] again and again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{recv, shutdown, RecvFlags, Shutdown};

use super::client::{Client, Finished, InTime, Outcome, Wish};
use super::machine::Loss;
use crate::address::Address;
use crate::blocking::{resolve, Host, Unresolved};
use crate::doorbell::{wait_for, Doorbell, Wake, LONGEST_SLEEP};
use crate::driven::{Action, Driven};

/// Answers are small; what is longer takes several looks.
const BUFFER: usize = 16 * 1024;

/// How long a connection may rest before it is read from ahead of what comes next: what nobody asked for must not answer
/// it, and what is lost is to be known.
const REST: Duration = Duration::from_millis(10);

/// How much sooner than it expected the keeper must have something to do, to be woken for it.
const WORTH_WAKING: Duration = Duration::from_millis(1);

/// How often the keeper reads what a server says to a client that asks for nothing.
const IDLE: Duration = Duration::from_secs(5);

pub struct Station {
    shared: Mutex<Shared>,
    keeper: Condvar,
    /// Wakes the thread that receives, when what it waits for has changed.
    bell: Doorbell,
}

struct Shared {
    client: Client<Arc<Slot>>,
    /// A thread receives for all.
    leading: bool,
    /// Those that sleep.
    following: Vec<Arc<Slot>>,
    notes: Vec<Note>,
    /// A name to be resolved by whoever comes next.
    unresolved: Option<(usize, String, u16)>,
    /// When it was last read from.
    read_at: Instant,
    /// What the thread that receives waits in, where it waits for nothing but bytes.
    receiving: Option<Arc<OwnedFd>>,
    /// Where it puts them.
    buffer: Vec<u8>,
    /// Until when the keeper sleeps, but for what is not worth waking it.
    kept_until: Option<InTime>,
    closed: bool,
}

/// Something that no thread waits for.
#[derive(Debug)]
pub enum Note {
    Lost { number: u64, loss: Loss },
    Warning(String),
}

/// Where a thread finds what came of what it wanted.
#[derive(Default)]
pub struct Slot {
    outcome: Mutex<Option<Outcome>>,
    /// Its thread sleeps, and is to be woken.
    sleeps: AtomicBool,
    wake: Condvar,
}

enum Step {
    Done(Outcome),
    Interrupted,
    Resolve(usize, String, u16),
}

impl Slot {
    fn take(&self) -> Option<Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn give(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        if self.sleeps.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }
}

impl Station {
    pub fn new(client: Client<Arc<Slot>>) -> io::Result<Self> {
        let shared = Shared {
            client,
            leading: false,
            following: Vec::new(),
            notes: Vec::new(),
            unresolved: None,
            read_at: Instant::now(),
            receiving: None,
            buffer: vec![0; BUFFER],
            kept_until: None,
            closed: false,
        };
        Ok(Self { shared: Mutex::new(shared), keeper: Condvar::new(), bell: Doorbell::new()? })
    }

    /// Begins what is wanted and waits for what comes of it. A lock is given up when the wait for it is interrupted.
    pub fn run<H: Host>(&self, host: &H, wish: Wish) -> Result<Outcome, H::Interrupt> {
        let slot = Arc::new(Slot::default());
        let is_lock = matches!(wish, Wish::Lock(_) | Wish::Park { .. });
        let (number, mut step) = host.unlocked(|| {
            let (mut shared, now) = (self.lock(), Instant::now());
            self.read_rested(&mut shared, now);
            let number = shared.client.begin(wish, slot.clone(), now);
            (number.filter(|_| is_lock), self.step(shared, &slot, now))
        })?;
        loop {
            let interrupted = match step {
                Step::Done(outcome) => return Ok(outcome),
                Step::Interrupted => host.interrupted().err(),
                Step::Resolve(lane, name, port) => self.resolve(host, lane, &name, port),
            };
            let next = match interrupted {
                Some(interrupt) => Err(interrupt),
                None => host.unlocked(|| self.step(self.lock(), &slot, Instant::now())),
            };
            if let (Err(_), Some(number)) = (&next, number) {
                self.cancel(number);
            }
            step = next?;
        }
    }

    /// Stops waiting for a lock, or gives it back without waiting for the answer.
    pub fn cancel(&self, number: u64) {
        let (mut shared, now) = (self.lock(), Instant::now());
        shared.client.cancel(number, now);
        shared.client.turn(now);
        self.settle(&mut shared, now);
    }

    /// Looks at the client, or changes it without waiting.
    pub fn with<T>(&self, look: impl FnOnce(&mut Client<Arc<Slot>>) -> T) -> T {
        look(&mut self.lock().client)
    }

    /// The token of a lock that is held, and how long it is still believed in.
    pub fn held(&self, number: u64) -> Option<(u64, Duration)> {
        let mut shared = self.lock();
        self.read_rested(&mut shared, Instant::now());
        shared.client.held(number)
    }

    /// What the keeper does: renews what is due, and returns what nobody waits for. `None` says that the client is
    /// closed. It returns every now and then with nothing, so that the host may look at signals.
    pub fn keep<H: Host>(&self, host: &H) -> Result<Option<Vec<Note>>, H::Interrupt> {
        let unresolved = self.lock().unresolved.take();
        if let Some((lane, name, port)) = unresolved {
            if let Some(interrupt) = self.resolve(host, lane, &name, port) {
                return Err(interrupt);
            }
        }
        host.unlocked(|| self.keep_once())
    }

    fn keep_once(&self) -> Option<Vec<Note>> {
        let mut shared = self.lock();
        if shared.closed {
            return None;
        }
        if shared.notes.is_empty() {
            let due = shared.client.deadline();
            let now = Instant::now();
            let is_due = due.is_some_and(|due| due <= now);
            if !shared.leading && (is_due || !shared.client.is_quiet()) {
                return self.tend(shared);
            }
            // Whoever leads does what is due.
            let idle = now + IDLE;
            let until = if is_due { now + LONGEST_SLEEP } else { due.map_or(idle, |due| due.min(idle)) };
            let sleep = until.saturating_duration_since(now);
            shared.kept_until = Some(shared.client.in_time(now, sleep.saturating_sub(WORTH_WAKING)));
            shared = self.keeper.wait_timeout(shared, sleep).unwrap_or_else(PoisonError::into_inner).0;
            shared.kept_until = None;
            if !shared.leading {
                self.read(&mut shared, Instant::now());
            }
        }
        match shared.closed {
            true => None,
            false => Some(std::mem::take(&mut shared.notes)),
        }
    }

    /// Fails what is waited for. What is held is not given back.
    pub fn close(&self) {
        let mut shared = self.lock();
        shared.closed = true;
        let now = Instant::now();
        shared.client.close(now);
        self.settle(&mut shared, now);
        self.keeper.notify_all();
        self.call_back(&shared);
    }

    /// Ends the wait of the thread that receives, as the connection that it waits for is given up.
    fn call_back(&self, shared: &Shared) {
        self.bell.ring();
        if let Some(fd) = &shared.receiving {
            // One that is not connected any more has ended the wait by itself.
            let _ = shutdown(fd, Shutdown::Both);
        }
    }

    /// In a forked child: the parent's connections are closed here without a word.
    pub fn abandon(&self) {
        if let Ok(mut shared) = self.shared.try_lock() {
            shared.client.discard();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve<H: Host>(&self, host: &H, lane: usize, name: &str, port: u16) -> Option<H::Interrupt> {
        let deadline = Instant::now() + self.with(|client| client.settings().connect_timeout);
        let resolved = match resolve(host, name, port, deadline) {
            Ok(addresses) => Ok(addresses.into_iter().map(Address::Tcp).collect()),
            Err(Unresolved::Failed(why)) => Err(why),
            Err(Unresolved::Interrupted(interrupt)) => {
                self.lock().unresolved = Some((lane, name.to_owned(), port));
                return Some(interrupt);
            }
        };
        let mut shared = self.lock();
        let now = Instant::now();
        shared.client.connect(lane, resolved, now);
        self.settle(&mut shared, now);
        None
    }

    /// Goes on until the slot's outcome is there, or the host has to do something.
    fn step<'s>(&'s self, mut shared: MutexGuard<'s, Shared>, slot: &Arc<Slot>, mut now: Instant) -> Step {
        self.settle(&mut shared, now);
        loop {
            if let Some(outcome) = slot.take() {
                if !shared.leading {
                    self.promote(&mut shared);
                }
                return Step::Done(outcome);
            }
            if let Some((lane, name, port)) = shared.unresolved.take() {
                return Step::Resolve(lane, name, port);
            }
            if shared.leading {
                shared.following.push(slot.clone());
                slot.sleeps.store(true, Ordering::Relaxed);
                let (woken, sleep) =
                    slot.wake.wait_timeout(shared, LONGEST_SLEEP).unwrap_or_else(PoisonError::into_inner);
                shared = woken;
                slot.sleeps.store(false, Ordering::Relaxed);
                shared.following.retain(|following| !Arc::ptr_eq(following, slot));
                if sleep.timed_out() && slot.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                    return Step::Interrupted;
                }
                now = Instant::now();
                continue;
            }
            let wake;
            (shared, wake, now) = self.receive(shared, now);
            let outcome = slot.take();
            if outcome.is_none() && wake == Wake::Ready {
                continue;
            }
            self.promote(&mut shared);
            return outcome.map_or(Step::Interrupted, Step::Done);
        }
    }

    /// The keeper leads until nothing is on its way.
    fn tend<'s>(&'s self, mut shared: MutexGuard<'s, Shared>) -> Option<Vec<Note>> {
        let now = Instant::now();
        shared.client.expire(now);
        shared.client.turn(now);
        self.settle(&mut shared, now);
        if !shared.leading && !shared.client.is_quiet() && shared.unresolved.is_none() {
            (shared, ..) = self.receive(shared, now);
            self.promote(&mut shared);
        }
        (!shared.closed).then(|| std::mem::take(&mut shared.notes))
    }

    /// Waits once for what the client's connections wait for, and takes what has come. Returns when that was, too.
    fn receive<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        now: Instant,
    ) -> (MutexGuard<'s, Shared>, Wake, Instant) {
        shared.leading = true;
        let alone = match shared.client.is_due_before(shared.client.in_time(now, LONGEST_SLEEP)) {
            true => None,
            false => shared.client.only_descriptor(LONGEST_SLEEP),
        };
        let (mut shared, wake, now) = match alone {
            Some(fd) => self.receive_bytes(shared, fd),
            None => self.poll(shared, now + LONGEST_SLEEP),
        };
        self.settle(&mut shared, now);
        shared.leading = false;
        (shared, wake, now)
    }

    /// Waits for bytes of the only connection there is: one system call, instead of one to wait and one to receive.
    fn receive_bytes<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        fd: Arc<OwnedFd>,
    ) -> (MutexGuard<'s, Shared>, Wake, Instant) {
        shared.receiving = Some(fd.clone());
        let mut buffer = std::mem::take(&mut shared.buffer);
        drop(shared);
        let received = recv(&fd, &mut buffer[..], RecvFlags::empty());
        let mut shared = self.lock();
        shared.receiving = None;
        let received = received.map(|(count, _)| &buffer[..count]).map_err(io::Error::from);
        let wake = match received.is_ok() {
            true => Wake::Ready,
            // The timeout of the socket has passed, or a signal came; or the connection broke, which is seen next.
            false => Wake::Interrupted,
        };
        let now = Instant::now();
        shared.read_at = now;
        shared.client.received(&fd, received, now);
        shared.buffer = buffer;
        (shared, wake, now)
    }

    fn poll<'s>(&'s self, shared: MutexGuard<'s, Shared>, until: Instant) -> (MutexGuard<'s, Shared>, Wake, Instant) {
        let due = shared.client.deadline().map_or(until, |due| due.min(until));
        let interests: Vec<(usize, Arc<OwnedFd>, bool)> = shared.client.descriptors();
        drop(shared);
        let mut descriptors: Vec<PollFd<'_>> = interests.iter().map(|(_, fd, write)| interest(fd, *write)).collect();
        descriptors.push(PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN));
        let wake = wait_for(&mut descriptors, due);
        let ready: Vec<bool> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        let mut shared = self.lock();
        if ready.last() == Some(&true) {
            self.bell.silence();
        }
        let now = Instant::now();
        shared.read_at = now;
        for ((lane, ..), _) in interests.iter().zip(&ready).filter(|(_, ready)| **ready) {
            shared.client.ready(*lane, now);
        }
        if due <= now {
            shared.client.expire(now);
        }
        (shared, wake, now)
    }

    fn read_rested(&self, shared: &mut Shared, now: Instant) {
        if !shared.leading && now.saturating_duration_since(shared.read_at) > REST {
            self.read(shared, now);
        }
    }

    /// Takes what has come, without waiting.
    fn read(&self, shared: &mut Shared, now: Instant) {
        shared.read_at = now;
        let lanes: Vec<usize> = shared.client.watched().map(|(lane, _)| lane).collect();
        for lane in lanes {
            shared.client.ready(lane, now);
        }
        self.settle(shared, now);
    }

    /// Somebody else leads from here on, if anybody waits; the keeper, where an answer is awaited all the same.
    fn promote(&self, shared: &mut Shared) {
        if let Some(next) = shared.following.first() {
            return next.wake.notify_one();
        }
        let Some(until) = shared.kept_until else { return };
        if !shared.client.is_quiet() || shared.client.is_due_before(until) {
            self.wake_keeper(shared);
        }
    }

    /// Does what the client wants done, and hands out what is over.
    fn settle(&self, shared: &mut Shared, now: Instant) {
        loop {
            while let Some(action) = shared.client.next_action() {
                match action {
                    Action::Resolve { lane, name, port } => shared.unresolved = Some((lane, name, port)),
                    Action::Forget { lane, .. } => {
                        shared.client.forgotten(lane, now);
                        self.call_back(shared);
                    }
                    Action::Watch { .. } if shared.leading => self.bell.ring(),
                    Action::Watch { .. } => {}
                    Action::EndTurn => shared.client.turn(now),
                }
            }
            match shared.client.next_finished() {
                Some(Finished::Done { waiter, outcome }) => waiter.give(outcome),
                Some(Finished::Lost { number, loss }) => shared.notes.push(Note::Lost { number, loss }),
                Some(Finished::Warning(text)) => shared.notes.push(Note::Warning(text)),
                None => break,
            }
        }
        if !shared.notes.is_empty() {
            self.wake_keeper(shared);
        }
    }

    fn wake_keeper(&self, shared: &mut Shared) {
        shared.kept_until = None;
        self.keeper.notify_all();
    }
}

fn interest(fd: &OwnedFd, write: bool) -> PollFd<'_> {
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, write);
    PollFd::from_borrowed_fd(fd.as_fd(), flags)
}
