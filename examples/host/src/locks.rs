//! Locks as users of this front end see them, in threads and in an event loop.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pinyon_locks::settings::{lock_ttl, LockSettings, UsualLock};
use pinyon_locks::{
    common_tag, names, owners, Asked, ByTag, Front, GiveUp, Grant, LockFinished, LockOperation, LockOutcome,
    LockRequest, Note, Notes, RedisCommand, RedisValue, Renewal, Setup, StatusAnswer, StatusQuestion, ThreadLocks,
};
use pinyon_net::driven::Polled;
use pinyon_net::host::NoHost;
use pinyon_net::settings::{Given, NamedSettings};

use crate::raised::Raised;
use crate::ways::turn;

/// What this host calls when a lock is lost; here, just a name.
pub type Listener = &'static str;
pub type Operation = LockOperation<Listener>;
pub type Held = Arc<Grant<Listener>>;

/// A way to carry out operations on locks.
pub trait LockWay {
    /// Begins an operation, and returns its number.
    fn begin(&mut self, operation: Operation) -> usize;

    /// Waits until an operation is over.
    fn end(&mut self, number: usize) -> LockOutcome;

    /// Releases a lock that its caller no longer waits for or holds.
    fn cancel(&mut self, grant: &Held);

    fn remaining(&self, grant: &Held) -> Option<Duration>;

    /// Waits for the next note of a loss. Events of the servers are not looked at here.
    fn note(&mut self) -> Note<Listener>;

    fn close(&mut self);
}

/// Threads that share the client. Each operation waits in its own thread.
pub struct Threads {
    locks: ThreadLocks<Listener>,
    notes: Arc<Notes<Listener>>,
    waiting: Vec<Option<JoinHandle<LockOutcome>>>,
}

impl Threads {
    pub fn new(setup: Setup) -> Self {
        let notes = Arc::<Notes<Listener>>::default();
        Self { locks: ThreadLocks::new(setup, notes.clone()), notes, waiting: Vec::new() }
    }
}

impl LockWay for Threads {
    fn begin(&mut self, operation: Operation) -> usize {
        let station = self.locks.station();
        self.waiting.push(Some(std::thread::spawn(move || match station {
            Ok(station) => {
                let Ok(outcome) = station.run(&NoHost, operation);
                outcome
            }
            Err(failure) => LockOutcome::Failed(failure.into()),
        })));
        self.waiting.len() - 1
    }

    fn end(&mut self, number: usize) -> LockOutcome {
        let waiting = self.waiting[number].take().expect("each operation is waited for once");
        waiting.join().expect("the core does not panic")
    }

    fn cancel(&mut self, grant: &Held) {
        if let Ok(station) = self.locks.station() {
            station.give_up(grant, GiveUp::Lock);
        }
    }

    fn remaining(&self, grant: &Held) -> Option<Duration> {
        self.locks.station().ok()?.remaining(grant)
    }

    fn note(&mut self) -> Note<Listener> {
        loop {
            let note = self.notes.wait().expect("nobody ends the notes");
            if !matches!(note, Note::Event { .. }) {
                return note;
            }
        }
    }

    fn close(&mut self) {
        self.locks.close();
    }
}

/// The host's own event loop.
pub struct LocksOnLoop {
    polled: Polled<Front<usize, Listener>>,
    begun: usize,
    over: HashMap<usize, LockOutcome>,
    notes: VecDeque<Note<Listener>>,
}

impl LocksOnLoop {
    pub fn new(setup: Setup) -> Self {
        let polled = Polled::new(Front::new(setup)).expect("descriptors are left");
        Self { polled, begun: 0, over: HashMap::new(), notes: VecDeque::new() }
    }

    fn turn(&mut self) {
        let (over, notes) = (&mut self.over, &mut self.notes);
        turn(&mut self.polled, |finished| match finished {
            LockFinished::Done { waiter, outcome, unheard } => {
                drop(unheard);
                over.insert(waiter, outcome);
            }
            LockFinished::Note(note) => notes.push_back(note),
        });
    }
}

impl LockWay for LocksOnLoop {
    fn begin(&mut self, operation: Operation) -> usize {
        self.begun += 1;
        let number = self.begun;
        self.polled.begin(|front, now| front.begin(operation, number, now)).expect("it is this process's");
        self.polled.send().expect("it is this process's");
        number
    }

    fn end(&mut self, number: usize) -> LockOutcome {
        loop {
            match self.over.remove(&number) {
                Some(outcome) => return outcome,
                None => self.turn(),
            }
        }
    }

    fn cancel(&mut self, grant: &Held) {
        self.polled.begin(|front, now| front.give_up(grant, GiveUp::Lock, now)).expect("it is this process's");
    }

    fn remaining(&self, grant: &Held) -> Option<Duration> {
        self.polled.machine().remaining(grant)
    }

    fn note(&mut self) -> Note<Listener> {
        loop {
            match self.notes.pop_front() {
                Some(Note::Event { .. }) => {}
                Some(note) => return note,
                None => self.turn(),
            }
        }
    }

    fn close(&mut self) {
        self.polled.close().expect("it is this process's");
    }
}

type Branch = RefCell<Box<dyn LockWay>>;

pub struct Locks {
    setup: Setup,
    usual: UsualLock,
    make: fn(Setup) -> Box<dyn LockWay>,
    clients: ByTag<Branch>,
}

