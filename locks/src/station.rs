//! Threads that share a client's locks. One of the waiting threads receives for all; the others sleep until it passes
//! on their outcomes (`lead.rs`).
//!
//! A keeper, a thread of its own, handles renewals and losses, which no thread waits for.
//!
//! A thread that sleeps wakes when it has an outcome, when it becomes the one that receives, or when its host wakes it
//! for an interrupt (`Host::asleep`). The keeper blocks all signals, starts with the first lock of a process, and
//! leaves notes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{recv, shutdown, RecvFlags, Shutdown};

use crate::client::{InTime, Setup};
use crate::front::{Front, GiveUp, LockFinished, LockOperation, LockOutcome};
use crate::grant::Grant;
use crate::lead::{Lead, Led, Progress, Slot};
use crate::notes::Notes;
use pinyon_net::address::Address;
use pinyon_net::credentials::Question;
use pinyon_net::doorbell::{wait_for, Doorbell, Wake, LONGEST_SLEEP};
use pinyon_net::driven::{Action, Driven};
use pinyon_net::error::{Error, Kind};
use pinyon_net::host::{self, resolve, Host, NoHost};
use pinyon_net::own_thread;
use pinyon_net::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use pinyon_net::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Answers are small. A longer one takes several reads.
const BUFFER: usize = 16 * 1024;

/// How long a connection may be idle before it is read ahead of the next command: unexpected bytes must not answer that
/// command, and losses must be noticed.
const REST: Duration = Duration::from_millis(10);

/// The keeper is woken only if it is needed so much earlier than planned.
const WORTH_WAKING: Duration = Duration::from_millis(1);

/// How often the keeper reads from a connection whose client asks for nothing.
const IDLE: Duration = Duration::from_secs(5);

/// `L`: a listener, which a note returns when its lock is lost.
pub struct Station<L> {
    shared: Mutex<Shared<L>>,
    /// Where the station leaves news for the host.
    notes: Arc<Notes<L>>,
    keeper: Arc<Condvar>,
    has_keeper: AtomicBool,
    /// Wakes the receiving thread when it has to wait for something else.
    bell: Arc<Doorbell>,
    /// How many questions for credentials are not answered.
    asked: Arc<AtomicUsize>,
}

pub(crate) struct Shared<L> {
    front: Front<Arc<Slot<Done<L>>>, L>,
    lead: Lead<Done<L>>,
    /// A name for the next thread to resolve.
    unresolved: Option<Unresolved>,
    /// When the connection was last read.
    read_at: Instant,
    /// The descriptor in which the receiving thread waits, if it waits only for bytes.
    receiving: Option<Arc<OwnedFd>>,
    /// The receiving thread's buffer.
    buffer: Vec<u8>,
    /// When the keeper wakes up by itself.
    kept_until: Option<InTime>,
    closed: bool,
}

/// An outcome, and listeners that the host must drop.
pub(crate) type Done<L> = (LockOutcome, Vec<L>);

/// A lane of the client's, and the name and port of a server to resolve for it.
pub(crate) type Unresolved = (usize, String, u16);

