//! Leases whose callers were interrupted: a thread reads the replies that nobody waits for, and gives back what was won.
//!
//! The thread starts with the first such lease of a process, and ends with the last. It calls nothing of the host's.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::open::begin;
use super::wait::wait_any;
use super::Timer;
use crate::directory::Directory;
use crate::fleet::Fleet;
use crate::operations::{Asks, LateLease, Next, Operation, OwnedKey, Policy, Request, Sending, Win};
use crate::session::{Outcome, Session};
use pinyon_net::fork::PerProcess;
use pinyon_net::host::NoHost;
use pinyon_net::own_thread;

/// So many connections are kept at most. A lease beyond them ends with its time.
const MOST: usize = 1024;

/// For how long a reply is awaited at most.
const LONGEST: Duration = Duration::from_secs(60);

/// For how long the reply to a lease that is given back is awaited.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// For how long the addresses of a server are awaited.
const OPENING: Duration = Duration::from_millis(100);

static READING: LazyLock<PerProcess<Mutex<Reading>>> = LazyLock::new(|| PerProcess::new(Mutex::default()));

/// What the thread has to do.
#[derive(Default)]
struct Reading {
    new: Vec<Late>,
    /// Those that have no connection yet.
    unopened: Vec<(Arc<Fleet>, LateLease)>,
    /// The number of those that are new or known to the thread.
    kept: usize,
    runs: bool,
}

/// A lease, or one that is given back, and the connection that carries it.
struct Late {
    session: Box<Session>,
    lease: LateLease,
    is_submitted: bool,
    until: Instant,
}

/// Until when the reply to this lease matters: later, the lease has ended by itself.
pub(super) fn matters_until(lease: &LateLease) -> Instant {
    let life = match *lease.request() {
        Request::Lease { lease, .. } => Duration::from_secs(lease.max(1).unsigned_abs().into()),
        _ => GIVING_BACK,
    };
    Instant::now() + life.min(LONGEST)
}

/// Has the thread go on with a lease. `is_submitted`: whether the session has taken its request.
pub(super) fn go_on(mut session: Box<Session>, lease: LateLease, is_submitted: bool) {
    let until = matters_until(&lease);
    if session.leave_host(until) {
        with_thread(|reading| reading.new.push(Late { session, lease, is_submitted, until }));
    }
}

/// Gives back a lease that no caller knows of any more. Nobody waits for it.
pub fn give_back_late(directory: &Directory, key: OwnedKey, win: Win, policy: Policy) {
    let lease = LateLease::of(Request::GiveBack(win), key, policy);
    with_thread(|reading| reading.unopened.push((directory.known(), lease)));
}

/// Adds to what the thread has to do, unless it has too much.
fn with_thread(add: impl FnOnce(&mut Reading)) {
    let mut reading = reading();
    if reading.kept >= MOST {
        return;
    }
    reading.kept += 1;
    add(&mut reading);
    reading.runs = reading.runs || own_thread::start("pinyon-leases", read).is_ok();
    if !reading.runs {
        *reading = Reading::default();
    }
}

fn reading() -> MutexGuard<'static, Reading> {
    READING.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes on with all leases until there are none.
fn read() {
    let mut all: Vec<Late> = Vec::new();
    loop {
        let mut reading = reading();
        all.append(&mut reading.new);
        let unopened = std::mem::take(&mut reading.unopened);
        reading.kept = all.len() + unopened.len();
        reading.runs = reading.kept > 0;
        let is_over = !reading.runs;
        drop(reading);
        if is_over {
            return;
        }
        all.extend(unopened.into_iter().filter_map(|(fleet, lease)| opened(&fleet, lease)));
        let now = Instant::now();
        all.retain_mut(|late| late.advances(now));
        let Some(until) = all.iter().map(|late| late.until).min() else { continue };
        let mut sessions: Vec<&mut Session> = all.iter_mut().map(|late| &mut *late.session).collect();
        // It ends early enough for new ones to be noticed.
        wait_any(&mut sessions, &mut Timer { deadline: until, unused: None });
    }
}

/// Takes a connection of the pool, or begins to connect.
fn opened(fleet: &Fleet, mut lease: LateLease) -> Option<Late> {
    let now = Instant::now();
    let Asks::One(ask) = lease.begin(fleet, now) else { return None };
    let mut timer = Timer { deadline: now + OPENING, unused: None };
    let mut session = begin(fleet, &NoHost, ask.choice, now, &mut timer).ok()?.take()?;
    let until = matters_until(&lease);
    session.leave_host(until).then_some(Late { session, lease, is_submitted: false, until })
}

impl Late {
    /// Takes what has arrived. Returns whether there is more to do.
    fn advances(&mut self, now: Instant) -> bool {
        if now >= self.until {
            self.session.poll(now);
        }
        if !self.is_submitted && self.session.is_ready() && !self.submit() {
            return false;
        }
        while let Some(completion) = self.session.next() {
            match completion.outcome {
                Outcome::Part(reply) => self.lease.reply(0, reply),
                Outcome::Reply(reply) => {
                    self.lease.reply(0, reply);
                    let is_won = self.lease.may_win() && self.lease.give_back() == Next::Again;
                    if !is_won || !self.submit() {
                        return false;
                    }
                }
                // The session allocates memory for it.
                Outcome::Large { .. } => {}
                Outcome::Failed(_) => return false,
            }
        }
        now < self.until && self.session.failure().is_none() && self.session.stream().is_some()
    }

    /// Sends the request. Returns whether the session took it.
    fn submit(&mut self) -> bool {
        let sending = Sending { is_shared: false, longest_ttl: None, deadline: self.until };
        self.is_submitted = self.lease.submit(0, &mut self.session, sending).is_ok();
        self.session.flush();
        self.is_submitted
    }
}