impl Locks {
    pub fn new(settings: &[(&str, &str)], make: fn(Setup) -> Box<dyn LockWay>) -> Result<Self, Raised> {
        let mut known = LockSettings::default();
        for (name, value) in settings {
            known.set(name, Given::Untyped(value))?;
        }
        let parts = known.build()?;
        let clients = ByTag::new(RefCell::new(make(parts.setup.clone())), parts.names_have_tags);
        Ok(Self { setup: parts.setup, usual: parts.usual, make, clients })
    }

    /// The client of these names: this one, or that of the names' own hash tag.
    pub fn of(&self, given: &[&str]) -> Result<Arc<Branch>, Raised> {
        let tag = || {
            let names: Vec<&[u8]> = given.iter().map(|name| name.as_bytes()).collect();
            Ok(common_tag(&names)?)
        };
        self.clients.of(tag, |_, tag| RefCell::new((self.make)(self.setup.tagged(tag))))
    }

    /// The number of clients for hash tags.
    pub fn branches(&self) -> usize {
        self.clients.all().len() - 1
    }

    /// A lock for a new owner, and the operation that acquires it.
    pub fn acquiring(
        &self,
        given: &[&str],
        wait: Option<Duration>,
        renewal: Renewal,
    ) -> Result<(Held, Operation), Raised> {
        let names = names(given)?;
        let (owner, reentrant) = (owners::new_owner(), self.usual.reentrant);
        let request = LockRequest {
            names: names.clone(),
            owner,
            ttl: lock_ttl(self.usual.ttl)?,
            wait,
            renewal,
            reentrant,
            rare: None,
        };
        let grant = Grant::of(&request);
        Ok((grant.clone(), Operation::Acquire { grant, request }))
    }

    /// Waits for a lock, for the default time.
    pub fn acquire(&self, given: &[&str], renewal: Renewal) -> Result<Held, Raised> {
        let wait = Duration::from_secs_f64(self.usual.timeout);
        let (grant, operation) = self.acquiring(given, Some(wait), renewal)?;
        match self.run(given, operation)? {
            LockOutcome::Held { .. } => Ok(grant),
            other => unreachable!("acquiring comes to {other:?}"),
        }
    }

    /// The lock, if it is free now.
    pub fn try_acquire(&self, given: &[&str]) -> Result<Option<Held>, Raised> {
        let (grant, operation) = self.acquiring(given, None, Renewal::Never)?;
        Ok(matches!(self.run(given, operation)?, LockOutcome::Held { .. }).then_some(grant))
    }

    /// Releases a lock. Returns whether it was held until now.
    pub fn release(&self, given: &[&str], grant: &Held) -> Result<bool, Raised> {
        let outcome = self.run(given, Operation::Release { grant: grant.clone(), early: false })?;
        Ok(matches!(outcome, LockOutcome::Released { held: true }))
    }

    pub fn extend(&self, given: &[&str], grant: &Held, ttl: Duration) -> Result<bool, Raised> {
        let outcome = self.run(given, Operation::Extend { grant: grant.clone(), ttl })?;
        Ok(matches!(outcome, LockOutcome::Extended { held: true }))
    }

    /// Releases the names until a notification, for at most `wait`. Returns whether it came.
    pub fn park(&self, given: &[&str], grant: &Held, wait: Duration) -> Result<bool, Raised> {
        let park = Operation::Park { grant: grant.clone(), wait: Some(wait), relock: wait };
        Ok(matches!(self.run(given, park)?, LockOutcome::Held { notified: true }))
    }

    /// Notifies all locks parked on the names. Returns how many.
    pub fn notify(&self, given: &[&str], grant: &Held) -> Result<u32, Raised> {
        match self.run(given, Operation::Notify { grant: grant.clone(), most: 0 })? {
            LockOutcome::Notified { moved } => Ok(moved),
            other => unreachable!("notifying comes to {other:?}"),
        }
    }

    pub fn status(&self, given: &[&str], question: StatusQuestion) -> Result<StatusAnswer, Raised> {
        match self.run(given, Operation::Inspect { asked: Asked::new(given)?, question })? {
            LockOutcome::Status(answer) => Ok(answer),
            other => unreachable!("a question comes to {other:?}"),
        }
    }

    /// Takes the names away from their holders. Returns how many were held.
    pub fn force_release(&self, given: &[&str]) -> Result<usize, Raised> {
        match self.run(given, Operation::ForceRelease { names: names(given)?, token: None })? {
            LockOutcome::ForceReleased { released } => Ok(released),
            other => unreachable!("it comes to {other:?}"),
        }
    }

    pub fn command(&self, parts: &[&str]) -> Result<RedisValue, Raised> {
        match self.run(&[], Operation::Execute { command: RedisCommand::of(parts) })? {
            LockOutcome::Value(value) => Ok(value),
            other => unreachable!("a command comes to {other:?}"),
        }
    }

    /// Begins an operation on names, which continues in the background.
    pub fn begin(&self, given: &[&str], operation: Operation) -> Result<usize, Raised> {
        Ok(self.of(given)?.borrow_mut().begin(operation))
    }

    pub fn end(&self, given: &[&str], number: usize) -> Result<LockOutcome, Raised> {
        let outcome = self.of(given)?.borrow_mut().end(number);
        match outcome {
            LockOutcome::Failed(failure) => Err((*failure).into()),
            outcome => Ok(outcome),
        }
    }

    pub fn close(&self) {
        self.clients.close().iter().for_each(|client| client.borrow_mut().close());
    }

    fn run(&self, given: &[&str], operation: Operation) -> Result<LockOutcome, Raised> {
        let number = self.begin(given, operation)?;
        self.end(given, number)
    }
}