impl<L: Send + 'static> Station<L> {
    pub fn new(settings: Setup, notes: Arc<Notes<L>>) -> io::Result<Self> {
        let shared = Shared {
            front: Front::new(settings),
            lead: Lead::default(),
            unresolved: None,
            read_at: Instant::now(),
            receiving: None,
            buffer: vec![0; BUFFER],
            kept_until: None,
            closed: false,
        };
        let (keeper, has_keeper) = (Arc::default(), AtomicBool::new(false));
        let (bell, asked) = (Arc::new(Doorbell::new()?), Arc::default());
        Ok(Self { shared: Mutex::new(shared), notes, keeper, has_keeper, bell, asked })
    }

    /// Carries out an operation and waits for its outcome. An interrupt ends the wait and gives up the lock. A release
    /// goes on without its caller.
    pub fn run<H: Host>(self: &Arc<Self>, host: &H, operation: LockOperation<L>) -> Result<LockOutcome, H::Interrupt> {
        if let Some(outcome) = operation.outcome_if_inherited() {
            return Ok(outcome);
        }
        let awaited = operation.awaited();
        if let Err(why) = awaited.as_ref().map_or(Ok(()), |_| self.start_keeper()) {
            let message = format!("no thread could be started that renews locks: {why}");
            let server = self.lock().front.settings().server.clone();
            return Ok(LockOutcome::failed(Error::new(Kind::Connect, &server, message).into()));
        }
        let mut operation = Some(operation);
        let begin = || {
            let (mut shared, now) = (self.lock(), Instant::now());
            self.read_rested(&mut shared, now);
            let slot = shared.lead.slot();
            if let Some(operation) = operation.take() {
                shared.front.begin(operation, slot.clone(), now);
            }
            let progress = self.go_on(shared, &slot, now, LONGEST_SLEEP);
            (slot, progress)
        };
        let begun = host.unlocked(begin);
        if let (Err(_), Some(LockOperation::Release { grant, .. })) = (&begun, &operation) {
            self.give_up(grant, GiveUp::Hold);
        }
        let (slot, mut progress) = begun?;
        loop {
            let interrupted = match progress {
                Progress::Done((outcome, unheard)) => {
                    drop(unheard);
                    return Ok(outcome);
                }
                Progress::Interrupted | Progress::Sleepy => host.interrupted().err().or_else(|| host.asked().err()),
                Progress::Errand((lane, ref name, port)) => self.resolve(host, lane, name, port),
            };
            let step = |longest| self.go_on(self.lock(), &slot, Instant::now(), longest);
            let next = match (interrupted, &progress) {
                (Some(interrupt), _) => Err(interrupt),
                (None, Progress::Sleepy) => host.asleep(step, || self.call(&slot)),
                (None, _) => host.unlocked(|| step(LONGEST_SLEEP)),
            };
            if let (Err(_), Some(awaited)) = (&next, &awaited) {
                self.give_up(&awaited.grant, awaited.gives_up);
            }
            progress = next?;
        }
    }

    /// Gives up what the caller of this grant waits for or holds, without waiting for an answer.
    pub fn give_up(&self, grant: &Arc<Grant<L>>, what: GiveUp) {
        if grant.is_inherited() {
            return;
        }
        let (mut shared, now) = (self.lock(), Instant::now());
        shared.front.give_up(grant, what, now);
        shared.front.turn(now);
        self.settle(&mut shared, now);
    }

    /// Gives up a lock that no caller can release any more.
    pub fn forsake(&self, grant: &Arc<Grant<L>>) {
        if grant.forsake() {
            self.lock().front.forsake(grant);
        }
    }

    /// How long a lock remains held without renewal. `None` if it is not held.
    pub fn remaining(&self, grant: &Arc<Grant<L>>) -> Option<Duration> {
        if grant.is_inherited() {
            return None;
        }
        let mut shared = self.lock();
        self.read_rested(&mut shared, Instant::now());
        shared.front.remaining(grant)
    }

    fn start_keeper(self: &Arc<Self>) -> io::Result<()> {
        if self.has_keeper.load(Ordering::Relaxed) || self.has_keeper.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        start_keeper(self.clone()).inspect_err(|_| self.has_keeper.store(false, Ordering::Relaxed))
    }

    /// The keeper's work, repeated: it renews what is due. Returns whether the client is still open.
    pub(super) fn keep<H: Host>(&self, host: &H) -> bool {
        let unresolved = self.lock().unresolved.take();
        if let Some((lane, name, port)) = unresolved {
            self.resolve(host, lane, &name, port);
        }
        let mut shared = self.lock();
        if shared.closed {
            return false;
        }
        let due = shared.front.deadline();
        let now = Instant::now();
        let is_due = due.is_some_and(|due| due <= now);
        if !shared.lead.is_taken() && (is_due || !shared.front.is_quiet()) {
            self.tend(shared);
            return true;
        }
        // The thread that leads does what is due.
        // An answer may come just before the keeper sleeps.
        let is_asking = self.asked.load(Ordering::Relaxed) > 0;
        let idle = now + if is_asking { LONGEST_SLEEP } else { IDLE };
        let until = if is_due { now + LONGEST_SLEEP } else { due.map_or(idle, |due| due.min(idle)) };
        let sleep = until.saturating_duration_since(now);
        shared.kept_until = Some(shared.front.in_time(now, sleep.saturating_sub(WORTH_WAKING)));
        shared = self.keeper.wait_timeout(shared, sleep).unwrap_or_else(PoisonError::into_inner).0;
        shared.kept_until = None;
        if !shared.lead.is_taken() && !shared.closed {
            self.read(&mut shared, Instant::now());
        }
        !shared.closed
    }

    /// Fails all waits, and gives them up on the servers. Held locks are not released.
    pub fn close(&self) {
        let mut shared = self.lock();
        shared.closed = true;
        let now = Instant::now();
        shared.front.close(now);
        self.settle(&mut shared, now);
        self.keeper.notify_all();
        self.call_back(&shared);
    }

    /// Ends the wait of the receiving thread, because its connection is given up.
    fn call_back(&self, shared: &Shared<L>) {
        self.bell.ring();
        if let Some(fd) = &shared.receiving {
            // A descriptor that is no longer connected has ended the wait already.
            let _ = shutdown(fd, Shutdown::Both);
        }
    }

    /// In a forked child, closes the parent's connections without sending anything.
    pub fn abandon(&self) {
        if let Ok(mut shared) = self.shared.try_lock() {
            shared.front.discard();
        }
    }

    fn resolve<H: Host>(&self, host: &H, lane: usize, name: &str, port: u16) -> Option<H::Interrupt> {
        let deadline = Instant::now() + self.lock().front.settings().connect_timeout;
        let resolved = match resolve(host, name, port, deadline) {
            Ok(addresses) => Ok(addresses.into_iter().map(Address::Tcp).collect()),
            Err(host::Unresolved::Failed(why)) => Err(why),
            Err(host::Unresolved::Interrupted(interrupt)) => {
                self.lock().unresolved = Some((lane, name.to_owned(), port));
                return Some(interrupt);
            }
        };
        let mut shared = self.lock();
        let now = Instant::now();
        shared.front.connect(lane, resolved, now);
        self.settle(&mut shared, now);
        None
    }

    /// Hands out what is there, and goes on waiting; see [`Led::step`].
    fn go_on(
        &self,
        mut shared: MutexGuard<'_, Shared<L>>,
        slot: &Arc<Slot<Done<L>>>,
        now: Instant,
        longest: Duration,
    ) -> Progress<Done<L>, Unresolved> {
        self.settle(&mut shared, now);
        self.step(shared, slot, now, longest)
    }

    /// Lets the keeper lead until nothing is under way.
    fn tend<'s>(&'s self, mut shared: MutexGuard<'s, Shared<L>>) {
        let now = Instant::now();
        shared.front.expire(now);
        shared.front.turn(now);
        self.settle(&mut shared, now);
        if !shared.lead.is_taken() && !shared.front.is_quiet() && shared.unresolved.is_none() {
            (shared, ..) = self.receive(shared, now);
            self.promote(&mut shared);
        }
    }

    /// Waits for bytes from the only connection: with one system call, instead of one to wait and one to receive.
    fn receive_bytes<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared<L>>,
        fd: Arc<OwnedFd>,
    ) -> (MutexGuard<'s, Shared<L>>, Wake, Instant) {
        shared.receiving = Some(fd.clone());
        let mut buffer = std::mem::take(&mut shared.buffer);
        drop(shared);
        let received = recv(&fd, &mut buffer[..], RecvFlags::empty());
        let mut shared = self.lock();
        shared.receiving = None;
        let received = received.map(|(count, _)| &buffer[..count]).map_err(io::Error::from);
        let wake = match received.is_ok() {
            true => Wake::Ready,
            // The socket's timeout passed, or a signal came; or the connection broke, which the next read notices.
            false => Wake::Interrupted,
        };
        let now = Instant::now();
        shared.read_at = now;
        shared.front.received(&fd, received, now);
        shared.buffer = buffer;
        (shared, wake, now)
    }

    fn poll<'s>(
        &'s self,
        shared: MutexGuard<'s, Shared<L>>,
        until: Instant,
    ) -> (MutexGuard<'s, Shared<L>>, Wake, Instant) {
        let due = shared.front.deadline().map_or(until, |due| due.min(until));
        let interests: Vec<(usize, Arc<OwnedFd>, bool)> = shared.front.descriptors();
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
            shared.front.ready(*lane, now);
        }
        if due <= now {
            shared.front.expire(now);
        }
        (shared, wake, now)
    }

    fn read_rested(&self, shared: &mut Shared<L>, now: Instant) {
        if !shared.lead.is_taken() && now.saturating_duration_since(shared.read_at) > REST {
            self.read(shared, now);
        }
    }

    /// Reads what has arrived, without waiting.
    fn read(&self, shared: &mut Shared<L>, now: Instant) {
        shared.read_at = now;
        let lanes: Vec<usize> = shared.front.watched().map(|(lane, _)| lane).collect();
        for lane in lanes {
            shared.front.ready(lane, now);
        }
        self.settle(shared, now);
    }

    /// Carries out the client's orders and hands out outcomes.
    fn settle(&self, shared: &mut Shared<L>, now: Instant) {
        shared.front.at(now);
        loop {
            while let Some(action) = shared.front.next_action() {
                match action {
                    Action::Resolve { lane, name, port } => shared.unresolved = Some((lane, name, port)),
                    Action::Forget { lane, .. } => {
                        shared.front.forgotten(lane, now);
                        self.call_back(shared);
                    }
                    Action::Watch { .. } if shared.lead.is_taken() => self.bell.ring(),
                    Action::Watch { .. } => {}
                    Action::EndTurn => shared.front.turn(now),
                    Action::Ask(question) => self.ask(question),
                }
            }
            match shared.front.next_finished() {
                Some(LockFinished::Done { waiter, outcome, unheard }) => waiter.give((outcome, unheard)),
                Some(LockFinished::Note(note)) => self.notes.leave(note),
                None => break,
            }
        }
    }

    /// Has a question for credentials answered. Whoever receives then looks for the answer, or else the keeper does.
    fn ask(&self, question: Question) {
        let (bell, keeper, asked) = (self.bell.clone(), self.keeper.clone(), self.asked.clone());
        asked.fetch_add(1, Ordering::Relaxed);
        question.put(move || {
            asked.fetch_sub(1, Ordering::Relaxed);
            bell.ring();
            keeper.notify_all();
        });
    }

    fn wake_keeper(&self, shared: &mut Shared<L>) {
        shared.kept_until = None;
        self.keeper.notify_all();
    }
}

impl<L: Send + 'static> Led for Station<L> {
    type Shared = Shared<L>;
    type Outcome = Done<L>;
    type Errand = Unresolved;

    #[inline]
    fn shared(&self) -> &Mutex<Shared<L>> {
        &self.shared
    }

    #[inline]
    fn lead(shared: &mut Shared<L>) -> &mut Lead<Done<L>> {
        &mut shared.lead
    }

    #[inline]
    fn errand(shared: &mut Shared<L>) -> Option<Unresolved> {
        shared.unresolved.take()
    }

    /// Waits once for the client's connections, and takes what has arrived.
    fn wait<'s>(
        &'s self,
        shared: MutexGuard<'s, Shared<L>>,
        now: Instant,
    ) -> (MutexGuard<'s, Shared<L>>, Wake, Instant) {
        let (mut shared, wake, now) = match shared.front.only_descriptor(now, LONGEST_SLEEP) {
            Some(fd) => self.receive_bytes(shared, fd),
            None => self.poll(shared, now + LONGEST_SLEEP),
        };
        self.settle(&mut shared, now);
        (shared, wake, now)
    }

    /// The keeper leads if an answer is still awaited.
    fn left_alone(&self, shared: &mut Shared<L>) {
        let Some(until) = shared.kept_until else { return };
        if !shared.front.is_quiet() || shared.front.is_due_before(until) {
            self.wake_keeper(shared);
        }
    }
}

fn interest(fd: &OwnedFd, write: bool) -> PollFd<'_> {
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, write);
    PollFd::from_borrowed_fd(fd.as_fd(), flags)
}

/// Starts the keeper, also in a forked child. It never calls the host, but leaves notes. It ends when its client is closed;
/// a process can exit without waiting for it.
fn start_keeper<L: Send + 'static>(station: Arc<Station<L>>) -> io::Result<()> {
    own_thread::start("pinyon-locks", move || while station.keep(&NoHost) {})
}
